"""Models are ordinary Hugging Face checkpoints, reproducible from a seed."""

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from arena.policy.model import build_model, frozen_copy, load_policy, save_policy
from tests.policy.conftest import SMALL


@pytest.fixture(scope="module")
def checkpoint(model, codec, tmp_path_factory):
    directory = tmp_path_factory.mktemp("checkpoint")
    save_policy(directory, model, codec.tokenizer)
    return directory


def test_the_seed_decides_the_weights_and_the_global_stream_is_left_alone(codec):
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    first, second, other = (build_model(SMALL, codec.tokenizer, seed).state_dict() for seed in (4, 4, 5))
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])


def test_architecture(codec):
    built = build_model(SMALL, codec.tokenizer, seed=0)
    assert built.lm_head.weight is built.model.embed_tokens.weight
    assert built.model.embed_tokens.weight.shape == (len(codec.tokenizer), 16)
    assert len(built.model.layers) == 2
    assert built.model.layers[0].self_attn.k_proj.weight.shape == (8, 16)
    assert (built.config.eos_token_id, built.config.pad_token_id) == (codec.eos_id, codec.pad_id)
    assert all(p.dtype == torch.float32 for p in built.parameters())


def test_transformers_loads_a_saved_checkpoint(checkpoint, codec, model, prompts):
    loaded = AutoModelForCausalLM.from_pretrained(checkpoint).eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    ids = torch.tensor([prompts[0]])
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, model(ids).logits)
    for text in ("<think> player 1</think><action>up</action>", "frozen_lake P _\n G", "odd wörds √"):
        assert tokenizer.encode(text, add_special_tokens=False) == codec.encode(text)
    assert tokenizer.eos_token_id == codec.eos_id
    assert tokenizer.pad_token_id == codec.pad_id
    assert len(tokenizer) == len(codec.tokenizer)


def test_a_loaded_policy_scores_in_fp32_without_dropout(checkpoint, codec, model):
    loaded, tokenizer = load_policy(checkpoint)
    assert not loaded.training
    weights = model.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in loaded.state_dict().items())
    assert all(p.dtype == torch.float32 for p in loaded.parameters())
    assert tokenizer.encode("player up") == codec.encode("player up")


def test_the_reference_is_a_frozen_copy(codec):
    built = build_model(SMALL, codec.tokenizer, seed=0)
    reference = frozen_copy(built)
    with torch.no_grad():
        built.model.embed_tokens.weight.add_(1)
    fresh = build_model(SMALL, codec.tokenizer, seed=0).state_dict()
    assert all(torch.equal(value, fresh[name]) for name, value in reference.state_dict().items())
    assert not any(p.requires_grad for p in reference.parameters())
    assert not reference.training
