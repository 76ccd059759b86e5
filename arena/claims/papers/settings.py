"""What several claims share: the sources, and the environments in which each is tested."""

from __future__ import annotations

ARLARENA = "ARLArena, arXiv 2602.21534"
ACTFOCUS = "ActFocus, arXiv 2605.14558"
SAPO_SR = "SAPO (single rollout), arXiv 2608.19842 v3"

CPU, STRESS = "cpu", "cpu-stress"

#: Where the stress tier was chosen: CISPO gains there before it collapses (docs/tiers.md).
STRESS_ENVS = ("sokoban",)
#: Of ARLArena's Table 3; the first three have its agent methods (GiGPO, EMPG), as AIME has not.
AGENT_ENVS = ("alfworld", "webshop", "sokoban")
ARLARENA_ENVS = (*AGENT_ENVS, "tir_math")
#: Of ActFocus.
ACTFOCUS_ENVS = ("sokoban", "frozen_lake", "sudoku", "webshop")
#: Of the single-rollout paper.
SAPO_SR_ENVS = ("alfworld", "webshop")

#: Sequence-level clipping, and token-level that lets far ratios through.
SEQUENCE_LEVEL = ("gspo", "sampo")
TOLERANT = ("cispo", "sapo-soft")
