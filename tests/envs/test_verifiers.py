"""No response earns success but one whose action is the right one: through the parser and `step`, one action before
the end, in every environment.

An environment adds its own row to `OWN`: how else the right action may be spelled, and what of its own must not do. In
`fools`, {right} is the winning action and {wrong} another admissible one; so it is in the texts that all share. A text
whose action is one of the spellings must earn success wherever it stands: what is a spelling in one observation style
is a fool in the other.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.envs import ENVS, make_env
from arena.envs.check import _LOOK_ALIKES
from arena.envs.protocol import TAGS, format_response, parse_response
from arena.envs.sokoban import ACTIONS, Sokoban
from arena.recipe import EnvConfig, resolve
from arena.training.rollout import build_prompt


@dataclass(frozen=True)
class Own:
    """What an environment adds: texts that are no action of it, the task played, options laid on the tier's, and
    the texts, in small letters, that mean the same as the right action."""

    fools: tuple[str, ...]
    seed: int = 3
    options: dict[str, Any] = field(default_factory=dict)
    spellings: Callable[[str], tuple[str, ...]] = field(default=lambda right: ())


def _sudoku_spellings(right):
    if right.startswith("place"):
        _, value, _, _, row, _, column = right.split()
    else:
        letter, column, value = right.split()
        row = str("abcd".index(letter) + 1)
    letter = "abcd"[int(row) - 1]
    return (
        f"place {value} at row {row} column {column}",
        f"{letter} {column} {value}",
        f"{row},{column},{value}",
        f"{row} {column} {value}",
    )


def _alfworld_spellings(right):
    # The compact style takes the original's commands too, and short forms of them.
    full = "move potato 1 to garbagecan 1"
    return (right, full) if right == full else (right, full, "move potato 1")


def _webshop_spellings(right):
    # White space of any kind and length is one space, and none is needed beside a bracket.
    label = right.removeprefix("click").strip(" []")
    return (
        *(right.replace(" ", space) for space in ("\t", "\n", "  ")),
        *(f"click[{label}]", f"click [{label}]", f"click [ {label} ]", f"click\n[\t{label}  ]"),
    )


def _tir_math_spellings(right):
    # What frames a number is not the answer: "answer 15" is right as "answer: $15$.".
    number = right.removeprefix("answer ").replace(" ", "")
    frames = (
        "{}",
        "{}.",
        "${}$",
        r"\({}\)",
        r"\boxed{{{}}}",
        "+{}",
        "0{}",
        "{}.0",
        "x = {}",
        r"{}\text{{ cm}}",
    )
    return (
        *(f"{right}.", right.replace(" ", "\t", 1), right.replace(" ", ":", 1)),
        *(before + frame.format(number) for before in ("answer ", "answer: ") for frame in frames),
    )


_MOVES = (
    *(
        "go {right}",
        "{right}!",
        "{right} {right}",
        "move({right})",
        "up down left right",
        "north south east west",
    ),
    *("{right} || {wrong}", "{wrong} || {right}", "{right}||", "w", "↓", "→", "\x1b[B", "{right}ward"),
)
OWN = {
    "sokoban": Own((*_MOVES, "solved", "P on S", "√", "push {right}", "teleport", "reset")),
    "frozen_lake": Own((*_MOVES, "goal", "G", "4 4", "jump", "right down right down right down")),
    "sudoku": Own(
        (
            *(
                "{right} 1 2 3 4",
                "{right}1234",
                "{right},{wrong}",
                "{right}; {wrong}",
                "1 2 3 4",
                "a 1 1 a 1 2 a 1 3",
            ),
            *(
                "place 1 2 3 4 at row 1 column 1",
                "place 1 or 2 or 3 or 4 at row 1 column 1",
                "place * at row 1 column 1",
            ),
            *(
                "a 1 x",
                "a 1 1-4",
                "a * *",
                "solve",
                "1234 3412 2143 4321",
                "fill in the solution",
                "{right}\0{wrong}",
            ),
            *(
                "place 1 at row 1 column 1 place 2 at row 1 column 1",
                "row row row",
                "a 1 0",
                "a 1 5",
                "a 1 -1",
                "a 1 1.0",
            ),
        ),
        spellings=_sudoku_spellings,
    ),
    # The task: put a cool potato in garbagecan.
    "alfworld": Own(
        (
            *(
                "{right} 1",
                "{right} {right}",
                "{right} and {wrong}",
                "{right} then look",
                "go to garbagecan 1",
            ),
            *("move potato", "move potato garbagecan", "move potato to garbagecan", "move potato 1"),
            *("move potato 1 to garbagecan", "move potato to garbagecan 1", "move potato1 to garbagecan1"),
            *("move potato 2 to garbagecan 1", "move potato 1 to garbagecan 2", "move potato 1 to fridge 1"),
            *(
                "move  potato 1 to garbagecan 1",
                "move potato 1  to garbagecan 1",
                "move potato 1 in garbagecan 1",
            ),
            *(
                "put potato 1 in/on garbagecan 1",
                "put potato 1 in garbagecan 1",
                "potato 1",
                "move",
                "cool potato",
            ),
            *(
                "move everything to garbagecan 1",
                "move * to garbagecan 1",
                "move it to garbagecan 1",
                "done",
                "help",
            ),
            "put a cool potato in garbagecan",
        ),
        spellings=_alfworld_spellings,
    ),
    # The right product is open and its options are chosen.
    "webshop": Own(
        (
            *(
                "buy",
                "buy now",
                "[buy]",
                "[buy now]",
                "click buy",
                "click buy now",
                "click(buy now)",
                "click{{}}",
            ),
            *("click[buy]", "click[buy now]", "click [ buy ]", "click [ buy now ]", "clicked [ buy ]"),
            *("click[]", "click[*]", "click[buy", "click buy]", "click[[buy]]", "click[[buy now]]"),
            *("click[buynow]", "click[buy-now]", "click  [ buy ] ]", "click[buy now >]", "purchase[buy now]"),
            *("search[buy]", "search[buy now]", "search[{right}]", "click[{right}]", "search [ ] {right}"),
            *(
                "{right}{right}",
                "{right} {right}",
                "{right}]",
                "[{right}",
                "{right}{wrong}",
                "{wrong}{right}",
            ),
            *(
                "buy[click]",
                "add to cart",
                "click[add to cart]",
                "click[done]",
                "done",
                "click[item - buy now]",
            ),
        ),
        spellings=_webshop_spellings,
    ),
    # The answer is 15. A program ends nothing, whatever it prints.
    "tir_math": Own(
        (
            *(
                "15",
                "1 5",
                "= 15",
                "15 answer",
                "the answer 15",
                "my answer is 15",
                "answers 15",
                "answer",
                "answer:",
            ),
            *(
                "answer15",
                "answer = 15",
                "answer is 15",
                "answer answer",
                "answer {right}",
                "answer the answer 15",
            ),
            *(
                "answer 16",
                "answer -15",
                "answer 15 16",
                "answer 15 or 16",
                "answer 16 or 15",
                "answer 16, 15",
            ),
            *("answer {{}}15,16{{}}", "answer 15 answer 16", "answer 16 answer 15", "answer 15\nanswer 16"),
            *("answer 15 | 16", "answer 14 = 15", "answer 15 = 14", "answer x = 14 = 15", r"answer 15 \pm 1"),
            *(
                "answer 14+1",
                "answer 30/2",
                "answer 15/1",
                "answer 3*5",
                "answer 3 \\cdot 5",
                "answer pow(99, 17, 21)",
                "answer 15!",
            ),
            *("answer 99^17 mod 21", "answer 99**17 % 21", "answer print(15)", "answer 0xf", "answer 1.5e1"),
            *(r"answer \boxed{16} \boxed{15}", r"answer \boxed{15} \boxed{16}", "answer x", "answer 15x"),
            *("answer anything", "answer True", "answer ]14,16[", "answer (14,16)", "answer 15\u066b0"),
            *("an\u017fwer 15", "answer\u00a015", "answer fifteen", "answer <15>", "answer not 16"),
            *(
                "python 15",
                "python print(15)",
                "python {right}",
                "python: {right}",
                "python answer = 15",
                "python",
            ),
            *("```python\nprint(15)\n```", "```python\n{right}\n```", "```\n{right}\n```", "```python\n```"),
            *("```python\nprint('{right}')\n```\n{right}", "{right}\n```python\nprint(15)\n```", "print(15)"),
            *("python print('answer 15')"),
        ),
        spellings=_tir_math_spellings,
    ),
}

#: Whole responses without an action block.
NO_ANSWER = (
    *("", " ", "\n", "\0", "{right}", "I would say {right}.", "<think>{right}</think>", "<think></think>"),
    *(
        "<think>a</think><action></action>",
        "<think>a</think><action> \n </action>",
        "<action></action>{right}",
    ),
    *("<think>a</think>{right}</action>", "<think>a</think><action>{right}", "<think>a</think>{right}"),
    *("<THINK>a</THINK><ACTION>{right}</ACTION>", "<think>a</think><answer>{right}</answer>"),
    *(
        "<think>a</think><act>{right}</act>",
        "<think>a</think>< action>{right}</ action>",
        "</action>{right}<action>",
    ),
)
#: What stands in the action block.
NO_ACTION = (
    *(
        "null",
        "None",
        "N/A",
        "nothing",
        "?",
        "...",
        "true",
        "1",
        "[]",
        "{{}}",
        "any",
        "all of them",
        "*",
        "action",
    ),
    *(
        "{right} or {wrong}",
        "{wrong} or {right}",
        "{right} and {wrong}",
        "{right}, {wrong}",
        "{right}/{wrong}",
    ),
    *(
        "{right} | {wrong}",
        "{right}\n{wrong}",
        "{wrong}\n{right}",
        "either {right} or {wrong}",
        '["{right}", "{wrong}"]',
    ),
    *(
        "not {wrong} but {right}",
        "not {right}",
        "{right} ({wrong})",
        "{right}?",
        "({right})",
        '"{right}"',
        "`{right}`",
    ),
    *(
        "the right action",
        "success",
        "info['success'] = True",
        "{right}.",
        "{right};",
        "{right}\n\n{right}",
        "\\{right}",
    ),
    *(
        "&lt;action&gt;{right}&lt;/action&gt;",
        "{right}\u200b",
        "\u200b{right}",
        "{right}\u0301",
        "\u202e{right}",
    ),
    *("{right}\ufe0f", "{right}\0", "\ufeff{right}", "{right}\ud800"),
)
#: The right action is there, but another one is what the response says.
IN_THE_THOUGHT = (
    "<think><action>{right}</action></think>",
    "<think><action>{right}</action></think><action>{wrong}</action>",
    "<think>so <action>{right}</action> it is</think><action></action>",
    "<think>a</think><think><action>{right}</action></think>",
    "<think>{right}</think><action>{wrong}</action>",
    "<think>{right}</think><action>as thought</action>",
    "<think>a<think><action>{right}</action></think>",
)
NESTED_OR_REPEATED = (
    "<think>a</think><action>{right}</action><action>{wrong}</action>",
    "<think>a</think><action>{right}</action><action></action>",
    "<think>a</think><action>{right}</action><think>b</think><action>{wrong}</action>",
    "<think>a</think><action>{right}<action>{wrong}</action></action>",
    "<think>a</think><action>{right}<action></action></action>",
    "<think>a</think><action>{right}<think>b</think></action>",
    "<think>a</think><action><think>b</think>{right}</action>",
    "<think>a<action>b</think>{right}</action>",
    "<think>a</think><action>{right}</think></action>",
    "<action>{right}<action>",
    "<think>a</think></action>{right}<action>",
)
LOOK_ALIKE_TAGS = (
    "<think>a</think><асtion>{right}</асtion>",  # Cyrillic
    "<think>a</think>＜action＞{right}＜/action＞",
    "<think>a</think>‹action›{right}‹/action›",
    "<think>a</think><action\u200b>{right}</action\u200b>",
)


def brink(name, style):
    """The environment one action before its expert wins, what it shows, and the right and a wrong action."""
    own = OWN[name]
    config = resolve("cpu", name, "grpo", 0).env.model_dump()
    config["observation"], config["options"] = style, {**config["options"], **own.options}
    env = make_env(EnvConfig(**config))

    def replay(actions):
        observation, info = env.reset(seed=own.seed)
        for action in actions:
            observation, _, _, _, info = env.step(action)
        return observation, info

    actions, won = [], False
    env.reset(seed=own.seed)
    while not won:
        actions.append(env.expert_action())
        _, reward, won, truncated, info = env.step(actions[-1])
        assert not truncated
    assert info["success"]
    *before, right = actions
    _, info = replay(before)
    assert not info["success"]
    for wrong in info["admissible_actions"]:
        replay(before)
        if wrong != right and not env.step(wrong)[4]["success"]:
            break
    return env, lambda: replay(before), right, wrong, reward


STYLES = [(name, style) for name in ENVS for style in ("compact", "full")]


@pytest.fixture(scope="module", params=STYLES, ids=lambda param: "-".join(param))
def subject(request):
    return (request.param[0], *brink(*request.param))


def earned(env, text):
    """What a response earns: through the parser, as a rollout does it."""
    _, reward, terminated, _, info = env.step(parse_response(text).action or "")
    return info["success"], reward, terminated


def refused(subject, texts):
    """Assert that none of the texts, each played from the brink, earns success or what success pays, but those whose
    action is one of the environment's other spellings, which must."""
    name, env, back, right, wrong, best = subject
    spellings = {*OWN[name].spellings(right)} - {right}
    for text in texts:
        back()
        response = text.replace("{{}}", "{}").replace("{right}", right).replace("{wrong}", wrong)
        success, reward, _ = earned(env, response)
        if parse_response(response).action in spellings:
            assert success, f"{response!r} earns nothing"
            continue
        assert not success, f"{response!r} earns success"
        assert reward < best, f"{response!r} earns {reward}"


