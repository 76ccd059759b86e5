"""WebShop's pages, actions, catalogue, search and expert."""

import random

import pytest
from rapidfuzz.fuzz import token_set_ratio

from arena.envs import make_env
from arena.envs.base import split_of_content
from arena.envs.protocol import format_response, parse_response
from arena.envs.webshop.catalogue import DEPARTMENTS, LARGEST_PRICE, generated_catalogue
from arena.envs.webshop.env import WebShop, _generated_store
from arena.envs.webshop.goals import NO_CEILING, ceiling_text, draw_ceiling
from arena.envs.webshop.reward import MATCH, Goal
from arena.envs.webshop.search import MOST_RESULTS, SearchEngine, words
from arena.errors import UsageError
from arena.policy.tokenizer import TextCodec, build_tokenizer
from arena.recipe import EnvConfig
from arena.seeding import EVAL_SEED_START

PRODUCTS = generated_catalogue(0)
ATTRIBUTES = sorted({word for department in DEPARTMENTS for word in department.attributes})


def goal_for(product, ceiling=None, options=2):
    """A goal that a product meets, with the first values of its options."""
    values = tuple(values[0] for _, values in product.options[:options])
    return Goal(
        asin=product.asin,
        sentence="a goal",
        words=(*product.attributes, product.query, *values),
        query=product.query,
        category=product.category,
        nouns=product.nouns,
        attributes=product.attributes,
        options=values,
        ceiling=product.price // 10 * 10 + 10 if ceiling is None else ceiling,
    )


def started(goal=None, seed=0, **options):
    env = WebShop(**options)
    env.reset(seed=seed, options={"goal": goal} if goal else None)
    return env


def play(env, *actions):
    """The last answer of step; every action but the last must be admissible."""
    for action in actions:
        answer = env.step(action)
    return answer


def state(env):
    return env._answer(admissible=True)[1]["anchor"]


# The catalogue and the search.


def test_the_generated_catalogue_is_plausible():
    assert len(PRODUCTS) == 1680 >= 1000
    assert len({product.asin for product in PRODUCTS}) == 1680
    for product in PRODUCTS:
        assert len(product.asin) == 10
        assert 0 < product.price < LARGEST_PRICE
        assert product.price % 10
        assert len(product.attributes) == 2
        assert 1 <= len(product.options) <= 2
        assert all(2 <= len(set(values)) <= 4 for _, values in product.options)
        assert product.category.count("›") == 2


def test_the_catalogue_of_a_seed_is_the_same_on_every_machine():
    first = PRODUCTS[0]
    assert (first.asin, first.title, first.price) == (
        "B0VWCPPMH2",
        "Dunmere Roasted Sweet Coffee for Breakfast",
        47.99,
    )
    assert generated_catalogue(1)[0].title != first.title


def test_what_a_compact_page_shows_decides_the_attribute_matches():
    """No text of a product contains another attribute by chance, and no two words resemble each other."""
    for product in PRODUCTS:
        found = tuple(a for a in ATTRIBUTES if any(a in text for text in product.texts))
        assert found == tuple(sorted(product.attributes))
    values = {value for d in DEPARTMENTS for options in d.options.values() for value in options}
    listed = sorted({*ATTRIBUTES, *values})
    assert all(token_set_ratio(a, b) <= MATCH for a in listed for b in listed if a != b)


def test_search_ranks_by_bm25():
    engine = SearchEngine(["red shirt", "red red lamp", "a blue shirt for work", "green shoes"])
    assert engine("lamp") == (1,)
    assert engine("red shirt") == (0, 1, 2)
    assert engine("RED, shirts!") == (0, 1, 2)
    assert engine("shoe") == (3,)
    assert engine("unheard of") == ()
    assert engine("") == ()


def test_search_gives_at_most_fifty():
    assert len(_generated_store(0).search("cotton shirt")) == MOST_RESULTS


def test_equal_scores_keep_the_catalogues_order():
    assert SearchEngine(["red shirt", "blue hat", "red shirt", "red shirt"])("red") == (0, 2, 3)


def test_words_lose_a_plural_s():
    assert words("Men's Glass shirts, 12-inch bus") == ["men", "s", "glass", "shirt", "12", "inch", "bus"]


# Goals.


class Drawn:
    """A generator whose choice is given."""

    def __init__(self, *indices):
        self.indices = indices

    def choice(self, count, size, replace):
        assert (size, replace) == (2, False)
        return [i % count for i in self.indices]


