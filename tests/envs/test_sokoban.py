"""Sokoban: rules and rewards on hand-made rooms, and generated rooms against an independent solver."""

import random

import pytest

from arena.envs import make_env
from arena.envs.base import split_of_content
from arena.envs.sokoban import ACTIONS, Sokoban
from arena.errors import UsageError
from arena.recipe import EnvConfig
from arena.seeding import EVAL_SEED_START

OPEN_ROOM = """\
######
#P___#
#_XO_#
#____#
#____#
######"""
TWO_BOXES = """\
######
#____#
#PXO_#
#_X__#
#__O_#
######"""
BOX_IN_CORNER = """\
######
#X__P#
#____#
#_O__#
#____#
######"""


def started(room, **options):
    env = Sokoban(**options)
    env.reset(options={"room": room})
    return env


def played(env, *actions):
    """Rewards of the actions, and the last return of step."""
    rewards, last = [], None
    for action in actions:
        last = env.step(action)
        rewards.append(pytest.approx(last[1]))
    return rewards, last


def test_moving_costs_a_tenth_and_moves_the_player():
    env = started(OPEN_ROOM)
    rewards, (observation, _, terminated, truncated, info) = played(env, "right", "down")
    # The second move pushes the box down.
    assert rewards == [-0.1, -0.1]
    assert info["anchor"] == "######\n#____#\n#_PO_#\n#_X__#\n#____#\n######"
    assert observation == "| _ _ _ _ | _ P O _ | _ X _ _ | _ _ _ _ |"
    assert (terminated, truncated, info["success"], info["admissible"]) == (False, False, False, True)


def test_the_last_box_on_its_target_solves_the_room():
    env = started(OPEN_ROOM)
    rewards, (observation, _, terminated, truncated, info) = played(env, "down", "right")
    assert rewards == [-0.1, 10.9]  # -0.1 + 1 + 10
    assert (terminated, truncated, info["success"]) == (True, False, True)
    assert observation == "| _ _ _ _ | _ P √ _ | _ _ _ _ | _ _ _ _ |"
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("up")


def test_a_box_on_and_off_a_target():
    env = started(TWO_BOXES, boxes=2)
    rewards, (_, _, terminated, _, info) = played(env, "right", "right")
    assert rewards == [0.9, -1.1]
    assert not terminated
    assert info["anchor"].split("\n")[2] == "#__SX#"


def test_a_box_from_target_to_target_changes_nothing():
    env = started("######\n#____#\n#P√O_#\n#_X__#\n#____#\n######", boxes=2)
    rewards, (*_, info) = played(env, "right")
    assert rewards == [-0.1]
    assert info["anchor"].split("\n")[2] == "#_S√_#"


@pytest.mark.parametrize(
    ("row", "action"),
    [("#P_X_#", "left"), ("#_PX_#", "up"), ("#__PX#", "right"), ("#_P##X", "right")],
)
def test_walls_block(row, action):
    row = row if row.endswith("#") else "#XP###"
    action = action if row != "#XP###" else "left"
    room = f"######\n{row}\n#____#\n#_O__#\n#____#\n######"
    env = started(room)
    rewards, (*_, info) = played(env, action)
    assert rewards == [-0.1]
    assert info["anchor"] == room
    assert info["admissible"]


def test_a_box_blocks_a_box():
    room = "######\n#PXX_#\n#____#\n#_OO_#\n#____#\n######"
    env = started(room, boxes=2)
    rewards, (*_, info) = played(env, "right")
    assert rewards == [-0.1]
    assert info["anchor"] == room


def test_the_player_shows_on_a_target():
    env = started("######\n#PO__#\n#_X__#\n#____#\n#____#\n######")
    _, (observation, _, _, _, info) = played(env, "right")
    assert observation.split()[:3] == ["|", "_", "S"]
    assert info["anchor"].split("\n")[1] == "#_S__#"


@pytest.mark.parametrize("action", ["UP", " up\n", "Up"])
def test_case_and_space_do_not_matter(action):
    env = started(BOX_IN_CORNER)
    _, (*_, info) = played(env, "down", action)
    assert info["admissible"]
    assert info["anchor"] == BOX_IN_CORNER


