"""TIR Math: solve a problem by writing Python, reading what it prints, and answering.

Rules of tool-integrated reasoning as ARLArena and SimpleTIR use it: at most 5 turns, each runs a program or gives the
answer; the answer ends the episode with reward 1 if it is right, else 0. A turn that does neither is void.

Departures: the program or answer stands in the `<action>` block, as in every environment here (SimpleTIR: a code
block, or `\\boxed{}`); a void turn is counted and shown in `info`, and SimpleTIR's dropping of such episodes is the
option `void_ends`; a program starts from nothing, so variables do not outlive their turn (as in SimpleTIR and verl).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from arena.envs.base import TextEnv, fraction, one_of, split_of_content, split_of_seed, whole_number
from arena.envs.tir_math import problems
from arena.envs.tir_math.grading import is_correct
from arena.envs.tir_math.problems import TEMPLATES, Problem, spoken, unspoken
from arena.envs.tir_math.sandbox import SANDBOXES, Execution, Limits, bwrap_refusal
from arena.seeding import stream_seed

LONGEST_PROGRAM = 4000
# ASCII: "anſwer" is not "answer" in any case, and no other space is a space.
_ANSWER = re.compile(r"answer(?:\s*:\s*|\s+)(?P<answer>\S.*)", re.ASCII | re.IGNORECASE)
_PROGRAM = re.compile(r"python(?:\s*:\s*|\s+)(?P<program>\S.*)", re.ASCII | re.IGNORECASE | re.DOTALL)
_FENCED = re.compile(
    r"```(?:python|py)?[ \t]*\r?\n(?P<program>(?:(?!```).)*\S(?:(?!```).)*)```",
    re.ASCII | re.IGNORECASE | re.DOTALL,
)
_TOOLS = {
    "monty": "There are no packages: only a part of the standard library (math, itertools, re, ...) can be imported.",
    "bwrap": "The standard library and the installed packages (sympy, numpy) can be imported.",
}
_RULES = """\
You solve a problem of mathematics with the help of Python.

Each turn you do one of two things:
- run a program: a code block that begins with ```python and ends with ```. You will see what it prints. A program
  starts from nothing: variables of earlier programs are gone. {tools}
- answer: the word answer and then the answer alone, for example: answer 42. The first answer counts and ends the task.

You have at most {turns} turns.

