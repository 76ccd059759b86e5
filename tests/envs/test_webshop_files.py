"""WebShop on small files in the format of its own data."""

import json

import pytest

from arena.envs.check import check_env
from arena.envs.webshop.env import WebShop
from arena.envs.webshop.goals import NO_CEILING
from arena.envs.webshop.original import (
    _split,
    find_files,
    human_goals,
    load,
    read_product,
    synthetic_goals,
    title_nouns,
)
from arena.recipe import EnvConfig
from arena.seeding import EVAL_SEED_START

KINDS = ("shirt", "lamp", "chair", "tea", "camera", "rug", "hat", "mirror")


def record(i, **changes):
    kind = KINDS[i % len(KINDS)]
    fields = {
        "asin": f"B0{i:08d}",
        "name": f"Brand{i} {kind.title()} for Home, {i} Pack",
        "category": "garden",
        "query": f" {kind.title()}s ",
        "product_category": f"Shop › {kind.title()}s",
        "small_description": [f"Feature {i}", "Easy to CLEAN"],
        "full_description": f"The {kind} number {i}.",
        "pricing": "$10.99",
        "customization_options": {
            "Color": [{"value": " Navy/White ", "image": "u"}, {"value": "Red"}],
            "Size": None,
        },
        "images": ["u"],
    }
    return fields | changes


def instruction(i):
    kind = KINDS[i % len(KINDS)]
    return {
        "attributes": [f"made for {kind}", "long lasting"],
        "instruction": f"Find me long lasting {kind} number {i}",
        "instruction_attributes": ["long lasting"],
    }


def write(folder, count=40, human=True, suffix=""):
    records = [record(i) for i in range(count)]
    (folder / f"items_shuffle{suffix}.json").write_text(json.dumps(records))
    texts = {r["asin"]: instruction(i) for i, r in enumerate(records)}
    (folder / f"items_ins_v2{suffix}.json").write_text(json.dumps(texts))
    if human:
        said = {
            r["asin"]: [
                {
                    "instruction": f"i would like number {i}, a {KINDS[i % len(KINDS)]} in red.",
                    "instruction_attributes": ["long lasting"],
                    "instruction_options": {"color": "red"} if i % 2 else ["red"],
                },
                {"instruction": "nothing said", "instruction_attributes": [], "instruction_options": []},
            ]
            for i, r in enumerate(records)
        }
        (folder / "items_human_ins.json").write_text(json.dumps(said))
    return folder


def test_a_product_is_read_as_the_original_does():
    product = read_product(record(3), instruction(3))
    assert product.query == "teas"
    assert product.options == (("color", ("navy | white", "red")),)
    assert (product.price, product.price_tag) == (10.99, "$10.99")
    assert product.attributes == ("made for tea", "long lasting")
    assert product.features == ("Feature 3", "Easy to CLEAN")
    assert product.description == "The tea number 3."
    assert product.category == "Shop › Teas"
    assert product.document == (
        "brand3 tea for home, 3 pack the tea number 3. feature 3 color: navy | white, red"
    )


@pytest.mark.parametrize(
    ("pricing", "low", "high", "tag"),
    [
        ("$10.99", 10.99, 10.99, "$10.99"),
        ("$1,010.50", 1010.5, 1010.5, "$1010.5"),
        ("$10 $20", 10, 20, "$10.0 to $20.0"),
        ("", 100, 100, "$100.0"),
        (None, 100, 100, "$100.0"),
    ],
)
def test_prices(pricing, low, high, tag):
    product = read_product(record(1, pricing=pricing), {})
    assert low <= product.price <= high
    assert product.price_tag == tag
    assert read_product(record(1, pricing=pricing), {}).price == product.price


def test_synthetic_goals_are_every_combination_of_options():
    options = {"Size": [{"value": "S"}, {"value": "L"}], "Color": [{"value": "Red"}, {"value": "Blue"}]}
    product = read_product(record(0, customization_options=options), instruction(0))
    goals = synthetic_goals(product, instruction(0))
    assert [goal.options for goal in goals] == [("red", "s"), ("red", "l"), ("blue", "s"), ("blue", "l")]
    assert goals[1].sentence.startswith(
        "Find me long lasting shirt number 0 with color: red, and size: l, and price "
    )
    assert goals[0].attributes == ("long lasting",)
    assert all(10.99 < goal.ceiling <= 50 and goal.ceiling % 10 == 0 for goal in goals)
    assert goals == synthetic_goals(product, instruction(0))
    assert synthetic_goals(product, {"attributes": ["x"]}) == []


