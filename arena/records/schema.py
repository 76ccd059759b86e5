"""The Parquet contract: every table, column, type and meaning, defined once.

The writer builds its Arrow schemas from here, the reader checks against it, and `docs/glossary.md` is
generated from it (`python -m arena.records.glossary`). Missing is null, never 0; a non-finite value is null
and counted in `steps.nonfinite`. Columns whose name starts with `seconds_` are timings: the only ones that
may differ between two runs of one recipe.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

#: Raised when a column is added, removed or changes its meaning.
SCHEMA_VERSION = 2

#: The band of `out_of_band_low/high`: the same for every method, whatever its clip rule.
RATIO_BAND = (0.8, 1.2)

#: Token roles, in the order of their codes (records store the name, dictionary-encoded).
ROLES = ("prompt", "think", "action", "other", "eos", "observation")


@dataclass(frozen=True)
class Column:
    """One column: `verl` and `trl` name the metric of those trainers that means the same thing, if any."""

    name: str
    type: pa.DataType
    doc: str
    verl: str = ""
    trl: str = ""


@dataclass(frozen=True)
class Table:
    """One table. `per_step_files` tables are folders with one file per training step, one row group each."""

    name: str
    doc: str
    columns: tuple[Column, ...]
    per_step_files: bool

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, with `schema_version` in its metadata."""
        fields = [pa.field(c.name, c.type) for c in self.columns]
        return pa.schema(fields, metadata={"schema_version": str(SCHEMA_VERSION)})

    @property
    def timings(self) -> tuple[str, ...]:
        """Names of the columns that may differ between identical runs."""
        return tuple(c.name for c in self.columns if c.name.startswith("seconds_"))


_I32, _I64, _F32, _F64, _BOOL, _STR = (
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
)
_CATEGORY = pa.dictionary(pa.int8(), pa.string())

