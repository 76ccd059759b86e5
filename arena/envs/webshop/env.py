"""WebShop: search a shop, open a product, choose its options, buy what a sentence asks for.

Pages, actions and score are those of WebShop (Yao et al. 2022, `web_agent_site`); the reward of an episode is
verl-agent's and ARLArena's 10 for a score of 1, or the score itself. See `reward`, `pages`, `search`, `catalogue` and
`original` for their part and its departures. Of the environment itself: an action is compared after normalising case
and white space, so that `search [ red shirt ]` is a search; a search is understood only where there is a search bar
(the original's text mode searches from any page); the attributes page is always linked.
"""

from __future__ import annotations

import re
import string
from functools import lru_cache
from os.path import expandvars
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from arena.envs.base import TextEnv, one_of, split_of_seed, whole_number
from arena.envs.webshop.catalogue import DEPARTMENTS, Product, generated_catalogue
from arena.envs.webshop.goals import draw_goal
from arena.envs.webshop.original import Files, GoalKind, find_files, load
from arena.envs.webshop.pages import (
    BUTTONS,
    LETTERS,
    SUB_PAGES,
    State,
    Store,
    View,
    anchor,
    compact_goal,
    compact_text,
    full_goal,
    full_text,
    links,
    searched,
)
from arena.envs.webshop.reward import Goal, attribute_matches, same_option, score, type_factor
from arena.envs.webshop.search import SearchEngine
from arena.seeding import stream_seed

_RULES = """\
You are shopping on a website. Buy the product that the instruction asks for: of the right kind, with the attributes
and options that it names, at a price below the one it gives.

Pages: a search page; pages of search results, where each product has an id, a title and a price; a product's page with
its options; and pages with its description, features, reviews and attributes. Text between [button] and [button_] can
be clicked; [clicked button] marks options that you have chosen and products that you have opened.

Actions: search[words] where there is a search bar, and click[label] for a button on the page. Choose every option that
the instruction asks for before you click[buy now]: buying ends the task. An action that the page does not offer changes
nothing.

First think about what is asked for and what the page shows. Then choose exactly one action. Answer in this format and
write nothing else:
<think>your reasoning</think><action>your action</action>"""

#: What the expert searches for: all of the goal's words, or its attributes and kind.
ExpertSearch = Literal["all", "kind"]
#: verl-agent's and ARLArena's reward of a success.
_SUCCESS_REWARD = 10.0
_ACTION = re.compile(r"(search|click) ?\[(.*)\]", re.DOTALL)
_SPACE = re.compile(r"\s+", re.ASCII)
_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_CACHED_PAGES = 5_000


class _Page(NamedTuple):
    """A state as it is shown; links are by label, searches are apart."""

    text: str
    links: dict[str, State]
    actions: tuple[str, ...]
    anchor: str


