"""Is an answer right? Text in, bool out: bounded in time, never raising, the same in threads and worker processes.

Plain integers and fractions are compared exactly; everything else goes to `math-verify`, which runs in a process of
its own (`judge.py`) that ends when it takes too long or too much memory: math-verify's own time limits are signals,
which work in a main thread only, and sympy can be made to compute without end by a short text.

math-verify searches a long response for the answer. Here the answer is given, so it must be the whole text: what it
would pick from "1 or 2" (the last), "5 6" (the sum, a mixed number) or "6=5" (the right-hand side) is no answer. And
where the solution is an integer, the answer must be that number and not something left to compute: "37*4+12" restates
a problem. `acceptable` refuses such texts first. Another departure from math-verify: an answer that is the same text
as the solution is right, whatever it means.
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
_PLAIN = re.compile(r"([+-]?[0-9]{1,60})(?:/([0-9]{1,60}))?")
_THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:(?:,|\{,\}|\\,)[0-9]{3})+(?![0-9,])")
_SPACES = re.compile(r"\\[ ,;:!]|\\q?quad\b|~|\s+")
_WRAPPERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
#: What offers more than one value, or hides a second one. Allowed as far as the solution has it too.
_SEVERAL = re.compile(
    r"\b(?:or|and|not|either|maybe)\b|[,;|&]|\\(?:cup|cap|vee|wedge|lor|land|pm|mp|mid|ne|neq|in)\b|[<>?]"
)
_TWO_NUMBERS = re.compile(r"[0-9}] +[0-9.]")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
#: What asks for a computation, beside a second number.
_COMPUTATION = re.compile(r"!|\\(?!text|mathrm|circ|left|right|%)")
_NAMED = re.compile(r"\\?[A-Za-z]{1,10}(?:\([A-Za-z]\))?\s*=(?P<value>[^=]+)")


def normalised(text: str) -> str:
    r"""The text of an answer without what only frames it: spaces, $, one \boxed{}, a final full stop, thousands, \$."""
    text = _THOUSANDS.sub(lambda m: re.sub(r"[^0-9]", "", m[0]), text.replace("\\$", ""))
    text = re.sub(r"^([+-]) (?=[0-9])", r"\1", _SPACES.sub(" ", text).strip())
    for _ in range(3):
        before, text = text, text.removesuffix(".").strip()
        for start, end in _WRAPPERS:
            if len(text) > len(start + end) and text.startswith(start) and text.endswith(end):
                inner = text[len(start) : -len(end)]
                text = text if "$" in inner else inner.strip()
        text = _unboxed(text)
        if text == before:
            break
    return text


def acceptable(answer: str, solution: str) -> bool:
    """Whether a normalised answer is one value that may be compared with the solution."""
    if not answer or len(answer) > LONGEST_ANSWER or not answer.isascii() or not answer.isprintable():
        return False
    if "$" in answer or "\\boxed" in answer:
        return False
    if not set(_SEVERAL.findall(answer.lower())) <= set(_SEVERAL.findall(solution.lower())):
        return False
    if _TWO_NUMBERS.search(answer) and not _TWO_NUMBERS.search(solution):
        return False
    if _INTEGER.fullmatch(solution) and (len(_NUMBER.findall(answer)) != 1 or _COMPUTATION.search(answer)):
        return False
    # "x = 5" names a value; "6 = 5" and chains do not.
    return "=" not in answer or "=" in solution or _NAMED.fullmatch(answer) is not None


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
    if not acceptable(answer, solution):
        return False
    exact = compare_plain(answer, solution)
    if exact is not None:
        return exact
    return answer == solution or judge_verdict(answer, solution)


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