STEPS = Table(
    "steps",
    "One row per training step. Means over tokens are over the response tokens of all mini-batches of the step.",
    (
        Column("step", _I32, "Training step, from 1. Step 0 is the behaviour-cloned start."),
        Column(
            "updates",
            _I32,
            "Optimiser steps taken in this training step (epochs x mini-batches, less skipped).",
        ),
        Column(
            "skipped_updates",
            _I32,
            "Mini-batches without an optimiser step: zero total weight or a non-finite gradient.",
        ),
        Column(
            "loss",
            _F64,
            "Policy loss + KL coefficient x KL loss, mean over the mini-batches.",
            verl="actor/loss",
            trl="loss",
        ),
        Column(
            "policy_loss",
            _F64,
            "Policy loss alone. Comparable within a method, not between methods.",
            verl="actor/pg_loss",
        ),
        Column(
            "kl_loss",
            _F64,
            "KL penalty to the reference before its coefficient: the k3 estimator exp(d)-d-1 with d = log pi_ref - log pi, aggregated like the policy loss.",
            verl="actor/kl_loss",
            trl="kl",
        ),
        Column(
            "value_loss",
            _F64,
            "Loss of V, mean over the mini-batches, in units of the environment's largest return, before its coefficient; null without values.",
            verl="critic/vf_loss",
        ),
        Column(
            "value_explained",
            _F64,
            "Share of the variance of the targets of V that the old values explain: 1 - var(target - value) / var(target); null without values or variance.",
            verl="critic/vf_explained_var",
        ),
        Column(
            "kl_ref_k3",
            _F64,
            "KL(policy || reference), k3 as in kl_loss, token mean over the step's first mini-batch: there the tokens are the policy's own samples and the estimator is unbiased, unless a filter chose among them. Later mini-batches hold old samples, and a token that has become unlikely there has no bound.",
            trl="kl",
        ),
        Column(
            "kl_ref_k1",
            _F64,
            "KL(policy || reference), k1: mean of log pi - log pi_ref over the first mini-batch. Signed, can cancel.",
        ),
        Column(
            "kl_behaviour_k3",
            _F64,
            "KL(behaviour || policy), k3 with d = log pi - log pi_old, token mean over all mini-batches; 0 in the first by construction. This direction, because the tokens are the behaviour policy's samples.",
        ),
        Column(
            "kl_behaviour_k1",
            _F64,
            "KL(behaviour || policy), k1: mean of log pi_old - log pi. Signed, cancels: do not use it as an alarm.",
            verl="actor/ppo_kl",
        ),
        Column(
            "entropy",
            _F64,
            "Mean token entropy in nats of the sampling distribution of the behaviour policy.",
            verl="actor/entropy",
            trl="entropy",
        ),
        Column("entropy_think", _F64, "Mean entropy over thought tokens (tags included)."),
        Column("entropy_action", _F64, "Mean entropy over action tokens (tags included)."),
        Column(
            "energy_think",
            _F64,
            "Mean energy (-logsumexp of the frozen reference's raw logits) over thought tokens, tags left out.",
        ),
        Column("energy_action", _F64, "Mean energy over action tokens, tags left out."),
        Column(
            "weight_mu",
            _F64,
            "Energy mean over the batch's action tokens that ActFocus normalises with; null without it.",
        ),
        Column(
            "weight_sigma",
            _F64,
            "Energy standard deviation over the batch's action tokens; null without ActFocus.",
        ),
        Column(
            "grad_norm",
            _F64,
            "Global gradient norm before clipping, mean over the mini-batches. With shared values (sapo-sr) theirs is in it and most of it: norms of other methods are not comparable.",
            verl="actor/grad_norm",
            trl="grad_norm",
        ),
        Column("grad_norm_max", _F64, "Largest gradient norm before clipping among the mini-batches."),
        Column(
            "grad_norm_think",
            _F64,
            "Norm of the policy-loss gradient through thought tokens, first mini-batch; only with record.grad_by_role.",
        ),
        Column(
            "grad_norm_action",
            _F64,
            "Norm of the policy-loss gradient through action tokens, first mini-batch; only with record.grad_by_role.",
        ),
        Column(
            "ratio_mean",
            _F64,
            "Mean token importance ratio exp(log_ratio). Near 1 hides the tails: see the quantiles in tokens.",
        ),
        Column("ratio_max", _F64, "Largest token importance ratio of the step."),
        Column("ratio_min", _F64, "Smallest token importance ratio of the step."),
        Column(
            "clipped_low",
            _F64,
            "Share of response tokens whose policy gradient the lower clip removed (A<0, ratio below range).",
            trl="clip_ratio/low_mean",
        ),
        Column(
            "clipped_high",
            _F64,
            "Share of response tokens whose policy gradient the upper clip removed (A>0, ratio above range).",
            verl="actor/pg_clipfrac is low and high together",
            trl="clip_ratio/high_mean",
        ),
        Column(
            "out_of_band_low",
            _F64,
            "Share of response tokens with A<0 and token ratio below 0.8: comparable over all methods.",
        ),
        Column(
            "out_of_band_high",
            _F64,
            "Share of response tokens with A>0 and token ratio above 1.2: comparable over all methods.",
        ),
        Column("masked", _F64, "Share of response tokens dropped by a sequence mask."),
        Column(
            "valid_format",
            _F64,
            "Share of turns whose response is strictly valid.",
            verl="episode/valid_action_ratio",
        ),
        Column(
            "success",
            _F64,
            "Share of this step's training episodes that succeeded, all generated episodes counted.",
        ),
        Column(
            "reward_mean",
            _F64,
            "Mean environment return over all generated episodes, format penalty not included.",
            verl="critic/rewards/mean",
            trl="reward",
        ),
        Column(
            "reward_std",
            _F64,
            "Standard deviation (population) of the environment return over all generated episodes.",
        ),
        Column(
            "group_reward_std",
            _F64,
            "Mean over groups of the within-group standard deviation (Bessel-corrected, as in the advantage) of the return; null for groups of one.",
            trl="reward_std",
        ),
        Column(
            "zero_spread_groups",
            _F64,
            "Share of generated groups whose episodes all have the same return; null for groups of one.",
            trl="frac_reward_zero_std",
        ),
        Column("advantage_abs", _F64, "Mean absolute advantage over the response tokens trained on."),
        Column("turns_mean", _F64, "Mean turns per generated episode."),
        Column(
            "response_tokens_mean",
            _F64,
            "Mean sampled tokens per turn.",
            verl="response_length/mean",
            trl="completions/mean_length",
        ),
        Column("truncated_episodes", _F64, "Share of episodes ended by the turn limit."),
        Column(
            "truncated_responses",
            _F64,
            "Share of responses cut by the token limit before their end token.",
            verl="response_length/clip_ratio (measured against the padded width there)",
            trl="completions/clipped_ratio",
        ),
        Column("groups_generated", _I32, "Groups sampled in this step, over all generation batches."),
        Column(
            "groups_kept", _I32, "Groups trained on that passed the filter (all of them without a filter)."
        ),
        Column(
            "groups_filled",
            _I32,
            "Groups trained on although the filter rejected them, to fill the last attempt's deficit.",
        ),
        Column(
            "generation_batches", _I32, "Rollout rounds in this step; more than 1 only with a dynamic filter."
        ),
        Column("tokens_sampled", _I64, "Response tokens sampled in this step, filtered groups included."),
        Column(
            "tokens_prompt",
            _I64,
            "Prompt tokens shown while sampling in this step, each once: what a turn of layout trajectory reads again of its past is not counted.",
        ),
        Column(
            "tokens_trained",
            _I64,
            "Response tokens in the training batch of this step (once, not per epoch).",
        ),
        Column(
            "tokens_sampled_total",
            _I64,
            "Response tokens sampled since step 1: the budget axis beside steps.",
        ),
        Column(
            "sampler_gap_mean",
            _F64,
            "Mean |sampler_logprob - old_logprob| over response tokens.",
            trl="sampling/sampling_logp_difference/mean",
        ),
        Column(
            "sampler_gap_max",
            _F64,
            "Largest |sampler_logprob - old_logprob|.",
            trl="sampling/sampling_logp_difference/max",
        ),
        Column(
            "first_log_ratio_max",
            _F64,
            "Largest |log ratio| in the step's first mini-batch: a run-time check, 0 up to rounding.",
        ),
        Column(
            "nonfinite", _I64, "Values of this step's records that were not finite and are stored as null."
        ),
        Column("learning_rate", _F64, "Learning rate of the step.", verl="actor/lr", trl="learning_rate"),
        Column("seconds_rollout", _F64, "Sampling and environment time, seconds.", verl="timing_s/gen"),
        Column("seconds_env", _F64, "Part of seconds_rollout spent in environments and parsing."),
        Column(
            "seconds_scoring",
            _F64,
            "Old-policy and reference passes, seconds.",
            verl="timing_s/old_log_prob + timing_s/ref",
        ),
        Column(
            "seconds_update", _F64, "Forward, backward and optimiser, seconds.", verl="timing_s/update_actor"
        ),
        Column("seconds_record", _F64, "Building and writing records, seconds."),
        Column(
            "seconds_eval",
            _F64,
            "Evaluation after this step, seconds; 0 if there was none.",
            verl="timing_s/testing",
        ),
        Column(
            "seconds_checkpoint",
            _F64,
            "Writing the checkpoint before this one (step k holds the checkpoint of step k-1), seconds.",
            verl="timing_s/save_checkpoint",
        ),
        Column(
            "seconds_step",
            _F64,
            "The step from rollout to evaluation, seconds; writing steps.parquet and the checkpoint not included.",
            verl="timing_s/step",
        ),
    ),
    per_step_files=False,
)

