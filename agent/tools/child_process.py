"""Child processes of Kore for work that could run for hours or use all memory.

Each program is a module with a `main` that takes arguments and returns an exit code. It runs in a
fresh Python without the person's environment; it sets its own limits (`limit`), and its parent ends
it.
"""

import resource
import sys
from pathlib import Path

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
CPU_LIMIT_S = 30
MEMORY_LIMIT_BYTES = 1_000_000_000

# Kore may run from a folder that is not installed.
_HERE = str(Path(__file__).parents[2])
_CODE = "import sys; sys.path.append({here!r}); from {module} import main; sys.exit(main())"


def program(module: str, *words: str) -> list[str]:
    """Return the command that runs the `main` of a module with `sys.argv[1:]` set to the words."""
    code = _CODE.format(here=_HERE, module=module)
    return [sys.executable, "-I", "-X", "utf8", "-c", code, *words]


def limit() -> None:
    """Limit this process, so that the kernel ends it even if its parent does not."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
