"""WebShop's own data files, when the user has them.

`items_shuffle*.json` holds the products, `items_ins_v2*.json` their attributes and synthetic instructions,
`items_human_ins.json` the instructions that people wrote. Nothing is downloaded. Read as the original's `load_products`
and `get_goals` do, with its shuffle of the goals (seed 233), so that a goal has the same number here and there.

Departures: prices given as a range and ceilings come from named seeds (the original draws them anew in every process);
nouns of a title come from `title_nouns`, where the original asks a spaCy model; reviews, kept in a further file, are
not read.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import product as combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from arena.envs.webshop.catalogue import Product
from arena.envs.webshop.goals import ceiling_text, draw_ceiling
from arena.envs.webshop.reward import Goal
from arena.seeding import stream_seed

GoalKind = Literal["synthetic", "human"]
#: The original's price for a product without one.
_NO_PRICE = 100.0
_SHUFFLE_SEED = 233
#: The original's split of the shuffled goals: the first 500 are the test set, the next 1,000 the evaluation set.
_TEST, _EVALUATION = 500, 1500
_TITLE_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_FUNCTION_WORDS = frozenset(
    (
        *(
            "a",
            "an",
            "and",
            "or",
            "of",
            "for",
            "with",
            "without",
            "in",
            "on",
            "by",
            "to",
            "the",
            "from",
            "at",
            "as",
        ),
        *(
            "is",
            "are",
            "be",
            "it",
            "its",
            "your",
            "you",
            "our",
            "this",
            "that",
            "not",
            "all",
            "up",
            "off",
            "out",
        ),
        *("over", "per", "each", "just", "only", "more", "most", "help"),
    )
)


@dataclass(frozen=True)
class Files:
    """The three files of a data set; `human` may be missing."""

    items: Path
    instructions: Path
    human: Path | None


@dataclass(frozen=True)
class Shop:
    """Products, and the goals of each part of the original's split; no training goal asks what a held-out one asks."""

    products: tuple[Product, ...]
    test: tuple[Goal, ...]
    evaluation: tuple[Goal, ...]
    train: tuple[Goal, ...]


def find_files(data: str) -> Files:
    """The files of a folder, or those beside an `items_shuffle` file. Raises ValueError if there are none or many."""
    place = Path(data).expanduser()
    found = [place] if place.is_file() else sorted(place.glob("items_shuffle*.json"))
    if len(found) != 1:
        names = f": {', '.join(path.name for path in found)}" if found else ""
        raise ValueError(
            f"data must be an items_shuffle*.json file or a folder with one, given {data!r}, which has "
            f"{len(found)}{names}"
        )
    items = found[0]
    instructions = items.with_name(items.name.replace("items_shuffle", "items_ins_v2", 1))
    if not instructions.is_file() or instructions == items:
        raise ValueError(
            f"no {instructions.name} beside {items}: attributes and instructions are read from it"
        )
    human = items.with_name("items_human_ins.json")
    return Files(items, instructions, human if human.is_file() else None)


@lru_cache(maxsize=2)
def load(files: Files, kind: GoalKind) -> Shop:
    """Products and goals. Raises ValueError if human goals are wanted and their file is missing."""
    if kind == "human" and files.human is None:
        raise ValueError(f"goals 'human' need items_human_ins.json beside {files.items}")
    instructions = _read(files.instructions)
    human = _read(files.human) if kind == "human" and files.human else {}
    products, goals = [], []
    seen: set[str] = set()
    for record in _read(files.items):
        asin = record["asin"]
        if asin == "nan" or len(asin) > 10 or asin in seen:
            continue
        seen.add(asin)
        product = read_product(record, instructions.get(asin, {}))
        products.append(product)
        if kind == "human":
            goals += human_goals(product, human.get(asin, []))
        else:
            goals += synthetic_goals(product, instructions.get(asin, {}))
    random.Random(_SHUFFLE_SEED).shuffle(goals)
    return _split(tuple(products), goals)