@pytest.mark.parametrize("action", ["", "north", "up down", "u", "uр", "<action>up</action>"])
def test_a_malformed_action_costs_a_turn(action):
    env = started(OPEN_ROOM, max_turns=3)
    for turn in range(3):
        _, reward, terminated, truncated, info = env.step(action)
        assert reward == -0.1
        assert (terminated, truncated) == (False, turn == 2)
        assert not info["admissible"]
        assert info["anchor"] == OPEN_ROOM
    with pytest.raises(RuntimeError):
        env.step("up")


def test_solving_on_the_last_turn_is_no_truncation():
    env = started(OPEN_ROOM, max_turns=2, min_solution=1)
    _, (_, _, terminated, truncated, info) = played(env, "down", "right")
    assert (terminated, truncated, info["success"]) == (True, False, True)


def test_an_unsolvable_room_has_no_solution_and_some_expert_action():
    env = started(BOX_IN_CORNER)
    assert env.solution_length is None
    assert env.expert_action() == "up"
    _, reward, *_ = env.step(env.expert_action())
    assert reward == -0.1


def test_two_boxes_that_block_each_other_have_no_solution():
    # Both boxes at the upper wall, side by side: neither can leave it.
    env = started("######\n#_XX_#\n#P___#\n#_OO_#\n#____#\n######", boxes=2)
    assert env.solution_length is None
    assert env.expert_action() == "up"


def test_thought_of_a_hand_made_room():
    assert started(OPEN_ROOM).thought() == (
        "player 1 1 box 2 2 reach south 1 east 1 gap none 0 east 1 "
        "near wall floor floor wall beyond floor target floor floor"
    )
    assert started(BOX_IN_CORNER).thought() == (
        "player 1 4 box 1 1 reach none 0 west 3 gap south 2 east 1 "
        "near wall wall floor floor beyond wall floor floor wall"
    )


def test_each_box_has_its_part_and_its_nearest_free_target():
    thought = started("######\n#O_O_#\n#PX√_#\n#____#\n#X___#\n######", boxes=3).thought()
    assert thought == (
        "player 2 1 "
        "box 2 2 reach none 0 east 1 gap north 1 west 1 "
        "box 2 3 reach none 0 east 2 gap none 0 none 0 "
        "box 4 1 reach south 2 none 0 gap north 3 none 0 "
        "near target box floor wall "
        "beyond floor box floor player beyond target floor floor box beyond floor floor wall wall"
    )


def test_thoughts_have_one_length_and_name_no_action():
    env = Sokoban()
    rng = random.Random(0)
    for seed in range(60):
        env.reset(seed=seed)
        ended = False
        while not ended:
            words = env.thought().split(" ")
            assert len(words) == 26
            assert not set(words) & set(ACTIONS)
            assert set(words) <= set(env.vocabulary)
            *_, terminated, truncated, _ = env.step(rng.choice(ACTIONS))
            ended = terminated or truncated
    # <think> </think> <action> </action>, the action and the end token.
    assert 3 / (26 + 6) <= 0.1


def test_full_observation_and_instruction():
    env = started(OPEN_ROOM, observation="full")
    observation, *_ = env.step("down")
    assert observation == "######\n#____#\n#PXO_#\n#____#\n#____#\n######"
    for needed in ("X box", "√ box on a target", "up, down", "<think>", "<action>your action</action>"):
        assert needed in env.instruction
    assert Sokoban().instruction == "sokoban"


# Generated rooms


def solve(text):
    """Optimal number of moves by forward search over a room's text; None if it cannot be solved."""
    cells = {(r, c): s for r, row in enumerate(text.split("\n")) for c, s in enumerate(row)}
    targets = {cell for cell, s in cells.items() if s in "O√S"}
    player = next(cell for cell, s in cells.items() if s in "PS")
    boxes = frozenset(cell for cell, s in cells.items() if s in "X√")
    seen, frontier, moves = {(player, boxes)}, [(player, boxes)], 0
    while frontier:
        if any(b == targets for _, b in frontier):
            return moves
        following = []
        for (r, c), b in frontier:
            for dr, dc in ((-1, 0), (1, 0), (0, -1), (0, 1)):
                to, behind = (r + dr, c + dc), (r + 2 * dr, c + 2 * dc)
                if cells[to] == "#" or (to in b and (cells[behind] == "#" or behind in b)):
                    continue
                state = (to, b - {to} | {behind} if to in b else b)
                if state not in seen:
                    seen.add(state)
                    following.append(state)
        frontier, moves = following, moves + 1
    return None


