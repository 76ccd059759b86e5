"""Sudoku: rules and rewards on hand-made grids, puzzles with one solution, the expert, nothing to farm."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.envs import make_env
from arena.envs.base import split_of_content
from arena.envs.check import check_env
from arena.envs.sudoku import EMPTY, Sudoku, board_of, random_puzzle
from arena.errors import UsageError
from arena.recipe import EnvConfig
from arena.seeding import EVAL_SEED_START

#: Its solution is 1234 3412 2143 4321: b 3 and c 3 are open, and d but for d 2.
PUZZLE = """\
1234
34_2
21_3
_3__"""
#: Solution 1234 3412 2143 4321 again, with more to do.
OPEN = """\
1__4
__1_
_1__
43_1"""


def started(puzzle=PUZZLE, **options):
    env = Sudoku(**{"empty": 1, **options})
    env.reset(options={"puzzle": puzzle})
    return env


def placed(env, *actions):
    """Rewards of the actions, and the last return of step."""
    rewards, last = [], None
    for action in actions:
        last = env.step(action)
        rewards.append(last[1])
    return rewards, last


def test_right_values_pay_one_and_the_last_one_ten_more():
    env = started()
    rewards, (observation, _, terminated, truncated, info) = placed(
        env, "b 3 1", "c 3 4", "d 1 4", "d 3 2", "d 4 1"
    )
    assert rewards == [1, 1, 1, 1, 11]
    assert (terminated, truncated, info["success"], info["admissible"]) == (True, False, True, True)
    assert info["anchor"] == "1234\n3412\n2143\n4321"
    assert observation == "a 1 2 3 4 b 3 4 1 2 c 2 1 4 3 d 4 3 2 1 fine"
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("b 3 1")


def test_a_wrong_value_that_breaks_no_rule_pays_half_and_may_be_replaced():
    # d 1 is 4; 1 and 2 stand in its column, 3 in its row. b 2 is 4; nothing around it holds 2.
    env = started(OPEN)
    assert board_of(4).candidates(board_of(4).parse(OPEN), 5) == [2, 4]
    rewards, (*_, info) = placed(env, "b 2 2")
    assert rewards == [0.5]
    assert info["anchor"].split("\n")[1] == "_21_"
    assert placed(env, "b 2 4")[0] == [0.5]  # worth 1 now
    assert placed(env, "b 2 2")[0] == [-0.5]
    assert env.step("b 2 4")[4]["admissible"]


@pytest.mark.parametrize(
    ("action", "met"),
    [
        ("b 3 3", "row"),
        ("c 3 3", "row"),
        ("d 3 4", "fine"),
        ("d 1 1", "column"),
        ("d 4 3", "row"),
        ("d 3 1", "fine"),
    ],
)
def test_a_value_that_its_units_hold_is_not_placed(action, met):
    env = started()
    observation, reward, _, _, info = env.step(action)
    assert observation.split()[-1] == met
    assert info["admissible"]
    assert reward == (0.5 if met == "fine" else -0.1)
    assert (info["anchor"] == PUZZLE) == (met != "fine")


def test_a_box_and_the_cell_itself_refuse_too():
    env = started(OPEN)
    rewards, (observation, *_) = placed(env, "a 2 2", "b 1 2")
    assert rewards == [1, -0.1]
    assert observation.split()[-1] == "box"  # 2 stands neither in row b nor in column 1
    rewards, (*_, info) = placed(env, "a 2 2")
    assert rewards == [-0.1]
    assert info["admissible"]


@pytest.mark.parametrize(
    ("action", "met"),
    [
        *(("a 1 2", "given"), ("a 1 1", "given"), ("place 1 at row 1 column 1", "given"), ("1,1,2", "given")),
        *(
            ("", "unclear"),
            ("b 3", "unclear"),
            ("b 3 5", "unclear"),
            ("e 1 1", "unclear"),
            ("b 5 1", "unclear"),
        ),
        *(("b 3 0", "unclear"), ("b  3 1", "unclear"), ("b 3 1 or b 3 4", "unclear"), ("b31", "unclear")),
        *(
            ("place 1 at row 2", "unclear"),
            ("b 3 ¹", "unclear"),
            ("b 3 １", "unclear"),
            ("ｂ 3 1", "unclear"),
        ),
    ],
)
def test_given_cells_and_what_is_no_action_cost_a_turn(action, met):
    env = started(max_turns=5)
    for turn in range(5):
        observation, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated) == (-0.1, False, turn == 4)
        assert observation.split()[-1] == met
        assert not info["admissible"]
        assert info["anchor"] == PUZZLE


@pytest.mark.parametrize(
    "action",
    ["b 3 1", " B 3 1\n", "place 1 at row 2 column 3", "Place 1 at row 2 column 3", "2,3,1", "2 3 1"],
)
def test_the_ways_to_say_an_action(action):
    for observation in ("compact", "full"):
        assert placed(started(observation=observation), action)[0] == [1]


def test_what_the_full_style_shows():
    env = started(observation="full")
    observation, *_ = env.step("place 3 at row 2 column 3")
    assert observation == (
        "1 2 | 3 4\n3 4 | _ 2\n----+----\n2 1 | _ 3\n_ 3 | _ _\n\nNot placed: its row already holds that number."
    )
    assert env.step("place 1 at row 1 column 1")[0].endswith("\n\nThat number is given and stays.")
    assert env.step("up")[0].endswith("\n\nThat is no action.")
    assert env.step("place 1 at row 2 column 3")[0].endswith("_ 3 | _ _")
    for needed in ("from 1 to 4", "2x2 box", "<action>place NUMBER at row ROW column COLUMN</action>"):
        assert needed in env.instruction
    assert "from 1 to 9" in Sudoku(size=9, observation="full", max_turns=45).instruction
    assert Sudoku().instruction == "sudoku"


def test_feedback():
    assert started(feedback="none").step("b 3 3")[0] == "a 1 2 3 4 b 3 4 _ 2 c 2 1 _ 3 d _ 3 _ _"
    env = started(OPEN, feedback="full")
    said = [env.step(action)[0].split(" ")[20:] for action in ("b 2 4", "c 3 2", "b 4 4", "a 1 2")]
    # After the wrong 2 in c 3, its row and box: what b 4 may hold is not touched.
    assert said == [["right"], ["wrong"], ["row", "may", "2", "3"], ["given"]]
    env = started(OPEN, feedback="full", observation="full")
    assert env.step("place 2 at row 3 column 3")[0].endswith("it is not the solution's.")
    assert env.step("place 1 at row 2 column 4")[0].endswith("that number. The cell may hold 2, 3.")


def test_thoughts_of_hand_made_grids():
    # Only d 3 and d 4 have more than one candidate.
    assert started().thought() == ("at b 3 row 3 4 _ 2 column 3 _ _ _ box 3 4 _ 2 1 none 2 row 3 row 4 row")
    assert started().expert_action() == "b 3 1"
    env = started(observation="full")
    assert env.thought() == started().thought()
    assert env.expert_action() == "place 1 at row 2 column 3"


def test_a_hidden_single_is_told_from_other_candidates():
    # Nothing is the only candidate of any cell, but 1 has one place in the first row, 9 in none of its units.
    givens = """\
    _________
    _____1___
    ________1
    _________
    _________
    _________
    _1_______
    _________
    _________""".replace(" ", "")
    board = board_of(9)
    values = board.parse(givens)
    assert board.candidates(values, 0) == list(range(1, 10))
    assert board.hidden(values, 0, 1) is False
    values[1], values[2] = 2, 3
    assert board.hidden(values, 0, 1)
    assert not board.hidden(values, 0, 9)


def test_the_expert_first_puts_a_wrong_value_right():
    env = started(OPEN)
    env.step("c 3 2")
    assert env.expert_action() == "c 3 4"
    thought = env.thought()
    assert thought.startswith("at c 3 row _ 1 2 _ ")
    assert thought.endswith(" 1 row 2 none 3 none 4 only")


def test_the_expert_may_look_at_rows_alone():
    env, best = started(OPEN, empty=8, expert_rows=1.0), started(OPEN, empty=8)
    for each in (env, best):
        placed(each, "a 2 2", "a 3 3")
    assert env.thought() == best.thought()
    assert best.expert_action() == "b 1 3"
    assert env.expert_action() == "b 1 2"  # the row holds 1; the column's 2 goes unseen
    assert placed(env, "b 1 2")[0] == [-0.1]
    assert env.expert_action() == "b 1 2"


def test_such_an_expert_says_which_puzzles_it_solves():
    env, solved = Sudoku(expert_rows=0.7, max_turns=10), 0
    for seed in range(60):
        env.reset(seed=seed)
        promised, ended = env.expert_success, False
        while not ended:
            *_, terminated, truncated, info = env.step(env.expert_action())
            ended = terminated or truncated
        assert info["success"] == bool(promised)
        solved += info["success"]
    assert 0 < solved < 60


@pytest.mark.parametrize(("share", "low", "high"), [(0.0, 0.0, 0.0), (0.7, 0.25, 0.4), (1.0, 0.65, 0.85)])
def test_the_share_of_turns_at_which_it_does(share, low, high):
    env, refused = Sudoku(expert_rows=share, max_turns=10), []
    for seed in range(60):
        env.reset(seed=seed)
        ended = False
        while not ended:
            _, reward, *ends, _ = env.step(env.expert_action())
            refused.append(reward < 0)
            ended = any(ends)
    assert low <= sum(refused) / len(refused) <= high


def test_where_wrong_values_block_each_other_the_expert_is_refused():
    # a 1 and a 2 are swapped, and so are b 1 and b 2: no right value can be placed, no other one either.
    env = started("__34\n__12\n2143\n4321".replace("__12", "3_12"))
    env._values = board_of(4).parse(
        "2134\n3412\n2143\n4321"
    )  # by hand: the rules would not let it come to this
    env._left = 1
    before = env._info(True)["anchor"]
    *_, info = env.step(env.expert_action())
    assert info["anchor"] == before


# Generated puzzles


def all_solutions(text):
    """Number of solutions by trying every permutation of every row: independent of the solver."""
    rows = [tuple(0 if s == EMPTY else int(s) for s in row) for row in text.split("\n")]
    fits = [
        [
            p
            for p in itertools.permutations((1, 2, 3, 4))
            if all(g in (0, v) for g, v in zip(row, p, strict=True))
        ]
        for row in rows
    ]
    count = 0
    for grid in itertools.product(*fits):
        columns = [set(column) for column in zip(*grid, strict=True)]
        boxes = [{grid[r + i][c + j] for i in (0, 1) for j in (0, 1)} for r in (0, 2) for c in (0, 2)]
        count += all(len(unit) == 4 for unit in (*columns, *boxes))
    return count


@pytest.mark.parametrize("empty", [1, 6, 11])
def test_generated_puzzles_have_one_solution(empty):
    env = Sudoku(empty=empty)
    for seed in [*range(20), *range(EVAL_SEED_START, EVAL_SEED_START + 5)]:
        _, info = env.reset(seed=seed)
        assert info["anchor"].count(EMPTY) == empty
        assert all_solutions(info["anchor"]) == 1


def test_the_solver_counts_all_grids():
    """There are 288 grids of size 4, and every one of them is drawn."""
    board = board_of(4)
    assert len(board.solutions([0] * 16, 1000)) == 288
    rng = np.random.default_rng(0)
    assert len({random_puzzle(rng, 4, 1).solution for _ in range(3500)}) == 288


@pytest.mark.parametrize("empty", [20, 45, 54])
def test_large_puzzles(empty):
    env = Sudoku(size=9, empty=empty, max_turns=60)
    _, info = env.reset(seed=1)
    assert info["anchor"].count(EMPTY) == empty
    values = env.board.parse(info["anchor"])
    assert env.board.solutions(values, 2) == [list(env.puzzle.solution)]
    for turn in range(empty):
        _, reward, terminated, _, info = env.step(env.expert_action())
        assert reward == 1 + 10 * (turn == empty - 1)
    assert terminated
    assert info["success"]


def reachable(env):
    """Whether any actions lead from here to the solution."""
    start, goal = tuple(env._values), env.puzzle.solution
    seen, frontier = {start}, [start]
    for values in frontier:
        for cell in env.puzzle.open:
            for value in env.board.candidates(values, cell):
                after = (*values[:cell], value, *values[cell + 1 :])
                if after not in seen:
                    seen.add(after)
                    frontier.append(after)
    return goal in seen


@pytest.mark.parametrize(("empty", "noise"), [(6, 20), (9, 12)])
def test_the_expert_solves_what_can_be_solved_whatever_was_done_before(empty, noise):
    env = Sudoku(empty=empty, max_turns=100)
    rng = random.Random(2)
    recovered = dead = 0
    for seed in range(100):
        env.reset(seed=seed)
        for _ in range(noise):
            *_, ended, _, info = env.step(rng.choice(env.admissible_actions()))
            if ended:
                break
        wrong = any(env._values[c] not in (0, env.puzzle.solution[c]) for c in env.puzzle.open)
        turns = 0
        while not ended and turns < 3 * empty:
            *_, ended, _, info = env.step(env.expert_action())
            turns += 1
        recovered += wrong and info["success"]
        if not info["success"]:
            dead += 1
            assert not reachable(env)
    assert recovered > 5
    assert dead > 0


@given(st.integers(0, 10_000), st.lists(st.integers(0, 63), max_size=30), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_no_sequence_of_actions_earns_more_than_the_cells_are_worth(seed, chosen, empty):
    """What was paid for placing is what the grid is worth: filling cells again earns nothing."""
    env = Sudoku(empty=empty, max_turns=30)
    env.reset(seed=seed)
    paid, done = 0.0, False
    for number in chosen:
        if done:
            break
        cell, value = divmod(number, 4)
        _, reward, done, _, _ = env.step(env.board.short(cell, value + 1))
        paid += 0 if reward == -0.1 else reward
        # No rule is ever broken.
        for unit in {u for units in env.board.units for u in units}:
            held = [env._values[c] for c in unit if env._values[c]]
            assert len(held) == len(set(held))
    right = sum(env._values[c] == env.puzzle.solution[c] for c in env.puzzle.open)
    filled = sum(env._values[c] != 0 for c in env.puzzle.open)
    assert paid == pytest.approx(right + 0.5 * (filled - right) + 10 * done)
    assert done == (right == empty)
    assert paid <= env.largest_return


def test_size_nine_keeps_the_contract():
    results = check_env(EnvConfig(name="sudoku", max_turns=12, options={"size": 9, "empty": 10}), tasks=10)
    assert [result for result in results if not result.passed] == []


def test_a_seed_is_a_puzzle_on_every_machine():
    assert Sudoku().reset(seed=3)[1]["anchor"] == "_142\n_4_3\n1_24\n__31"


def test_splits_share_no_puzzle():
    env = Sudoku()
    train = {env.reset(seed=seed)[1]["anchor"] for seed in range(300)}
    evaluation = {env.reset(seed=EVAL_SEED_START + seed)[1]["anchor"] for seed in range(300)}
    assert min(len(train), len(evaluation)) > 295
    assert {split_of_content(puzzle, env.eval_share) for puzzle in train} == {"train"}
    assert {split_of_content(puzzle, env.eval_share) for puzzle in evaluation} == {"eval"}


def test_options_do_not_leak_through_the_cache():
    first, other = Sudoku().reset(seed=5), Sudoku(empty=8).reset(seed=5)
    assert first != other
    assert Sudoku().reset(seed=5)[1]["anchor"] == first[1]["anchor"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 16}, "size must be 4 or 9, given 16"),
        ({"size": 4.0}, "size"),
        ({"size": 9}, "45 empty cells need at least 45 turns, max_turns is 15"),
        ({"empty": 0}, "empty must be a whole number from 1 to 11 for size 4, given 0"),
        ({"empty": 12}, "from 1 to 11"),
        ({"empty": True}, "empty"),
        ({"empty": 6, "max_turns": 5}, "at least 6 turns"),
        ({"expert_rows": 1.5}, "expert_rows must be from 0 to 1, given 1.5"),
        ({"expert_rows": "abc"}, "expert_rows must be from 0 to 1, given 'abc'"),
        ({"expert_rows": True}, "expert_rows must be from 0 to 1, given True"),
        ({"feedback": "all"}, "feedback must be one of none, rules, full, given 'all'"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        Sudoku(**options)
    with pytest.raises(UsageError, match="refuses env"):
        turns = options.pop("max_turns", 15)
        make_env(EnvConfig(name="sudoku", max_turns=turns, options=options))


@pytest.mark.parametrize(
    ("puzzle", "message"),
    [
        ("12\n34", "4 rows of 4 of the symbols _1234"),
        (PUZZLE.replace("2", "5"), "symbols"),
        ("____\n____\n____\n____", "more than one solution"),
        (PUZZLE.replace("1234", "1134"), "no solution"),
    ],
)
def test_hand_made_puzzles_are_checked(puzzle, message):
    with pytest.raises(ValueError, match=message):
        Sudoku().reset(options={"puzzle": puzzle})


def test_nothing_works_before_reset():
    for ask in (lambda env: env.step("a 1 1"), lambda env: env.thought(), lambda env: env.expert_action()):
        with pytest.raises(RuntimeError, match="call reset"):
            ask(Sudoku())
    with pytest.raises(ValueError, match="option 'puzzle', given \\['puzzles'\\]"):
        Sudoku().reset(options={"puzzles": PUZZLE})