def test_human_goals_skip_what_names_no_attribute_and_take_either_form_of_options():
    product = read_product(record(0, pricing="$2000"), instruction(0))
    said = [
        {"instruction": "a lamp.", "instruction_attributes": ["a"], "instruction_options": {"color": "red"}},
        {"instruction": "a lamp.", "instruction_attributes": [], "instruction_options": {}},
        {"instruction": "a hat", "instruction_attributes": ["b"], "instruction_options": ["blue", "s"]},
    ]
    first, second = human_goals(product, said)
    assert (first.sentence, first.options, first.ceiling) == ("a lamp", ("red",), NO_CEILING)
    assert (second.sentence, second.options) == ("a hat", ("blue", "s"))


def test_likely_nouns():
    title = "Acme Women's Boots with the Soft Lining for All, 2-Pack of XL"
    assert title_nouns(title) == ("acme", "women's", "boots", "soft", "lining", "pack", "xl")


def test_the_originals_split_of_the_goals():
    goals = synthetic_goals(read_product(record(0), instruction(0)), instruction(0))
    product = read_product(
        record(0, customization_options={"n": [{"value": str(i)} for i in range(2500)]}), {}
    )
    goals = synthetic_goals(product, instruction(0))
    shop = _split((product,), goals)
    assert (shop.test, shop.evaluation) == (tuple(goals[:500]), tuple(goals[500:1500]))
    assert shop.train == tuple(goals[1500:])
    few = _split((product,), goals[:8])
    assert [len(few.test), len(few.evaluation), len(few.train)] == [2, 2, 4]
    # A training goal that says what a held-out one says is left out.
    assert len(_split((product,), [*goals[:8], goals[0]]).train) == 4
    with pytest.raises(ValueError, match="3 goals: too few"):
        _split((product,), goals[:3])


def test_goals_are_shuffled_as_in_the_original(tmp_path):
    shop = load(find_files(str(write(tmp_path))), "human")
    order = [goal.sentence.split("number ")[1].split(",")[0] for goal in (*shop.test, *shop.evaluation)]
    # random.Random(233).shuffle of 40 goals.
    assert order[:5] == ["39", "16", "1", "20", "23"]


@pytest.mark.parametrize("goals", ["synthetic", "human"])
@pytest.mark.parametrize("held_out", ["test", "evaluation"])
def test_episodes_on_files(tmp_path, goals, held_out):
    env = WebShop(observation="full", data=str(write(tmp_path)), goals=goals, held_out=held_out)
    shop = load(find_files(str(tmp_path)), goals)
    pool = {"test": shop.test, "evaluation": shop.evaluation}[held_out]
    for seed in (*range(20), *range(EVAL_SEED_START, EVAL_SEED_START + 20)):
        text, _ = env.reset(seed=seed)
        assert env.goal in (shop.train if seed < EVAL_SEED_START else pool)
        assert env.goal.sentence in text
        ended = False
        while not ended:
            _, reward, terminated, truncated, info = env.step(env.expert_action())
            assert info["admissible"]
            ended = terminated or truncated
        assert (reward, info["success"]) == (10.0, True)


def test_the_contract_holds_on_files(tmp_path):
    options = {"data": str(write(tmp_path, count=120)), "goals": "human"}
    config = EnvConfig(name="webshop", observation="full", options=options)
    assert [result for result in check_env(config, tasks=10) if not result.passed] == []


def test_the_folder_may_come_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("WEBSHOP_DATA", str(write(tmp_path)))
    env = WebShop(observation="full", data="$WEBSHOP_DATA")
    assert "number" in env.reset(seed=0)[0]


def test_files_are_found_or_missed_with_a_reason(tmp_path):
    with pytest.raises(ValueError, match="which has 0"):
        find_files(str(tmp_path))
    write(tmp_path, suffix="_1000", human=False)
    files = find_files(str(tmp_path))
    assert files.instructions.name == "items_ins_v2_1000.json"
    with pytest.raises(ValueError, match=r"goals 'human' need items_human_ins\.json"):
        load(files, "human")
    write(tmp_path)
    with pytest.raises(ValueError, match=r"has 2: items_shuffle\.json, items_shuffle_1000\.json"):
        find_files(str(tmp_path))
    assert find_files(str(tmp_path / "items_shuffle.json")).human is not None
    (tmp_path / "items_ins_v2.json").unlink()
    with pytest.raises(ValueError, match=r"no items_ins_v2\.json beside"):
        find_files(str(tmp_path / "items_shuffle.json"))