def test_generated_rooms_have_solutions_of_the_promised_length():
    env = Sokoban()
    lengths = set()
    for seed in [*range(150), *range(EVAL_SEED_START, EVAL_SEED_START + 50)]:
        _, info = env.reset(seed=seed)
        length = solve(info["anchor"])
        assert length == env.solution_length
        assert 3 <= length <= 10
        lengths.add(length)
        assert "√" not in info["anchor"]
    assert lengths == set(range(3, 11))


@pytest.mark.parametrize(("size", "boxes", "seeds"), [(5, 1, 30), (7, 2, 4), (8, 2, 2), (10, 1, 10)])
def test_larger_rooms_and_more_boxes_are_solvable(size, boxes, seeds):
    env = Sokoban(size=size, boxes=boxes, max_turns=40)
    for seed in range(seeds):
        observation, info = env.reset(seed=seed)
        assert len(observation.split(" ")) == (size - 2) ** 2 + size - 1
        assert info["anchor"].count("X") == boxes == info["anchor"].count("O") + info["anchor"].count("S")
        assert solve(info["anchor"]) == env.solution_length <= env.max_solution


def test_bounds_of_the_solution_are_kept():
    env = Sokoban(min_solution=5, max_solution=6)
    assert {_length(env, seed) for seed in range(60)} == {5, 6}
    assert Sokoban(max_turns=4).max_solution == 4
    assert Sokoban(size=8, boxes=2, max_turns=100).max_solution == 22


def _length(env, seed):
    env.reset(seed=seed)
    return env.solution_length


def test_the_distance_of_every_visited_state_agrees_with_the_solver():
    env = Sokoban()
    rng = random.Random(1)
    seen = {}
    for seed in range(40):
        _, info = env.reset(seed=seed)
        ended = False
        while not ended:
            seen[info["anchor"]] = env.solution_length
            *_, terminated, truncated, info = env.step(rng.choice(ACTIONS))
            ended = terminated or truncated
    assert None in seen.values()
    for anchor, length in seen.items():
        assert solve(anchor) == length


def test_the_expert_is_optimal_whatever_was_done_before():
    env = Sokoban(max_turns=40)
    rng = random.Random(2)
    recovered = 0
    for seed in range(60):
        env.reset(seed=seed)
        for _ in range(5):
            *_, terminated, _, _ = env.step(rng.choice(ACTIONS))
            if terminated:
                break
        length = env.solution_length
        if terminated or not length:
            continue
        recovered += 1
        for left in range(length, 0, -1):
            assert env.solution_length == left
            *_, terminated, _, info = env.step(env.expert_action())
        assert terminated
        assert info["success"]
    assert recovered > 20


def test_the_expert_solves_two_boxes():
    env = Sokoban(size=7, boxes=2, max_turns=30)
    for seed in range(10):
        env.reset(seed=seed)
        for _ in range(env.solution_length):
            *_, terminated, _, info = env.step(env.expert_action())
        assert terminated
        assert info["success"]


def test_returns_stay_between_all_turns_for_nothing_and_the_shortest_solution():
    env = Sokoban()
    rng = random.Random(3)
    totals = []
    for noise in (0.0, 1.0):
        for seed in range(100):
            env.reset(seed=seed)
            total, ended = 0.0, False
            while not ended:
                action = rng.choice(ACTIONS) if rng.random() < noise else env.expert_action()
                _, reward, terminated, truncated, _ = env.step(action)
                total, ended = total + reward, terminated or truncated
            totals.append(total)
    assert min(totals) == pytest.approx(-1.5)
    assert max(totals) == pytest.approx(10.7)


