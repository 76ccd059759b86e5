"""Is an answer right? Text in, bool out: bounded in time, never raising, the same in threads and worker processes.

Plain integers and fractions are compared exactly; everything else goes to `math-verify`, which runs in a process of
its own (`judge.py`) that ends when it takes too long or too much memory: math-verify's own time limits are signals,
which work in a main thread only, and sympy can be made to compute without end by a short text.

math-verify searches a long response for the answer. Here the answer is given, so it must be the whole text: what it
would pick from "1 or 2" (the last), "5 6" (the sum, a mixed number) or "6=5" (the right-hand side) is no answer. And
where the solution is a number, the answer must be one and not something left to compute: "37*4+12" restates a problem.
`acceptable` refuses such texts first. Two more departures from math-verify: an answer that is the same text as the
solution is right, whatever it means, and a solution in words is compared as text, not as a product of letters.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

LONGEST_ANSWER = 300
_PLAIN = re.compile(r"([+-]?[0-9]{1,300})(?:\.0*|/([0-9]{1,300}))?")
_THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:(?:,(?:\\!)?|\{,\}|\\,)[0-9]{3})+(?![0-9,])")
#: Spaces. A row of a matrix ends with two backslashes, of which the second starts no space.
_SPACES = re.compile(r"(\\\\)|\\[ ,;:!]|\\q?quad\b|~|\s+")
_AROUND_CELLS = re.compile(r" ?(\\\\|&|\\(?:begin|end)\{[a-z]+\}) ?")
#: Sizes of brackets mean nothing.
_SIZES = re.compile(r"\\(?:left|right)(?![a-z])[. ]?")
_WRAPPERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
#: What Python and sympy print, in LaTeX. A product's sign goes where the letters stay apart without it.
_PYTHON = (
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"(?<![A-Za-z\\])pi(?![A-Za-z])"), r"\\pi"),
    (re.compile(r"(?<![A-Za-z\\])oo(?![A-Za-z])"), r"\\infty"),
    (re.compile(r"(?<![A-Za-z\\])I(?![A-Za-z])"), "i"),
    (re.compile(r"(?<=[0-9)]) ?\* ?(?=[A-Za-z(\\])"), ""),
    (re.compile(r" ?\* ?"), r"\\cdot "),
    # math-verify does not read a/b inside of a tuple.
    (re.compile(r"(?<=[(,\[])( ?-?)([0-9]*\\pi|[0-9]+)/([0-9]+)(?= ?[),\]])"), r"\1\\frac{\2}{\3}"),
)
#: What offers more than one value, hides a second one, or changes what is meant. Allowed as far as the solution has it.
_MARKS = re.compile(
    r"(?<![a-z])(?:or|and|not|either|maybe|else|otherwise|alternatively|versus|vs)(?![a-z])"
    r"|\\(?:cup|cap|vee|wedge|lor|land|pm|mp|mid|ne|neq|in)(?![a-z])"
    r"|\\(?:approx|equiv|sim|simeq|to|implies|iff|[a-z]*arrow)(?![a-z])"
    r"|[,;|&<>?%'\[\]]|\\[{}]|_[0-9]*"
)
_TWO_NUMBERS = re.compile(r"[0-9}] +[0-9.]")
_PAIR = re.compile(r"(?:\\\{| )*[(\[].*,")
_NAMED = re.compile(r"(?P<name>\\?[A-Za-z]{1,10}(?:\([A-Za-z]\))?)\s*=(?P<value>[^=]+)")
_TEXT = re.compile(r"\\(?:text|mbox|textrm|textbf|mathrm)\{([^{}]*)\}")
_INTEGER = re.compile(r"[+-]?[0-9]+(?:\.0*)?")
_ARGUMENT = r" ?(?:\{-?[0-9]+\}|[0-9])"
_NUMBER = re.compile(
    rf"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+|[0-9]+/[0-9]+|[0-9]* ?\\[dt]?frac{_ARGUMENT}{_ARGUMENT})"
)
#: Units may be left out, added, or written in \text{}.
_UNITS = (
    "mm|cm|km|in|ft|kg|mph|inch|inches|foot|feet|yards?|miles?|units?|grams?|kilograms?|lit(?:er|re)s?"
    "|(?:centi|kilo)?met(?:er|re)s?|seconds?|minutes?|hours?|days?|weeks?|months?|years?|degrees?|dollars?|cents?"
    "|square|cubic|sq|cu|per"
)
#: A unit of one letter stands in \text{}: elsewhere a letter is a variable.
_UNIT_IN_TEXT = re.compile(rf"{_UNITS}|[mgshlcf]")
_UNIT = (
    r"(?: ?\\(?:text|mbox|textrm|textbf|mathrm)\{[A-Za-z .]*\}"
    rf"| (?:{_UNITS})(?![A-Za-z]))(?:\^(?:[23]|\{{[23]\}}))?"
    r"| ?\^? ?(?:\\circ|\{\\circ\})| ?\\?%"
)
_QUANTITY = re.compile(rf"(?P<open>\()?(?P<number>{_NUMBER.pattern})(?:{_UNIT})*(?(open)\))")


def normalised(text: str) -> str:
    r"""The text of an answer in LaTeX, without what only frames it: spaces, $, one \boxed{}, a final full stop, commas
    between thousands, \$."""
    text = _THOUSANDS.sub(
        lambda m: re.sub(r"[^0-9]", "", m[0]), text.replace("\\$", "").replace("\u2212", "-")
    )
    text = _AROUND_CELLS.sub(r"\1", _SPACES.sub(lambda m: m[1] or " ", text).strip())
    text = _SIZES.sub("", text)
    for pattern, latex in _PYTHON:
        text = pattern.sub(latex, text)
    text = re.sub(r"^([+-]) (?=[0-9])", r"\1", text)
    for _ in range(3):
        before, text = text, text.removesuffix(".").strip()
        for start, end in _WRAPPERS:
            if len(text) > len(start + end) and text.startswith(start) and text.endswith(end):
                inner = text[len(start) : -len(end)]
                text = text if "$" in inner else inner.strip()
        text = _unboxed(text)
        if text == before:
            break
    # "$36" is an amount of money.
    return text[1:] if re.fullmatch(r"\$[0-9][^$]*", text) else text


def bare(text: str) -> str:
    """A normalised text without the name before it ("x = 5") and, of a number, without its unit and parentheses."""
    if named := _NAMED.fullmatch(text):
        text = re.sub(r"^([+-]) (?=[0-9])", r"\1", named["value"].strip())
    quantity = _QUANTITY.fullmatch(text)
    return quantity["number"] if quantity else text


def acceptable(answer: str, solution: str) -> bool:
    """Whether a normalised answer is one value that may be compared with the solution."""
    if not answer or len(answer) > LONGEST_ANSWER or not answer.isascii() or not answer.isprintable():
        return False
    if "$" in answer or "\\boxed" in answer:
        return False
    if not _marks(answer) <= _marks(solution):
        return False
    if _TWO_NUMBERS.search(answer) and not _TWO_NUMBERS.search(solution):
        return False
    known = set(re.findall("[a-z]+", solution.lower()))
    in_text = re.findall("[a-z]+", " ".join(_TEXT.findall(answer.lower())))
    if not all(word in known or _UNIT_IN_TEXT.fullmatch(word) for word in in_text):
        return False
    if not _may_be_equations(answer, solution):
        return False
    one, other = bare(answer), bare(solution)
    # A pair has an order, a list of values has none.
    if bool(_PAIR.match(one)) != bool(_PAIR.match(other)):
        return False
    for kind in (_INTEGER, _NUMBER):
        if kind.fullmatch(other):
            return kind.fullmatch(one) is not None
    return True


def _marks(text: str) -> set[str]:
    """The marks of a text; `_{8}` is `_8`, and the bracket of a root is none."""
    return set(_MARKS.findall(re.sub(r"\\sqrt\[[^\]]*\]|(?<=_)\{(?=[0-9]+\})", "", text.lower())))


def _may_be_equations(answer: str, solution: str) -> bool:
    """Whether each "=" of the answer is one of the solution's, or stands behind a name ("x = 5")."""
    one, other = _NAMED.fullmatch(answer), _NAMED.fullmatch(solution)
    if one and other and one["name"] != other["name"]:
        return False
    return "=" not in answer or one is not None or answer.count("=") <= solution.count("=")


