"""TIR Math: turns, rewards, what is understood as a program or an answer, splits and options."""

import json
import re

import pytest

from arena.envs import make_env
from arena.envs.check import check_env
from arena.envs.protocol import parse_response
from arena.envs.tir_math import TirMath
from arena.envs.tir_math.env import LONGEST_PROGRAM, understood
from arena.errors import UsageError
from arena.recipe import EnvConfig
from arena.seeding import EVAL_SEED_START


def started(seed=3, **options):
    env = TirMath(**options)
    env.reset(seed=seed)
    return env


@pytest.mark.parametrize("observation", ["compact", "full"])
def test_the_contract(observation):
    results = check_env(EnvConfig(name="tir_math", max_turns=5, observation=observation), tasks=20)
    assert [result for result in results if not result.passed] == []


def test_a_program_then_the_answer():
    env = started(kinds="remainder", seed=5)
    words = re.fullmatch(r"remainder of ([0-9 ]+) by ([0-9 ]+)", env.reset(seed=5)[0])
    number, by = words[1], words[2]
    expected = int(number.replace(" ", "")) % int(by.replace(" ", ""))
    observation, reward, terminated, truncated, info = env.step(f"python print ( {number} % {by} )")
    shown = " ".join(str(expected))
    assert observation == f"remainder of {number} by {by} output {shown}"
    assert (reward, terminated, truncated, info["success"], info["admissible"]) == (
        0.0,
        False,
        False,
        False,
        True,
    )
    assert info["anchor"].endswith(f"\noutput: {expected}")
    assert env.expert_action() == f"answer {shown}"
    assert env.thought() == f"output {shown}"
    _, reward, terminated, truncated, info = env.step(f"answer {shown}")
    assert (reward, terminated, truncated, info["success"], info["admissible"]) == (
        1.0,
        True,
        False,
        True,
        True,
    )
    assert info["void_turns"] == 0


def test_a_wrong_answer_ends_the_episode_without_reward():
    env = started()
    _, reward, terminated, truncated, info = env.step("answer 123456")
    assert (reward, terminated, truncated, info["success"], info["admissible"]) == (
        0.0,
        True,
        False,
        False,
        True,
    )
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("answer 1")


def test_a_right_answer_on_the_last_turn_is_right_and_not_cut():
    env = started(max_turns=2)
    env.step("")
    _, reward, terminated, truncated, info = env.step(f"answer {env.problem.answer}")
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)
    env.reset(seed=3)
    env.step("")
    assert env.step("python print(1)")[1:4] == (0.0, False, True)


def test_a_right_output_is_no_answer():
    env = started(max_turns=2)
    for _ in range(2):
        _, reward, terminated, truncated, info = env.step(f"python print({env.problem.answer})")
    assert (reward, terminated, truncated, info["success"]) == (0.0, False, True, False)


@pytest.mark.parametrize(
    ("action", "meaning"),
    [
        ("answer 5", ("5", None)),
        ("Answer: 5", ("5", None)),
        ("ANSWER\n5", ("5", None)),
        (r"answer \boxed{5}", (r"\boxed{5}", None)),
        ("answer x = 5", ("x = 5", None)),
        ("answer", (None, None)),
        ("answer:", (None, None)),
        ("answer5", (None, None)),
        ("the answer is 5", (None, None)),
        ("answer 5\nanswer 6", (None, None)),
        ("5", (None, None)),
        ("", (None, None)),
        ("python print(5)", (None, "print(5)")),
        ("python: print(5)", (None, "print(5)")),
        ("python\nprint(5)\nprint(6)", (None, "print(5)\nprint(6)")),
        ("```python\nprint(5)\n```", (None, "print(5)")),
        ("```py\nfor i in range(3):\n    print(i)\n```", (None, "for i in range(3):\n    print(i)")),
        ("```\n  print(5)\n```", (None, "  print(5)")),
        ("```python\nanswer = 5\nprint(answer)\n```", (None, "answer = 5\nprint(answer)")),
        ("```python\n```", (None, None)),
        ("```python\nprint(5)", (None, None)),
        ("```python\nprint(5)\n```\n```python\nprint(6)\n```", (None, None)),
        ("```python\nprint(5)\n```\nanswer 5", (None, None)),
        ("print(5)", (None, None)),
        ("pythonprint(5)", (None, None)),
        ("аnswer 5", (None, None)),
        ("ａｎｓｗｅｒ 5", (None, None)),
        ("python " + "x" * (LONGEST_PROGRAM + 1), (None, None)),
        ("python " + "x" * 10**6, (None, None)),
    ],
)
def test_what_is_understood(action, meaning):
    assert understood(action) == meaning


