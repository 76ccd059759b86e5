"""Advantages: from rewards (and values) to one number per turn or token (ARLArena's second dimension); at the end, the
same for others, over [rows, tokens].

The reward that is normalised is the environment return, over the episodes of a group (ARLArena's code
normalises over turn rows, where long episodes weigh more; its paper over episodes, which is followed here;
`grpo:over=turns` follows the code).
Equal rewards and groups of one give 0. The standard deviation is Bessel-corrected, plus 1e-6. The format
penalty is a token-level reward on the turn's last token, added after normalisation: with one return per
response it reaches every token of that turn as an unscaled shift (the source divides it by the group's
standard deviation, which has no meaning for groups of equal returns).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.algorithms.normalise import (
    generalised_advantage,
    group_centred,
    group_normalised,
    leave_one_out,
    whitened,
)


@dataclass(frozen=True)
class TurnRewards:
    """Rewards of a batch, one entry per turn, in any order.

    `episode` and `group` are integer ids, `turn` the index within the episode, `reward` the environment's,
    `penalty` the format penalty (<= 0), `anchor` an integer id of the state before the turn. Read by some rules only:
    `tokens` (how many were sampled), `entropy` (their mean entropy under the old policy, nats), `value` (old value of
    the state before the turn) and `token_value` (of that before each token, turn after turn), in units of reward.
    """

    episode: Int[Tensor, " rows"]
    group: Int[Tensor, " rows"]
    turn: Int[Tensor, " rows"]
    reward: Float[Tensor, " rows"]
    penalty: Float[Tensor, " rows"]
    anchor: Int[Tensor, " rows"]
    tokens: Int[Tensor, " rows"] | None = None
    entropy: Float[Tensor, " rows"] | None = None
    value: Float[Tensor, " rows"] | None = None
    token_value: Float[Tensor, " tokens"] | None = None


@dataclass(frozen=True)
class Advantages:
    """The advantage of each turn and its parts.

    total = episode + omega x step + format for GiGPO, episode + step + format for the other rules. Where tokens of a
    turn differ, `token` has them, turn after turn, and `total` is their mean. `target` is what the value of each turn
    (or token, with `token`) should have been, in units of reward.
    """

    total: Float[Tensor, " rows"]
    episode: Float[Tensor, " rows"]
    step: Float[Tensor, " rows"] | None
    format: Float[Tensor, " rows"]
    token: Float[Tensor, " tokens"] | None = None
    target: Float[Tensor, " values"] | None = None


@runtime_checkable
class AdvantageRule(Protocol):
    """A rule from a batch's rewards to advantages.

    With a true `needs_group` it compares the episodes of a group: `arena run` refuses it for groups of one. One that
    needs values says which, `reads = "value"` or `"token_value"`, and returns targets for them.
    """

    kind: ClassVar[str]

    def __call__(self, rewards: TurnRewards) -> Advantages:
        """One advantage per turn."""
        ...


def episode_return(
    rewards: TurnRewards,
) -> tuple[Float[Tensor, " episodes"], Int[Tensor, " rows"], Int[Tensor, " episodes"]]:
    """Environment return of each episode, each turn's episode index, and each episode's group."""
    _, index = torch.unique(rewards.episode, return_inverse=True)
    episodes = int(index.max()) + 1 if len(index) else 0
    returns = rewards.reward.new_zeros(episodes, dtype=torch.float64).index_add(
        0, index, rewards.reward.double()
    )
    group = rewards.group.new_zeros(episodes).index_copy(0, index, rewards.group)
    return returns, index, group


def discounted_return(rewards: TurnRewards, gamma: float) -> Float[Tensor, " rows"]:
    """sum_k gamma^k r_{t+k} to the end of the episode, per turn, in float64."""
    reward = rewards.reward.double()
    return generalised_advantage(reward, torch.zeros_like(reward), rewards.episode, rewards.turn, gamma, 1.0)


@dataclass(frozen=True)
class GroupNorm:
    """GRPO: the episode's return, normalised within its group, for every turn of the episode.

    Mean and standard deviation are `over` the group's episodes, as in the papers, or over its turns, as in ARLArena's
    code, where an episode counts as often as it has turns.
    """

    kind: ClassVar[str] = "group_norm"
    needs_group: ClassVar[bool] = True
    over: str = "episodes"

    def __post_init__(self) -> None:
        if self.over not in ("episodes", "turns"):
            raise ValueError(f"over must be episodes or turns, given {self.over!r}")

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return "group-normalised return" + (" (over turns)" if self.over == "turns" else "")

    def __call__(self, rewards: TurnRewards) -> Advantages:
        """Episode part and format part."""
        if self.over == "episodes":
            return _from_episodes(rewards, group_normalised)
        returns, index, _ = episode_return(rewards)
        return _with_penalty(group_normalised(returns[index], rewards.group), rewards)


@dataclass(frozen=True)
class GiGPO:
    """GiGPO (arXiv 2505.10978): episode part + omega x step part.

    The step part normalises the discounted environment return-to-go among the visits of one anchor state within the
    group. Anchors match exactly. With `step_penalty`, less the turn's own format penalty, which verl-agent's code
    subtracts after discounting: normalisation then makes the penalty as large as any difference in return.
    """

    kind: ClassVar[str] = "gigpo"
    needs_group: ClassVar[bool] = True
    omega: float = 1.0
    gamma: float = 0.95
    step_penalty: bool = True

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return f"group-normalised return + {self.omega:g} x anchor-normalised return-to-go (gamma {self.gamma:g})"

    def __call__(self, rewards: TurnRewards) -> Advantages:
        """Episode, step and format part."""
        base = GroupNorm()(rewards)
        to_go = discounted_return(rewards, self.gamma)
        if self.step_penalty:
            to_go = to_go + rewards.penalty.double()
        pairs = torch.stack([rewards.group.long(), rewards.anchor.long()], dim=1)
        _, anchor_group = torch.unique(pairs, dim=0, return_inverse=True)
        step = group_normalised(to_go, anchor_group)
        return Advantages(base.total + self.omega * step, base.episode, step, base.format)


@dataclass(frozen=True)
class GroupCentre:
    """Dr. GRPO (arXiv 2503.20783): the return less its group's mean, not divided by the standard deviation."""

    kind: ClassVar[str] = "group_centre"
    needs_group: ClassVar[bool] = True
    summary: ClassVar[str] = "return - group mean"

    def __call__(self, rewards: TurnRewards) -> Advantages:
        """Episode part and format part."""
        return _from_episodes(rewards, group_centred)


