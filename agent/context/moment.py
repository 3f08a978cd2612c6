"""The moving facts that travel with a user message instead of standing in the system prompt."""

from datetime import datetime


def volatile_facts(now: datetime, *facts: str) -> str:
    """One bracketed line: local time with its zone, then the facts (channel, sender, …)."""
    time = now.astimezone().strftime("%A %Y-%m-%d %H:%M %Z")
    return f"[{', '.join([time, *filter(None, facts)])}]"