class Task:
    """A goal in a store, seen in some view. Remembers its pages and what it thinks of products."""

    def __init__(self, store: Store, goal: Goal, view: View, expert_search: ExpertSearch = "all") -> None:
        self.store, self.goal, self.view = store, goal, view
        self._habit = 0 if expert_search == "all" else 1
        self._pages: dict[State, _Page] = {}
        self._verdicts: dict[int, str] = {}

    def page(self, state: State) -> _Page:
        """The page of a state."""
        page = self._pages.get(state)
        if page is None:
            if len(self._pages) >= _CACHED_PAGES:
                self._pages.clear()
            page = self._pages[state] = self._page(state)
        return page

    def follow(self, state: State, action: str) -> State | None:
        """The state after an action; None if the page does not offer it."""
        text = _SPACE.sub(" ", action.strip(string.whitespace)).translate(_SMALL)
        found = _ACTION.fullmatch(text)
        if found is None:
            return None
        verb, argument = found[1], found[2].strip(" ")
        if verb == "click":
            return self.page(state).links.get(argument)
        if state.page != "search" or not argument or "[" in argument or "]" in argument:
            return None
        return searched(argument)

    def score(self, state: State) -> float:
        """The score of what was bought; 0 before."""
        if state.page != "done":
            return 0.0
        return score(self.store.products[state.item], self.goal, state.options)

    def searches(self) -> tuple[str, ...]:
        """Searches that are listed as admissible: the goal's words, its attributes and kind, and fewer words. Any other
        words will do."""
        goal = self.goal
        some = (
            goal.words,
            (*goal.attributes, goal.query),
            (goal.query, *goal.options),
            (*goal.attributes[:1], goal.query),
            (goal.query,),
        )
        return tuple(dict.fromkeys(self._spoken("search", " ".join(words)) for words in some))

    def expert(self, state: State) -> tuple[str, str]:
        """Thought and action of the expert.

        It searches for the goal's words (or for its attributes and kind), opens the first product not yet visited that
        fits by kind, attributes and price, chooses the options and buys. Where nothing fits it turns the page, and
        after the last page it goes back; a product that does not fit or lacks an option it leaves.
        """
        buttons = BUTTONS[self.view.style]
        if state.page == "search":
            return self._thought("start"), self.searches()[self._habit]
        if state.page == "results":
            shown = self.view.shown(self.store, state)
            verdicts = {
                label: "seen" if item in state.visited else self._verdict(item)
                for label, item in shown.items()
            }
            best = next((label for label, verdict in verdicts.items() if verdict == "fit"), None)
            said = [word for pair in verdicts.items() for word in pair]
            turn = buttons["next"] if self.view.more(self.store, state) else buttons["back"]
            return self._thought(*said, "best", best or "none"), self._spoken("click", best or turn)
        if state.page == "item":
            verdict, left = self._verdict(state.item), self._options_left(state)
            said = [word for pair in left.items() for word in pair]
            if verdict != "fit" or "lack" in left.values():
                return self._thought(verdict, *said, "best", "none"), self._spoken("click", buttons["prev"])
            wanted = next((value for value, status in left.items() if status == "open"), None)
            if wanted is None:
                return self._thought(verdict, *said, "best", "item"), self._spoken("click", buttons["buy"])
            return self._thought(verdict, *said, "best", wanted), self._spoken(
                "click", self._offered(state, wanted)
            )
        return self._thought(state.page, "best", "none"), self._spoken("click", buttons["prev"])

    def walk(self, turns: int) -> bool:
        """Whether the expert succeeds within that many turns from the start."""
        state = State()
        for _ in range(turns):
            following = self.follow(state, self.expert(state)[1])
            if following is None:
                return False
            state = following
            if state.page == "done":
                return self.score(state) == 1
        return False

    def _page(self, state: State) -> _Page:
        store, goal, view = self.store, self.goal, self.view
        targets = links(store, state, view)
        if state.page == "search":
            actions = self.searches()
        else:
            actions = tuple(self._spoken("click", label) for label in targets)
        if view.style == "compact":
            text = compact_text(store, goal, state, view)
        else:
            text = full_text(store, goal, state, view, self.score(state))
            offered = ("search[words]",) if state.page == "search" else actions
            text += f"\nAvailable actions: {', '.join(offered)}" if offered else ""
        return _Page(text, targets, actions, anchor(store, goal, state))

    def _spoken(self, verb: str, argument: str) -> str:
        return f"{verb} [ {argument} ]" if self.view.style == "compact" else f"{verb}[{argument}]"

    def _thought(self, *words: str) -> str:
        goal = compact_goal(self.goal) if self.view.style == "compact" else full_goal(self.goal)
        return " ".join([goal, *words])

    def _verdict(self, item: int) -> str:
        """miss: another kind, or an attribute is missing; dear: above the ceiling; fit."""
        verdict = self._verdicts.get(item)
        if verdict is None:
            verdict = self._verdicts[item] = self._judged(self.store.products[item])
        return verdict

    def _judged(self, product: Product) -> str:
        goal = self.goal
        if type_factor(product, goal) < 1 or attribute_matches(product, goal) < len(goal.attributes):
            return "miss"
        return "fit" if product.price <= goal.ceiling else "dear"

    def _options_left(self, state: State) -> dict[str, str]:
        """Each wanted option: taken, open (offered and not chosen) or lack (not offered)."""
        return {
            wanted: "taken"
            if any(same_option(value, wanted) for value in state.options)
            else ("open" if self._offered(state, wanted) else "lack")
            for wanted in self.goal.options
        }

    def _offered(self, state: State, wanted: str) -> str:
        """The product's first value that resembles a wanted one, or nothing."""
        values = [value for _, values in self.store.products[state.item].options for value in values]
        return wanted if wanted in values else next((v for v in values if same_option(v, wanted)), "")


