"""Problems with known answers: our own templates, `reasoning-gym`, or a file of problems and answers.

A template draws a problem, writes it for people (`text`) and for tiny models (`words`), and knows a Python program
that solves it. Nothing is computed twice: the answer comes from Python integers here, the program only prints it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arena.envs.tir_math.grading import last_boxed

_LETTERS = "abcdefg"
#: An operation: its word, its sign, and how a relation says it.
_OPERATIONS = (("plus", "+", "more than"), ("minus", "-", "less than"), ("times", "*", "times"))
#: Datasets of reasoning-gym whose answers are whole numbers.
GYM_DATASETS = (
    *(
        "basic_arithmetic",
        "chain_sum",
        "count_bits",
        "count_primes",
        "gcd",
        "gsm_symbolic",
        "lcm",
        "leg_counting",
    ),
    *("letter_counting", "number_sequence", "products", "simple_equations", "simple_geometry"),
)
_PROBLEM_KEYS, _ANSWER_KEYS = ("problem", "question"), ("answer", "solution")


@dataclass(frozen=True)
class Problem:
    """A problem and its answer. `words`, `plan` and `program` are the templates' and empty for others.

    `words` is the problem for a tiny model, `plan` its numbers and operations in the order of the computation.
    """

    text: str
    answer: str
    words: str = ""
    plan: str = ""
    program: str = ""

    def wrong_programs(self) -> tuple[str, ...]:
        """Programs that mistake a number's last digit, the order of two numbers, or an operation."""
        numbers = list(re.finditer(r"[0-9]+", self.program))
        last, found = numbers[-1], []
        other = str(int(last[0]) + (1 if int(last[0]) % 10 < 9 else -1))
        found.append(self.program[: last.start()] + other + self.program[last.end() :])
        if len(numbers) > 1:
            a, b = numbers[0], numbers[1]
            between = self.program[a.end() : b.start()]
            found.append(self.program[: a.start()] + b[0] + between + a[0] + self.program[b.end() :])
        found.append(
            re.sub(r"[+*%-]", lambda m: {"+": "-", "-": "*", "*": "+", "%": "-"}[m[0]], self.program, count=1)
        )
        return tuple(program for program in dict.fromkeys(found) if program != self.program)


class Numbers:
    """Draws the numbers and choices of a problem.

    With the chance `hard` a number has `digits` digits and a chain `steps` links, else fewer, each length as likely.
    """

    def __init__(self, rng: np.random.Generator, digits: int, steps: int, hard: float) -> None:
        self._rng, self.digits, self._steps, self._hard = rng, digits, steps, hard

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return int(self._rng.integers(low, high + 1))

    def number(self, most: int | None = None) -> int:
        """A number above 1, of at most `most` digits (default `digits`)."""
        length = self._length(self.digits if most is None else max(1, most))
        return self.between(max(2, 10 ** (length - 1)), 10**length - 1)

    def links(self) -> int:
        """How many operations a chain has."""
        return self._length(self._steps)

    def _length(self, most: int) -> int:
        if most == 1 or self._rng.random() < self._hard:
            return most
        return self.between(1, most - 1)


def _sum(numbers: Numbers) -> Problem:
    """Numbers joined by plus, minus and times."""
    value = numbers.number()
    words, code = [digits(value)], [str(value)]
    for _ in range(numbers.links()):
        word, sign, _ = _OPERATIONS[numbers.between(0, 2)]
        value = numbers.number()
        words += [word, digits(value)]
        code += [sign, str(value)]
    expression = " ".join(code)
    return Problem(
        f"What is {expression}?",
        str(_evaluated(code)),
        f"find {' '.join(words)}",
        spoken(expression),
        f"print({expression})",
    )


def _relation(numbers: Numbers) -> Problem:
    """A chain of quantities, each defined by the next: the program goes through it from the end."""
    links = [(_OPERATIONS[numbers.between(0, 2)], numbers.number()) for _ in range(numbers.links())]
    start = numbers.number()
    names = _LETTERS[: len(links) + 1]
    told = [f"{a} is {n} {how} {b}" for a, b, ((_, _, how), n) in zip(names, names[1:], links, strict=False)]
    told.append(f"{names[-1]} is {start}")
    value, plan, code = start, [str(start)], [f"{names[-1]} = {start}"]
    for at in range(len(links) - 1, -1, -1):
        (_, sign, _), number = links[at]
        value = _applied(value, sign, number)
        plan += [sign, str(number)]
        code.append(f"{names[at]} = {names[at + 1]} {sign} {number}")
    code.append("print(a)")
    return Problem(
        f"{'. '.join(told)}. What is a?",
        str(value),
        spoken(" . ".join(told)),
        spoken(" ".join(plan)),
        "; ".join(code),
    )


def _remainder(numbers: Numbers) -> Problem:
    by, number = sorted((numbers.number(), numbers.number()))
    return Problem(
        f"What is the remainder when {number} is divided by {by}?",
        str(number % by),
        spoken(f"remainder of {number} by {by}"),
        spoken(f"{number} % {by}"),
        f"print({number} % {by})",
    )


def _gcd(numbers: Numbers) -> Problem:
    common = numbers.between(2, 9)
    most = (10**numbers.digits - 1) // common
    one, other = common * numbers.between(1, most), common * numbers.between(1, most)
    return Problem(
        f"What is the greatest common divisor of {one} and {other}?",
        str(math.gcd(one, other)),
        spoken(f"gcd of {one} and {other}"),
        spoken(f"gcd {one} , {other}"),
        f"import math; print(math.gcd({one}, {other}))",
    )