@pytest.mark.parametrize(
    "action", ["", "no", "5", "python", "python print(", "answer", "```python\n```", "python \0"]
)
@pytest.mark.parametrize("observation", ["compact", "full"])
def test_a_void_turn_is_counted_and_changes_nothing(action, observation):
    env = started(observation=observation)
    env.step("python print(7)")
    before = env.step("python print(8)")[4]
    _, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated, info["admissible"], info["success"]) == (
        0.0,
        False,
        False,
        False,
        False,
    )
    assert info["anchor"] == before["anchor"]
    assert info["void_turns"] == 1


def test_full_observations_say_what_happened():
    env = started(observation="full")
    problem = f"Problem: {env.problem.text}"
    assert env.reset(seed=3)[0] == problem
    assert env.step("```python\nx\n```")[0].endswith(
        "Output of your last program:\nNameError: name 'x' is not defined"
    )
    assert env.step("python x = 1")[0] == f"{problem}\n\nOutput of your last program:\n(nothing was printed)"
    after = env.step("python x = (")[0]
    assert "Your last program is not Python, so nothing was run. SyntaxError" in after
    assert env.step("hello")[0].endswith("neither a program nor an answer, so nothing was run.")


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        ("print ( 1 6 0 )", "1 6 0"),
        ("print ( - 5 )", "- 5"),
        ("print ( 1 / 4 )", "0 . 2 5"),
        ("print ( 1 , 2 )", "1 2"),
        ("x = 1", "none"),
        ("x", "error"),
        ("print ( 'abc' )", "error"),
        ("print ( 1 0 ** 3 0 )", " ".join("1" + "0" * 15)),
    ],
)
def test_compact_outputs_are_few_words(program, shown):
    env = started()
    words = env.reset(seed=3)[0]
    assert env.step(f"python {program}")[0] == f"{words} output {shown}"


def test_a_void_turn_may_end_the_episode():
    env = started(void_ends=True)
    _, reward, terminated, truncated, info = env.step("I give up")
    assert (reward, terminated, truncated, info["success"], info["void_turns"]) == (
        0.0,
        True,
        False,
        False,
        1,
    )


def test_variables_do_not_outlive_their_turn():
    env = started(observation="full")
    env.step("python x = 5")
    assert "NameError" in env.step("python print(x)")[0]


def test_a_program_that_does_not_end_is_an_output():
    env = started(observation="full", seconds=0.1)
    observation, _, _, _, info = env.step("python\nwhile True: pass")
    assert observation.endswith("TimeoutError: stopped after 0.1 seconds")
    assert info["admissible"]


@pytest.mark.parametrize(
    "response",
    [
        # {a} is the right answer, {p} the right program.
        "<think> answer {a}</think>",
        "<think> <action> answer {a}</action></think>",
        "<think> x</think><action></action>",
        "<think> x</think><action> </action>",
        "<think> x</think><action> {a}</action>",
        "<think> x</think><action> {a} or 9 9 9</action>",
        "<think> x</think><action> answer {a} or 9 9 9</action>",
        "<think> x</think><action> answer 9 9 9 or {a}</action>",
        "<think> x</think><action> answer {a} , 9 9 9</action>",
        "<think> x</think><action> answer 9 9 9 {a} answer {a}</action>",
        "<think> x</think><action> answer {a} answer 9 9 9</action>",
        "<think> x</think><action> the answer {a}</action>",
        "<think> x</think><action> аnswer {a}</action>",
        "<think> x</think><action> answer {wide}</action>",
        "<think> x</think><action> answer <action> answer {a}</action",
        "<think> x</think><action> answer {a}</think>",
        "<think> x</think><action> answer {p}</action>",
        "<think> x</think><action> {p}</action>",
        "<think> x</think><action> answer output</action>",
        "<think> x</think><action> answer nan</action>",
        "<think> x</think><action> answer</action>",
        "answer {a}",
        "",
    ],
)
def test_what_earns_no_success(response):
    env = started(kinds=("sum",), seed=11)
    answer = " ".join(env.problem.answer)
    wide = "".join(chr(ord(c) + 0xFEE0) for c in env.problem.answer)
    text = response.format(a=answer, p=env.problem.program, wide=wide)
    _, reward, _, _, info = env.step(parse_response(text).action or "")
    assert (reward, info["success"]) == (0.0, False)


