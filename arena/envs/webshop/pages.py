"""The shop's pages: what a state shows, and where each of its links leads.

Everything here is a pure function of the store, the goal and the state. The session's rules are those of the original
text environment: opening a product marks it as visited, going back to the search page forgets visits, leaving a
product forgets the chosen options, and its sub-pages keep them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from arena.envs.webshop.catalogue import Product
from arena.envs.webshop.goals import NO_CEILING
from arena.envs.webshop.reward import Goal
from arena.envs.webshop.search import SearchEngine

Style = Literal["compact", "full"]
SUB_PAGES = ("description", "features", "reviews", "attributes")
#: Labels of the buttons, by what they do: the original's, and one word each.
BUTTONS: dict[Style, dict[str, str]] = {
    "full": {"back": "back to search", "next": "next >", "prev": "< prev", "buy": "buy now"},
    "compact": {"back": "back", "next": "next", "prev": "prev", "buy": "buy"},
}
#: Labels of the results of a compact page, from the top.
LETTERS = ("a", "b", "c", "d", "e", "f")


class Store(NamedTuple):
    """Products and the engine that finds them by number."""

    products: tuple[Product, ...]
    search: SearchEngine


class State(NamedTuple):
    """A session: the page, the query and page number of the results, the open product and the value chosen for each of
    its kinds of option, and the visited products."""

    page: str = "search"
    query: str = ""
    number: int = 0
    item: int = -1
    chosen: tuple[str, ...] = ()
    visited: tuple[int, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """The values chosen so far."""
        return tuple(value for value in self.chosen if value)


class View(NamedTuple):
    """How pages are shown: the style, and results per page."""

    style: Style
    results: int

    def shown(self, store: Store, state: State) -> dict[str, int]:
        """Label and number of the products on a page of results."""
        found = store.search(state.query)[(state.number - 1) * self.results : state.number * self.results]
        if self.style == "compact":
            return dict(zip(LETTERS, found, strict=False))
        return {store.products[item].asin.lower(): item for item in found}

    def more(self, store: Store, state: State) -> bool:
        """Whether there is a further page of results."""
        return state.number * self.results < len(store.search(state.query))


def searched(query: str) -> State:
    """The first page of a query's results."""
    return State("results", query, 1)


def links(store: Store, state: State, view: View) -> dict[str, State]:
    """Where each label of a page leads. Of two equal labels the later counts: options come last, as in the original."""
    buttons = BUTTONS[view.style]
    if state.page in ("search", "done"):
        return {}
    targets = {buttons["back"]: State()}
    if state.page == "results":
        if state.number > 1:
            targets[buttons["prev"]] = state._replace(number=state.number - 1)
        if view.more(store, state):
            targets[buttons["next"]] = state._replace(number=state.number + 1)
        for label, item in view.shown(store, state).items():
            kinds = len(store.products[item].options)
            visited = tuple(sorted({*state.visited, item}))
            targets[label] = state._replace(page="item", item=item, chosen=("",) * kinds, visited=visited)
        return targets
    if state.page in SUB_PAGES:
        return targets | {buttons["prev"]: state._replace(page="item")}
    targets[buttons["prev"]] = state._replace(page="results", item=-1, chosen=())
    targets |= {page: state._replace(page=page) for page in SUB_PAGES}
    targets[buttons["buy"]] = state._replace(page="done")
    for kind, (_, values) in enumerate(store.products[state.item].options):
        for value in values:
            chosen = (*state.chosen[:kind], value, *state.chosen[kind + 1 :])
            targets[value] = state._replace(chosen=chosen)
    return targets


def anchor(store: Store, goal: Goal, state: State) -> str:
    """The whole state as text: equal exactly when task and state are."""
    products = store.products
    item = products[state.item].asin if state.item >= 0 else "none"
    visited = " ".join(products[i].asin for i in state.visited)
    return (
        f"{goal.sentence} | {state.page} | query {state.query!r} page {state.number} | product {item} chosen "
        f"{list(state.chosen)} | visited {visited or 'none'}"
    )


