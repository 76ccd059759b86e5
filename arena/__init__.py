"""Arena: a testbed for stable agentic reinforcement learning."""

__version__ = "0.1.0"
