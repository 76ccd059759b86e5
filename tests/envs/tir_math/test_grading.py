"""Verdicts on answers: worked cases, attacks, and agreement with math-verify where it is not asked."""

import atexit
import json
import random
import resource
import signal
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.envs.tir_math import grading
from arena.envs.tir_math.grading import compare_plain, is_correct, judge_verdict, last_boxed, normalised


@pytest.mark.parametrize(
    ("answer", "solution"),
    [
        ("160", "160"),
        ("+160", "160"),
        ("0160", "160"),
        ("- 5", "-5"),
        ("1,234", "1234"),
        ("1{,}234", "1234"),
        ("1234", "1,234"),
        ("160.0", "160"),
        ("160.", "160"),
        ("$160$", "160"),
        (r"\boxed{160}", "160"),
        (r"$\boxed{160}$.", "160"),
        (r"\(160\)", "160"),
        ("x = 160", "160"),
        ("(160)", "160"),
        ("5 cm", "5"),
        (r"5\text{ cm}", "5"),
        (r"\$5", "5"),
        ("5", r"\$5"),
        (r"90^\circ", "90"),
        (r"50\%", "50"),
        ("3/4", r"\frac{3}{4}"),
        (r"\frac34", "3/4"),
        ("0.75", r"\frac{3}{4}"),
        ("6/8", "3/4"),
        ("0.333333", "1/3"),
        (r"\sqrt{2}", r"\frac{2}{\sqrt{2}}"),
        ("sqrt(2)", r"\sqrt{2}"),
        ("1+x", "x+1"),
        ("2, 1", r"\{1, 2\}"),
        (r"\text{Monday}", r"\text{Monday}"),
        ("(1,2)", "(1,2)"),
        (r"(-\infty,2)\cup(3,\infty)", r"(-\infty,2)\cup(3,\infty)"),
        ("1 or 2", "1 or 2"),
    ],
)
def test_right(answer, solution):
    assert is_correct(answer, solution)


@pytest.mark.parametrize(
    ("answer", "solution"),
    [
        # Nothing.
        ("", "5"),
        (" ", "5"),
        ("$$", "5"),
        (r"\boxed{}", "5"),
        ("nan", "5"),
        ("None", "5"),
        ("0", "5"),
        # More than one value, whichever of them is right.
        ("1 or 2", "1"),
        ("1 or 2", "2"),
        ("1 and 2", "2"),
        (r"1\text{ or }2", "2"),
        ("1, 2", "1"),
        ("1, 2", "2"),
        ("1; 2", "2"),
        ("1|2", "1"),
        (r"1 \cup 2", "2"),
        (r"1 \vee 2", "2"),
        (r"1 \lor 2", "1"),
        ("5 6", "11"),
        ("5 6", "6"),
        (r"5\ 6", "11"),
        ("5~6", "6"),
        ("5,5", "5"),
        (r"\{5,6\}", "5"),
        (r"5 \pm 0", "5"),
        ("5?", "5"),
        ("<5", "5"),
        (r"$1$ or $2$", "2"),
        (r"\boxed{1} \boxed{2}", "2"),
        (r"\boxed{1}\boxed{2}", "1"),
        (r"1 \boxed{2}", "2"),
        ("6 = 5", "5"),
        ("x = 6 = 5", "5"),
        ("5 = x", "5"),
        (r"5 \neq 6", "5"),
        ("not 5", "5"),
        (r"\text{5 but also 7}", "5"),
        ("the answer is 5 not 6", "5"),
        # Restating the problem instead of solving it.
        ("37*4+12", "160"),
        (r"37 \times 4 + 12", "160"),
        ("10/2", "5"),
        ("5^1", "5"),
        ("3!", "6"),
        (r"\sqrt{25}", "5"),
        (r"\gcd(36, 24)", "12"),
        # Look-alikes of digits.
        ("１６０", "160"),
        ("١٦٠", "160"),
        ("𝟏𝟔𝟎", "160"),
        ("16О", "160"),
        ("1６0", "160"),
        ("160\u200b", "160"),
        # Objects and code.
        ("True", "1"),
        ("lambda: 5", "5"),
        ("__import__('os').system('id')", "5"),
        ("type('A', (), {'__eq__': lambda a, b: True})()", "5"),
        ("x", "5"),
        ("a" * 250, "5"),
        # Not numbers.
        ("1/0", "5"),
        ("5/0", "5/0"),
        (r"\frac{5}{0}", "5"),
        (r"\infty", "5"),
        ("5\0", "5"),
        ("-5", "5"),
        ("57", "5"),
        ("5e0 5", "5"),
        ("5" * 299, "5"),
        ("5" * 10**6, "5"),
        ("\ud800", "5"),
        ("(" * 290, "5/7"),
        (r"\frac{" * 49, "5/7"),
    ],
)
def test_wrong(answer, solution):
    assert not is_correct(answer, solution)