@pytest.mark.parametrize(
    ("price", "indices", "ceiling"),
    [
        (19.99, (0, 1), 30.0),
        (19.99, (3, 0), 50.0),
        (20.0, (0, 1), 40.0),  # Above the price, not at it.
        (975.0, (0, 1), 990.0),
        (985.0, (0, 1), NO_CEILING),  # One multiple is left: no ceiling.
        (2000.0, (0, 1), NO_CEILING),
    ],
)
def test_the_ceiling_is_the_larger_of_two_of_the_next_four_tens(price, indices, ceiling):
    assert draw_ceiling(Drawn(*indices), price) == ceiling


def test_a_ceiling_in_words():
    assert ceiling_text(40.0) == ", and price lower than 40.00 dollars"
    assert ceiling_text(NO_CEILING) == ""


def test_goals_have_a_product_that_meets_them():
    env = WebShop()
    shapes = set()
    for seed in range(200):
        env.reset(seed=seed)
        goal = env.goal
        meets = [
            p
            for p in PRODUCTS
            if p.query == goal.query
            and set(goal.attributes) <= set(p.attributes)
            and all(any(o in values for _, values in p.options) for o in goal.options)
            and p.price <= goal.ceiling
        ]
        assert meets
        shapes.add((len(goal.attributes), len(goal.options)))
    assert shapes == {(1, 1), (1, 2), (2, 1), (2, 2)}


def test_options_of_the_goal_are_bounded():
    for seed in range(50):
        goal = started(seed=seed, attributes=1, options=0).goal
        assert (len(goal.attributes), goal.options) == (1, ())


def test_splits_share_no_goal_whatever_its_ceiling():
    env = WebShop()
    contents = {}
    for start in (0, EVAL_SEED_START):
        goals = []
        for seed in range(start, start + 300):
            env.reset(seed=seed)
            goals.append(env.goal)
        contents[start] = {goal.content for goal in goals}
    assert not contents[0] & contents[EVAL_SEED_START]
    assert {split_of_content(c, env.eval_share) for c in contents[0]} == {"train"}
    assert len(contents[0]) > 280


# Pages and actions.


def test_pages_of_the_full_style():
    product = PRODUCTS[0]
    env = started(goal_for(product), observation="full")
    text, _, _, _, info = env.step("search[@Q]".replace("@Q", " ".join(env.goal.words)))
    lines = text.split("\n")
    assert lines[0].startswith(
        "Instruction: [SEP] a goal [SEP] [button] Back to Search [button_] [SEP] Page 1 (Total results: 50) [SEP] "
        f"[button] Next > [button_] [SEP] [button] {product.asin} [button_] [SEP] {product.title} [SEP] "
    )
    assert len(info["admissible_actions"]) == 12
    assert info["admissible_actions"][:2] == ("click[back to search]", "click[next >]")
    text, _, _, _, info = env.step(f"click[{product.asin}]")
    kind, values = product.options[0]
    assert f"[SEP] {kind} [SEP] [button] {values[0]} [button_] [SEP] [button] {values[1]} [button_]" in text
    assert f"{product.title} [SEP] Price: {product.price_tag} [SEP] Rating: {product.rating} [SEP]" in text
    assert text.split("\n")[0].endswith("[button] Attributes [button_] [SEP] [button] Buy Now [button_]")
    text, *_ = env.step(f"click[{values[1]}]")
    assert f"[clicked button] {values[1]} [clicked button_]" in text
    assert product.description in env.step("click[description]")[0]
    text, _, _, _, info = env.step("click[Features]".lower())
    assert not info["admissible"]  # A sub-page links to the product and to the search only.
    assert info["admissible_actions"] == ("click[back to search]", "click[< prev]")
    text, *_ = env.step("click[< prev]")
    assert f"[clicked button] {values[1]} [clicked button_]" in text  # Sub-pages keep the choice.
    for page, said in (("features", product.features[0]), ("attributes", product.attributes[0])):
        assert said in play(env, f"click[{page}]")[0]
        env.step("click[< prev]")
    text, *_ = env.step("click[< prev]")
    assert f"[clicked button] {product.asin} [clicked button_]" in text
    text, *_ = env.step(f"click[{product.asin}]")
    assert "[clicked button]" not in text  # Leaving the product forgot the choice.


