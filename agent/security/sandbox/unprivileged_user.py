"""The unprivileged user that runs commands when Kore runs as root."""

import os

# An unused ID, above the ranges of services, containers and subordinate users.
USER = 1_900_000_000
ROOT = 0


def is_root() -> bool:
    """Return whether this process is root of the machine, not only of a user namespace."""
    if os.geteuid() != 0:
        return False
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            lines = [line.split() for line in file]
    except FileNotFoundError:
        return True
    return any(inside == outside == "0" for inside, outside, _ in lines)