EVALS = Table(
    "evals",
    "One row per evaluation episode, on tasks of the evaluation split that are the same at every evaluation.",
    (
        Column(
            "step", _I32, "Training steps finished before this evaluation; 0 is the behaviour-cloned start."
        ),
        Column("temperature", _F64, "Sampling temperature; 0 means greedy."),
        Column("episode", _I32, "Index of the evaluation episode."),
        Column("task_seed", _I64, "Environment seed, in the evaluation split."),
        Column("success", _BOOL, "The environment's own success."),
        Column("reward", _F64, "Environment return, format penalty not included."),
        Column("turns", _I32, "Turns taken."),
        Column("valid_turns", _I32, "Turns whose response was strictly valid."),
        Column("truncated", _BOOL, "Ended by the turn limit."),
        Column("response_tokens", _I32, "Tokens sampled."),
    ),
    per_step_files=False,
)

EPISODES = Table(
    "episodes",
    "One row per training episode, filtered ones included.",
    (
        Column("step", _I32, "Training step."),
        Column("group_id", _I32, "Group (task) within the step; episodes of a group share the task."),
        Column("episode_id", _I32, "Episode within the step."),
        Column("task_seed", _I64, "Environment seed, in the training split."),
        Column("generation_batch", _I32, "Rollout round that produced it, from 0."),
        Column("kept", _BOOL, "Used for training."),
        Column("filled", _BOOL, "Used for training although the filter rejected its group."),
        Column("reward", _F64, "Environment return: what group normalisation sees."),
        Column("format_penalty", _F64, "Sum of the format penalties, <= 0; not part of reward."),
        Column("success", _BOOL, "The environment's own success."),
        Column("turns", _I32, "Turns taken."),
        Column("valid_turns", _I32, "Turns whose response was strictly valid."),
        Column("terminated", _BOOL, "Ended by the environment's rules."),
        Column("truncated", _BOOL, "Ended by the turn limit."),
        Column("response_tokens", _I32, "Tokens sampled."),
        Column(
            "advantage", _F64, "Episode part of the advantage, mean over its turns; null if not trained on."
        ),
        Column(
            "energy_think", _F64, "Mean energy over thought tokens, tags left out; null if not trained on."
        ),
        Column(
            "energy_action",
            _F64,
            "Mean energy over action tokens, tags left out; null if not trained on or no action.",
        ),
        Column(
            "energy_all", _F64, "Mean energy over all response tokens, tags left out; null if not trained on."
        ),
        Column(
            "centred_energy_think",
            _F64,
            "As energy_think, of logits minus their mean over the vocabulary: free of the constant that energy carries.",
        ),
        Column("centred_energy_action", _F64, "As energy_action, of centred logits."),
        Column(
            "entropy_think", _F64, "Mean entropy over thought tokens, tags left out; null if not trained on."
        ),
        Column(
            "entropy_action", _F64, "Mean entropy over action tokens, tags left out; null if not trained on."
        ),
    ),
    per_step_files=True,
)