def test_pages_of_the_compact_style():
    product = next(p for p in PRODUCTS if p.query == "shirt" and p.attributes == ("soft", "warm"))
    env = started(goal_for(product, ceiling=NO_CEILING), results=2)
    need = env.step("click[buy]")[0].removeprefix("start ")
    assert need == f"need soft warm shirt {' '.join(env.goal.options)} under 9"
    found = _generated_store(0).search("soft warm shirt")
    one, two, three = (PRODUCTS[i] for i in found[:3])

    def short(p):
        return f"{p.attributes[0]} {p.attributes[1]} {p.query} {int(p.price // 10) + 1}"

    text, *_, info = env.step("search [ soft warm shirt ]")
    assert text == f"results 1 more a {short(one)} b {short(two)} {need}"
    assert info["admissible_actions"] == ("click [ back ]", "click [ next ]", "click [ a ]", "click [ b ]")
    text, *_, info = env.step("click [ next ]")
    assert text.startswith(f"results 2 more a {short(three)} b ")
    assert info["admissible_actions"][:3] == ("click [ back ]", "click [ prev ]", "click [ next ]")
    text, *_ = env.step("click [ a ]")
    options = " ".join(f"{kind} {' '.join(values)}" for kind, values in three.options)
    assert text == f"item {short(three)} {options} chosen none {need}"
    first = three.options[0][1][0]
    assert env.step(f"click [ {first} ]")[0] == f"item {short(three)} {options} chosen {first} {need}"
    assert env.step("click [ features ]")[0] == f"features {short(three)} {need}"
    text, *_ = play(env, "click [ prev ]", "click [ prev ]")
    assert text.startswith(f"results 2 more a seen {short(three)} b ")
    # Back to the search page: the visit is forgotten.
    text, *_ = play(env, "click [ back ]", "search [ soft warm shirt ]", "click [ next ]")
    assert text.startswith(f"results 2 more a {short(three)} b ")


def test_the_last_page_has_no_next():
    env = started(goal_for(PRODUCTS[0]), observation="full", max_turns=40)
    env.step("search[cotton shirt]")
    for page in range(2, 6):
        text, *_, info = env.step("click[next >]")
        assert f"Page {page} (Total results: 50)" in text
        assert info["admissible"]
    before = state(env)
    assert "click[next >]" not in info["admissible_actions"]
    assert not env.step("click[next >]")[-1]["admissible"]
    assert state(env) == before
    assert "Page 4" in env.step("click[< prev]")[0]


def test_a_search_that_finds_nothing():
    env = started(goal_for(PRODUCTS[0]))
    text, *_, info = env.step("search[xyzzy]")
    assert text.startswith("results 1 need ")
    assert info["admissible"]
    assert info["admissible_actions"] == ("click [ back ]",)
    assert env.expert_action() == "click [ back ]"


@pytest.mark.parametrize(
    "search",
    [
        "search[red shirt]",
        "search [ red shirt ]",
        " SEARCH[Red  Shirt] ",
        "search[\tred\nshirt ]",
        "Search [red shirt]",
    ],
)
def test_case_and_white_space_do_not_matter(search):
    env = started()
    *_, info = env.step(search)
    assert info["admissible"]
    assert "| results | query 'red shirt' page 1 |" in info["anchor"]


@pytest.mark.parametrize(
    "action",
    [
        "search",
        "search[]",
        "search[ ]",
        "search red shirt",
        "search[red shirt",
        "search[red] shirt",
        "search[red] search[shirt]",
        "search[[red]]",
        "find[red]",
        "click[search]",
        "search(red)",
        "ｓearch[red]",
        "sеarch[red]",  # A Cyrillic e.
        "click[buy]",
        "click[buy now]",
        "click[a]",
        "click[start]",
    ],
)
def test_what_is_no_action_on_the_search_page(action):
    env = started()
    before = state(env)
    *_, reward, terminated, _, info = env.step(action)
    assert (reward, terminated, info["admissible"], info["anchor"]) == (0.0, False, False, before)


def test_a_search_needs_a_search_bar():
    env = started()
    env.step(env.expert_action())
    before = state(env)
    assert not env.step("search[red shirt]")[-1]["admissible"]
    assert state(env) == before


def test_the_listed_searches_are_some_of_many():
    env = started(goal_for(PRODUCTS[0]))
    listed = env.admissible_actions()
    assert listed[0] == f"search [ {' '.join(env.goal.words)} ]"
    assert f"search [ {env.goal.query} ]" in listed
    assert env.step("search [ something else ]")[-1]["admissible"]


