"""Build, load and save language models as ordinary Hugging Face checkpoints."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.utils.logging import disable_progress_bar

from arena.recipe import ModelConfig

disable_progress_bar()

#: Longest sequence of the tiny models.
MAX_POSITIONS = 1024
#: Standard deviation of initial weights. Measured on Sokoban at width 64: the usual 0.02 is far too small at this
#: width (cloning loss after 300 steps 0.16, with 0.1 and the same learning rate 0.10).
INITIALIZER_RANGE = 0.1


def build_model(config: ModelConfig, tokenizer: PreTrainedTokenizerBase, seed: int) -> Qwen3ForCausalLM:
    """A randomly initialised Qwen3 model for `tokenizer`; the same weights for the same seed."""
    qwen = Qwen3Config(
        vocab_size=len(tokenizer),
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
        return Qwen3ForCausalLM(qwen)


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