@dataclass(frozen=True)
class LeaveOneOut:
    """RLOO (arXiv 2402.14740): the return less the mean return of the group's other episodes."""

    kind: ClassVar[str] = "leave_one_out"
    needs_group: ClassVar[bool] = True
    summary: ClassVar[str] = "return - mean of the others"

    def __call__(self, rewards: TurnRewards) -> Advantages:
        """Episode part and format part."""
        return _from_episodes(rewards, leave_one_out)


def _from_episodes(
    rewards: TurnRewards, rule: Callable[[Float[Tensor, " items"], Int[Tensor, " items"]], Tensor]
) -> Advantages:
    """`rule` over the returns of episodes, for every turn of the episode."""
    returns, index, group = episode_return(rewards)
    return _with_penalty(rule(returns, group)[index], rewards)


def _with_penalty(episode: Float[Tensor, " rows"], rewards: TurnRewards) -> Advantages:
    """The episode part, and the format penalty as a shift."""
    penalty = rewards.penalty.double()
    return Advantages(episode + penalty, episode, None, penalty)


@dataclass(frozen=True)
class BatchNorm:
    """REINFORCE++ (arXiv 2501.03262): the return-to-go of each turn, normalised over the response tokens of the batch.

    No groups. Mean and standard deviation are over tokens, as in verl's whitening (long turns weigh more). The
    source has the KL in the reward; here it is a loss, as for every method.
    """

    kind: ClassVar[str] = "batch_norm"
    gamma: float = 1.0

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return f"batch-normalised return-to-go (gamma {self.gamma:g})"

    def __call__(self, rewards: TurnRewards) -> Advantages:
        """Episode part and format part. Raises ValueError without `tokens`."""
        if rewards.tokens is None:
            raise ValueError("batch_norm needs the tokens of each turn")
        to_go = discounted_return(rewards, self.gamma)
        return _with_penalty(whitened(to_go, rewards.tokens)[0], rewards)