# The reward and its verifier.


def bought(env, *choices):
    """Buy the goal's product with some choices."""
    env.step(env.expert_action())
    env.step(env.expert_action())
    for value in choices:
        *_, info = env.step(f"click[{value}]")
        assert info["admissible"]
    return env.step("click[buy]" if env.observation_style == "compact" else "click[buy now]")


@pytest.mark.parametrize(("reward", "gains"), [("success", (10.0, 0.0)), ("score", (1.0, 4 / 5))])
def test_rewards(reward, gains):
    product = next(p for p in PRODUCTS if len(p.options) == 2)
    right = goal_for(product)
    _, gained, terminated, truncated, info = bought(started(right, reward=reward), *right.options)
    assert (gained, terminated, truncated, info["success"], info["score"]) == (
        gains[0],
        True,
        False,
        True,
        1.0,
    )
    # Two attributes, one of two options, the price: 4 of 5.
    _, gained, terminated, _, info = bought(started(right, reward=reward), right.options[0])
    assert (gained, terminated, info["success"]) == (gains[1], True, False)
    assert info["score"] == pytest.approx(4 / 5)
    assert WebShop(reward=reward).largest_return == gains[0]


def test_nothing_is_earned_before_buying():
    env = started(reward="score")
    for _ in range(2):
        _, reward, *_, info = env.step(env.expert_action())
        assert (reward, info["success"], info["score"]) == (0.0, False, 0.0)


def test_a_wrong_option_is_no_success():
    product = next(
        p for p in PRODUCTS if all(len(values) > 1 for _, values in p.options) and len(p.options) == 2
    )
    right = goal_for(product)
    wrong = product.options[0][1][1]
    *_, info = bought(started(right), wrong, right.options[1])
    assert not info["success"]
    # A value that is chosen again replaces the first: both cannot be had.
    *_, info = bought(started(right), right.options[0], wrong, right.options[1])
    assert not info["success"]
    *_, info = bought(started(right), wrong, right.options[0], right.options[1])
    assert info["success"]


def test_a_product_that_is_too_dear_or_of_another_kind_is_no_success():
    product = max((p for p in PRODUCTS if p.query == "lamp"), key=lambda p: p.price)
    for changed in (
        goal_for(product, ceiling=10.0),
        Goal(**{**vars(goal_for(product)), "nouns": ("chair",), "query": "chair", "category": "x"}),
    ):
        env = started(changed)
        env.step(f"search[{product.title}]")
        letter = next(
            action
            for action in env.admissible_actions()[1:]
            if len(action) == len("click [ a ]")
            and PRODUCTS[env.task.page(env._state).links[action[8]].item] is product
        )
        play(env, letter, *(f"click[{values[0]}]" for _, values in product.options))
        _, reward, terminated, _, info = env.step("click[buy]")
        assert (reward, terminated, info["success"]) == (0.0, True, False)


def on_the_product_page():
    """The goal's product with its options chosen: one click from success."""
    product = next(p for p in PRODUCTS if len(p.options) == 2)
    env = started(goal_for(product), max_turns=50)
    while env.expert_action() != "click [ buy ]":
        env.step(env.expert_action())
    return env


@pytest.mark.parametrize(
    "response",
    [
        "",
        "<action></action>",
        "<think>x</think><action> </action>",
        "<think>x</think><action>click[buy] or click[prev]</action>",
        "<think>x</think><action>click[buy], click[back]</action>",
        "<think>x</think><action>click[buy or prev]</action>",
        "<think>x</think><action>click[buy|prev]</action>",
        "<think>x</think><action>click[]</action>",
        "<think>x</think><action>buy</action>",
        "<think>x</think><action>click buy</action>",
        "<think>x</think><action>click[buy].</action>",
        "<think>click[buy]</think>",
        "<think><action>click[buy]</action></think>",
        "<think>x</think><action><action>click[buy]</action></action>x<action>none</action>",
        "<think>x</think><action>click[buy]</action><action>none</action>",
        "<think>x</think><action>сlick[buy]</action>",  # A Cyrillic c.
        "<think>x</think><action>clic\u212a[buy]</action>",  # The Kelvin sign.
        "<think>x</think><action>ｃｌｉｃｋ[buy]</action>",
        "<think>x</think><action>click[buу]</action>",  # A Cyrillic y.
        "<think>x</think><action>click[\u200bbuy]</action>",
        "<think>x</think><action>click\u00a0[buy]</action>",
        "<think>x</think><action>click[buy now]</action>",  # The label of the other style.
        "<think>x</think><action>click[a]</action>",  # A result of the page before.
        "<think>x</think><action>click[B000000000]</action>",
        "click[buy]",
    ],
)
def test_the_verifier_is_not_fooled(response):
    env = on_the_product_page()
    action = parse_response(response).action or ""
    _, reward, terminated, _, info = env.step(action)
    assert (reward, terminated, info["success"], info["admissible"]) == (0.0, False, False, False)


