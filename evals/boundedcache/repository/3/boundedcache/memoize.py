"""Keeps the results of a function in a cache."""

import functools

MISSING = object()


def memoize(cache):
    """A decorator; calls with equal arguments share a result."""

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            key = (args, tuple(sorted(kwargs.items())))
            value = cache.get(key, MISSING)
            if value is MISSING:
                value = function(*args, **kwargs)
                cache.put(key, value)
            return value

        return wrapper

    return decorate