def read_product(record: dict[str, Any], instructions: dict[str, Any]) -> Product:
    """A product from its record in the two files."""
    features = record.get("small_description") or []
    features = features if isinstance(features, list) else [features]
    prices = [float(re.sub(r"[^\d.]", "", part)) for part in (record.get("pricing") or "").split("$")[1:]]
    options: dict[str, tuple[str, ...]] = {}
    for kind, values in (record.get("customization_options") or {}).items():
        if values is not None:
            options[kind.lower()] = tuple(
                value["value"].strip().replace("/", " | ").lower() for value in values
            )
    price, tag = _NO_PRICE, f"${_NO_PRICE}"
    if len(prices) == 1:
        price, tag = prices[0], f"${prices[0]}"
    elif prices:
        rng = np.random.default_rng(stream_seed("webshop-price", record["asin"]))
        price, tag = float(rng.uniform(min(prices[:2]), max(prices[:2]))), f"${prices[0]} to ${prices[1]}"
    return Product(
        asin=record["asin"],
        title=record["name"],
        query=record["query"].lower().strip(),
        category=record["product_category"],
        nouns=title_nouns(record["name"]),
        attributes=tuple(instructions.get("attributes") or ()),
        options=tuple(options.items()),
        price=price,
        price_tag=tag,
        features=tuple(features),
        description=record.get("full_description") or "",
    )


def human_goals(product: Product, instructions: list[dict[str, Any]]) -> list[Goal]:
    """Goals that people wrote; those without attributes are skipped, as in the original."""
    return [
        _goal(
            product,
            index,
            said["instruction"].strip("."),
            tuple(said["instruction_attributes"]),
            _values(said["instruction_options"]),
        )
        for index, said in enumerate(instructions)
        if said["instruction_attributes"]
    ]


def synthetic_goals(product: Product, instructions: dict[str, Any]) -> list[Goal]:
    """One goal for each combination of the product's options."""
    text, attributes = instructions.get("instruction"), instructions.get("instruction_attributes")
    if not text or not attributes:
        return []
    kinds = sorted(product.options)
    goals = []
    for index, combination in enumerate(combinations(*(values for _, values in kinds))):
        details = ", and ".join(
            f"{kind}: {value}" for (kind, _), value in zip(kinds, combination, strict=True)
        )
        sentence = f"{text} with {details}" if details else text
        goals.append(_goal(product, index, sentence, tuple(attributes), combination))
    return goals


def title_nouns(title: str) -> tuple[str, ...]:
    """Words of a title that count as nouns: all but function words, numbers and single letters.

    In place of the original's spaCy tagger, which takes most words of a title for proper nouns. On 24 titles of the
    original data 97% of its nouns (en_core_web_sm 3.8) are found and 93% of those found are its; the type factor that
    the titles alone give is the same for 96% of their 552 pairs.
    """
    found = (word.lower() for word in _TITLE_WORD.findall(title))
    return tuple(word for word in found if len(word) > 1 and word not in _FUNCTION_WORDS)


def _goal(
    product: Product, index: int, sentence: str, attributes: tuple[str, ...], options: tuple[str, ...]
) -> Goal:
    rng = np.random.default_rng(stream_seed("webshop-ceiling", product.asin, index))
    ceiling = draw_ceiling(rng, product.price)
    words = " ".join([product.query, *attributes, *options]).lower().split()
    return Goal(
        asin=product.asin,
        sentence=sentence + ceiling_text(ceiling),
        words=tuple(dict.fromkeys(words)),
        query=product.query,
        category=product.category,
        nouns=product.nouns,
        attributes=attributes,
        options=options,
        ceiling=ceiling,
    )


def _values(options: dict[str, str] | list[str]) -> tuple[str, ...]:
    return tuple(options.values()) if isinstance(options, dict) else tuple(options)


def _split(products: tuple[Product, ...], goals: list[Goal]) -> Shop:
    """The original's split; of fewer than 2,000 goals a quarter each is kept for test and evaluation."""
    count = len(goals)
    if count < 4:
        raise ValueError(f"the files hold {count} goals: too few to split into training and evaluation")
    test, evaluation = (_TEST, _EVALUATION) if count >= 2000 else (count // 4, count // 2)
    held_out = goals[:evaluation]
    known = {_asked(goal) for goal in held_out}
    train = tuple(goal for goal in goals[evaluation:] if _asked(goal) not in known)
    if not train:
        raise ValueError("every training goal of the files is also a held-out goal")
    return Shop(products, tuple(goals[:test]), tuple(goals[test:evaluation]), train)


def _asked(goal: Goal) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    return goal.asin, goal.attributes, goal.options


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