def test_every_environment_has_a_row():
    assert set(OWN) == set(ENVS)


def test_the_right_action_wins_in_each_of_its_spellings(subject):
    name, env, back, right, _, best = subject
    for spelling in (right, f" {right}\n", *OWN[name].spellings(right)):
        back()
        assert earned(env, format_response("a", spelling)) == (True, best, True)


def test_no_answer(subject):
    refused(subject, NO_ANSWER)


def test_unions_and_what_is_no_action(subject):
    name, _, _, right, *_ = subject
    # A fool of one observation style may be the right action of the other.
    own, known = OWN[name], {right, *OWN[name].spellings(right)}
    texts = [text for text in (*NO_ACTION, *own.fools) if text.replace("{right}", right) not in known]
    refused(subject, [f"<think>a</think><action>{text}</action>" for text in texts])


def test_all_admissible_actions_at_once(subject):
    _, _, back, *_ = subject
    _, info = back()
    for joint in (" ", ", ", "\n", " or ", " | ", "||", "</action><action>", "<action>"):
        text = joint.join(sorted(info["admissible_actions"]))
        # Of several blocks the last counts: the right action must not be it.
        text = text if "<" not in joint else f"{text}{joint}no such action"
        refused(subject, [f"<think>a</think><action>{text}</action>"])


