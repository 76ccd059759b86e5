"""Behaviour cloning, multi-turn rollouts and the update loop."""