def test_the_honest_response_earns_success():
    env = on_the_product_page()
    action = parse_response(format_response(env.thought(), env.expert_action())).action
    _, reward, terminated, _, info = env.step(action)
    assert (reward, terminated, info["success"]) == (10.0, True, True)


@pytest.mark.parametrize("observation", ["compact", "full"])
def test_an_echo_of_the_prompt_earns_nothing(observation):
    env = WebShop(observation=observation, max_turns=6)
    for seed in range(10):
        text, info = env.reset(seed=seed)
        ended = False
        while not ended:
            for said in (text, f"{env.instruction} {text}", " ".join(info["admissible_actions"])):
                if ended:
                    break
                text, reward, terminated, truncated, info = env.step(said)
                assert (reward, info["success"]) == (0.0, False)
                ended = terminated or truncated
        assert not terminated


def test_clicks_on_what_the_page_does_not_show_change_nothing():
    env = started(goal_for(PRODUCTS[0]), observation="full", max_turns=30)
    env.step("search[@]".replace("@", " ".join(env.goal.words)))
    shown = env.task.page(env._state).links
    hidden = [p.asin for p in PRODUCTS if p.asin.lower() not in shown][:5]
    before = state(env)
    for action in (
        *(f"click[{asin}]" for asin in hidden),
        "click[buy now]",
        "click[description]",
        "click[small]",
    ):
        assert not env.step(action)[-1]["admissible"]
        assert state(env) == before


def test_no_text_breaks_a_step():
    rng = random.Random(0)
    pieces = ["search", "click", "[", "]", " ", "\n", "buy", "a", "<", "é", "\0", "\ud800", "1e9", "[]", "("]
    for seed in range(30):
        env = started(seed=seed, max_turns=40)
        for _ in range(39):
            answer = env.step("".join(rng.choices(pieces, k=rng.randrange(9))))
            assert answer[2] is False


# Anchors and expert.


def test_the_anchor_tells_hidden_states_apart():
    """Two pages that look the same may have come of two queries; visits are remembered on the product's page."""
    product = PRODUCTS[0]
    env = started(goal_for(product), max_turns=30)
    full, short = (
        f"search [ {' '.join(w)} ]" for w in (env.goal.words, (*product.attributes, product.query))
    )
    one = play(env, full, "click [ a ]")[-1]["anchor"]
    two = play(env, "click [ back ]", full, "click [ a ]")[-1]["anchor"]
    assert one == two
    three = play(env, "click [ prev ]", "click [ b ]", "click [ prev ]", "click [ a ]")
    assert three[-1]["anchor"] != one
    other = play(env, "click [ back ]", short)
    assert other[-1]["anchor"].split("|")[1:3] != one.split("|")[1:3]


def test_the_expert_recovers_from_anything():
    env = WebShop(max_turns=60)
    rng = random.Random(1)
    seen = set()
    for seed in range(60):
        _, info = env.reset(seed=seed)
        ended = False
        for _ in range(8):
            actions = [a for a in info["admissible_actions"] if a != "click [ buy ]"]
            _, _, _, ended, info = env.step(rng.choice(actions))
        seen.add(env._state.page)
        while not ended:
            _, _, terminated, truncated, info = env.step(env.expert_action())
            assert info["admissible"]
            ended = terminated or truncated
        assert info["success"]
    assert {"search", "results", "item"} <= seen


def test_an_expert_that_searches_for_less_needs_more_turns():
    turns = {}
    for habit in ("all", "kind"):
        env = WebShop(expert_search=habit, max_turns=60)
        turns[habit] = 0
        for seed in range(60):
            env.reset(seed=seed)
            goal = env.goal
            searched = goal.words if habit == "all" else (*goal.attributes, goal.query)
            assert env.expert_action() == f"search [ {' '.join(searched)} ]"
            assert env.admissible_actions()[0] == f"search [ {' '.join(goal.words)} ]"
            ended = False
            while not ended:
                *_, ended, _, info = env.step(env.expert_action())
                turns[habit] += 1
            assert info["success"]
    assert turns["all"] / 60 < 5.1 < 6 < turns["kind"] / 60


