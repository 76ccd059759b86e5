"""FrozenLake against Gymnasium's own maps and transition tables, and on hand-made maps."""

import random
from collections import defaultdict

import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv, generate_random_map

from arena.envs import make_env
from arena.envs.base import split_of_content
from arena.envs.frozen_lake import ACTIONS, HOLE, FrozenLake, Lake, random_map
from arena.errors import UsageError
from arena.recipe import EnvConfig
from arena.seeding import EVAL_SEED_START

#: Gymnasium's actions by number.
GYM_ACTIONS = ("left", "down", "right", "up")
CLASSIC = "____\n_H_H\n___H\nH__G"


def started(rows=CLASSIC, **options):
    env = FrozenLake(**options)
    env.reset(options={"map": rows}, seed=0)
    return env


def in_gym_letters(rows):
    letters = "".join(rows).replace("_", "F")
    size = len(rows)
    return [("S" + letters[1:])[i : i + size] for i in range(0, size * size, size)]


def some_maps():
    for seed in range(25):
        for size, p_frozen in ((3, 0.7), (4, 0.8), (5, 0.6), (8, 0.9)):
            yield random_map(np.random.default_rng(seed), size, p_frozen, max_moves=100)


@pytest.mark.parametrize(("size", "p_frozen"), [(3, 0.5), (4, 0.8), (4, 0.9), (6, 0.65), (8, 0.8)])
def test_maps_are_gymnasiums_draw_for_draw(size, p_frozen):
    for seed in range(40):
        rows = random_map(np.random.default_rng(seed), size, p_frozen, max_moves=100)
        assert in_gym_letters(rows) == generate_random_map(size, p_frozen, seed)


class Scripted:
    """A generator whose next draw is given."""

    def __init__(self, draw):
        self.draw = draw

    def random(self):
        return self.draw


@pytest.mark.parametrize("slippery", [False, True])
@pytest.mark.parametrize("success_rate", [1 / 3, 0.8, 1.0])
def test_every_transition_is_gymnasiums(slippery, success_rate):
    for rows in some_maps():
        size = len(rows)
        desc = in_gym_letters(rows)
        table = FrozenLakeEnv(desc=desc, is_slippery=slippery, success_rate=success_rate).P
        env = started("\n".join(rows), size=size, slippery=slippery, success_rate=success_rate, max_turns=20)
        for cell, symbol in enumerate("".join(rows)):
            for number, action in enumerate(GYM_ACTIONS):
                if symbol != "_":  # Gymnasium loops at the end; here the episode is over.
                    continue
                passed = 0.0
                for chance, following, reward, done in table[cell][number]:
                    if chance < 1e-12:
                        continue
                    env._player, env._turns, env._ended = cell, 0, False
                    env.np_random = Scripted(passed + chance / 2)
                    passed += chance
                    _, own_reward, terminated, truncated, info = env.step(action)
                    assert (env._player, own_reward, terminated) == (following, reward, done)
                    assert not truncated
                    assert info["success"] == (reward == 1)
                assert passed == pytest.approx(1)


def test_slips_come_with_the_declared_frequency():
    env = started("_____\n_____\n_____\n_____\n____G", size=5, slippery=True, success_rate=0.8)
    counts = defaultdict(int)
    for _ in range(4000):
        env._player, env._turns = 12, 0
        env.step("up")
        counts[env._player] += 1
    assert set(counts) == {7, 11, 13}
    # Five standard deviations of a binomial share of 4000 are 0.032 and 0.024.
    assert counts[7] / 4000 == pytest.approx(0.8, abs=0.032)
    assert counts[11] / 4000 == pytest.approx(0.1, abs=0.024)


def test_the_value_of_slippery_maps_agrees_with_gymnasiums_table():
    for rows in list(some_maps())[:24]:
        lake = Lake(rows)
        table = FrozenLakeEnv(desc=in_gym_letters(rows), is_slippery=True, success_rate=0.7).P
        values = np.zeros(len(rows) ** 2)  # Chance of a reward still to come, zero once ended.
        for turns in range(1, 13):
            values = np.array(
                [
                    max(
                        sum(p * (r + (0 if end else values[s])) for p, s, r, end in table[c][a])
                        for a in range(4)
                    )
                    for c in range(len(rows) ** 2)
                ]
            )
            own = lake.chances(turns, 0.7)[turns]
            assert [v for v, s in zip(own, lake.cells, strict=True) if s == "_"] == pytest.approx(
                [v for v, s in zip(values, lake.cells, strict=True) if s == "_"]
            )


