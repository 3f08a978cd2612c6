"""A gateway that has done its imports, and begins when a line arrives on stdin.

Importing is most of the time between two kills; the next process does it while this one works.
"""

import importlib
import os
import sys
from pathlib import Path

from tests.crash import clock

MODULES = (
    "gateway.app",
    "gateway.channels.telegram.channel",
    "gateway.cli.verbs.gateway",
    "gateway.control.server",
    "gateway.control.health",
    "gateway.runtime.log_setup",
    "agent.providers.openai.provider",
)

if __name__ == "__main__":
    # Before anything of the program could take the real clock.
    clock.obey(Path(os.environ[clock.VARIABLE]))
    for module in MODULES:
        importlib.import_module(module)
    if sys.stdin.readline():
        sys.exit(importlib.import_module("gateway.__main__").main(["gateway"]))