def test_the_expert_says_what_it_can_do():
    env = WebShop(max_turns=15)
    for seed in range(100):
        env.reset(seed=seed)
        assert env.expert_success == 1.0
    assert started(max_turns=1).expert_success == 0.0


def test_thoughts_state_the_facts():
    product = next(p for p in PRODUCTS if len(p.options) == 2)
    env = started(goal_for(product))
    need = " ".join(["need", *product.attributes, product.query, *env.goal.options, "under"])
    assert env.thought().startswith(need)
    assert env.thought().endswith(" start")
    env.step(env.expert_action())
    verdicts = env.thought().split(" a ")[1].split()
    best = verdicts[-1]
    assert ["a", *verdicts][["a", *verdicts].index(best) + 1] == "fit"
    env.step(env.expert_action())
    one, two = env.goal.options
    assert env.thought().endswith(f" fit {one} open {two} open best {one}")
    env.step(env.expert_action())
    assert env.thought().endswith(f" fit {one} taken {two} open best {two}")
    env.step(env.expert_action())
    assert env.thought().endswith(f" fit {one} taken {two} taken best item")
    env.step("click[reviews]")
    assert env.thought().endswith(" reviews best none")
    assert env.expert_action() == "click [ prev ]"


def test_prompts_and_responses_are_short():
    codec = TextCodec(build_tokenizer(WebShop.vocabulary))
    env = WebShop()
    prompts, responses = [], []
    rng = random.Random(2)
    for seed in range(100):
        text, info = env.reset(seed=seed)
        ended = False
        while not ended:
            prompts.append(len(codec.encode(f" {env.instruction} {text}")))
            response = format_response(env.thought(), env.expert_action())
            responses.append(len(codec.encode(response)) + 1)
            text, _, terminated, truncated, info = env.step(
                rng.choice([*info["admissible_actions"], env.expert_action()])
            )
            ended = terminated or truncated
    assert max(prompts) <= 40
    assert max(responses) <= 28
    assert len(WebShop.vocabulary) <= 120


# Options.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward": "tens"}, "reward must be one of success, score, given 'tens'"),
        ({"results": 0}, "results must be a whole number from 1 to 6, given 0"),
        ({"results": 7}, "results"),
        ({"results": 51, "observation": "full"}, "from 1 to 50"),
        ({"attributes": 3}, "attributes must be a whole number from 1 to 2"),
        ({"options": -1}, "options must be a whole number from 0 to 2"),
        ({"catalogue": 1.5}, "catalogue"),
        ({"expert_search": "none"}, "expert_search must be one of all, kind"),
        ({"goals": "robot"}, "goals must be one of synthetic, human"),
        ({"held_out": "dev"}, "held_out"),
        ({"data": "/nowhere"}, "data needs observation 'full'"),
        ({"data": "/nowhere", "observation": "full"}, "folder with one, given '/nowhere'"),
        ({"max_turns": 0}, "max_turns"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        WebShop(**options)


def test_the_registry_names_wrong_options():
    with pytest.raises(
        UsageError, match=r"unknown option 'result' of environment 'webshop'\. Did you mean 'results'"
    ):
        make_env(EnvConfig(name="webshop", options={"result": 3}))


def test_reset_options_are_checked():
    with pytest.raises(ValueError, match="option 'goal', given \\['goals'\\]"):
        WebShop().reset(options={"goals": 1})


def test_options_do_not_leak_through_the_cache():
    texts = [
        WebShop(**options).reset(seed=5)[0]
        for options in ({}, {"attributes": 1, "options": 1}, {"catalogue": 1}, {"observation": "full"}, {})
    ]
    assert texts[0] == texts[-1]
    assert len(set(texts)) == 4


def test_nothing_works_before_reset_or_after_the_end():
    for ask in (
        lambda env: env.step("search[x]"),
        lambda env: env.thought(),
        lambda env: env.expert_action(),
    ):
        with pytest.raises(RuntimeError, match="call reset"):
            ask(WebShop())
    env = started(max_turns=1)
    *_, truncated, info = env.step("search[x]")
    assert truncated
    assert not info["success"]
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("search[x]")