def test_reaching_the_goal():
    env = started()
    for action in ("down", "down", "right", "down", "right"):
        observation, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated, info["success"]) == (0.0, False, False, False)
    assert observation == "_ _ _ _ _ H _ H _ _ _ H H _ P G"
    observation, reward, terminated, truncated, info = env.step("right")
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)
    assert observation == "_ _ _ _ _ H _ H _ _ _ H H _ _ √"
    assert info["anchor"] == "____\n_H_H\n___H\nH__√"
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("up")


def test_falling_into_a_hole():
    env = started()
    env.step("right")
    observation, reward, terminated, truncated, info = env.step("down")
    assert (reward, terminated, truncated, info["success"]) == (0.0, True, False, False)
    assert observation == "_ _ _ _ _ X _ H _ _ _ H H _ _ G"
    with pytest.raises(RuntimeError):
        env.step("up")


@pytest.mark.parametrize("action", ["up", "left", " UP\n"])
def test_the_edge_holds(action):
    env = started()
    _, reward, terminated, _, info = env.step(action)
    assert (reward, terminated, info["admissible"]) == (0.0, False, True)
    assert info["anchor"] == "P___\n_H_H\n___H\nH__G"


@pytest.mark.parametrize("slippery", [False, True])
@pytest.mark.parametrize("action", ["", "south", "u", "right right", "rіght", "2"])
def test_a_malformed_action_is_a_turn_without_movement(action, slippery):
    env = started(slippery=slippery, max_turns=6)
    for turn in range(6):
        _, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated) == (0.0, False, turn == 5)
        assert not info["admissible"]
        assert info["anchor"] == "P___\n_H_H\n___H\nH__G"


def test_harmless_holes_are_shown_and_walked_over():
    rows = "____\nHHH_\n____\n___G"
    env = started(rows, harmless_holes=1.0)
    assert env.expert_action() == "down"
    assert "near edge ice hole edge" in env.thought()
    observation, reward, terminated, truncated, info = env.step("down")
    assert observation == "_ _ _ _ X H H _ _ _ _ _ _ _ _ G"
    assert (reward, terminated, truncated, info["success"]) == (0.0, False, False, False)
    for _ in range(5):
        _, reward, terminated, _, info = env.step(env.expert_action())
    assert (reward, terminated, info["success"]) == (1.0, True, True)
    assert started(rows).expert_action() == "right"


def test_holes_are_harmless_on_a_share_of_lakes():
    env, harmless = FrozenLake(harmless_holes=0.5), []
    for seed in range(300):
        env.reset(seed=seed)
        if HOLE in env.lake.cells:
            harmless.append(env.ground is not env.lake)
    assert 0.4 < sum(harmless) / len(harmless) < 0.6  # three standard errors of about 290 lakes


def test_thoughts_of_a_hand_made_map():
    env = started()
    assert env.thought() == (
        "player 1 1 goal 4 4 gap south 3 east 3 near edge ice ice edge beyond edge ice ice edge "
        "corner edge hole edge edge"
    )
    for action in ("down", "down", "right", "down", "right"):
        env.step(action)
    assert env.thought() == (
        "player 4 3 goal 4 4 gap none 0 east 1 near ice goal edge ice beyond ice edge edge hole "
        "corner hole edge edge ice"
    )


def test_thoughts_have_one_length_and_name_no_action():
    env = FrozenLake()
    rng = random.Random(0)
    for seed in range(100):
        env.reset(seed=seed)
        ended = False
        while not ended:
            words = env.thought().split(" ")
            assert len(words) == 26
            assert not set(words) & set(ACTIONS)
            assert set(words) <= set(env.vocabulary)
            *_, terminated, truncated, _ = env.step(rng.choice(ACTIONS))
            ended = terminated or truncated


def test_full_observation_and_instruction():
    env = started(observation="full")
    observation, *_ = env.step("right")
    assert observation == "_P__\n_H_H\n___H\nH__G"
    for needed in ("H hole", "up, down", "<think>", "<action>your action</action>"):
        assert needed in env.instruction
    assert "slippery" not in env.instruction
    slippery = started(observation="full", slippery=True, success_rate=0.8).instruction
    assert "probability 0.80, and to either side of it with probability 0.10" in slippery
    assert FrozenLake().instruction == "frozen_lake"