def test_a_seed_is_a_room_on_every_machine():
    _, info = Sokoban().reset(seed=3)
    assert info["anchor"] == "######\n##__P#\n#_X__#\n#_O_##\n######\n######"
    _, info = Sokoban().reset(seed=EVAL_SEED_START)
    assert info["anchor"] == "######\n#_O#P#\n#_X__#\n#____#\n#__###\n######"


def test_splits_share_no_room():
    env = Sokoban()
    train = {env.reset(seed=seed)[1]["anchor"] for seed in range(300)}
    evaluation = {env.reset(seed=EVAL_SEED_START + seed)[1]["anchor"] for seed in range(300)}
    assert len(train) > 290
    assert len(evaluation) > 280
    assert not train & evaluation
    assert {split_of_content(room, env.eval_share) for room in train} == {"train"}
    assert {split_of_content(room, env.eval_share) for room in evaluation} == {"eval"}


def test_options_do_not_leak_through_the_cache():
    rooms = [
        Sokoban(**options).reset(seed=5)[1]["anchor"]
        for options in ({}, {"size": 7}, {"min_solution": 8}, {"boxes": 2}, {"max_solution": 3}, {})
    ]
    assert rooms[0] == rooms[-1]
    assert len(set(rooms)) == 5


def test_reset_without_a_seed_draws_training_rooms_from_the_generator():
    first, second = Sokoban(), Sokoban()
    first.reset(seed=1)
    second.reset(seed=1)
    drawn = [first.reset()[1]["anchor"] for _ in range(10)]
    assert drawn == [second.reset()[1]["anchor"] for _ in range(10)]
    assert len(set(drawn)) == 10
    assert {split_of_content(room, first.eval_share) for room in drawn} == {"train"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 4}, "size must be a whole number from 5 to 10, given 4"),
        ({"size": 11}, "size"),
        ({"size": 6.0}, "size"),
        ({"boxes": 0}, "boxes"),
        ({"boxes": 4}, "boxes must be a whole number from 1 to 3"),
        ({"boxes": True}, "boxes"),
        ({"size": 10, "boxes": 5}, "from 1 to 4"),
        ({"min_solution": 0}, "min_solution"),
        ({"min_solution": 7, "max_solution": 5}, "min_solution must be a whole number from 1 to 5, given 7"),
        ({"max_turns": 2}, "min_solution"),
        ({"max_turns": 0}, "max_turns"),
        ({"observation": "tiny"}, "observation"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        Sokoban(**options)


def test_the_registry_names_wrong_options():
    with pytest.raises(
        UsageError, match=r"unknown option 'sizes' of environment 'sokoban'\. Did you mean 'size'"
    ):
        make_env(EnvConfig(name="sokoban", options={"sizes": 6}))


def test_bounds_that_no_room_meets_are_an_error():
    env = Sokoban(size=5, min_solution=60, max_solution=60, max_turns=100)
    with pytest.raises(UsageError, match="no room of size 5"):
        env.reset(seed=0)


@pytest.mark.parametrize(
    ("room", "message"),
    [
        ("####\n#PX#\n#_O#\n####", "6 rows of 6"),
        (OPEN_ROOM.replace("P", "@"), "symbols"),
        (OPEN_ROOM.replace("P", "_"), "one player"),
        (OPEN_ROOM.replace("O", "_"), "1 targets"),
        (OPEN_ROOM.replace("O", "X"), "1 boxes"),
        (OPEN_ROOM.replace("######", "##_###", 1), "closed by walls"),
    ],
)
def test_hand_made_rooms_are_checked(room, message):
    with pytest.raises(ValueError, match=message):
        Sokoban().reset(options={"room": room})


def test_unknown_reset_options_are_an_error():
    with pytest.raises(ValueError, match="option 'room', given \\['rooms'\\]"):
        Sokoban().reset(options={"rooms": OPEN_ROOM})


def test_nothing_works_before_reset():
    for ask in (lambda env: env.step("up"), lambda env: env.thought(), lambda env: env.expert_action()):
        with pytest.raises(RuntimeError, match="call reset"):
            ask(Sokoban())
