"""Verdicts on answers: worked cases, attacks, and agreement with math-verify where it is not asked."""

import atexit
import json
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.envs.tir_math import grading
from arena.envs.tir_math.grading import bare, compare_plain, is_correct, judge_verdict, last_boxed, normalised


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
        # Rows of a matrix, whatever the spaces.
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"),
        (r"1 & 2 \\ 3 & 4", r"1&2\\3&4"),
        # Thousands.
        ("32348", r"32,\!348"),
        ("32,348", r"32,\!348"),
        (r"10,\!000", "10000"),
        ("1234567", r"1,\!234,\!567"),
        # Any number for a number that is not whole.
        ("3/10", r"\frac{3}{10}"),
        ("0.3", r"\frac{3}{10}"),
        (r"-\frac{3}{10}", "-0.3"),
        (r"\frac{-3}{10}", r"-\frac{3}{10}"),
        ("5.5", r"5\frac{1}{2}"),
        (r"x = \frac{3}{4}", "3/4"),
        ("x=5", "x=5"),
        ("5", "x = 5"),
        ("y=3+2x", "y = 2x + 3"),
        # What Python prints.
        ("3*pi", r"3\pi"),
        ("pi/2", r"\frac{\pi}{2}"),
        ("3*pi/2", r"\frac{3\pi}{2}"),
        ("(3, pi/2)", r"\left(3,\frac{\pi}{2}\right)"),
        ("(3, pi/2)", r"\left( 3, \frac{\pi}{2} \right)"),
        ("6 + 9*I", "6+9i"),
        ("x**2+1", "x^2+1"),
        ("x**2 + 3*x + 1", "x^2+3x+1"),
        ("x**10", "x^{10}"),
        ("sqrt(3)*pi", r"\pi\sqrt{3}"),
        ("5*sqrt(2)", r"5\sqrt{2}"),
        ("oo", r"\infty"),
        ("(-oo, 3)", r"\left(-\infty,3\right)"),
        ("2**(1/3)", r"\sqrt[3]{2}"),
        ("\u22125", "-5"),
        # Money, units, words.
        ("$36", r"\$36"),
        ("$2.50", r"\$2.50"),
        (r"204\text{ cm}^2", "204"),
        (r"204\text{ cm}^2", r"204\text{ cm}^2"),
        ("204", r"204\text{ cm}^2"),
        ("204 square cm", r"204\text{ cm}^2"),
        (r"25\mbox{ cm}", "25"),
        (r"25\mbox{ cm}", r"25\text{ cm}"),
        (r"5\text{ apples}", r"5\text{ apples}"),
        ("50", r"50\%"),
        ("50%", r"50\%"),
        ("A,C", r"\text{A,C}"),
        ("June 20", r"\text{June 20}"),
        ("monday", r"\text{Monday}"),
        ("B", r"\text{(B)}"),
        # Bases.
        ("2516", "2516_8"),
        ("2516_{8}", "2516_8"),
        # Equivalent forms, also the problem's own: said on the environment's page.
        ("x^2-1", "(x-1)(x+1)"),
        (r"\sqrt{50}", r"5\sqrt{2}"),
        ("6/8", r"\frac{3}{4}"),
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
        (r"\frac{3}{4} \cdot \frac{2}{5}", r"\frac{3}{10}"),
        (r"1-\frac{1}{2^4}", r"\frac{15}{16}"),
        (r"\cos\frac{\pi}{3}", r"\frac12"),
        ("1/2 + 0", "0.5"),
        ("10/2", "x=5"),
        ("10/2", r"5\text{ cm}"),
        # Rows of a matrix in another order.
        (r"\begin{pmatrix} 2 \\ 1 \end{pmatrix}", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"),
        (r"\begin{pmatrix}1&2\\4&3\end{pmatrix}", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"),
        (r"1&2\\4&3", r"1&2\\3&4"),
        # Chains, where the solution has an equation.
        ("x=6 else x=5", "x=5"),
        (r"x=6\Rightarrow x=5", "x=5"),
        (r"6\Rightarrow 5\pi", r"5\pi"),
        (r"6\to5\pi", r"5\pi"),
        ("x=6=5", "x=5"),
        ("6=5", "x=5"),
        ("y=5", "x=5"),
        (r"6\approx5", "5"),
        (r"6\pi\approx5\pi", r"5\pi"),
        (r"6\pi\equiv 5\pi", r"5\pi"),
        (r"6\pi\sim 5\pi", r"5\pi"),
        (r"6\pi\pm5\pi", r"5\pi"),
        (r"6\pi\text{ else }5\pi", r"5\pi"),
        (r"6\pi\text{ alternatively }5\pi", r"5\pi"),
        (r"6\pi\text{ versus }5\pi", r"5\pi"),
        (r"6\pi\text{ surely }5\pi", r"5\pi"),
        (r"6\pi\mbox{ surely }5\pi", r"5\pi"),
        # Forms that are not understood: said on the environment's page.
        ("[1, 2]", "1,2"),
        ("(1, 2)", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        ("Matrix([[1], [2]])", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        ("5 1/2", r"5\frac{1}{2}"),
        ("1.5e1", "15"),
        ("15/1", "15"),
        ("0.5", r"50\%"),
        ("5 apples", "5"),
        ("5 apples", r"5\text{ apples}"),
        # Marks that the solution has not.
        ("33%", "33"),
        (r"33\%", "33"),
        ("3300%", "33"),
        ("5000%", r"50\%"),
        ("[33]", "33"),
        (r"\{1,2\}", "(1,2)"),
        ("1,2", "(1,2)"),
        ("(2,1)", "1,2"),
        ("(1,2)", "1,2"),
        ("2516_{9}", "2516_8"),
        ("2516_8", "2516"),
        ("5'", "5"),
        ("5 a b c d", "5"),
        ("5 m", "5"),
        (r"5\text{ x}", "5"),
        ("$36$36", "36"),
        ("Mondya", r"\text{Monday}"),
        ("June 21", r"\text{June 20}"),
        ("\u22125", "5"),
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
        ("(" * 290, r"\sqrt{7}"),
        (r"\frac{" * 49, r"\sqrt{7}"),
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
    # A solution that is no number goes to the judge.
    assert not is_correct(bomb, r"5\sqrt{7}")
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
    judge.stdin.write(json.dumps({"answer": "99999999!", "solution": "5\\sqrt{7}"}).encode() + b"\n")
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


@pytest.mark.parametrize(
    "piece", [" in", r"\text{ in}", " *", "(", "{,}000", r"\left", r"\frac11", "\\\\", "_{1}", "I"]
)
def test_long_texts_are_judged_in_time(piece):
    start = time.process_time()
    assert not is_correct("5" + piece * (290 // len(piece)) + " x", "5")
    assert not is_correct(piece * (2900 // len(piece)), "5")
    assert time.process_time() - start < 5


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
    assert normalised(r"1,\!234") == "1234"
    assert normalised(r"1 \\ 2") == r"1\\2"
    assert normalised("$2.50") == "2.50"
    assert normalised(r"\left( 1,\frac{\pi}{2} \right)") == r"( 1,\frac{\pi}{2} )"
    assert normalised(r"1 \leftarrow 2") == r"1 \leftarrow 2"
    assert normalised("2*x**2 - oo*pi") == r"2x^2 - \infty\cdot \pi"
    assert normalised(r"3\,\text{cm}") == r"3 \text{cm}"


def test_what_is_left_of_a_number():
    assert bare("x = - 5") == "-5"
    assert bare(r"(5\text{ cm}^2)") == "5"
    assert bare(r"-\frac{3}{4} square inches") == r"-\frac{3}{4}"
    assert bare(r"20^\circ\text{C}") == "20"
    assert bare("5 m") == "5 m"
    assert bare("5 and 6") == "5 and 6"


def test_the_last_box_of_a_solution():
    assert last_boxed(r"so \boxed{1} and then \boxed{\frac{1}{2}}.") == r"\frac{1}{2}"
    assert last_boxed("none") is None
    assert last_boxed(r"\boxed{1") is None
