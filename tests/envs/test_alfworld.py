"""ALFWorld: rules and texts on a hand-made household, generated games, game files, and the original engine where its
packages are installed."""

import json
import random
import re
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.envs import make_env
from arena.envs.alfworld import TASK_TYPES, AlfWorld
from arena.envs.alfworld.expert import Agent, solution
from arena.envs.alfworld.games import game_paths, read_game, write_game
from arena.envs.alfworld.household import LAMP_PLACES, OBJECTS, OPENABLE, ROOMS, ROOMS_OF_TASK, build_game
from arena.envs.alfworld.pddl import display_names, parse_problem, problem
from arena.envs.alfworld.world import CLEAN, COOL, HEAT, LIGHT, NOTHING_HAPPENS, PLACE, TWO, Task, World
from arena.envs.protocol import parse_response
from arena.errors import UsageError
from arena.recipe import EnvConfig
from arena.seeding import EVAL_SEED_START

KINDS = ("CounterTop", "Cabinet", "Fridge", "Microwave", "SinkBasin", "DiningTable", "Cabinet", "Desk")
PLACED = (
    *(("Apple", 0), ("Apple", 2), ("Mug", 1), ("Knife", 0), ("Book", 7), ("DeskLamp", 7)),
    *(("Egg", 5), ("Lettuce", 2)),
)
SENTENCE = "put a thing in place"


def household(task_type=PLACE, wanted="apple", target="diningtable"):
    return build_game(Task(task_type, wanted, target), SENTENCE, KINDS, PLACED)


def played(world, *commands):
    return [world.step(command) for command in commands]


def env_at(task, *commands, **options):
    """An environment in the household after some commands, and the last return of step."""
    env = AlfWorld(**options)
    last = env.reset(options={"game": household(*task)})
    for command in commands:
        last = env.step(command)
    return env, last


# Rules and texts


def test_the_first_text_lists_the_room_in_the_order_of_ids():
    assert World(household()).intro == (
        "-= Welcome to TextWorld, ALFRED! =-\n\n"
        "You are in the middle of a room. Looking quickly around you, you see a cabinet 2, a cabinet 1, "
        "a countertop 1, a desk 1, a diningtable 1, a fridge 1, a microwave 1, and a sinkbasin 1.\n\n"
        "Your task is to: put a thing in place."
    )


def test_looking_around_from_the_middle_of_the_room_sees_nothing():
    world = World(household())
    nothing = "You are in the middle of a room. Looking quickly around you, you see nothing."
    facing = "You are facing the desk 1. Next to it, you see nothing."
    assert played(world, "look", "go to desk 1", "look") == [
        nothing,
        "You arrive at desk 1. On the desk 1, you see a book 1, and a desklamp 1.",
        facing,
    ]


def test_what_is_closed_shows_nothing_and_gives_nothing():
    world = World(household())
    # The countertop's apple comes first in the order of places and so has the higher number.
    assert played(
        world, "go to fridge 1", "take apple 1 from fridge 1", "open fridge 1", "examine fridge 1"
    ) == [
        "You arrive at fridge 1. The fridge 1 is closed.",
        NOTHING_HAPPENS,
        "You open the fridge 1. The fridge 1 is open. In it, you see a apple 1, and a lettuce 1.",
        "The fridge 1 is open. In it, you see a apple 1, and a lettuce 1.",
    ]
    assert played(world, "take apple 1 from fridge 1", "close fridge 1", "examine fridge 1") == [
        "You pick up the apple 1 from the fridge 1.",
        "You close the fridge 1.",
        "The fridge 1 is closed.",
    ]
    assert played(
        world, "move apple 1 to fridge 1", "go to countertop 1", "move apple 1 to countertop 1"
    ) == [
        NOTHING_HAPPENS,
        "You arrive at countertop 1. On the countertop 1, you see a apple 2, and a knife 1.",
        "You move the apple 1 to the countertop 1.",
    ]
    assert world.step("examine countertop 1") == (
        "On the countertop 1, you see a apple 2, a apple 1, and a knife 1."
    )


def test_the_hand_holds_one_thing():
    world = World(household())
    assert played(
        world, "inventory", "go to countertop 1", "take apple 2 from countertop 1", "inventory"
    ) == [
        "You are not carrying anything.",
        "You arrive at countertop 1. On the countertop 1, you see a apple 2, and a knife 1.",
        "You pick up the apple 2 from the countertop 1.",
        "You are carrying: a apple 2.",
    ]
    assert world.step("take knife 1 from countertop 1") == NOTHING_HAPPENS