def is_correct(answer: str, solution: str) -> bool:
    """Whether an answer equals the solution. Never raises; takes at most a few seconds."""
    if len(answer) > 10 * LONGEST_ANSWER:
        return False
    try:
        return _verdict(answer, solution)
    except NoVerdictError:
        return False


@functools.lru_cache(maxsize=8192)
def _verdict(answer: str, solution: str) -> bool:
    answer, solution = normalised(answer), normalised(solution)
    in_words = _TEXT.fullmatch(solution) is not None
    answer, solution = _out_of_text(answer), _out_of_text(solution)
    if not acceptable(answer, solution):
        return False
    one, other = bare(answer), bare(solution)
    exact = compare_plain(one, other)
    if exact is not None:
        return exact
    if in_words and re.search("[A-Za-z]", other):
        return _letters(answer) == _letters(solution)
    if _NUMBER.fullmatch(other):
        answer, solution = one, other
    same = answer.replace(", ", ",") == solution.replace(", ", ",")
    return same or judge_verdict(answer, solution)


def _out_of_text(text: str) -> str:
    """The content of a `\\text{...}` that is the whole text, else the text."""
    found = _TEXT.fullmatch(text)
    return found[1].strip() if found else text


def _letters(text: str) -> str:
    """A text in words, without what may differ: case, spaces, parentheses, full stops."""
    return re.sub(r"[\s().]", "", text.lower())


