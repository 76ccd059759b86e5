"""Generated problems against programs run by Python itself, and files of problems."""

import contextlib
import io
import json
import re

import numpy as np
import pytest

from arena.envs.tir_math.problems import (
    TEMPLATES,
    WORDS,
    Problem,
    file_problems,
    spoken,
    template_problem,
    unspoken,
)


def printed(program):
    """What a program of ours prints, in this interpreter: an independent reading of it."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(program, {})
    return out.getvalue().strip()


def drawn(kind, seed, digits=2, steps=2, hard=0.5):
    return template_problem(np.random.default_rng(seed), (kind,), digits, steps, hard)


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize(("digits", "steps"), [(1, 1), (2, 2), (3, 5)])
def test_the_program_of_a_problem_prints_its_answer(kind, digits, steps):
    texts = set()
    for seed in range(60):
        problem = drawn(kind, seed, digits, steps)
        assert printed(problem.program) == problem.answer
        assert printed(unspoken(spoken(problem.program))) == problem.answer
        assert set(f"{problem.words} {problem.plan} {spoken(problem.program)}".split(" ")) <= set(WORDS)
        assert max(map(len, re.findall("[0-9]+", problem.text))) <= digits
        texts.add(problem.text)
    assert len(texts) > 7


@pytest.mark.parametrize("kind", TEMPLATES)
def test_wrong_programs_run_and_most_print_something_else(kind):
    other, count = 0, 0
    for seed in range(50):
        problem = drawn(kind, seed)
        wrong = problem.wrong_programs()
        assert 1 <= len(wrong) <= 3
        assert problem.program not in wrong
        for program in wrong:
            count += 1
            try:
                other += printed(program) != problem.answer
            except (ZeroDivisionError, ValueError, TypeError):
                other += 1
    assert other > count / 2


def test_worked_problems():
    texts = {kind: (drawn(kind, 1).text, drawn(kind, 1).answer) for kind in TEMPLATES}
    for kind, (text, answer) in texts.items():
        numbers = [int(number) for number in re.findall("[0-9]+", text)]
        if kind == "remainder":
            assert int(answer) == numbers[0] - numbers[0] // numbers[1] * numbers[1]
        if kind == "gcd":
            common = [d for d in range(1, 200) if numbers[0] % d == numbers[1] % d == 0]
            assert int(answer) == common[-1]
        if kind == "multiples":
            assert int(answer) == sum(n for n in range(1, numbers[1]) if n % numbers[0] == 0)
        if kind == "power":
            assert int(answer) == numbers[0] ** numbers[1] % numbers[2]
        if kind == "sum":
            assert int(answer) == eval(re.fullmatch(r"What is (.*)\?", text)[1])


def test_a_relation_is_told_from_its_end():
    problem = next(p for p in (drawn("relation", seed) for seed in range(50)) if p.text.count(".") == 3)
    told = re.fullmatch(r"a is (\d+) (.*) b\. b is (\d+) (.*) c\. c is (\d+)\. What is a\?", problem.text)
    assert told
    value = int(told[5])
    for number, how in ((told[3], told[4]), (told[1], told[2])):
        number = int(number)
        value = {"more than": value + number, "less than": value - number, "times": value * number}[how]
    assert problem.answer == str(value)


def test_words_are_the_text_digit_by_digit():
    assert spoken("print(pow(37, 4, 100))") == "print ( pow ( 3 7 , 4 , 1 0 0 ) )"
    assert unspoken("print ( pow ( 3 7 , 4 , 1 0 0 ) )") == "print ( pow ( 37 , 4 , 100 ) )"
    assert unspoken("answer 1 6 0") == "answer 160"


def written(tmp_path, *lines):
    path = tmp_path / "problems.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_files_of_several_shapes(tmp_path):
    path = written(
        tmp_path,
        {"problem": "What is $1+1$?", "level": "Level 1", "solution": r"It is $\boxed{\frac{4}{2}}$."},
        {"ID": "2024-I-1", "Problem": "Find it.", "Solution": r"so \boxed{204}", "Answer": 204},
        "",
        {"question": "How many?", "answer": "5 + 5 = 10\n#### 10"},
        {"problem": "Halve 1.", "answer": "0.5", "solution": "long"},
        {"problem": "Find it.", "answer": "204"},
    )
    assert file_problems(path) == (
        Problem("What is $1+1$?", r"\frac{4}{2}"),
        Problem("Find it.", "204"),
        Problem("How many?", "10"),
        Problem("Halve 1.", "0.5"),
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"problems\.jsonl, line 2: not JSON"),
        ("[1]", "line 2: a line is an object"),
        (
            {"text": "x", "answer": "1"},
            r"line 2: needs text under one of the keys \['problem', 'question'\], has",
        ),
        ({"problem": "x"}, r"line 2: needs text under one of the keys \['answer', 'solution'\]"),
        ({"problem": "", "answer": "1"}, "line 2: needs text"),
        ({"problem": "x", "answer": ["1"]}, "line 2: needs text"),
        ({"problem": "x", "solution": "no box"}, r"line 2: the solution has no \\boxed\{answer\}"),
        ({"problem": "x", "answer": r"\boxed{}"}, "line 2: the answer is empty"),
    ],
)
def test_a_line_that_is_no_problem_is_named(tmp_path, line, message):
    with pytest.raises(ValueError, match=message):
        file_problems(written(tmp_path, {"problem": "x", "answer": "1"}, line))


def test_files_without_problems(tmp_path):
    with pytest.raises(ValueError, match="has no problems"):
        file_problems(written(tmp_path, ""))
    with pytest.raises(ValueError, match="cannot read problems from"):
        file_problems(tmp_path / "nowhere.jsonl")
    (tmp_path / "latin").write_bytes(b'{"problem": "\xe9"}')
    with pytest.raises(ValueError, match="cannot read"):
        file_problems(tmp_path / "latin")