@dataclass(frozen=True)
class EMPG:
    """EMPG (arXiv 2509.09265): the group-normalised return, more for turns of low entropy, plus a bonus for turns
    that lead to one.

    A' = g(H_k) A + zeta f(H_{k+1}), less its mean over the batch's turns. H is the turn's mean token entropy,
    min-max normalised over the batch; g = exp(-k H) / mean(exp(-k H)), f = exp(-k_future H), 0 after the last turn.
    Entropies within 1e-6 are equal (H = 0): plain min-max would make rounding as strong as a real difference.
    """

    kind: ClassVar[str] = "empg"
    needs_group: ClassVar[bool] = True
    k: float = 1.0
    k_future: float = 1.0
    zeta: float = 0.05

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return f"entropy-modulated group-normalised return (k {self.k:g}, k' {self.k_future:g}, zeta {self.zeta:g})"

    def __call__(self, rewards: TurnRewards) -> Advantages:
        """Episode part; what the modulation changes, as the step part; format part. Raises ValueError without
        `entropy`."""
        if rewards.entropy is None:
            raise ValueError("empg needs the entropy of each turn")
        base = GroupNorm()(rewards)
        entropy = rewards.entropy.double()
        if not len(entropy):
            return replace(base, step=base.episode)
        low, high = entropy.min(), entropy.max()
        level = (entropy - low) / (high - low) if high - low > 1e-6 else torch.zeros_like(entropy)
        scale = torch.exp(-self.k * level)
        modulated = scale / scale.mean() * base.episode + self.zeta * self._future(rewards, level)
        step = modulated - modulated.mean() - base.episode
        return Advantages(base.total + step, base.episode, step, base.format)

    def _future(self, rewards: TurnRewards, level: Float[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        """exp(-k_future H) of the episode's next turn, 0 where there is none."""
        keys = list(zip(rewards.episode.tolist(), rewards.turn.tolist(), strict=True))
        bonus = dict(zip(keys, torch.exp(-self.k_future * level).tolist(), strict=True))
        return level.new_tensor([bonus.get((episode, turn + 1), 0.0) for episode, turn in keys])


def _check_discounts(gamma: float, lam: float) -> None:
    if not (0 <= gamma <= 1 and 0 <= lam <= 1):
        raise ValueError(f"gamma and lam must be from 0 to 1, given {gamma:g} and {lam:g}")


@dataclass(frozen=True)
class TokenGAE:
    """PPO on tokens: GAE along the sampled tokens of the whole episode, whitened over the batch's tokens.

    Prompts and observations between turns are skipped, as in RAGEN and verl; a turn's reward is at its last token.
    """

    kind: ClassVar[str] = "token_gae"
    reads: ClassVar[str] = "token_value"
    gamma: float = 1.0
    lam: float = 1.0

    def __post_init__(self) -> None:
        _check_discounts(self.gamma, self.lam)

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return f"token GAE (gamma {self.gamma:g}, lambda {self.lam:g}), whitened"

    def __call__(self, rewards: TurnRewards) -> Advantages:
        """Token advantages, their means, and token targets. Raises ValueError without `tokens` and `token_value`."""
        if rewards.tokens is None or rewards.token_value is None:
            raise ValueError("token_gae needs the number of tokens of each turn and token_value")
        turn = torch.repeat_interleave(rewards.tokens)
        value = rewards.token_value.double()
        reward = torch.zeros_like(value)
        reward[rewards.tokens.cumsum(0) - 1] = rewards.reward.double()
        gae = generalised_advantage(
            reward, value, rewards.episode[turn], rewards.turn[turn], self.gamma, self.lam
        )
        token = whitened(gae)[0]
        mean = token.new_zeros(len(rewards.tokens)).index_add(0, turn, token) / rewards.tokens
        shifted = _with_penalty(mean, rewards)
        return replace(shifted, token=token + shifted.format[turn], target=value + gae)


@dataclass(frozen=True)
class TurnGAE:
    """PPO on turns, as SAPO has it (arXiv 2608.19842): GAE along the turns of the episode, one value before each turn;
    less the format penalty, then whitened over the batch's turns. The format part is what the penalty changes."""

    kind: ClassVar[str] = "turn_gae"
    reads: ClassVar[str] = "value"
    gamma: float = 0.95
    lam: float = 0.95

    def __post_init__(self) -> None:
        _check_discounts(self.gamma, self.lam)

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return f"turn GAE (gamma {self.gamma:g}, lambda {self.lam:g}), whitened"

    def __call__(self, rewards: TurnRewards) -> Advantages:
        """Turn advantages and turn targets. Raises ValueError without `value`."""
        if rewards.value is None:
            raise ValueError("turn_gae needs value")
        value = rewards.value.double()
        gae = generalised_advantage(
            rewards.reward, value, rewards.episode, rewards.turn, self.gamma, self.lam
        )
        penalty = rewards.penalty.double()
        total, scale = whitened(gae + penalty)
        shift = (penalty - penalty.mean()) / scale
        return Advantages(total, total - shift, None, shift, target=value + gae)


def _per_token(values: Tensor, mask: Bool[Tensor, "rows tokens"]) -> Int[Tensor, "rows tokens"]:
    """Ids of rows as ids of tokens."""
    return values if values.dim() == 2 else values[:, None].expand(mask.shape)


def _check_floating(rewards: Tensor) -> None:
    if not rewards.is_floating_point():
        raise ValueError(f"rewards must be floating point, given {rewards.dtype}")


@dataclass(frozen=True)
class _Turns:
    """The turns of [rows, tokens] tensors, whatever their layout: a row is one turn, or an episode of several.

    `rewards` has one entry per turn, `index` the turn of each sampled token, flat.
    """

    rewards: TurnRewards
    index: Int[Tensor, " sampled"]
    mask: Bool[Tensor, "rows tokens"]

    @staticmethod
    def of(
        rewards: Float[Tensor, "rows tokens"],
        mask: Bool[Tensor, "rows tokens"],
        group: Int[Tensor, " rows"] | None,
        episode: Int[Tensor, " rows"] | None,
        turn: Int[Tensor, " rows"] | Int[Tensor, "rows tokens"] | None,
    ) -> _Turns:
        _check_floating(rewards)
        rows = torch.arange(len(mask), device=mask.device)
        ids = (
            torch.zeros_like(rows) if group is None else group,
            rows if episode is None else episode,
            torch.zeros_like(rows) if turn is None else turn,
        )
        keys = torch.stack([_per_token(one, mask)[mask] for one in ids], 1)
        distinct, index = torch.unique(keys, dim=0, return_inverse=True)
        summed = rewards.new_zeros(len(distinct), dtype=torch.float64)
        given = TurnRewards(
            episode=torch.unique(distinct[:, :2], dim=0, return_inverse=True)[1],
            group=distinct[:, 0],
            turn=distinct[:, 2],
            reward=summed.index_add(0, index, rewards[mask].double()),
            penalty=torch.zeros_like(summed),
            anchor=torch.arange(len(distinct), device=mask.device),
            tokens=torch.bincount(index, minlength=len(distinct)),
        )
        return _Turns(given, index, mask)

    def first(self, values: Tensor) -> Tensor:
        """A turn's value of a [rows, tokens] tensor: that of its first sampled token."""
        order = torch.arange(len(self.index), device=self.mask.device)
        where = self.index.new_full((len(self.rewards.turn),), len(order))
        return values[self.mask][where.scatter_reduce(0, self.index, order, "amin")]

    def mean(self, values: Float[Tensor, "rows tokens"]) -> Float[Tensor, " turns"]:
        """A turn's mean over its sampled tokens, in float64."""
        total = torch.zeros_like(self.rewards.reward).index_add(0, self.index, values[self.mask].double())
        return total / torch.bincount(self.index)

    def spread(self, per_turn: Float[Tensor, " turns"], like: Tensor) -> Float[Tensor, "rows tokens"]:
        """Each sampled token's turn's value, 0 elsewhere."""
        return torch.zeros_like(like).masked_scatter(self.mask, per_turn[self.index].to(like.dtype))


def group_advantage(
    rewards: Float[Tensor, "rows tokens"],
    mask: Bool[Tensor, "rows tokens"],
    *,
    group: Int[Tensor, " rows"],
    episode: Int[Tensor, " rows"] | None = None,
) -> Float[Tensor, "rows tokens"]:
    """GRPO: each episode's return, (return - mean) / (std + 1e-6) within its group, at its sampled tokens.

    `rewards` are the environment's, anywhere among the sampled tokens (`mask`) of their turn. Rows of one `episode`
    (default: every row is one) are summed. Equal returns and groups of one give 0.
    """
    turns = _Turns.of(rewards, mask, group, episode, None)
    return turns.spread(GroupNorm()(turns.rewards).total, rewards)


def rloo_advantage(
    rewards: Float[Tensor, "rows tokens"],
    mask: Bool[Tensor, "rows tokens"],
    *,
    group: Int[Tensor, " rows"],
    episode: Int[Tensor, " rows"] | None = None,
) -> Float[Tensor, "rows tokens"]:
    """RLOO (arXiv 2402.14740): the return less the mean of the group's other episodes. As `group_advantage` else."""
    turns = _Turns.of(rewards, mask, group, episode, None)
    return turns.spread(LeaveOneOut()(turns.rewards).total, rewards)


def gigpo_advantage(
    rewards: Float[Tensor, "rows tokens"],
    mask: Bool[Tensor, "rows tokens"],
    *,
    group: Int[Tensor, " rows"],
    episode: Int[Tensor, " rows"],
    turn: Int[Tensor, " rows"] | Int[Tensor, "rows tokens"],
    anchor: Int[Tensor, " rows"] | Int[Tensor, "rows tokens"],
    omega: float = 1.0,
    gamma: float = 0.95,
) -> Float[Tensor, "rows tokens"]:
    """GiGPO (arXiv 2505.10978): episode part + omega x step part (see the rule `GiGPO`).

    `turn` and `anchor` (an id of the state before the turn) are per row where a row is a turn, per token where it is
    an episode.
    """
    turns = _Turns.of(rewards, mask, group, episode, turn)
    given = replace(turns.rewards, anchor=turns.first(_per_token(anchor, mask)))
    return turns.spread(GiGPO(omega, gamma)(given).total, rewards)


def empg_advantage(
    rewards: Float[Tensor, "rows tokens"],
    entropy: Float[Tensor, "rows tokens"],
    mask: Bool[Tensor, "rows tokens"],
    *,
    group: Int[Tensor, " rows"],
    episode: Int[Tensor, " rows"],
    turn: Int[Tensor, " rows"] | Int[Tensor, "rows tokens"],
    k: float = 1.0,
    k_future: float = 1.0,
    zeta: float = 0.05,
) -> Float[Tensor, "rows tokens"]:
    """EMPG (arXiv 2509.09265): the group-normalised return modulated by each turn's mean token entropy (see `EMPG`).

    Turns of an episode are numbered without gaps.
    """
    turns = _Turns.of(rewards, mask, group, episode, turn)
    given = replace(turns.rewards, entropy=turns.mean(entropy))
    return turns.spread(EMPG(k, k_future, zeta)(given).total, rewards)


def gae_advantage(
    rewards: Float[Tensor, "rows tokens"],
    values: Float[Tensor, "rows tokens"],
    mask: Bool[Tensor, "rows tokens"],
    *,
    episode: Int[Tensor, " rows"] | None = None,
    turn: Int[Tensor, " rows"] | Int[Tensor, "rows tokens"] | None = None,
    gamma: float = 1.0,
    lam: float = 1.0,
) -> tuple[Float[Tensor, "rows tokens"], Float[Tensor, "rows tokens"]]:
    """Token-level GAE (arXiv 1506.02438), not whitened, and returns (advantage + value), along each episode's sampled
    tokens in order of turn and column.

    `values` are of the state before each token. What lies between turns is skipped; the last token is terminal. Ids of
    episodes must differ between groups.
    """
    _check_floating(rewards)
    values = values.detach()
    episode = torch.arange(len(mask), device=mask.device) if episode is None else episode
    time = torch.zeros_like(episode) if turn is None else turn
    flat = rewards[mask], values[mask], _per_token(episode, mask)[mask], _per_token(time, mask)[mask]
    advantage = generalised_advantage(*flat, gamma, lam)
    spread = torch.zeros_like(rewards, dtype=torch.float64).masked_scatter(mask, advantage)
    return spread.to(rewards.dtype), torch.where(mask, spread + values, 0.0).to(rewards.dtype)


def turn_gae_advantage(
    rewards: Float[Tensor, "rows tokens"],
    values: Float[Tensor, "rows tokens"],
    mask: Bool[Tensor, "rows tokens"],
    *,
    episode: Int[Tensor, " rows"],
    turn: Int[Tensor, " rows"] | Int[Tensor, "rows tokens"],
    gamma: float = 0.95,
    lam: float = 0.95,
) -> tuple[Float[Tensor, "rows tokens"], Float[Tensor, "rows tokens"]]:
    """Turn-level GAE, not whitened, and returns, at every sampled token of the turn.

    A turn's value is that at its first sampled token, its reward the sum of its tokens'. Ids of episodes must differ
    between groups.
    """
    turns = _Turns.of(rewards, mask, None, episode, turn)
    given = turns.rewards
    value = turns.first(values.detach()).double()
    advantage = generalised_advantage(given.reward, value, given.episode, given.turn, gamma, lam)
    return turns.spread(advantage, rewards), turns.spread(advantage + value, rewards)