def _multiples(numbers: Numbers) -> Problem:
    step, end = sorted((numbers.number(), numbers.number()))
    end += step == end
    return Problem(
        f"What is the sum of all positive multiples of {step} below {end}?",
        str(sum(range(step, end, step))),
        spoken(f"sum of {step} below {end}"),
        spoken(f"sum {step} , {end}"),
        f"print(sum(range({step}, {end}, {step})))",
    )


def _power(numbers: Numbers) -> Problem:
    base, exponent, by = numbers.number(), numbers.number(), numbers.number()
    return Problem(
        f"What is the remainder when {base} to the power of {exponent} is divided by {by}?",
        str(pow(base, exponent, by)),
        spoken(f"remainder of {base} power {exponent} by {by}"),
        spoken(f"power {base} , {exponent} % {by}"),
        f"print(pow({base}, {exponent}, {by}))",
    )


TEMPLATES: dict[str, Callable[[Numbers], Problem]] = {
    "sum": _sum,
    "relation": _relation,
    "remainder": _remainder,
    "gcd": _gcd,
    "multiples": _multiples,
    "power": _power,
}
#: Words of problems, plans and programs, digits among them.
WORDS = (
    *(
        "find",
        "plus",
        "minus",
        "times",
        "is",
        "more",
        "less",
        "than",
        "remainder",
        "of",
        "by",
        "gcd",
        "and",
        "sum",
    ),
    *("below", "power", *_LETTERS, "print", "(", ")", "+", "-", "*", "%", ",", ";", ".", "="),
    *("import", "math", "range", "pow", *"0123456789"),
)


def template_problem(
    rng: np.random.Generator, kinds: Sequence[str], largest: int, steps: int, hard: float
) -> Problem:
    """A problem of one of the kinds: see `Numbers`."""
    numbers = Numbers(rng, largest, steps, hard)
    return TEMPLATES[kinds[numbers.between(0, len(kinds) - 1)]](numbers)


def digits(number: int) -> str:
    """A number as a tiny model reads it: digit by digit."""
    return " ".join(str(number))


def spoken(text: str) -> str:
    """Text or code in words and signs, digit by digit, one space between: what a tiny model reads and writes."""
    return " ".join(re.findall(r"[A-Za-z_]+|[0-9]|[^\sA-Za-z0-9_]", text))


def unspoken(text: str) -> str:
    """The text with its digits joined to numbers."""
    return re.sub(r"(?<=[0-9]) (?=[0-9])", "", text)


def file_problems(path: str | Path) -> tuple[Problem, ...]:
    r"""The problems of a JSONL file: AIME's, MATH's, GSM8K's and the like.

    A line is an object with a `problem` (or `question`) and an `answer` (or `solution`); case does not matter. What a
    `\boxed{}` or a `####` in the answer marks is the answer, and a solution must have one. Raises ValueError with the
    line's number for a line that is none.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read problems from {path}: {error}") from error
    problems = [
        _of_line(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()
    ]
    if not problems:
        raise ValueError(f"{path} has no problems: a line is {{'problem': text, 'answer': text}}")
    return tuple({problem.text: problem for problem in problems}.values())


def gym_problem(rng: np.random.Generator, name: str) -> Problem:
    """A problem of a reasoning-gym dataset."""
    import reasoning_gym

    entry = reasoning_gym.create_dataset(name, size=1, seed=int(rng.integers(1 << 31)))[0]
    return Problem(entry["question"].strip(), str(entry["answer"]).strip())


def check_gym(name: str) -> None:
    """Raises ValueError if the dataset is not one of `GYM_DATASETS`, or reasoning-gym is not installed."""
    if name not in GYM_DATASETS:
        raise ValueError(
            f"reasoning-gym datasets with whole numbers as answers are {list(GYM_DATASETS)}, given {name!r}"
        )
    try:
        import reasoning_gym  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"dataset {name!r} needs the package reasoning-gym: pip install 'arlarena[reasoning]'"
        ) from error


def _of_line(line: str, where: str) -> Problem:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not JSON ({error.msg})") from error
    if not isinstance(entry, dict):
        raise ValueError(
            f"{where}: a line is an object with {_PROBLEM_KEYS} and {_ANSWER_KEYS}, given {line[:60]}"
        )
    fields = {str(key).lower(): value for key, value in entry.items()}
    text, answer = _field(fields, _PROBLEM_KEYS, where), _field(fields, _ANSWER_KEYS, where)
    boxed = last_boxed(answer)
    if boxed is not None:
        answer = boxed
    elif "####" in answer:
        answer = answer.rpartition("####")[2].strip()
    elif "answer" not in fields:
        raise ValueError(f"{where}: the solution has no \\boxed{{answer}} and there is no key 'answer'")
    if not answer:
        raise ValueError(f"{where}: the answer is empty")
    return Problem(text, answer)


def _field(fields: dict[str, Any], names: tuple[str, ...], where: str) -> str:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str | int | float) and not isinstance(value, bool) and str(value).strip():
            return str(value).strip()
    raise ValueError(
        f"{where}: needs text under one of the keys {list(names)}, has the keys {sorted(fields)}"
    )


def _applied(value: int, sign: str, number: int) -> int:
    return value + number if sign == "+" else value - number if sign == "-" else value * number


def _evaluated(code: list[str]) -> int:
    """The value of numbers joined by signs: products first."""
    total, product, sign = 0, int(code[0]), 1
    for operation, number in zip(code[1::2], code[2::2], strict=True):
        if operation == "*":
            product *= int(number)
            continue
        total += sign * product
        sign, product = (1 if operation == "+" else -1), int(number)
    return total + sign * product
