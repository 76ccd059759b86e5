"""Tiers: TOML files of recipe defaults."""