def test_the_expert_takes_a_shortest_safe_path_from_anywhere():
    for rows in some_maps():
        size = len(rows)
        env = started("\n".join(rows), size=size, max_turns=70)
        for cell, distance in env.lake.distances.items():
            env._player, env._turns, env._ended = cell, 0, rows[-1][-1] == rows[cell // size][cell % size]
            for _ in range(distance):
                *_, reward, terminated, _, _ = env.step(env.expert_action())
            if distance:
                assert (reward, terminated) == (1.0, True)


def test_the_slippery_expert_solves_what_it_promises():
    env = FrozenLake(slippery=True, success_rate=0.8, max_turns=12)
    solved, promised, variance = 0, 0.0, 0.0
    for seed in range(400):
        env.reset(seed=seed)
        chance = env.expert_success
        promised, variance = promised + chance, variance + chance * (1 - chance)
        ended = False
        while not ended:
            *_, terminated, truncated, info = env.step(env.expert_action())
            ended = terminated or truncated
        solved += info["success"]
    assert 0.5 < promised / 400 < 0.95
    assert abs(solved - promised) < 4 * variance**0.5


def test_slips_repeat_with_the_seed_unless_seeded_apart():
    def path(**reset):
        env = FrozenLake(slippery=True, size=9, max_turns=16)
        env.reset(seed=0, **reset)
        env._lake = Lake(tuple(["_" * 9] * 8 + ["_" * 8 + "G"]))
        return [env.step("right")[4]["anchor"] for _ in range(12)]

    assert path() == path()
    assert path(options={"dynamics": 1}) == path(options={"dynamics": 1})
    assert path(options={"dynamics": 1}) != path(options={"dynamics": 2})


def test_a_seed_is_a_map_on_every_machine():
    assert FrozenLake().reset(seed=3)[1]["anchor"] == "P___\n___H\n____\nH__G"
    assert FrozenLake().reset(seed=EVAL_SEED_START)[1]["anchor"] == "P___\n____\n__H_\nH__G"


def test_splits_share_no_map():
    env = FrozenLake()
    train = {env.reset(seed=seed)[1]["anchor"] for seed in range(400)}
    evaluation = {env.reset(seed=EVAL_SEED_START + seed)[1]["anchor"] for seed in range(400)}
    assert len(train) > 200
    assert len(evaluation) > 100
    assert not train & evaluation
    assert {split_of_content(lake.replace("P", "_"), env.eval_share) for lake in train} == {"train"}


def test_maps_can_be_crossed_in_time():
    env = FrozenLake(p_frozen=0.6, size=5, max_turns=8)
    for seed in range(50):
        env.reset(seed=seed)
        assert env.lake.distances[0] == 8
        assert env.expert_success == 1.0


def test_reset_without_a_seed_draws_training_maps_from_the_generator():
    first, second = FrozenLake(), FrozenLake()
    first.reset(seed=1)
    second.reset(seed=1)
    drawn = [first.reset()[1]["anchor"] for _ in range(10)]
    assert drawn == [second.reset()[1]["anchor"] for _ in range(10)]
    assert len(set(drawn)) > 5
    assert {split_of_content(lake.replace("P", "_"), first.eval_share) for lake in drawn} == {"train"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 2}, "size must be a whole number from 3 to 9, given 2"),
        ({"size": 10}, "size"),
        ({"size": "4"}, "size"),
        ({"p_frozen": 1.0}, "p_frozen must be from 0.2 to 0.95"),
        ({"p_frozen": 0.0}, "p_frozen"),
        ({"success_rate": 0.0}, "success_rate must be above 0"),
        ({"success_rate": 1.1}, "success_rate"),
        ({"max_turns": 5}, "needs at least 6 turns, max_turns is 5"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        FrozenLake(**options)


def test_the_registry_names_wrong_options():
    with pytest.raises(UsageError, match="unknown option 'p' of environment 'frozen_lake'"):
        make_env(EnvConfig(name="frozen_lake", options={"p": 0.8}))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("___\n___\n__G", "4 rows of 4"),
        (CLASSIC.replace("G", "_"), "one G"),
        (CLASSIC.replace("_", "G", 1), "on ice"),
        (CLASSIC.replace("H", "F"), "_ H and one G"),
        ("H" + CLASSIC[1:], "on ice"),
    ],
)
def test_hand_made_maps_are_checked(rows, message):
    with pytest.raises(ValueError, match=message):
        started(rows)


def test_an_enclosed_goal_leaves_some_expert_action():
    env = started("____\n____\n__HH\n__HG")
    assert env.expert_action() == "up"
    assert env.expert_success == 0.0


def test_unknown_reset_options_are_an_error():
    with pytest.raises(ValueError, match="given \\['maps'\\]"):
        FrozenLake().reset(options={"maps": CLASSIC})