def test_states_of_an_apple():
    world = World(household())
    played(world, "go to countertop 1", "take apple 2 from countertop 1")
    examined = []
    for place, command in (
        ("countertop 1", "look"),
        ("microwave 1", "heat apple 2 with microwave 1"),
        ("sinkbasin 1", "clean apple 2 with sinkbasin 1"),
        ("fridge 1", "cool apple 2 with fridge 1"),
    ):
        world.step(f"go to {place}")
        said = world.step(command)
        examined.append(world.step("examine apple 2"))
    assert said == "You cool the apple 2 using the fridge 1."
    assert examined == [
        "There's nothing special about apple 2.",
        "This is a hot apple 2.",
        "This is a hot and clean apple 2.",
        # Cooling takes the heat away.
        "This is a cool and clean apple 2.",
    ]


def test_a_cold_apple_is_cold_and_a_sliced_one_cool():
    world = World(household())
    played(world, "go to countertop 1", "take apple 2 from countertop 1", "go to fridge 1")
    played(world, "cool apple 2 with fridge 1")
    assert world.step("examine apple 2") == "This is a cold apple 2."
    played(world, "go to countertop 1", "move apple 2 to countertop 1", "take knife 1 from countertop 1")
    assert world.step("slice apple 2 with knife 1") == "You sliced the apple 2 with the knife 1."
    played(world, "move knife 1 to countertop 1", "take apple 2 from countertop 1")
    assert world.step("examine apple 2") == "This is a cool sliced apple 2."


def test_the_original_slices_through_closed_doors_and_examines_only_what_is_held():
    world = World(household())
    played(world, "go to countertop 1", "take knife 1 from countertop 1", "go to fridge 1")
    assert "slice apple 1 with knife 1" in world.commands()
    assert "open fridge 1" in world.commands()
    assert [c for c in world.commands() if c.startswith("examine")] == ["examine fridge 1", "examine knife 1"]


def test_lamps_vessels_and_help():
    world = World(household())
    assert played(
        world, "go to desk 1", "use desklamp 1", "use desklamp 1", "take desklamp 1 from desk 1"
    ) == [
        "You arrive at desk 1. On the desk 1, you see a book 1, and a desklamp 1.",
        "You turn on the desklamp 1.",
        "You turn on the desklamp 1.",
        NOTHING_HAPPENS,
    ]
    played(world, "go to cabinet 2", "open cabinet 2", "take mug 1 from cabinet 2")
    assert world.step("examine mug 1") == "This is a normal mug 1. In it, you see nothing."
    assert world.step("help").startswith(
        "Available commands:\n  look:                             look around"
    )


def test_admissible_commands_of_two_states():
    world = World(household())
    going = {f"go to {r.name}" for r in world.game.receptacles}
    assert set(world.commands()) == going | {"help", "inventory", "look"}
    played(
        world, "go to microwave 1", "open microwave 1", "go to countertop 1", "take apple 2 from countertop 1"
    )
    world.step("go to microwave 1")
    assert set(world.commands()) == (going - {"go to microwave 1"}) | {
        *("help", "inventory", "look", "examine microwave 1", "examine apple 2", "close microwave 1"),
        *("move apple 2 to microwave 1", "heat apple 2 with microwave 1"),
    }


@pytest.mark.parametrize(
    ("task", "commands"),
    [
        (
            (PLACE, "egg", "countertop"),
            ["go to diningtable 1", "take egg 1 from diningtable 1", "go to countertop 1"],
        ),
        (
            (HEAT, "egg", "diningtable"),
            [
                *("go to diningtable 1", "take egg 1 from diningtable 1", "go to microwave 1"),
                *("heat egg 1 with microwave 1", "go to diningtable 1"),
            ],
        ),
        (
            (COOL, "egg", "diningtable"),
            [
                *("go to diningtable 1", "take egg 1 from diningtable 1", "go to fridge 1"),
                *("cool egg 1 with fridge 1", "go to diningtable 1"),
            ],
        ),
        (
            (CLEAN, "egg", "diningtable"),
            [
                *("go to diningtable 1", "take egg 1 from diningtable 1", "go to sinkbasin 1"),
                *("clean egg 1 with sinkbasin 1", "go to diningtable 1"),
            ],
        ),
    ],
)
def test_a_task_is_done_with_the_last_move_and_not_before(task, commands):
    place = commands[-1].removeprefix("go to ")
    _, (*_, info) = env_at(task, *commands)
    assert not info["success"]
    _, (_, reward, terminated, truncated, info) = env_at(task, *commands, f"move egg 1 to {place}")
    assert (reward, terminated, truncated, info["success"]) == (10.0, True, False, True)


