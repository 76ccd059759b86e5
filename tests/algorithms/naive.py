"""The methods' formulas once more, in plain Python with loops, for tests to compare Arena with.

Written from the formulas alone, before Arena's code was read (`sapo_advantage` after): GRPO (arXiv 2402.03300), RLOO
(arXiv 2402.14740), GiGPO (arXiv 2505.10978), EMPG (arXiv 2509.09265), GAE (arXiv 1506.02438), SAPO's targets (arXiv
2608.19842). Nothing here is fast, knows a tensor or shares a line with `arena.algorithms`. One turn, or one token, has
one number.
"""

import math
import statistics
from collections.abc import Hashable, Sequence
from typing import NamedTuple

EPSILON = 1e-6


class Turn(NamedTuple):
    """One turn: the state it was taken in, and of each of its tokens the reward, the value before it, the entropy."""

    anchor: Hashable
    rewards: tuple[float, ...]
    values: tuple[float, ...]
    entropies: tuple[float, ...]

    @property
    def reward(self) -> float:
        """What the turn earned."""
        return sum(self.rewards)


class Episode(NamedTuple):
    """One episode of a group."""

    group: int
    turns: tuple[Turn, ...]


def normalised(values: Sequence[float], *, divide: bool = True) -> list[float]:
    """(x - mean) / (std + 1e-6) with the Bessel-corrected std; zeros for one value or for equal values."""
    if len(values) == 1 or max(values) == min(values):
        return [0.0] * len(values)
    mean = statistics.mean(values)
    spread = statistics.stdev(values) + EPSILON if divide else 1.0
    return [(value - mean) / spread for value in values]


def group_advantage(episodes: Sequence[Episode], *, divide: bool = True) -> list[float]:
    """Each episode's return, normalised within its group."""
    answer = [0.0] * len(episodes)
    for group in {episode.group for episode in episodes}:
        members = [place for place, episode in enumerate(episodes) if episode.group == group]
        returns = [sum(turn.reward for turn in episodes[place].turns) for place in members]
        for place, value in zip(members, normalised(returns, divide=divide), strict=True):
            answer[place] = value
    return answer


def leave_one_out(episodes: Sequence[Episode]) -> list[float]:
    """RLOO: each episode's return minus the mean return of the others of its group; 0 when alone."""
    answer = []
    for place, episode in enumerate(episodes):
        others = [
            sum(turn.reward for turn in other.turns)
            for number, other in enumerate(episodes)
            if other.group == episode.group and number != place
        ]
        own = sum(turn.reward for turn in episode.turns)
        answer.append(own - statistics.mean(others) if others else 0.0)
    return answer


def return_to_go(rewards: Sequence[float], gamma: float) -> list[float]:
    """sum over l >= 0 of gamma^l r_(t+l), each term by itself."""
    return [
        sum(gamma**later * rewards[start + later] for later in range(len(rewards) - start))
        for start in range(len(rewards))
    ]


def step_advantage(
    episodes: Sequence[Episode], *, gamma: float = 0.95, divide: bool = True
) -> list[list[float]]:
    """GiGPO's step part: the return-to-go, normalised among the turns of the group with the same anchor."""
    answer = [[0.0] * len(episode.turns) for episode in episodes]
    visits: dict[tuple[int, Hashable], list[tuple[int, int, float]]] = {}
    for number, episode in enumerate(episodes):
        ahead = return_to_go([turn.reward for turn in episode.turns], gamma)
        for place, turn in enumerate(episode.turns):
            visits.setdefault((episode.group, turn.anchor), []).append((number, place, ahead[place]))
    for visited in visits.values():
        values = normalised([value for _, _, value in visited], divide=divide)
        for (number, place, _), value in zip(visited, values, strict=True):
            answer[number][place] = value
    return answer


def gigpo(
    episodes: Sequence[Episode], *, omega: float = 1.0, gamma: float = 0.95, divide: bool = True
) -> list[list[float]]:
    """A_episode + omega A_step, per turn."""
    outer = group_advantage(episodes, divide=divide)
    inner = step_advantage(episodes, gamma=gamma, divide=divide)
    return [[whole + omega * part for part in parts] for whole, parts in zip(outer, inner, strict=True)]


def empg(
    advantages: Sequence[float],
    episodes: Sequence[Episode],
    *,
    k: float = 1.0,
    k_future: float = 1.0,
    zeta: float = 0.05,
) -> list[list[float]]:
    """A' = g(H_t) A + zeta f(H_(t+1)), minus its mean over the batch's turns.

    `advantages` has one number per episode. An episode's last turn has no turn after it and no second term.
    """
    mean_entropy = [[statistics.mean(turn.entropies) for turn in episode.turns] for episode in episodes]
    everything = [value for row in mean_entropy for value in row]
    low, high = min(everything), max(everything)
    scaled = [[(value - low) / (high - low) if high > low else 0.0 for value in row] for row in mean_entropy]
    scale = statistics.mean([math.exp(-k * value) for row in scaled for value in row])
    answer = []
    for advantage, row in zip(advantages, scaled, strict=True):
        new = []
        for place, value in enumerate(row):
            now = math.exp(-k * value) / scale * advantage
            later = math.exp(-k_future * row[place + 1]) if place + 1 < len(row) else 0.0
            new.append(now + zeta * later)
        answer.append(new)
    shift = statistics.mean([value for row in answer for value in row])
    return [[value - shift for value in row] for row in answer]


def gae(rewards: Sequence[float], values: Sequence[float], *, gamma: float, lam: float) -> list[float]:
    """sum over l of (gamma lam)^l delta_(t+l), delta_t = r_t + gamma V_(t+1) - V_t, V after the end 0."""
    following = [*values[1:], 0.0]
    deltas = [
        reward + gamma * after - value
        for reward, after, value in zip(rewards, following, values, strict=True)
    ]
    return return_to_go(deltas, gamma * lam)


def sapo_advantage(advantages: Sequence[float], penalties: Sequence[float]) -> list[float]:
    """SAPO's policy advantage of each turn of the batch: GAE of V minus the penalty (>= 0), normalised over turns."""
    return normalised([value - penalty for value, penalty in zip(advantages, penalties, strict=True)])


def sapo_targets(
    rewards: Sequence[float],
    values: Sequence[float],
    action_values: Sequence[float],
    *,
    gamma: float = 0.95,
    lam: float = 0.95,
) -> tuple[list[float], list[float]]:
    """SAPO's y_V = V_old + A and y_Q = r_t + gamma (1 - d_t) Q_old,t+1 over one episode's turns.

    A is the turn-level GAE of V. d is 1 on the last turn, also where only the horizon ended the episode.
    """
    advantages = gae(rewards, values, gamma=gamma, lam=lam)
    state_targets = [value + advantage for value, advantage in zip(values, advantages, strict=True)]
    action_targets = []
    for turn, reward in enumerate(rewards):
        last = turn == len(rewards) - 1
        action_targets.append(reward if last else reward + gamma * action_values[turn + 1])
    return state_targets, action_targets
