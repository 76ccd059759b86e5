"""The process in which math-verify runs: a question per line on standard input, a verdict per line on standard output.

Run by `grading`, as a file and not as a module: it needs nothing of Arena. A question is null (are you there?) or
`{"answer": text, "solution": text}`; a verdict is true or false. Memory and time are limited here, by signals that end
this process: it needs no one to end it. What counts is its own computing time, so that a verdict does not depend on
what else the machine does.
"""

import json
import logging
import resource
import signal
import sys

#: Bytes of address space: sympy takes 0.2 GB.
_MEMORY = 1 << 30
#: Seconds of computing for one verdict.
_VERDICT_SECONDS = 2.0
#: Seconds on the clock for anything, if it does not compute: far more than the start takes (sympy is slow to import).
_STUCK_SECONDS = 120


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    for ending in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(ending, signal.SIG_DFL)
    signal.alarm(_STUCK_SECONDS)
    from math_verify import LatexExtractionConfig, parse, verify

    logging.disable(logging.CRITICAL)
    latex = [LatexExtractionConfig()]
    signal.alarm(0)
    for line in sys.stdin:
        signal.alarm(_STUCK_SECONDS)
        signal.setitimer(signal.ITIMER_PROF, _VERDICT_SECONDS)
        question = json.loads(line)
        verdict = True
        if question is not None:
            try:
                solution = parse(f"${question['solution']}$", latex, parsing_timeout=0)
                answer = parse(f"${question['answer']}$", latex, parsing_timeout=0)
                verdict = bool(verify(solution, answer, timeout_seconds=None))
            except BaseException:  # Whatever sympy does with a text, it is not a right answer.
                verdict = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        print(json.dumps(verdict), flush=True)


if __name__ == "__main__":
    main()