First think about what to compute. Then give exactly one program or answer in this format and write nothing else:
<think>your reasoning</think><action>your program or answer</action>"""
_VOID = "Your last action was neither a program nor an answer, so nothing was run."
#: Numbers and signs of an output that a tiny model is shown.
_SHOWN_WORDS = 16


class TirMath(TextEnv):
    """Solve a problem with Python.

    Args (options): `kinds` are the templates to draw from, `digits` the most digits of a number (1 to 6), `steps` the
    most operations of a `sum` or `relation` (1 to 6), `hard` the chance that a number or such a chain has them all;
    `gym` is a dataset of reasoning-gym to draw from instead, `data` a JSONL file of problems, `eval_data` one for the
    evaluation split. `sandbox` is "monty" or "bwrap", `seconds` and `output` limit a program's time and the characters
    that are shown of its output. `void_ends` ends an episode at its first void turn. `expert_head` is the share of
    problems that the expert answers from its head, without a program: right, but not to be learned by copying it.
    """

    name: ClassVar[str] = "tir_math"
    summary: ClassVar[str] = "Solve a problem by writing Python, reading its output and answering."
    vocabulary: ClassVar[tuple[str, ...]] = (
        *(name, "python", "answer", "output", "error", "none", *problems.WORDS),
    )
    fully_observed: ClassVar[bool] = False
    open_ended: ClassVar[bool] = True
    longest_observation: ClassVar[int] = 1 << 14
    cached_tasks: ClassVar[int] = 256
    longest_action: ClassVar[int] = LONGEST_PROGRAM + 20
    #: The action is a program: a text of its own, which says again what the thought planned.
    largest_action_share: float = 0.8

    def __init__(
        self,
        *,
        max_turns: int = 5,
        observation: Literal["compact", "full"] = "compact",
        kinds: Sequence[str] | str = tuple(TEMPLATES),
        digits: int = 2,
        steps: int = 2,
        hard: float = 0.8,
        gym: str | None = None,
        data: str | None = None,
        eval_data: str | None = None,
        sandbox: str = "monty",
        seconds: float = 1.0,
        output: int = 1000,
        void_ends: bool = False,
        expert_head: float = 0.0,
    ) -> None:
        super().__init__(max_turns=max_turns, observation=observation)
        if max_turns < 2:
            raise ValueError("max_turns must be at least 2: one to run a program and one to answer")
        self.kinds = _kinds(kinds)
        self.digits, self.steps = whole_number("digits", digits, 1, 6), whole_number("steps", steps, 1, 6)
        self.hard, self.expert_head = fraction("hard", hard), fraction("expert_head", expert_head)
        self.sandbox = one_of("sandbox", sandbox, SANDBOXES)
        if sandbox == "bwrap" and (reason := bwrap_refusal()):
            raise ValueError(reason)
        if not 0.01 <= seconds <= 60:
            raise ValueError(f"seconds must be from 0.01 to 60, given {seconds!r}")
        self.void_ends = void_ends
        self.limits = Limits(seconds=seconds, output=whole_number("output", output, 1, 8000))
        self._gym = gym
        self._lists = self._read_files(gym, data, eval_data)
        if observation == "compact" and (gym or data):
            raise ValueError(
                "problems of 'gym' and 'data' are in plain text: they need env.observation 'full'"
            )
        self._problem: Problem | None = None
        self._outputs: tuple[str, ...] = ()
        self._given, self._note = "", ""
        self._turns, self._void, self._success, self._ended = 0, 0, False, True

    @property
    def instruction(self) -> str:
        if self.observation_style == "compact":
            return self.name
        return _RULES.format(turns=self.max_turns, tools=_TOOLS[self.sandbox])

    @property
    def largest_return(self) -> float:
        """A right answer's reward."""
        return 1.0

    @property
    def problem(self) -> Problem:
        if self._problem is None:
            raise RuntimeError("call reset first")
        return self._problem

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        if options:
            raise ValueError(f"reset takes no options, given {sorted(options)}")
        self._problem = self._problem_of(self.task_seed(seed))
        self._outputs, self._given, self._note = (), "", ""
        self._turns, self._void, self._success, self._ended = 0, 0, False, False
        return self._observation(), self._info(admissible=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._ended:
            raise RuntimeError("the episode has ended: call reset")
        answer, program = understood(unspoken(action) if self.observation_style == "compact" else action)
        self._note = ""
        admissible = answer is not None
        if answer is not None:
            self._given = answer
            self._success = is_correct(answer, self.problem.answer)
        elif program is not None:
            execution = run(self.sandbox, program, self.limits)
            admissible = execution.parsed
            if admissible:
                self._outputs = (*self._outputs, _told(execution))
            else:
                self._note = f"Your last program is not Python, so nothing was run. {execution.error}".strip()
        else:
            self._note = _VOID
        self._turns += 1
        self._void += not admissible
        terminated = answer is not None or (self.void_ends and not admissible)
        truncated = not terminated and self._turns >= self.max_turns
        self._ended = terminated or truncated
        return self._observation(), float(self._success), terminated, truncated, self._info(admissible)

    def expert_action(self) -> str:
        """Runs the program that solves the problem until its output is there, then answers with it; answers at once
        where it needs no program."""
        answer = self.problem.answer
        if self._in_head() or (self._outputs and self._outputs[-1] == answer):
            return self._answer(answer)
        return self._program(self.problem.program)

    def thought(self) -> str:
        """The numbers and operations of the problem in the order of the computation, or the output that solves it."""
        problem = self.problem
        if not problem.program:
            return "The solution is known: it came with the problem."
        if self._outputs and self._outputs[-1] == problem.answer:
            return f"output {spoken(problem.answer)}"
        return problem.plan

    def admissible_actions(self) -> tuple[str, ...]:
        """Some of the many: the right program, wrong ones, and answers that are at hand. Any program or answer is
        admissible."""
        problem = self.problem
        if not problem.program:
            return (self._program("print(0)"), self._answer(problem.answer), self._answer("0"))
        seen = [output for output in dict.fromkeys(self._outputs) if re.fullmatch("-?[0-9]{1,12}", output)]
        answers = seen or re.findall("[0-9]+", problem.text)[:1]
        return (*_programs(problem, self.observation_style), *map(self._answer, answers))

    def _in_head(self) -> bool:
        """Whether the expert answers without a program; always the same for the same problem."""
        if not self.problem.program:
            return True
        draw = np.random.default_rng(stream_seed("head", self.name, _content(self.problem))).random()
        return bool(draw < self.expert_head)

    def _program(self, program: str) -> str:
        return _written(program, self.observation_style)

    def _answer(self, answer: str) -> str:
        return f"answer {spoken(answer) if self.observation_style == 'compact' else answer}"

    def _problem_of(self, seed: int) -> Problem:
        if self._lists:
            of_split = self._lists[split_of_seed(seed)]
            return of_split[
                np.random.default_rng(stream_seed("draw", self.name, seed)).integers(len(of_split))
            ]
        key = (self.kinds, self.digits, self.steps, self.hard, self._gym)
        return self.task_of(seed, key, self._sample)

    def _sample(self, rng: np.random.Generator) -> tuple[Problem, str]:
        if self._gym is not None:
            problem = problems.gym_problem(rng, self._gym)
        else:
            problem = problems.template_problem(rng, self.kinds, self.digits, self.steps, self.hard)
        return problem, _content(problem)

    def _read_files(
        self, gym: str | None, data: str | None, eval_data: str | None
    ) -> dict[str, tuple[Problem, ...]]:
        """The problems of each split, if they come from files. Raises ValueError."""
        if gym:
            if data:
                raise ValueError("give either 'gym' or 'data', not both")
            problems.check_gym(gym)
        if not data:
            if eval_data:
                raise ValueError("'eval_data' needs 'data', the file of the training problems")
            return {}
        every = problems.file_problems(data)
        held_out = problems.file_problems(eval_data) if eval_data else ()
        known = {_content(problem) for problem in held_out}
        lists: dict[str, tuple[Problem, ...]] = {
            "train": tuple(p for p in every if _content(p) not in known),
            "eval": held_out,
        }
        if not eval_data:
            lists = {
                split: tuple(p for p in every if split_of_content(_content(p), self.eval_share) == split)
                for split in ("train", "eval")
            }
        for split, found in lists.items():
            if not found:
                raise ValueError(
                    f"{data} has {len(every)} problems, none for the {split} split: add some or 'eval_data'"
                )
        return lists

    def _observation(self) -> str:
        problem = self.problem
        if self.observation_style == "compact":
            return (
                f"{problem.words} output {_in_words(self._outputs[-1])}" if self._outputs else problem.words
            )
        parts = [f"Problem: {problem.text}"]
        if self._outputs:
            parts.append(f"Output of your last program:\n{self._outputs[-1] or '(nothing was printed)'}")
        return "\n\n".join([*parts, self._note] if self._note else parts)

    def _info(self, admissible: bool) -> dict[str, Any]:
        """`void_turns` counts the turns without a program or an answer."""
        anchor = "\n".join([self.problem.text, *(f"output: {output}" for output in self._outputs)])
        return {
            "success": self._success,
            "admissible": admissible,
            "admissible_actions": self.admissible_actions(),
            "anchor": f"{anchor}\nanswer: {self._given}" if self._given else anchor,
            "void_turns": self._void,
        }


def understood(action: str) -> tuple[str | None, str | None]:
    """The answer or the program that an action is; two times None if it is neither (or a program too long)."""
    action = action.strip()
    if len(action) > LONGEST_PROGRAM + 20:
        return None, None
    if found := _ANSWER.fullmatch(action):
        return found["answer"].strip(), None
    if found := _FENCED.fullmatch(action) or _PROGRAM.fullmatch(action):
        program = found["program"].strip("\r\n")
        return None, program if len(program) <= LONGEST_PROGRAM else None
    return None, None


@functools.lru_cache(maxsize=4096)
def run(sandbox: str, program: str, limits: Limits) -> Execution:
    """What a program does in a sandbox; remembered, because tiny policies repeat themselves."""
    return SANDBOXES[sandbox](program, limits)


def _written(program: str, style: str) -> str:
    """The action that runs a program."""
    return f"python {spoken(program)}" if style == "compact" else f"```python\n{program}\n```"


@functools.lru_cache(maxsize=256)
def _programs(problem: Problem, style: str) -> tuple[str, ...]:
    """The actions that run the problem's program, and wrong ones."""
    return tuple(_written(program, style) for program in (problem.program, *problem.wrong_programs()))


def _told(execution: Execution) -> str:
    """Output and error as one text."""
    return "\n".join(part for part in (execution.output, execution.error) if part)


def _in_words(output: str) -> str:
    """An output for a tiny model: its numbers digit by digit, `error` where there is anything else, or `none`."""
    if not output:
        return "none"
    if not re.fullmatch(r"[0-9.\s-]+", output):
        return "error"
    return " ".join(spoken(output).split(" ")[:_SHOWN_WORDS])


def _content(problem: Problem) -> str:
    """What makes two problems the same: the text, whatever its spaces and capitals."""
    return " ".join(problem.text.lower().split())


def _kinds(kinds: Sequence[str] | str) -> tuple[str, ...]:
    given = tuple(part.strip() for part in kinds.split(",")) if isinstance(kinds, str) else tuple(kinds)
    if not given or set(given) - set(TEMPLATES):
        raise ValueError(f"kinds must be some of {list(TEMPLATES)}, given {list(given)}")
    return given
