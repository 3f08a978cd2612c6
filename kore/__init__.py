"""Kore as a library: an agent that talks to a model, runs tools and keeps its history valid.

    import kore

    result = await kore.run("What is in this folder?", model="openai/gpt-5")
"""

from agent.agent import Agent
from agent.errors import KoreError
__all__ = ["Agent"]