def judged_seconds():
    """What judges that ended have computed: however busy the machine is."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize(
    "bomb",
    [
        "9**9**9**9",
        "9^{9^{9^{9}}}",
        "99999999999!",
        r"\binom{10^9}{10^8}",
        r"10^{10^{10}} - 10^{10^{10}} + 5",
        r"\cos(10^{10000000})",
        r"\frac{10^{10^9}}{10^{10^9}}",
    ],
)
def test_what_sympy_cannot_bear_is_wrong_in_time(bomb):
    start = judged_seconds()
    assert not is_correct(bomb, "5")
    # A solution that is no integer goes to the judge.
    assert not is_correct(bomb, r"\frac{5}{7}")
    assert judged_seconds() - start < 20
    assert is_correct("0.5", r"\frac{1}{2}")


def test_judges_that_die_are_replaced_and_leave_nothing_behind():
    def after_a_judge_of_its_own(answer, solution):
        if grading._judge:
            grading._judge[0].kill()
            grading._judge[0].wait()
        assert is_correct(answer, solution)
        return len(list(Path("/proc/self/fd").iterdir())), atexit._ncallbacks()

    one = after_a_judge_of_its_own("0.25", r"\frac{1}{4}")
    two = after_a_judge_of_its_own("0.125", r"\frac{1}{8}")
    assert one == two


def test_a_judge_that_nobody_waits_for_ends_by_itself():
    """It stops by its own computing time, so that it does not outlive a caller that was killed."""
    judge = subprocess.Popen(
        [sys.executable, "-I", grading.__file__.replace("grading", "judge")],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert judge.stdin is not None
    judge.stdin.write(json.dumps({"answer": "99999999!", "solution": "5/7"}).encode() + b"\n")
    judge.stdin.flush()
    assert judge.wait(timeout=120) == -signal.SIGPROF
    judge.stdin.close()


def test_a_verdict_that_did_not_come_is_asked_for_again(monkeypatch):
    ask, asked = grading._ask, []

    def silent_at_first(judge, question):
        asked.append(question)
        return None if question and asked.count(question) == 1 else ask(judge, question)

    monkeypatch.setattr(grading, "_ask", silent_at_first)
    assert not is_correct("0.0625", r"\frac{1}{16}")
    assert is_correct("0.0625", r"\frac{1}{16}")
    assert is_correct("0.0625", r"\frac{1}{16}")
    assert asked.count({"answer": "0.0625", "solution": r"\frac{1}{16}"}) == 2


def test_the_judge_works_in_threads():
    verdicts = {}

    def work(number):
        verdicts[number] = is_correct(f"{number}.5", rf"\frac{{{2 * number + 1}}}{{2}}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verdicts == dict.fromkeys(range(6), True)


def test_plain_numbers_get_the_verdict_of_math_verify():
    rng = random.Random(0)
    for _ in range(150):
        a, b = rng.randint(-30, 30), rng.choice([1, 1, 2, 3, 4, 6, 12])
        solution = Fraction(a, b)
        texts = [
            str(solution),
            f"{solution.numerator * 2}/{solution.denominator * 2}",
            str(a),
            str(a + 1),
            f"{a}/{b}",
        ]
        answer = rng.choice(texts)
        exact = compare_plain(answer, str(solution))
        assert exact is not None
        assert exact == judge_verdict(answer, str(solution)), (answer, solution)


@settings(max_examples=300, deadline=None)
@given(st.integers(-(10**30), 10**30), st.integers(-(10**30), 10**30))
def test_integers_are_right_exactly_when_they_are_equal(answer, solution):
    assert is_correct(str(solution), str(solution))
    assert is_correct(str(answer), str(solution)) == (answer == solution)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=20))
def test_no_text_raises_and_none_is_right_by_chance(text):
    assert not is_correct(text, "-918273645")


def test_frames_of_an_answer():
    assert normalised(r" $\boxed{ 5 }$. ") == "5"
    assert normalised(r"$1$ or $2$") == r"$1$ or $2$"
    assert normalised("1,234,567") == "1234567"
    assert normalised("1,23") == "1,23"
    assert normalised(r"3\,\text{cm}") == r"3 \text{cm}"


def test_the_last_box_of_a_solution():
    assert last_boxed(r"so \boxed{1} and then \boxed{\frac{1}{2}}.") == r"\frac{1}{2}"
    assert last_boxed("none") is None
    assert last_boxed(r"\boxed{1") is None