def test_the_last_of_two_action_blocks_counts():
    env = started()
    answer = " ".join(env.problem.answer)
    text = f"<think> x</think><action> answer {answer}</action><action> answer 9 9 9 9 9</action>"
    assert env.step(parse_response(text).action or "")[1] == 0.0


def test_an_answer_must_be_computed():
    env = started(kinds="sum", observation="full", seed=11)
    expression = re.fullmatch(r"print\((.*)\)", env.problem.program)[1]
    assert env.step(f"answer {expression}")[1] == 0.0


def test_a_program_cannot_reach_the_solution():
    env = started(kinds="sum", observation="full", seed=11)
    for program in (
        "print(globals())",
        "import arena",
        "import sys; print(sys.modules)",
        "print(self.problem.answer)",
    ):
        observation, reward, _, _, info = env.step(f"python {program}")
        assert (reward, info["success"]) == (0.0, False)
        assert observation.rpartition("\n")[2].split(":")[0].endswith("Error")
        env.reset(seed=11)


def test_the_expert_answers_a_share_from_its_head():
    env, first = TirMath(expert_head=0.7), []
    for seed in range(200):
        env.reset(seed=seed)
        first.append(env.expert_action())
        assert env.expert_action() == first[-1]
        assert env.step(first[-1])[1] == float(first[-1].startswith("answer"))
    share = sum(action.startswith("answer") for action in first) / len(first)
    assert 0.6 < share < 0.8  # three standard errors of 200 draws
    assert all(started(seed=seed).expert_action().startswith("python") for seed in range(20))


def test_the_expert_recovers_from_a_wrong_program():
    env = started(kinds="sum", seed=11)
    env.step(env.admissible_actions()[1])
    assert env.expert_action() == env.admissible_actions()[0]
    env.step(env.expert_action())
    assert env.step(env.expert_action())[1] == 1.0


def test_a_seed_is_a_problem_on_every_machine():
    env = TirMath()
    assert env.reset(seed=3)[0] == "remainder of 9 9 power 1 7 by 2 1"
    assert env.reset(seed=EVAL_SEED_START)[0] == "remainder of 1 7 power 6 by 3"


def test_splits_share_no_problem():
    env = TirMath()
    train = {env.reset(seed=seed)[1]["anchor"] for seed in range(400)}
    evaluation = {env.reset(seed=EVAL_SEED_START + seed)[1]["anchor"] for seed in range(400)}
    assert len(train) > 300
    assert not train & evaluation


def test_options_choose_the_problems():
    env = started(kinds=["relation"], digits=4, steps=3)
    texts = [env.reset(seed=seed)[1]["anchor"] for seed in range(60)]
    assert all(text.startswith("a is ") for text in texts)
    assert {text.count(" is ") for text in texts} == {3, 4, 5}
    assert max(len(number) for text in texts for number in re.findall("[0-9]+", text)) == 4
    # The same seed under other options is another problem, cached or not.
    assert started(kinds=["gcd"]).problem != started(kinds=["power"]).problem


def test_hard_is_the_chance_of_the_longest():
    lengths = {}
    for hard in (0, 1):
        env = started(kinds=["relation"], digits=3, steps=2, hard=hard)
        texts = [env.reset(seed=seed)[1]["anchor"] for seed in range(40)]
        lengths[hard] = {(text.count(" is "), len(n)) for text in texts for n in re.findall("[0-9]+", text)}
    assert lengths == {0: {(3, 1), (3, 2)}, 1: {(4, 3)}}


