"""Several actions per turn: what is carried out, what is refused, and that one per turn is as it was."""

import hashlib

import pytest

from arena.envs import several
from arena.envs.check import _trace, check_env
from arena.envs.frozen_lake import FrozenLake
from arena.envs.protocol import format_response, parse_response
from arena.envs.sokoban import Sokoban
from arena.recipe import EnvConfig

#: The box is pushed right onto the target by down, right.
ROOM = "######\n#P___#\n#_XO_#\n#____#\n#____#\n######"
LAKE = "____\n____\nH___\n___G"


def sokoban(**options):
    env = Sokoban(max_turns=3, min_solution=1, **options)
    env.reset(options={"room": ROOM})
    return env


def lake(text=LAKE, **options):
    env = FrozenLake(max_turns=3, **options)
    env.reset(options={"map": text})
    return env


@pytest.mark.parametrize(
    ("text", "most", "actions"),
    [
        ("up", 1, ("up",)),
        ("up||down", 1, ()),
        ("up||down", 2, ("up", "down")),
        (" UP || Down\n", 2, ("up", "down")),
        ("up", 2, ("up",)),
        ("up||down||left", 2, ("up", "down")),
        ("up||down||banana", 2, ("up", "down")),  # not read
        *(("up||banana", 2, ()), ("up|||down", 2, ()), ("||up", 2, ()), ("up||", 2, ()), ("||", 2, ())),
        *(("", 2, ()), ("up | down", 2, ()), ("up down", 2, ()), ("up or down", 2, ()), ("up,down", 2, ())),
    ],
)
def test_what_is_understood(text, most, actions):
    assert several.understood(text, {"up", "down", "left", "right"}, most) == actions


def test_rewards_are_summed_and_the_end_stops_the_rest():
    env = sokoban(actions_per_turn=4)
    _, reward, terminated, truncated, info = env.step("down || right || left || up")
    assert reward == pytest.approx(-0.2 + 1 + 10)
    assert (terminated, truncated, info["success"], info["admissible"]) == (True, False, True, True)
    assert info["anchor"].split("\n")[2] == "#_P√_#"  # the player did not move on
    env = lake("____\nH___\n____\n___G", actions_per_turn=3)
    _, reward, terminated, _, info = env.step("down || right || right")
    assert (reward, terminated, info["success"]) == (0, True, False)
    assert info["anchor"].split("\n")[1] == "X___"


@pytest.mark.parametrize("start", [sokoban, lake])
def test_a_malformed_part_leaves_all_alone_and_costs_one_turn(start):
    env = start(actions_per_turn=2)
    before = env._info(True)["anchor"]
    for turn in range(3):
        _, reward, terminated, truncated, info = env.step("right || jump")
        assert reward == (-0.1 if start is sokoban else 0)
        assert (terminated, truncated) == (False, turn == 2)
        assert not info["admissible"]
        assert info["anchor"] == before


@pytest.mark.parametrize("start", [sokoban, lake])
def test_more_actions_than_allowed_are_not_carried_out(start):
    one, two = start(actions_per_turn=2), start(actions_per_turn=2)
    assert one.step("right || down || down || right") == two.step("right || down")
    assert not sokoban().step("right || down")[4]["admissible"]


def test_turns_are_counted_and_not_actions():
    env = lake(actions_per_turn=2)
    for turn in range(3):
        *_, truncated, _ = env.step("right || left")
        assert truncated == (turn == 2)


def test_the_expert_gives_as_many_as_it_may():
    assert sokoban(actions_per_turn=3).expert_action() == "down || right"
    assert lake(actions_per_turn=4).expert_action() == "down || right || down || down"
    assert lake(actions_per_turn=4).lake.rows[2][0] == "H"
    env = lake(actions_per_turn=5, slippery=True)
    assert several.SEPARATOR not in env.expert_action()
    env = Sokoban(max_turns=5, actions_per_turn=2)
    assert env.max_solution == 10
    for seed in range(50):
        env.reset(seed=seed)
        turns = -(-env.solution_length // 2)
        for _ in range(turns):
            *_, terminated, _, info = env.step(env.expert_action())
        assert terminated
        assert info["success"]


def test_maps_may_need_more_moves_than_turns():
    env = FrozenLake(max_turns=2, actions_per_turn=3)
    env.reset(seed=0)
    assert env.expert_success == 1
    assert parse_response(format_response(env.thought(), env.expert_action())).valid
    with pytest.raises(ValueError, match="a map of size 4 needs at least 2 turns, max_turns is 1"):
        FrozenLake(max_turns=1, actions_per_turn=3)


def test_the_rules_say_so():
    for cls in (Sokoban, FrozenLake):
        rules = cls(observation="full", actions_per_turn=3).instruction
        assert "choose one to 3 of the actions" in rules
        assert "<action>first action || second action</action>" in rules
        assert "exactly one" in cls(observation="full").instruction
        assert "||" not in cls(observation="full").instruction


@pytest.mark.parametrize("cls", [Sokoban, FrozenLake])
@pytest.mark.parametrize("given", [0, 11, True, 2.0, "2"])
def test_the_option_is_checked(cls, given):
    with pytest.raises(ValueError, match="actions_per_turn must be a whole number from 1 to 10, given"):
        cls(actions_per_turn=given)


@pytest.mark.parametrize("name", ["sokoban", "frozen_lake"])
def test_the_contract_is_kept(name):
    config = EnvConfig(name=name, max_turns=5, options={"actions_per_turn": 3})
    assert [result for result in check_env(config, tasks=40) if not result.passed] == []


@pytest.mark.parametrize(
    ("env", "digest"),
    [
        (Sokoban(), "f8e4ac80c2b776ab"),
        (Sokoban(observation="full", size=7, boxes=2, max_turns=30), "e76eaaff855db189"),
        (FrozenLake(), "a511d2dd49589029"),
        (FrozenLake(slippery=True, success_rate=0.8), "788ccbbdfe274bba"),
    ],
    ids=["sokoban", "sokoban-full", "frozen_lake", "frozen_lake-slippery"],
)
def test_one_action_per_turn_is_what_it_was_before_there_were_several(env, digest):
    """Digests of 60 whole episodes each, made before this option came in."""
    traces = "".join(_trace(env, seed) for seed in range(60))
    assert hashlib.sha256(traces.encode()).hexdigest()[:16] == digest
