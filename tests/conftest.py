"""Shapes are checked while tests run: the packages that handle tensors are imported under jaxtyping."""

import jaxtyping

jaxtyping.install_import_hook(["arena.algorithms", "arena.policy", "arena.training"], "beartype.beartype")

import torch  # noqa: E402

torch.set_num_threads(1)
