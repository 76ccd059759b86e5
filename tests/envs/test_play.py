"""A person at the controls: keys, hints, leaving and the end of an episode."""

import pytest

from arena.envs import make_env
from arena.envs.play import match_action, play
from arena.recipe import EnvConfig

FOUR = ("up", "down", "left", "right")


@pytest.mark.parametrize(
    ("typed", "action"),
    [
        *(("w", "up"), ("a", "left"), ("s", "down"), ("d", "right")),
        *(("u", "up"), ("do", "down"), ("l", "left"), ("r", "right"), (" RIGHT ", "right")),
        *(("arrow up", "up"), ("ArrowDown", "down"), ("\x1b[A", "up"), ("\x1b[C", "right"), ("←", "left")),
        *(("1", "up"), ("4", "right"), ("5", None), ("0", None), ("", None), ("x", None), ("upp", None)),
    ],
)
def test_what_a_person_types(typed, action):
    assert match_action(typed, FOUR) == action


def test_phrases_are_chosen_by_number_or_by_a_beginning_of_their_own():
    actions = ("go to cabinet 1", "go to drawer 2", "open cabinet 1")
    assert match_action("2", actions) == "go to drawer 2"
    assert match_action("open", actions) == "open cabinet 1"
    assert match_action("go to d", actions) == "go to drawer 2"
    assert match_action("go to", actions) is None
    assert match_action("w", actions) is None


def session(config, lines, seed=3):
    """Play with scripted lines; end of file follows. Returns the result and all that was written."""
    written, waiting = [], iter(lines)

    def read(prompt):
        written.append(prompt)
        try:
            return next(waiting)
        except StopIteration:
            raise EOFError from None

    return play(config, seed, read, written.append), "\n".join(written)


def test_a_solved_game():
    # Room 3: the player is at (1, 4), the box at (2, 2), the target below it.
    result, shown = session(EnvConfig(name="sokoban"), ["a", "l", "?", "banana", "down"])
    assert result is True
    assert "O target, X box, P you" in shown and "<think>" not in shown
    assert "######\n##__P#\n#_X__#\n#_O_##\n######" in shown
    assert "[w] up  [s] down  [a] left  [d] right  [?] hint  [q] quit" in shown
    assert "turn 3/15" in shown
    assert "The expert would play: down" in shown
    assert "'banana' is not one of: up, down, left, right. Begin with ! to say it all the same." in shown
    assert "down: reward +10.9" in shown
    assert "#_P__#\n#_√_##" in shown
    assert shown.endswith("Solved after 3 turns. Reward 10.7.")


def test_many_actions_are_listed_when_asked_for():
    result, shown = session(EnvConfig(name="sudoku"), ["??", "9 in row 1", "3", "place 3 at row 2 column 1"])
    assert result is None
    menu = "turn 1/15  one of 24 actions, as in 'place 1 at row 1 column 1'  [??] all  [?] hint  [q] quit > "
    assert shown.split("\n").count(menu) == 3
    assert shown.count("\n[24] place 4 at row 4 column 2\n") == 1
    assert "'9 in row 1' is none of the 24; ?? lists them. Begin with ! to say it all the same." in shown
    assert "place 3 at row 1 column 1: reward +1.0" in shown
    assert "Not placed: its row already holds that number." in shown


def test_words_are_said_as_they_are_after_a_mark():
    config = EnvConfig(name="sokoban", options={"actions_per_turn": 2})
    result, shown = session(config, ["!up || left", "!banana", "q"])
    assert result is None
    assert "up || left: reward -0.2" in shown
    assert "banana: reward -0.1" in shown


def test_an_answer_is_not_completed():
    result, shown = session(EnvConfig(name="tir_math"), ["python print(1234)", "answer 1"])
    assert result is False
    assert "answer 1: reward +0.0" in shown


def test_words_of_ones_own_where_more_is_understood_than_is_listed():
    result, shown = session(
        EnvConfig(name="tir_math", max_turns=5), ["python print(2 + 3)", "answer 6"], seed=4
    )
    assert result is False
    assert "Output of your last program:\n5\n" in shown
    assert "turn 1/5  an action in words  [??] some  [?] hint  [q] quit > " in shown


@pytest.mark.parametrize("last", [["q"], ["QUIT"], []])
def test_leaving(last):
    result, shown = session(EnvConfig(name="sokoban"), ["left", *last])
    assert result is None
    assert shown.endswith("You left after 1 turn with reward -0.1.")


def test_running_out_of_turns_and_falling():
    result, shown = session(EnvConfig(name="sokoban", max_turns=3), ["w", "w", "w"])
    assert result is False
    assert shown.endswith("Out of turns after 3 turns. Reward -0.3.")
    config = EnvConfig(name="frozen_lake")
    env = make_env(config)
    seed = next(s for s in range(100) if env.reset(seed=s)[1]["anchor"].startswith("PH"))
    result, shown = session(config, ["d"], seed)
    assert result is False
    assert shown.endswith("Not solved after 1 turn. Reward 0.0.")