def test_an_egg_that_was_heated_and_then_cooled_is_not_hot():
    commands = ["go to diningtable 1", "take egg 1 from diningtable 1", "go to microwave 1"]
    commands += ["heat egg 1 with microwave 1", "go to fridge 1", "cool egg 1 with fridge 1"]
    commands += ["go to diningtable 1", "move egg 1 to diningtable 1"]
    _, (_, reward, terminated, _, info) = env_at((HEAT, "egg", "diningtable"), *commands)
    assert (reward, terminated, info["success"]) == (0.0, False, False)


def test_two_things_must_lie_in_one_receptacle():
    one = [
        "go to countertop 1",
        "take apple 2 from countertop 1",
        "go to diningtable 1",
        "move apple 2 to diningtable 1",
    ]
    other = ["go to fridge 1", "open fridge 1", "take apple 1 from fridge 1", "go to diningtable 1"]
    _, (*_, info) = env_at((TWO, "apple", "diningtable"), *one, *other)
    assert not info["success"]
    _, (*_, info) = env_at((TWO, "apple", "diningtable"), *one, *other, "move apple 1 to diningtable 1")
    assert info["success"]


def test_light_needs_the_thing_in_hand_and_the_lamp_on_at_the_same_place():
    task = (LIGHT, "book", "desklamp")
    for commands, success in (
        (["go to desk 1", "use desklamp 1"], False),
        (["go to desk 1", "take book 1 from desk 1"], False),
        (["go to desk 1", "take book 1 from desk 1", "use desklamp 1"], True),
        # A lamp stays on: coming back with the book is enough, being elsewhere with it is not.
        (["go to desk 1", "use desklamp 1", "take book 1 from desk 1"], True),
    ):
        _, (*_, info) = env_at(task, *commands)
        assert info["success"] == success
    world = World(household(*task))
    played(world, "go to desk 1", "take book 1 from desk 1", "go to diningtable 1")
    world.states["use"].add(next(i for i, thing in enumerate(world.game.things) if thing.kind == "desklamp"))
    assert not world.won
    world.step("go to desk 1")
    assert world.won


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_every_admissible_command_is_answered_and_things_are_in_one_place(seed, walk):
    env = AlfWorld(receptacles=8, objects=10)
    env.reset(seed=seed % 50)
    world, rng = World(env.world.game), random.Random(walk)
    for _ in range(30):
        before = world.key
        assert world.step("take moon 1 from sky 1") == NOTHING_HAPPENS
        assert world.key == before
        command = rng.choice(sorted(world.commands()))
        assert world.step(command) != NOTHING_HAPPENS
        if command.split()[0] in ("look", "help", "inventory", "examine"):
            assert world.key == before
        where = [sum(i in content for content in world.contents) for i in range(len(world.game.things))]
        assert [count + (i == world.held) for i, count in enumerate(where)] == [1] * len(where)


# The environment


def test_the_compact_observation_thought_and_short_commands_of_a_walk():
    env = AlfWorld()
    observation, info = env.reset(options={"game": household(HEAT, "apple", "diningtable")})
    assert observation == (
        "apple hot to diningtable hold none at none here none found "
        "new countertop desk diningtable sinkbasin cabinet 2 cabinet 1 fridge microwave seen"
    )
    assert env.thought() == "apple hot to diningtable hold none need apple new countertop at none there no"
    assert env.expert_action() == "go countertop"
    assert "go cabinet 2" in info["admissible_actions"]
    observation, *_, info = env.step("go countertop")
    assert observation == (
        "apple hot to diningtable hold none at countertop here apple 2 knife found apple 2 countertop "
        "new desk diningtable sinkbasin cabinet 2 cabinet 1 fridge microwave seen countertop"
    )
    assert (
        env.thought()
        == "apple hot to diningtable hold none need apple known countertop at countertop there yes"
    )
    assert {"take apple 2", "take knife", "examine countertop"} <= set(info["admissible_actions"])
    env.step("take apple 2")
    assert env.thought() == (
        "apple hot to diningtable hold apple 2 raw need microwave known microwave at countertop there no"
    )
    env.step("go microwave")
    observation, *_ = env.step("heat apple 2")
    assert "hold apple 2 hot at microwave closed here none found new" in observation


