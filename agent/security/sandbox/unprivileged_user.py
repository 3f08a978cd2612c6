"""The user of commands when Kore is root: one that owns nothing on this machine."""

import os

# An id that no other user has: above those of services, containers and subordinate users.
USER = 1_900_000_000


def is_root() -> bool:
    """Whether this process is the root of the machine; not that of a user namespace."""
    if os.geteuid() != 0:
        return False
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            lines = [line.split() for line in file]
    except FileNotFoundError:
        return True
    return any(inside == outside == "0" for inside, outside, _ in lines)
