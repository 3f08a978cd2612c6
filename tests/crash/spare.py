"""A gateway that has done its imports, and begins when a line arrives on stdin.

Importing is most of the time between two kills; the next process does it while this one works.
"""

import importlib
import sys

from gateway.__main__ import main

MODULES = (
    "gateway.app",
    "gateway.channels.telegram.channel",
    "gateway.cli.gateway",
    "gateway.control",
    "gateway.health",
    "gateway.logs",
    "agent.providers.openai",
)

if __name__ == "__main__":
    for module in MODULES:
        importlib.import_module(module)
    if sys.stdin.readline():
        sys.exit(main(["gateway"]))
