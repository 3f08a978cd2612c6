"""Hooks with their origin."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from agent.records import frozen
from gateway.config.sections import HookEventName, HookMatcher

HookTable = Mapping[HookEventName, Sequence[HookMatcher]]


@frozen
class HookSource:
    """Hooks and their origin, in words.

    `variables` are set for their commands. Their output is untrusted unless they are the person's
    `own`.
    """

    origin: str
    hooks: HookTable
    variables: Mapping[str, str] = field(default_factory=dict)
    is_own: bool = True
