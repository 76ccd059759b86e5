"""A tiny model with sharp enough distributions, and prompts of several lengths."""

import pytest
import torch

from arena.policy.model import build_model
from arena.policy.tokenizer import TextCodec, build_tokenizer
from arena.recipe import ModelConfig

WORDS = ("player", "goal", "north", "south", "up", "down", "frozen_lake")
#: Two query heads share one key/value head.
SMALL = ModelConfig(hidden_size=16, num_layers=2, num_heads=2, num_kv_heads=1, intermediate_size=32)


@pytest.fixture(scope="session")
def codec():
    return TextCodec(build_tokenizer(WORDS))


@pytest.fixture(scope="session")
def model(codec):
    """Initial logits are nearly equal: scaled, they tell right from wrong."""
    built = build_model(SMALL, codec.tokenizer, seed=1).eval()
    with torch.no_grad():
        built.model.norm.weight.mul_(6)
    return built


@pytest.fixture(scope="session")
def prompts(codec):
    generator = torch.Generator().manual_seed(5)
    lengths = [9, 3, 1, 6, 9, 2, 5, 12]
    return [torch.randint(3, len(codec.tokenizer) - 2, (n,), generator=generator).tolist() for n in lengths]
