"""TRL's GRPO loss and advantages from numbers: its own code, without a model.

The loss and the advantages live in methods of `GRPOTrainer` that call the model first. Here an instance is made
without its constructor, given a real `GRPOConfig` and the attributes that those methods read, and its one call of the
model (of the generation) returns our numbers.
"""

from __future__ import annotations

from collections import defaultdict
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tests.peers.ours import Batch, loss_and_gradient


def _trainer(trl: ModuleType, settings: dict[str, Any]) -> Any:
    """A trainer with TRL's defaults, `settings` over them; its attributes as its constructor sets them."""
    args = trl.GRPOConfig(use_cpu=True, bf16=False, report_to="none", **settings)
    accelerator = SimpleNamespace(
        device=torch.device("cpu"),
        num_processes=1,
        process_index=0,
        gather=lambda value: value,
        reduce=lambda value, reduction: value,
    )
    trainer = object.__new__(trl.GRPOTrainer)
    vars(trainer).update(
        args=args,
        accelerator=accelerator,
        model=SimpleNamespace(training=True, is_gradient_checkpointing=False),
        aux_loss_enabled=False,
        beta=args.beta,
        current_gradient_accumulation_steps=args.gradient_accumulation_steps,
        epsilon_high=args.epsilon if args.epsilon_high is None else args.epsilon_high,
        epsilon_low=args.epsilon,
        importance_sampling_level=args.importance_sampling_level,
        loss_type=args.loss_type,
        max_completion_length=args.max_completion_length,
        off_policy_mask_threshold=args.off_policy_mask_threshold,
        top_entropy_quantile=args.top_entropy_quantile,
        use_vllm=args.use_vllm,
        vllm_importance_sampling_correction=args.vllm_importance_sampling_correction,
        _entropy_bonus_enabled=False,
        _metrics={"train": defaultdict(list)},
    )
    return trainer


def trl_loss(
    trl: ModuleType,
    batch: Batch,
    *,
    items: int | None = None,
    importance_sampling_ratio: Tensor | None = None,
    **settings: Any,
) -> tuple[float, Tensor]:
    """TRL's loss and gradient. `items`: tokens of the whole generation batch, where it is more than this one."""
    trainer = _trainer(trl, settings)
    rows, _ = batch.mask.shape
    trainer.use_vllm = importance_sampling_ratio is not None
    inputs = {
        "prompt_ids": torch.zeros(rows, 1, dtype=torch.long),
        "prompt_mask": torch.ones(rows, 1, dtype=torch.long),
        "completion_ids": torch.zeros(batch.mask.shape, dtype=torch.long),
        "completion_mask": batch.mask.long(),
        "advantages": batch.advantage,
        "old_per_token_logps": batch.old_logprob,
        "ref_per_token_logps": batch.ref_logprob,
        "importance_sampling_ratio": importance_sampling_ratio,
        "num_items_in_batch": batch.mask.sum() if items is None else torch.tensor(items),
    }

    def loss(logprob: Tensor) -> Tensor:
        model_output = (logprob, torch.zeros_like(logprob), None)
        trainer._get_per_token_logps_and_entropies = lambda *args, **kwargs: model_output
        return trainer._compute_loss(None, inputs)

    return loss_and_gradient(loss, batch)


def trl_advantage(trl: ModuleType, reward: list[float], group_size: int, **settings: Any) -> Tensor:
    """TRL's advantage of each completion, [rows], in float64: `reward` in groups of `group_size` in a row."""
    trainer = _trainer(trl, settings)
    rows = len(reward)
    tokens = [[1]] * rows
    vars(trainer).update(
        environment_factories=None,
        environments=None,
        tools=None,
        pad_to_multiple_of=None,
        mask_truncated_completions=False,
        num_iterations=1,
        num_generations=group_size,
        reward_weights=torch.ones(1, dtype=torch.float64),
        multi_objective_aggregation=trainer.args.multi_objective_aggregation,
        scale_rewards=trainer.args.scale_rewards,
        reward_func_names=["return"],
        log_multimodal=False,
        _tokenizer=SimpleNamespace(pad_token_id=0),
        _pending_extra_logs={},
        _pending_metrics={},
        _logs=defaultdict(list, rewards=defaultdict(list)),
        _generate=lambda prompts: (tokens, tokens, None, [""] * rows, None, {}, None, [None] * rows),
        _calculate_rewards=lambda *args: torch.tensor(reward, dtype=torch.float64)[:, None],
    )
    return trainer._generate_and_score_completions([{"prompt": ""}] * rows)["advantages"]
