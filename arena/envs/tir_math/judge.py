"""The process in which math-verify runs: a question per line on standard input, a verdict per line on standard output.

Run by `grading`, as a file and not as a module: it needs nothing of Arena. A question is null (are you there?) or
`{"answer": text, "solution": text}`; a verdict is true or false. Memory is limited here, time by whoever asks.
"""

import json
import logging
import sys

#: Bytes of address space: sympy takes 0.2 GB.
_MEMORY = 1 << 30


def main() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    except ImportError:  # Not a Unix: the time limit remains.
        pass
    from math_verify import LatexExtractionConfig, parse, verify

    logging.disable(logging.CRITICAL)
    latex = [LatexExtractionConfig()]
    for line in sys.stdin:
        question = json.loads(line)
        verdict = True
        if question is not None:
            try:
                solution = parse(f"${question['solution']}$", latex, parsing_timeout=0)
                answer = parse(f"${question['answer']}$", latex, parsing_timeout=0)
                verdict = bool(verify(solution, answer, timeout_seconds=None))
            except BaseException:  # Whatever sympy does with a text, it is not a right answer.
                verdict = False
        print(json.dumps(verdict), flush=True)


if __name__ == "__main__":
    main()