def _file(path, texts):
    path.write_text("\n".join(json.dumps({"problem": text, "answer": "5"}) for text in texts))
    return str(path)


def test_problems_of_a_file_are_split_by_content(tmp_path):
    texts = [f"Problem {number}" for number in range(40)]
    env = TirMath(observation="full", data=_file(tmp_path / "all.jsonl", texts))
    train = {env.reset(seed=seed)[0] for seed in range(400)}
    evaluation = {env.reset(seed=EVAL_SEED_START + seed)[0] for seed in range(400)}
    assert train | evaluation == {f"Problem: {text}" for text in texts}
    assert not train & evaluation
    assert 4 <= len(evaluation) <= 16
    env.reset(seed=1)
    assert env.step(r"answer \boxed{5}")[1] == 1.0


def test_a_file_of_its_own_for_evaluation(tmp_path):
    data = _file(tmp_path / "train.jsonl", ["one", "two", "Shared  problem"])
    held_out = _file(tmp_path / "eval.jsonl", ["three", "shared problem"])
    env = TirMath(observation="full", data=data, eval_data=held_out)
    assert {env.reset(seed=seed)[0] for seed in range(50)} == {"Problem: one", "Problem: two"}
    assert {env.reset(seed=EVAL_SEED_START + seed)[0] for seed in range(50)} == {
        "Problem: three",
        "Problem: shared problem",
    }


def test_problems_of_reasoning_gym():
    pytest.importorskip("reasoning_gym")
    env = started(observation="full", gym="chain_sum")
    assert env.step(f"answer {env.problem.answer}")[1] == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": "sums"}, r"kinds must be some of \['sum', .*given \['sums'\]"),
        ({"kinds": ()}, "kinds must be some of"),
        ({"digits": 0}, "digits must be a whole number from 1 to 6, given 0"),
        ({"hard": 1.5}, "hard must be from 0 to 1, given 1.5"),
        ({"expert_head": -0.1}, "expert_head must be from 0 to 1, given -0.1"),
        ({"steps": 7}, "steps must be a whole number from 1 to 6, given 7"),
        ({"sandbox": "none"}, "sandbox must be one of monty, bwrap, given 'none'"),
        ({"seconds": 0}, "seconds must be from"),
        ({"output": 0}, "output must be a whole number"),
        ({"max_turns": 1}, "max_turns must be at least 2"),
        ({"gym": "arc"}, "whole numbers as answers are .* given 'arc'"),
        ({"eval_data": "x"}, "'eval_data' needs 'data'"),
        ({"gym": "gcd", "data": "x"}, "either 'gym' or 'data'"),
        ({"data": "nowhere.jsonl"}, "cannot read problems from nowhere.jsonl"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        TirMath(observation="full", **options)


def test_plain_text_is_not_shown_to_a_tiny_model(tmp_path):
    with pytest.raises(UsageError, match=r"need env\.observation 'full'"):
        data = _file(tmp_path / "all.jsonl", [str(number) for number in range(20)])
        make_env(EnvConfig(name="tir_math", options={"data": data}))


def test_a_file_with_too_few_problems_for_two_splits(tmp_path):
    with pytest.raises(ValueError, match="1 problems, none for the"):
        TirMath(observation="full", data=_file(tmp_path / "one.jsonl", ["alone"]))


def test_a_sandbox_that_does_not_work_is_refused(monkeypatch):
    monkeypatch.setattr(
        "arena.envs.tir_math.env.bwrap_refusal", lambda: "sandbox 'bwrap' does not work here (why)"
    )
    with pytest.raises(UsageError, match=r"does not work here \(why\)"):
        make_env(EnvConfig(name="tir_math", options={"sandbox": "bwrap"}))


def test_nothing_works_before_reset():
    for ask in (lambda env: env.step("answer 5"), lambda env: env.thought(), lambda env: env.expert_action()):
        with pytest.raises(RuntimeError, match="call reset"):
            ask(TirMath())


def test_unknown_reset_options_are_an_error():
    with pytest.raises(ValueError, match="reset takes no options, given"):
        TirMath().reset(options={"problem": "x"})