def test_commands_are_taken_in_both_forms_and_in_any_case():
    for said in ("go to cabinet 2", "go cabinet 2", " GO Cabinet 2\n"):
        env = AlfWorld()
        env.reset(options={"game": household()})
        *_, info = env.step(said)
        assert info["admissible"]
        assert env.world.here == (0,)
    env = AlfWorld(observation="full")
    env.reset(options={"game": household()})
    *_, info = env.step("go cabinet 2")
    assert not info["admissible"]
    *_, info = env.step("go to cabinet 2")
    assert info["admissible"]


def test_a_kind_alone_means_the_first_that_can_be_meant():
    # There are two cabinets, 2 before 1, and two apples.
    for commands, said, command in (
        ([], "go cabinet", "go to cabinet 2"),
        (["go to cabinet 2"], "go cabinet", "go to cabinet 1"),
        (["go to cabinet 2"], "open cabinet", "open cabinet 2"),
        # What has been seen comes after what has not.
        (["go to cabinet 2", "open cabinet 2", "go to desk 1"], "go cabinet", "go to cabinet 1"),
        ([], "go desk 1", "go to desk 1"),
        (["go to countertop 1"], "take apple", "take apple 2 from countertop 1"),
        (["go to countertop 1"], "take knife 1", "take knife 1 from countertop 1"),
    ):
        env, _ = env_at((PLACE, "mug", "desk"), *commands)
        other, _ = env_at((PLACE, "mug", "desk"), *commands)
        assert env.step(said) == other.step(command)
    for said in (
        "go",
        "go apple",
        "go cabinet 3",
        "take egg",
        "open desk",
        "look desk",
        "go to cabinet",
        "cabinet 1",
    ):
        env, (*_, info) = env_at((PLACE, "mug", "desk"), "go to countertop 1")
        before = info["anchor"]
        *_, info = env.step(said)
        assert (info["admissible"], info["anchor"]) == (False, before)


def test_the_full_observation_has_the_answer_the_task_and_the_commands():
    env, (observation, *_) = env_at((PLACE, "egg", "desk"), "go to cabinet 1", observation="full")
    going = ", ".join(
        f"go to {name} 1" for name in ("countertop", "desk", "diningtable", "fridge", "microwave")
    )
    assert observation == (
        "You arrive at cabinet 1. The cabinet 1 is closed.\n\n"
        "Your task is to: put a thing in place.\n"
        "Commands that are possible now: examine cabinet 1, go to cabinet 2, "
        f"{going}, go to sinkbasin 1, help, inventory, look, open cabinet 1"
    )
    assert "<think>" in env.instruction
    assert AlfWorld().instruction == "alfworld"


def test_an_episode_is_cut_unless_its_last_turn_succeeds():
    commands = ["go to diningtable 1", "take egg 1 from diningtable 1", "go to countertop 1"]
    task = (PLACE, "egg", "countertop")
    env, (_, reward, terminated, truncated, _) = env_at(task, *commands, max_turns=3)
    assert (reward, terminated, truncated) == (0.0, False, True)
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("look")
    _, (_, reward, terminated, truncated, _) = env_at(
        task, *commands, "move egg 1 to countertop 1", max_turns=4
    )
    assert (reward, terminated, truncated) == (10.0, True, False)


SEED_3 = ("find two soapbar and put them in sinkbasin", "12|-1|;0,1,3;7;;4;5,8,9;;;6,10,11;;2;|;;;;;")
ONE_STEP_BEFORE = ["go to diningtable 1", "take egg 1 from diningtable 1", "go to countertop 1"]
CYRILLIC_E, GREEK_O = "\N{CYRILLIC SMALL LETTER IE}", "\N{GREEK SMALL LETTER OMICRON}"
WINNING = "move egg 1 to countertop 1"


