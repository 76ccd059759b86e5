"""Episodes as tensors [rows, tokens], in the two layouts that Arena's public functions take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import torch
from hypothesis import strategies as st
from torch import Tensor

from arena.algorithms.advantages import TurnRewards
from tests.algorithms.naive import Episode, Turn

#: Of rewards: sums, means and discounted sums of them are equal or differ by far more than rounding.
REWARDS = (0.0, 0.0, 1.0, -0.1, 0.5, -1.0, 10.0)


#: Of values and entropies.
LEVELS = 33


def _token(number: int) -> tuple[float, float, float]:
    """A token's reward, value and entropy from one number: a draw of Hypothesis is slow."""
    number, reward = divmod(number, len(REWARDS))
    entropy, value = divmod(number, LEVELS)
    return REWARDS[reward], (value - LEVELS // 2) / 8, entropy / 8


TOKENS = st.integers(0, len(REWARDS) * LEVELS * LEVELS - 1).map(_token)
#: A turn of one to three tokens, from one of three states.
TURNS = st.builds(
    lambda anchor, tokens: Turn(anchor, *zip(*tokens, strict=True)),
    st.integers(0, 2),
    st.lists(TOKENS, min_size=1, max_size=3),
)
EPISODES = st.lists(TURNS, min_size=1, max_size=4).map(tuple)


@st.composite
def batches(draw: st.DrawFn) -> list[Episode]:
    """Groups of one to four episodes of one to four turns, mixed."""
    groups = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    members = [number for number, size in enumerate(groups) for _ in range(size)]
    return [Episode(group, draw(EPISODES)) for group in draw(st.permutations(members))]


@dataclass(frozen=True)
class Layout:
    """One batch. `turn` and `anchor` are [rows] where a row is a turn, [rows, tokens] where it is an episode.

    `place` [rows, tokens] numbers the sampled tokens in the order of the episodes.
    """

    rewards: Tensor
    values: Tensor
    entropy: Tensor
    mask: Tensor
    group: Tensor
    episode: Tensor
    turn: Tensor
    anchor: Tensor
    place: Tensor

    @property
    def groups(self) -> dict[str, Tensor]:
        """What group methods are told."""
        return {"group": self.group, "episode": self.episode}

    @property
    def turns(self) -> dict[str, Tensor]:
        """What methods with turns are told."""
        return {"episode": self.episode, "turn": self.turn}

    def flat(self, values: Tensor) -> list[float]:
        """Values of the sampled tokens, in the order of the episodes. All others must be 0."""
        assert (values[~self.mask] == 0).all()
        return values[self.mask][self.place[self.mask].argsort()].tolist()


def turn_rewards(episodes: Sequence[Episode]) -> TurnRewards:
    """One entry per turn, in the order of the episodes; no penalty."""
    turns = [(number, at, turn) for number, e in enumerate(episodes) for at, turn in enumerate(e.turns)]
    reward = torch.tensor([turn.reward for *_, turn in turns], dtype=torch.float64)
    return TurnRewards(
        episode=torch.tensor([number for number, *_ in turns]),
        group=torch.tensor([episodes[number].group for number, *_ in turns]),
        turn=torch.tensor([at for _, at, _ in turns]),
        reward=reward,
        penalty=torch.zeros_like(reward),
        anchor=torch.tensor([turn.anchor for *_, turn in turns]),
    )


def by_turn(episodes: Sequence[Episode], seed: int, garbage: float = torch.nan) -> Layout:
    """A row per turn."""
    rows = [(number, [at]) for number, episode in enumerate(episodes) for at in range(len(episode.turns))]
    layout, turn, anchor = _lay_out(episodes, rows, seed, garbage)
    of_row = layout.mask.int().argmax(1, keepdim=True)
    return _with(layout, turn.gather(1, of_row)[:, 0], anchor.gather(1, of_row)[:, 0])


def by_episode(episodes: Sequence[Episode], seed: int, garbage: float = torch.nan) -> Layout:
    """A row per episode, with a column or two between its turns."""
    rows = [(number, list(range(len(episode.turns)))) for number, episode in enumerate(episodes)]
    return _with(*_lay_out(episodes, rows, seed, garbage))


def both(episodes: Sequence[Episode], seed: int) -> tuple[Layout, Layout]:
    """The batch in both layouts."""
    return by_turn(episodes, seed), by_episode(episodes, seed)


def _with(layout: Layout, turn: Tensor, anchor: Tensor) -> Layout:
    return Layout(**{**vars(layout), "turn": turn, "anchor": anchor})


def _lay_out(
    episodes: Sequence[Episode], rows: list[tuple[int, list[int]]], seed: int, garbage: float
) -> tuple[Layout, Tensor, Tensor]:
    """Rows of some turns each, shuffled, padded on both sides with `garbage`; ids are arbitrary numbers."""
    random = Random(seed)
    starts, total = {}, 0
    for number, episode in enumerate(episodes):
        for at, turn in enumerate(episode.turns):
            starts[number, at] = total
            total += len(turn.rewards)
    groups = random.sample(range(-9, 90), 1 + max(episode.group for episode in episodes))
    names = random.sample(range(-9, 90), len(episodes))
    anchors = random.sample(range(-9, 90), 3)
    rows = random.sample(rows, len(rows))
    width = 4 + max(sum(len(episodes[number].turns[at].rewards) + 2 for at in some) for number, some in rows)
    reals = [torch.full((len(rows), width), garbage, dtype=torch.float64) for _ in range(3)]
    turn_id, anchor_id, place = (torch.full((len(rows), width), -1) for _ in range(3))
    for row, (number, some) in enumerate(rows):
        column = random.randint(0, 2)
        for at in some:
            turn = episodes[number].turns[at]
            tokens = len(turn.rewards)
            here = slice(column, column + tokens)
            for tensor, source in zip(reals, (turn.rewards, turn.values, turn.entropies), strict=True):
                tensor[row, here] = torch.tensor(source, dtype=torch.float64)
            turn_id[row, here], anchor_id[row, here] = at, anchors[turn.anchor]
            place[row, here] = starts[number, at] + torch.arange(tokens)
            column += tokens + random.randint(1, 2)
    layout = Layout(
        *reals,
        mask=place >= 0,
        group=torch.tensor([groups[episodes[number].group] for number, _ in rows]),
        episode=torch.tensor([names[number] for number, _ in rows]),
        turn=turn_id,
        anchor=anchor_id,
        place=place,
    )
    return layout, turn_id, anchor_id