class WebShop(TextEnv):
    """Buy the product that a sentence asks for.

    Args (options): `reward` is `success` (10 for a score of 1, else 0: verl-agent, ARLArena) or `score` (the paper's).
    `results` per page: 10, and 4 in the compact style. A goal of the generated catalogue names one to `attributes` (1
    or 2) attributes and at most `options` (0 to 2) options; `catalogue` is the catalogue's seed. The expert searches
    for `all` of the goal's words, or for its attributes and `kind`, which finds less (`expert_search`).

    `data` is a folder with WebShop's own files, or the items_shuffle file in it (variables as in `$WEBSHOP_DATA` are
    filled in); it takes the full observation. Of its `goals` there are `synthetic` ones (verl-agent's default) and
    `human` ones; evaluation seeds draw from `held_out`, `test` or `evaluation`.

    `reset(options={"goal": Goal(...)})` starts with a hand-made goal.
    """

    name: ClassVar[str] = "webshop"
    summary: ClassVar[str] = (
        "Search a shop, open a product, choose its options, and buy what a sentence asks for."
    )
    fully_observed: ClassVar[bool] = False
    open_ended: ClassVar[bool] = True
    longest_observation: ClassVar[int] = 50_000
    longest_action: ClassVar[int] = 512
    #: A search is a text of its own: it says the goal's words again.
    largest_action_share: float = 0.5
    vocabulary: ClassVar[tuple[str, ...]] = tuple(
        dict.fromkeys(
            (
                *(
                    name,
                    "need",
                    "under",
                    "start",
                    "results",
                    "more",
                    "seen",
                    "item",
                    "chosen",
                    "none",
                    "done",
                ),
                *("miss", "dear", "fit", "open", "taken", "lack", "best", "search", "click", "[", "]"),
                *(*BUTTONS["compact"].values(), *SUB_PAGES, *LETTERS, *string.digits),
                *(noun for d in DEPARTMENTS for nouns in d.shelves.values() for noun in nouns),
                *(word for d in DEPARTMENTS for word in d.attributes),
                *(
                    word
                    for d in DEPARTMENTS
                    for kind, values in d.options.items()
                    for word in (kind, *values)
                ),
            )
        )
    )

    def __init__(
        self,
        *,
        max_turns: int = 15,
        observation: Literal["compact", "full"] = "compact",
        reward: Literal["success", "score"] = "success",
        results: int | None = None,
        attributes: int = 2,
        options: int = 2,
        catalogue: int = 0,
        expert_search: ExpertSearch = "all",
        data: str | None = None,
        goals: GoalKind = "synthetic",
        held_out: Literal["test", "evaluation"] = "test",
    ) -> None:
        super().__init__(max_turns=max_turns, observation=observation)
        self.reward = one_of("reward", reward, ("success", "score"))
        most = len(LETTERS) if observation == "compact" else 50
        results = (4 if observation == "compact" else 10) if results is None else results
        self.view = View(observation, whole_number("results", results, 1, most))
        self.attributes = whole_number("attributes", attributes, 1, 2)
        self.options = whole_number("options", options, 0, 2)
        self.catalogue = whole_number("catalogue", catalogue, 0, 2**31)
        self.expert_search = one_of("expert_search", expert_search, ("all", "kind"))
        self.goals = one_of("goals", goals, ("synthetic", "human"))
        self.held_out = one_of("held_out", held_out, ("test", "evaluation"))
        if data is None and (goals, held_out) != ("synthetic", "test"):
            raise ValueError(
                "goals and held_out choose among the goals of WebShop's own files: give data too"
            )
        if data is not None and observation == "compact":
            raise ValueError(
                "data needs observation 'full': the compact words are those of the generated catalogue"
            )
        self._files = find_files(expandvars(data)) if data is not None else None
        if self._files:
            load(self._files, self.goals)
        self._task: Task | None = None
        self._state, self._turns, self._ended = State(), 0, True

    @property
    def instruction(self) -> str:
        return self.name if self.observation_style == "compact" else _RULES

    @property
    def largest_return(self) -> float:
        return _SUCCESS_REWARD if self.reward == "success" else 1.0

    @property
    def expert_success(self) -> float:
        """1 or 0: the expert walks through the task."""
        return float(self.task.walk(self.max_turns))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        if unknown := set(options or ()) - {"goal"}:
            raise ValueError(f"reset takes the option 'goal', given {sorted(unknown)}")
        if options:
            self._task = Task(self._store(), options["goal"], self.view, self.expert_search)
        else:
            self._task = self._task_of(self.task_seed(seed))
        self._state, self._turns, self._ended = State(), 0, False
        return self._answer(admissible=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._ended:
            raise RuntimeError("the episode has ended: call reset")
        following = self.task.follow(self._state, action)
        if following is not None:
            self._state = following
        self._turns += 1
        bought = self._state.page == "done"
        truncated = not bought and self._turns >= self.max_turns
        self._ended = bought or truncated
        observation, info = self._answer(admissible=following is not None)
        reward = info["score"] if self.reward == "score" else _SUCCESS_REWARD * info["success"]
        return observation, reward, bought, truncated, info

    def expert_action(self) -> str:
        return self.task.expert(self._state)[1]

    def thought(self) -> str:
        """The goal's words, then what the page shows of it.

        On a page of results each product's label with its verdict (`miss`, `dear`, `seen` or `fit`) and the best of
        them; on a product's page its verdict and each wanted option with its status (`open`, `taken` or `lack`).
        """
        return self.task.expert(self._state)[0]

    def admissible_actions(self) -> tuple[str, ...]:
        """The labels of the page; on the search page some searches, of which any is understood."""
        return self.task.page(self._state).actions

    @property
    def task(self) -> Task:
        if self._task is None:
            raise RuntimeError("call reset first")
        return self._task

    @property
    def goal(self) -> Goal:
        """What the current task asks for."""
        return self.task.goal

    def _answer(self, admissible: bool) -> tuple[str, dict[str, Any]]:
        page, gained = self.task.page(self._state), self.task.score(self._state)
        return page.text, {
            "success": gained == 1,
            "admissible": admissible,
            "admissible_actions": page.actions,
            "anchor": page.anchor,
            "score": gained,
        }

    def _store(self) -> Store:
        return (
            _generated_store(self.catalogue) if self._files is None else _file_store(self._files, self.goals)
        )

    def _task_of(self, seed: int) -> Task:
        source = (self._files, self.goals, self.held_out) if self._files else (self.catalogue,)
        key = (seed, self.view, self.attributes, self.options, self.expert_search, source)
        return self.remembered(
            key, lambda: Task(self._store(), self._goal_of(seed), self.view, self.expert_search)
        )

    def _goal_of(self, seed: int) -> Goal:
        if self._files is None:
            return self.draw_task(seed, self._sample)
        shop = load(self._files, self.goals)
        held_out = shop.test if self.held_out == "test" else shop.evaluation
        pool = held_out if split_of_seed(seed) == "eval" else shop.train
        return pool[int(np.random.default_rng(stream_seed("draw", self.name, seed)).integers(len(pool)))]

    def _sample(self, rng: np.random.Generator) -> tuple[Goal, str]:
        goal = draw_goal(rng, self._store().products, self.attributes, self.options)
        return goal, goal.content


@lru_cache(maxsize=2)
def _generated_store(seed: int) -> Store:
    products = generated_catalogue(seed)
    return Store(products, SearchEngine([product.document for product in products]))


@lru_cache(maxsize=2)
def _file_store(files: Files, goals: GoalKind) -> Store:
    products = load(files, goals).products
    return Store(products, SearchEngine([product.document for product in products]))