TURNS = Table(
    "turns",
    "One row per turn of a training episode, filtered ones included.",
    (
        Column("step", _I32, "Training step."),
        Column("group_id", _I32, "Group within the step."),
        Column("episode_id", _I32, "Episode within the step."),
        Column("turn", _I32, "Turn within the episode, from 0."),
        Column(
            "prompt", _STR, "Prompt text; in layout trajectory, after the first turn, the observation alone."
        ),
        Column("response", _STR, "Response text, as sampled, end token left out."),
        Column("action", _STR, "Text of the action block; null if the response has none."),
        Column(
            "valid",
            _BOOL,
            "Strictly valid: one thought, one action, nothing else.",
        ),
        Column("admissible", _BOOL, "The environment understood and accepted the action."),
        Column("reward", _F64, "Environment reward of the turn."),
        Column("format_penalty", _F64, "Penalty of the turn, <= 0."),
        Column("anchor", _STR, "State identity before the turn: what GiGPO groups by."),
        Column("response_tokens", _I32, "Tokens sampled."),
        Column("truncated", _BOOL, "Response cut by the token limit."),
        Column(
            "advantage",
            _F64,
            "Advantage of the turn's tokens (their mean, where they differ: token-level GAE): episode, step and format part; null if not trained on.",
        ),
        Column(
            "advantage_step",
            _F64,
            "GiGPO's step part before omega; what EMPG's modulation changes; null for other methods.",
        ),
        Column(
            "advantage_format",
            _F64,
            "The format penalty as a shift of the advantage (GiGPO's step part may hold it too); null if not trained on.",
        ),
        Column(
            "value",
            _F64,
            "Old value of the state before the turn, in units of the environment's largest return; null without values.",
        ),
        Column(
            "sequence_log_ratio",
            _F64,
            "Mean log ratio over the turn's tokens in its last update; null if not trained on.",
        ),
        Column("masked", _BOOL, "Dropped by a sequence mask in its last update; null if not trained on."),
    ),
    per_step_files=True,
)