def compact_goal(goal: Goal) -> str:
    """A goal in a few words; the ceiling in tens of dollars, at most 9: generated prices are below 90."""
    ceiling = min(9, round(goal.ceiling / 10))
    return " ".join(["need", *goal.attributes, goal.query, *goal.options, "under", str(ceiling)])


def full_goal(goal: Goal) -> str:
    """A goal in a few words, the ceiling in dollars."""
    ceiling = [] if goal.ceiling == NO_CEILING else ["under", f"{goal.ceiling:.0f}"]
    return " ".join(["need", *goal.attributes, goal.query, *goal.options, *ceiling])


def compact_product(product: Product) -> str:
    """A product in a few words; the price in tens of dollars, rounded up. Ceilings are tens: nothing is lost."""
    return " ".join([*product.attributes, product.query, str(-int(-product.price // 10))])


def compact_text(store: Store, goal: Goal, state: State, view: View) -> str:
    """What a tiny model is shown. The goal comes last: its words are then at a fixed distance from the thought's."""
    words: list[str] = []
    if state.page == "search":
        words.append("start")
    elif state.page == "results":
        words += ["results", *str(state.number), *(["more"] if view.more(store, state) else [])]
        for label, item in view.shown(store, state).items():
            words += [
                label,
                *(["seen"] if item in state.visited else []),
                compact_product(store.products[item]),
            ]
    elif state.page == "item":
        product = store.products[state.item]
        words += ["item", compact_product(product)]
        for kind, values in product.options:
            words += [kind, *values]
        words += ["chosen", *(state.options or ("none",))]
    elif state.page in SUB_PAGES:
        words += [state.page, compact_product(store.products[state.item])]
    else:
        words.append("done")
    return " ".join([*words, compact_goal(goal)])


def full_text(store: Store, goal: Goal, state: State, view: View, score: float) -> str:
    """The original's page texts, parts separated by [SEP], buttons marked as in its rich text mode."""
    if state.page == "done":
        return _joined("Thank you for your order!", f"Your score (0.0 to 1.0): {score:.2f}")
    head = ("Instruction:", goal.sentence)
    if state.page == "search":
        return _joined("WebShop", *head, _button("Search"))
    head = (*head, _button("Back to Search"))
    if state.page == "results":
        total = len(store.search(state.query))
        parts = [*head, f"Page {state.number} (Total results: {total})"]
        parts += [_button("< Prev")] * (state.number > 1) + [_button("Next >")] * view.more(store, state)
        for item in view.shown(store, state).values():
            product = store.products[item]
            parts += [_button(product.asin, item in state.visited), product.title, product.price_tag]
        return _joined(*parts)
    product = store.products[state.item]
    parts = [*head, _button("< Prev")]
    if state.page == "item":
        for (kind, values), chosen in zip(product.options, state.chosen, strict=True):
            parts += [kind, *(_button(value, value == chosen) for value in values)]
        parts += [product.title, f"Price: {product.price_tag}", f"Rating: {product.rating}"]
        parts += [_button(page.capitalize()) for page in SUB_PAGES]
        return _joined(*parts, _button("Buy Now"))
    if state.page == "description":
        return _joined(*parts, product.description or "No Description")
    if state.page == "features":
        return _joined(*parts, *(product.features or ("No Features",)))
    if state.page == "attributes":
        return _joined(*parts, *(product.attributes or ("No Attributes",)))
    reviews = [f"{text} ({stars} of 5)" for text, stars in product.reviews]
    return _joined(*parts, *(reviews or ("No Reviews",)))


def _joined(*parts: str) -> str:
    return " [SEP] ".join(parts)


def _button(text: str, clicked: bool = False) -> str:
    return f"[clicked button] {text} [clicked button_]" if clicked else f"[button] {text} [button_]"
