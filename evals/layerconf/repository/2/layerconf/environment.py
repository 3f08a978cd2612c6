"""Reads the environment into a dictionary."""


def read_environment(prefix, environ):
    """PREFIX_DATABASE__HOST is database.host: two underscores are a dot."""
    values = {}
    for name, value in sorted(environ.items()):
        if not name.startswith(prefix + "_"):
            continue
        *above, last = name[len(prefix) + 1 :].lower().split("__")
        place = values
        for part in above:
            place = place.setdefault(part, {})
        place[last] = value
    return values