def compare_plain(answer: str, solution: str) -> bool | None:
    """The verdict on two integers or fractions written in ASCII digits; None if either is something else."""
    one, other = _PLAIN.fullmatch(answer), _PLAIN.fullmatch(solution)
    if one is None or other is None:
        return None
    if int(one[2] or 1) == 0 or int(other[2] or 1) == 0:
        return False
    return Fraction(int(one[1]), int(one[2] or 1)) == Fraction(int(other[1]), int(other[2] or 1))


def last_boxed(text: str) -> str | None:
    """What the last `\\boxed{...}` of a text holds, or None: where MATH's solutions have their answer."""
    at = max(text.rfind("\\boxed{"), text.rfind("\\fbox{"))
    if at < 0:
        return None
    start = text.index("{", at) + 1
    end = _closing(text, start)
    return None if end is None else text[start:end].strip()


class NoVerdictError(Exception):
    """The judge ended without a reply. That may be its own end and not the answer's fault: it is not remembered."""


def judge_verdict(answer: str, solution: str) -> bool:
    """math-verify's verdict, from its own process. Raises NoVerdictError if that takes too much time or dies."""
    with _LOCK:
        judge, reply = _running(), None
        try:
            with suppress(OSError):
                reply = _ask(judge, {"answer": answer, "solution": solution})
        finally:
            if reply is None:
                _stop()
    if reply is None:
        raise NoVerdictError
    return reply is True


#: The judge and the process that started it.
_judge: tuple[subprocess.Popen, int] | None = None
_LOCK = threading.Lock()


def _running() -> subprocess.Popen:
    """The judge of this process: a child made by fork starts its own."""
    global _judge
    if _judge is None or _judge[1] != os.getpid() or _judge[0].poll() is not None:
        _stop()
        judge = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("judge.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
        )
        _judge = judge, os.getpid()
        if _ask(judge, None) is not True:
            _stop()
            raise RuntimeError(
                "math-verify does not start: is the package math-verify installed beside Arena?"
            )
    return _judge[0]


def _ask(judge: subprocess.Popen, question: object) -> object:
    """The judge's reply to a question; None if it ends without one. It limits its own time."""
    assert judge.stdin is not None and judge.stdout is not None
    judge.stdin.write(json.dumps(question).encode() + b"\n")
    judge.stdin.flush()
    reply = judge.stdout.readline()
    return json.loads(reply) if reply.endswith(b"\n") else None


@atexit.register
def _stop() -> None:
    """End the judge, unless it is another process's, and close what led to it."""
    global _judge
    if _judge is None:
        return
    (judge, owner), _judge = _judge, None
    if owner == os.getpid():
        judge.kill()
        judge.wait()
    for pipe in (judge.stdin, judge.stdout):
        if pipe is not None:
            with suppress(OSError):  # What could not be written before cannot be now.
                pipe.close()


def _unboxed(text: str) -> str:
    """The content of a `\\boxed{...}` that is the whole text, else the text."""
    for start in ("\\boxed{", "\\fbox{"):
        if text.startswith(start) and _closing(text, len(start)) == len(text) - 1:
            return text[len(start) : -1].strip()
    return text


def _closing(text: str, start: int) -> int | None:
    """Where the brace that was opened before `start` is closed."""
    depth = 1
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    return None