@pytest.mark.parametrize(
    "response",
    [
        "",
        "<think> x</think><action> </action>",
        f"<think> x</think><action> {WINNING} or look</action>",
        f"<think> x</think><action> {WINNING}\n{WINNING}</action>",
        f"<think> I will <action> {WINNING}</action></think>",
        f"<think> {WINNING}</think><action> look</action>",
        f"<think> x</think><action> <think> {WINNING}</think></action>",
        "<think> x</think><action> move <action> egg 1</action> to countertop 1</action>",
        f"<think> x</think><action> {WINNING}</action><action> look</action>",
        f"<think> x</think><action> {WINNING.replace('e', CYRILLIC_E)}</action>",
        f"<think> x</think><action> {WINNING.replace('o', GREEK_O)}</action>",
        "<think> x</think><action> move egg \N{FULLWIDTH DIGIT ONE} to countertop 1</action>",
        f"Commands that are possible now: {WINNING}, look",
        f"{WINNING}",
        "<think> x</think><action> put egg 1 in/on countertop 1</action>",
        "<think> x</think><action> move egg 1 to countertop</action>",
    ],
)
def test_what_is_not_the_winning_command_does_not_win(response):
    for style in ("compact", "full"):
        env, _ = env_at((PLACE, "egg", "countertop"), *ONE_STEP_BEFORE, observation=style)
        _, reward, terminated, _, info = env.step(parse_response(response).action or "")
        assert (reward, terminated, info["success"]) == (0.0, False, False)
    env, _ = env_at((PLACE, "egg", "countertop"), *ONE_STEP_BEFORE)
    said = parse_response(f"<think> x</think><action> {WINNING}</action>").action
    assert env.step(said or "")[4]["success"]


def test_the_kelvin_sign_is_no_k():
    env, _ = env_at((PLACE, "egg", "countertop"), "go to diningtable 1")
    *_, info = env.step("ta\N{KELVIN SIGN}e egg 1 from diningtable 1")
    assert not info["admissible"]


# Generated games and the expert


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_generated_games_keep_what_may_lie_where_and_are_solved(task_type):
    env = AlfWorld(tasks=task_type, receptacles=9, objects=10, max_turns=30)
    kinds = {kind.lower(): kind for room in ROOMS.values() for kind in room}
    sentences = set()
    for seed in [*range(40), *range(EVAL_SEED_START, EVAL_SEED_START + 10)]:
        env.reset(seed=seed)
        game = env.world.game
        task = game.task
        assert task.type == task_type
        assert len(game.receptacles) == 9
        assert 10 <= len(game.things) <= 11
        rooms = [
            room
            for room in ROOMS_OF_TASK[task_type]
            if all(kinds[r.kind] in ROOMS[room] for r in game.receptacles)
        ]
        assert rooms
        for receptacle, content in zip(game.receptacles, game.start.contents, strict=True):
            assert receptacle.openable == (kinds[receptacle.kind] in OPENABLE)
            for index in content:
                kind = game.things[index].kind
                places = next(
                    (about.places for name, about in OBJECTS.items() if name.lower() == kind), LAMP_PLACES
                )
                assert kinds[receptacle.kind] in places
                if kind == task.object and task_type != LIGHT:
                    assert receptacle.kind != task.target
        commands = solution(game, 30)
        world = World(game)
        for command in commands:
            assert not world.won
            assert world.step(command) != NOTHING_HAPPENS
        assert world.won
        sentences.add(game.sentence)
    assert len(sentences) > 10


def test_the_expert_recovers_from_whatever_was_done_before():
    env = AlfWorld(receptacles=8, objects=10, max_turns=100)
    tasks = set()
    for seed in range(60):
        env.reset(seed=seed)
        rng, ended = random.Random(seed), False
        for _ in range(25):
            *_, ended, _, info = env.step(rng.choice(env.admissible_actions()))
            if ended:
                break
        turns = 0
        while not ended:
            *_, ended, _, info = env.step(env.expert_action())
            turns += 1
            assert info["admissible"]
            # Put down, search all, and both halves of a pair.
            assert turns <= 35
        tasks.add(env.world.game.task.type)
    assert tasks == set(TASK_TYPES)


def test_what_was_not_seen_does_not_change_what_the_expert_says():
    game = household(PLACE, "mug", "desk")
    mug = next(i for i, thing in enumerate(game.things) if thing.kind == "mug")
    for walk in (["look"], ["go to countertop 1"], ["go to cabinet 2"], ["go to fridge 1", "open fridge 1"]):
        said = set()
        for place in (0, 1, 6):
            moved = [content - {mug} for content in game.start.contents]
            moved[place] |= {mug}
            env = AlfWorld()
            env.reset(options={"game": replace(game, start=game.start._replace(contents=tuple(moved)))})
            for command in walk:
                observation, *_ = env.step(command)
            said.add((observation, env.thought(), env.expert_action()))
        assert len(said) == 1


