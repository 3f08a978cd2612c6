"""Lays one dictionary over another."""


def merge(below, above):
    """`above` wins; dictionaries are merged, everything else is replaced."""
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            below[key] = merge(below[key], value)
        else:
            below[key] = value
    return below