TOKENS = Table(
    "tokens",
    "One row per response token per update it took part in (so `epochs` rows for each token).",
    (
        Column("step", _I32, "Training step."),
        Column("epoch", _I32, "Pass over the batch, from 0."),
        Column("minibatch", _I32, "Mini-batch within the epoch, from 0."),
        Column("group_id", _I32, "Group within the step."),
        Column("episode_id", _I32, "Episode within the step."),
        Column("turn", _I32, "Turn within the episode."),
        Column("position", _I32, "Position in the response, from 0."),
        Column("token_id", _I32, "Token id, as sampled."),
        Column(
            "role",
            _CATEGORY,
            "think, action, other or eos. A token whose characters overlap an action block outside the thoughts, tags included, "
            "is an action token, whether the block is closed or not.",
        ),
        Column("tag", _BOOL, "The token overlaps a tag's characters: left out of the energy diagnosis."),
        Column("sampler_logprob", _F32, "Log-probability the sampler drew it with."),
        Column(
            "old_logprob",
            _F32,
            "Log-probability under the behaviour policy, from the trainer's scoring pass.",
        ),
        Column("logprob", _F32, "Log-probability under the policy at this update."),
        Column("ref_logprob", _F32, "Log-probability under the frozen reference."),
        Column("log_ratio", _F32, "logprob - old_logprob, raw (the loss clamps it to +-20)."),
        Column(
            "ratio_applied",
            _F32,
            "The ratio the surrogate used, after the sequence reduction and the clip; sapo-soft: its gate's weight on the gradient of log pi.",
        ),
        Column("clipped_low", _BOOL, "The lower clip removed this token's policy gradient."),
        Column("clipped_high", _BOOL, "The upper clip removed this token's policy gradient."),
        Column("masked", _BOOL, "Dropped by a sequence mask."),
        Column("advantage", _F32, "Advantage."),
        Column("advantage_sign", pa.int8(), "-1, 0 or 1."),
        Column(
            "entropy",
            _F32,
            "Entropy in nats of the behaviour policy's sampling distribution at this position.",
        ),
        Column(
            "energy",
            _F32,
            "-logsumexp of the frozen reference's raw logits (temperature 1) at the position that predicts this token.",
        ),
        Column("weight", _F32, "Token weight in the loss (1 without token weighting)."),
        Column(
            "kl_ref",
            _F32,
            "k3 term of the KL to the reference at this token and update: what the loss sums. Heavy-tailed after the first mini-batch, see kl_ref_k3.",
        ),
    ),
    per_step_files=True,
)

DEMONSTRATIONS = Table(
    "demonstrations",
    "One row per cloned turn, in the folder of the BC start.",
    (
        Column("episode", _I32, "Expert episode, from 0; the successful ones are cloned."),
        Column("turn", _I32, "Turn within the episode, from 0."),
        Column("task_seed", _I64, "Environment seed, in the training split."),
        Column("prompt", _STR, "Prompt text."),
        Column("response", _STR, "The expert's response, end token left out."),
    ),
    per_step_files=False,
)

TABLES: dict[str, Table] = {t.name: t for t in (STEPS, EVALS, EPISODES, TURNS, TOKENS, DEMONSTRATIONS)}