def test_the_agent_remembers_what_it_saw_behind_a_door_that_it_closed():
    game = household(PLACE, "lettuce", "countertop")
    world, agent = World(game), Agent(game)
    for command in ("go to fridge 1", "open fridge 1", "close fridge 1", "go to desk 1"):
        world.step(command)
        agent.look(world)
    intent = agent.intent(world)
    assert (intent.need, intent.known, intent.command) == ("lettuce", True, "go to fridge 1")
    world.step(intent.command)
    assert agent.intent(world).command == "open fridge 1"


def test_what_is_held_in_vain_is_put_down_where_it_may_lie():
    game = household(PLACE, "egg", "countertop")
    world, agent = World(game), Agent(game)
    for command in ("go to desk 1", "take book 1 from desk 1", "go to fridge 1"):
        world.step(command)
        agent.look(world)
    intent = agent.intent(world)
    # A book lies on no fridge; the countertop is the first open place of the search.
    assert (intent.need, intent.command) == ("room", "go to countertop 1")


def test_the_expert_says_whether_it_is_in_time():
    # To the diningtable past the countertop and the desk, take, to the countertop, move.
    assert len(solution(household(PLACE, "egg", "countertop"), 50)) == 6
    for max_turns, chance in ((5, 0.0), (6, 1.0)):
        env, _ = env_at((PLACE, "egg", "countertop"), max_turns=max_turns)
        assert env.expert_success == chance


def test_easier_games_by_options():
    short = AlfWorld(receptacles=7, objects=8, max_turns=15, max_solution=6, tasks=[PLACE, COOL])
    for seed in range(60):
        short.reset(seed=seed)
        assert short.world.game.task.type in (PLACE, COOL)
        assert len(solution(short.world.game, 15)) <= 6


def test_a_seed_is_a_game_on_every_machine():
    env = AlfWorld()
    env.reset(seed=3)
    assert (env.world.game.sentence, env.world.key) == SEED_3


def test_splits_share_no_game():
    env = AlfWorld(receptacles=4, objects=3)
    train = {env.reset(seed=seed)[0] + env.world.key for seed in range(300)}
    evaluation = {env.reset(seed=EVAL_SEED_START + seed)[0] + env.world.key for seed in range(300)}
    assert len(train) > 250
    assert not train & evaluation


def test_options_do_not_leak_through_the_cache():
    every = ({}, {"receptacles": 9}, {"objects": 4}, {"tasks": HEAT}, {"max_solution": 14}, {})
    keys = ["".join(AlfWorld(**options).reset(seed=seed)[0] for seed in range(9)) for options in every]
    assert keys[0] == keys[-1]
    assert len(set(keys)) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "thor"}, "engine must be one of native, textworld, given 'thor'"),
        ({"tasks": "pick"}, "tasks must be some of pick_and_place_simple, .* given \\['pick'\\]"),
        ({"tasks": []}, "tasks must be some of"),
        ({"receptacles": 3}, "receptacles must be a whole number from 4 to 15, given 3"),
        ({"objects": 1}, "objects must be a whole number from 2 to 30"),
        ({"max_solution": 1}, "max_solution must be"),
        ({"max_solution": 0}, "max_solution must be a whole number from 2 to 1000, given 0"),
        ({"eval_games": "test"}, "eval_games must be"),
        ({"max_turns": 0}, "max_turns"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        AlfWorld(**options)


def test_the_registry_names_wrong_options():
    with pytest.raises(
        UsageError, match=r"unknown option 'task' of environment 'alfworld'\. Did you mean 'tasks'"
    ):
        make_env(EnvConfig(name="alfworld", options={"task": PLACE}))


def test_a_bound_that_no_game_meets_is_an_error():
    with pytest.raises(UsageError, match="raise max_turns or max_solution"):
        AlfWorld(tasks=TWO, max_solution=3).reset(seed=0)


# Problems and game files


def test_a_problem_is_read_as_the_game_that_was_written():
    for task_type in TASK_TYPES:
        env = AlfWorld(tasks=task_type)
        for seed in range(8):
            env.reset(seed=seed)
            game = env.world.game
            assert parse_problem(problem(game), game.sentence) == game
    game = household()
    start = game.start._replace(opened=frozenset({0}), states=(("heat", frozenset({1})),), at=2)
    assert parse_problem(problem(replace(game, start=start)), SENTENCE) == replace(game, start=start)


def test_names_are_numbered_as_the_demangler_does():
    ids = ["sink_bar_01_bar_sinkbasin", "mug_bar_b", "mug_bar_a", "mug_bar_c", "agent1", "sink_bar_02"]
    assert display_names(ids) == {
        "sink_bar_01_bar_sinkbasin": "sinkbasin 1",
        "sink_bar_02": "sink 1",
        "mug_bar_a": "mug 3",
        "mug_bar_b": "mug 2",
        "mug_bar_c": "mug 1",
        "agent1": "agent1 ",
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-3], "one expression in brackets"),
        (lambda text: text + ")", "as many opening as closing"),
        (lambda text: text.replace(":goal", ":aim"), ":goal, which this one lacks"),
        (lambda text: text.replace("inReceptacle ?o", "isSliced ?o"), "issliced is none of the six tasks"),
    ],
)
def test_a_problem_that_cannot_be_played_is_an_error(change, message):
    with pytest.raises(ValueError, match=message):
        parse_problem(change(problem(household())), SENTENCE)


