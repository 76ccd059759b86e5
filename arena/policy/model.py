"""Build, load and save language models as ordinary Hugging Face checkpoints."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.utils.logging import disable_progress_bar

from arena.errors import UsageError
from arena.policy.tokenizer import RESERVED
from arena.recipe import ModelConfig

disable_progress_bar()

#: Longest sequence of the tiny models.
MAX_POSITIONS = 2048
#: Standard deviation of initial weights. Measured on Sokoban at width 64: the usual 0.02 is far too small at this
#: width (cloning loss after 300 steps 0.16, with 0.1 and the same learning rate 0.10).
INITIALIZER_RANGE = 0.1


def build_model(config: ModelConfig, tokenizer: PreTrainedTokenizerBase, seed: int) -> Qwen3ForCausalLM:
    """A randomly initialised Qwen3 model for `tokenizer`; the same weights for the same seed.

    The embeddings of the reserved entries are zero: their logits, and so the value they stand for, begin at 0.
    """
    qwen = Qwen3Config(
        vocab_size=len(tokenizer) - len(RESERVED),
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_kv_heads,
        head_dim=config.hidden_size // config.num_heads,
        intermediate_size=config.intermediate_size,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=True,
        attention_dropout=0.0,
        initializer_range=INITIALIZER_RANGE,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(qwen)
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    reserved = list(range(len(tokenizer) - len(RESERVED), len(tokenizer)))
    with torch.no_grad():
        model.model.embed_tokens.weight[reserved] = 0
    model.config.reserved_tokens = len(RESERVED)
    model.generation_config.suppress_tokens = reserved
    return model


def output_head(model: PreTrainedModel) -> Float[Tensor, "vocab hidden"]:
    """The output embeddings that make logits: all but the reserved entries, which no distribution holds."""
    weight = model.get_output_embeddings().weight
    return weight[: len(weight) - getattr(model.config, "reserved_tokens", 0)]


def value_direction(model: PreTrainedModel) -> Float[Tensor, " hidden"]:
    """w+ less w-: its product with a hidden state is the difference of the reserved logits."""
    if getattr(model.config, "reserved_tokens", 0) != len(RESERVED):
        raise UsageError(
            f"the model has no reserved vocabulary entries {', '.join(RESERVED)} to read a value from."
        )
    weight = model.get_output_embeddings().weight
    return weight[-2] - weight[-1]


def save_policy(directory: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write model and tokenizer in the Hugging Face layout."""
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def load_policy(directory: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model (fp32, dropout off) and tokenizer of a Hugging Face checkpoint."""
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(directory)  # ty: ignore[invalid-assignment]
    return model.eval(), tokenizer


def frozen_copy(model: PreTrainedModel) -> PreTrainedModel:
    """A copy without gradients: the reference."""
    return copy.deepcopy(model).eval().requires_grad_(False)
