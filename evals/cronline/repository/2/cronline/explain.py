"""A line in words."""

from cronline.fields import FIELDS


def explain(line):
    """What each field that is not * says."""
    parts = line.split()
    result = [f"{field.name} {part}" for part, field in zip(parts, FIELDS) if part != "*"]
    return ", ".join(result) or "every minute"