def stub(game):
    """A game file's content without the original's domain: enough for the native engine."""
    return {
        "pddl_domain": "",
        "grammar": f'grammar :: """{{"task": [{{"rhs": "Your task is to: {game.sentence}."}}]}}"""',
        "pddl_problem": problem(game),
    }


def release(root, content=stub, seeds=range(3)):
    """A directory like ALFWorld's, with generated games."""
    for number, split in enumerate(("train", "valid_seen", "valid_unseen")):
        env = AlfWorld(receptacles=6, objects=6, tasks=[PLACE, LIGHT])
        for seed in seeds:
            env.reset(seed=100 * number + seed)
            game = env.world.game
            path = root / "json_2.1.1" / split / f"{game.task.type}-{seed}" / "trial" / "game.tw-pddl"
            write_game(path, content(game), solution(game, 50))
    return root


def test_game_files_are_played_split_by_split(tmp_path, monkeypatch):
    release(tmp_path)
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    for eval_games in ("valid_seen", "valid_unseen"):
        env = AlfWorld(data="$ALFWORLD_DATA", eval_games=eval_games)
        for split, first in (("train", 0), (eval_games, EVAL_SEED_START)):
            files = game_paths(str(tmp_path), split)
            assert len(files) == 3
            games = [read_game(path) for path in files]
            met = []
            for seed in range(first, first + 12):
                env.reset(seed=seed)
                assert env.world.game in games
                met.append(env.world.game.sentence)
                ended = False
                while not ended:
                    *_, ended, truncated, info = env.step(env.expert_action())
                    assert not truncated
                assert info["success"]
            assert len(set(met)) > 1


def test_games_that_the_original_passes_over_are_passed_over(tmp_path):
    release(tmp_path, seeds=range(2))
    train = tmp_path / "json_2.1.1" / "train"
    first, second = game_paths(str(tmp_path), "train")
    data = json.loads(first.read_text())
    first.write_text(json.dumps({**data, "solvable": False}))
    for name in ("pick_and_place_with_movable_recep-1", "pick_and_place-AppleSliced-2"):
        (train / name).mkdir()
        (train / name / "game.tw-pddl").write_text("{}")
    game_paths.cache_clear()
    assert game_paths(str(tmp_path), "train") == (first, second)
    env = AlfWorld(data=str(tmp_path))
    for seed in range(6):
        env.reset(seed=seed)
        assert env.world.game == read_game(second)
    with pytest.raises(UsageError, match=f"none of 2 games is solvable and of {HEAT}"):
        AlfWorld(data=str(tmp_path), tasks=HEAT).reset(seed=0)


def test_wrong_directories_and_files_are_errors(tmp_path):
    with pytest.raises(ValueError, match="has no directory 'train'"):
        AlfWorld(data=str(tmp_path))
    (tmp_path / "train" / "x").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"holds no game\.tw-pddl"):
        AlfWorld(data=str(tmp_path))
    path = tmp_path / "train" / "x" / "game.tw-pddl"
    path.write_text("{}")
    with pytest.raises(ValueError, match="has no directory 'valid_unseen'"):
        AlfWorld(data=str(tmp_path), eval_games="valid_unseen")
    for text in ("{", "{}", json.dumps({"grammar": "none", "pddl_problem": ""})):
        path.write_text(text)
        with pytest.raises(ValueError, match="is no ALFWorld game that can be played here"):
            read_game(path)