def test_answers_inside_the_thought(subject):
    refused(subject, IN_THE_THOUGHT)


def test_nested_and_repeated_tags(subject):
    refused(subject, NESTED_OR_REPEATED)


def test_unicode_look_alikes(subject):
    _, _, _, right, _, _ = subject
    texts = [
        right.translate(_LOOK_ALIKES),
        "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in right),
    ]
    texts += [right.replace(" ", space) for space in "\u00a0\u2003\u3000\t" if " " in right]
    texts += [
        right.translate(str.maketrans("0123456789", digits))
        for digits in ("٠١٢٣٤٥٦٧٨٩", "⁰¹²³⁴⁵⁶⁷⁸⁹", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗")
    ]
    texts += ["\u0301".join(right), "\u200b".join(right), "\u00ad".join(right)]
    texts = [text for text in texts if text != right]
    refused(subject, [f"<think>a</think><action>{text}</action>" for text in texts])
    refused(subject, LOOK_ALIKE_TAGS)


def test_the_prompt_echoed_back(subject):
    _, env, back, right, wrong, _ = subject
    observation, _ = back()
    prompts = [build_prompt(env, history, observation, 2) for history in ([], [(observation, right)] * 2)]
    shown = [*prompts, observation, env.instruction, *env.instruction.split("\n"), f"Your action: {right}"]
    refused(subject, shown)
    refused(subject, [format_response("a", text) for text in shown])
    refused(subject, [f"{text}<think>a</think><action>{wrong}</action>" for text in shown])


def test_a_verifier_that_looks_for_an_action_anywhere_is_found_out(monkeypatch):
    """The texts above can tell: Sokoban made lenient falls for most of them."""
    strict = Sokoban.step
    monkeypatch.setattr(
        Sokoban, "step", lambda env, text: strict(env, next((a for a in ACTIONS if a in text.lower()), text))
    )
    with pytest.raises(AssertionError, match="earns success"):
        refused(("sokoban", *brink("sokoban", "compact")), [f"<action>{text}</action>" for text in NO_ACTION])


PIECES = (*TAGS, *TAGS, "{right}", "{right}", "{wrong}", " ", "\n", " or ", "||", ",", "a", "\u200b")


@given(st.sampled_from(STYLES), st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
@settings(max_examples=300, deadline=None)
def test_any_response_earns_success_exactly_with_the_right_action(style, text):
    if style not in _BRINKS:
        _BRINKS[style] = brink(*style)
    env, back, right, wrong, _ = _BRINKS[style]
    back()
    response = text.replace("{right}", right).replace("{wrong}", wrong)
    action = parse_response(response).action
    known = {right, *OWN[style[0]].spellings(right)}
    assert earned(env, response)[0] == (action is not None and action.strip().lower() in known)


_BRINKS: dict[tuple[str, str], Any] = {}