# The original engine


@pytest.fixture
def original():
    pytest.importorskip("alfworld")
    return pytest.importorskip("arena.envs.alfworld.conformance")


@pytest.mark.slow
@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_both_engines_play_alike(original, task_type):
    env = AlfWorld(tasks=task_type, receptacles=8, objects=10)
    env.reset(seed=1)
    assert original.compare(env.world.game, 1, 12, walks=(0.0, 0.7)) >= 12


@pytest.mark.slow
def test_both_engines_play_alike_where_receptacles_share_a_location(original):
    """As in the original's games: shared locations, things that lie apart from their receptacle, states at the start,
    an open door, an agent that starts at a receptacle, a vessel with content."""
    game = household()
    things = [replace(t, inside=(0, 1)) if t.kind == "mug" else t for t in game.things]
    game = replace(
        game,
        receptacles=tuple(replace(r, location=r.location // 2 * 2) for r in game.receptacles),
        things=tuple(things),
        start=game.start._replace(
            at=2,
            opened=frozenset({0}),
            states=(("cool", frozenset({2})), ("heat", frozenset({0, 2}))),
            spots=frozenset((i, spot // 2 * 2 if i % 3 else 4) for i, spot in game.start.spots),
        ),
    )
    assert original.compare(game, 0, 40, walks=(1.0, 1.0)) >= 40


def test_a_difference_between_the_engines_is_found(original):
    from arena.envs.alfworld.textworld_engine import original_game

    game = household()
    other = replace(game, source=original_game(household(PLACE, "mug", "diningtable")))
    with pytest.raises(original.DifferenceError, match="the end differs"):
        original.compare(other, 0, 12, walks=(0.0,))


@pytest.mark.slow
def test_game_files_are_played_on_the_original_engine(original, tmp_path):
    from arena.envs.alfworld.textworld_engine import original_game

    arguments = sys.argv
    env = AlfWorld(data=str(release(tmp_path, original_game, range(1))), engine="textworld")
    native = AlfWorld(data=str(tmp_path))
    for seed in (0, EVAL_SEED_START):
        # A second reset of the same game starts it anew.
        for _ in range(2):
            assert env.reset(seed=seed) == native.reset(seed=seed)
            ended = False
            while not ended:
                action = env.expert_action()
                answer = env.step(action)
                assert answer == native.step(action)
                ended = answer[2]
            assert answer[1] == 10.0
    assert sys.argv is arguments


def test_what_may_lie_where_is_what_alfred_allows(original):
    from alfworld.gen import constants, goal_library

    kinds = {kind for room in ROOMS.values() for kind in room}
    for name, kind in OBJECTS.items():
        allowed = {place for place in kinds if name in constants.VAL_RECEPTACLE_OBJECTS[place]}
        assert kind.places == allowed, name
        abilities = {"take"}
        for verb, group in (("clean", "Clean"), ("heat", "Heat"), ("cool", "Cool"), ("slice", "Slice")):
            abilities |= {verb} if name in constants.VAL_ACTION_OBJECTS[f"{group}able"] else set()
        assert kind.can == abilities, name
        assert kind.vessel == (name in constants.MOVABLE_RECEPTACLES)
    assert kinds & constants.OPENABLE_CLASS_SET == OPENABLE
    for task, rooms in ROOMS_OF_TASK.items():
        assert {room.title().replace(" ", "") for room in rooms} <= constants.GOALS_VALID[task]
        env = AlfWorld(tasks=task)
        env.reset(seed=0)
        found = env.world.game.task
        words = {"obj": found.object, "recep": found.target, "toggle": found.target}
        assert env.world.game.sentence in [
            template.format(**words) for template in goal_library.gdict[task]["templates"]
        ]


def test_without_the_packages_the_original_engine_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "alfworld", None)
    from arena.envs.alfworld import textworld_engine

    textworld_engine.logic.cache_clear()
    with pytest.raises(ValueError, match=re.escape('pip install "arlarena[alfworld]"')):
        AlfWorld(engine="textworld")
    textworld_engine.logic.cache_clear()
