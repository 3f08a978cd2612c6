"""A workspace with traps, and surroundings that tools may neither read nor change.

Every file hidden from a guest's tools contains CANARY.
"""

import os
import socket
from pathlib import Path

CANARY = "canary-4c1d"
INSIDE = "inside-77aa"
# These must not change, except for the guest's own memory.
GUARDED = ("outside", "ws-evil", "home", "ws/.git", "ws/sub", "ws/node_modules", "ws/memory")
OWN = "ws/memory/telegram/7"

CLOSED = (
    "outside/secret.txt",
    "outside/dir/x.txt",
    "outside/dir/deep/y.txt",
    "ws-evil/x.txt",
    "home/config.json",
    "home/audit/audit.jsonl",
    "ws/.git/config",
    "ws/.git/hooks/post-checkout",
    "ws/sub/.git/config",
    "ws/.env",
    "ws/sub/.env",
    "ws/node_modules/.cache/x",
    "ws/USER.md",
    "ws/memory/MEMORY.md",
    "ws/memory/telegram/8/MEMORY.md",
    "ws/memory/telegram/77/MEMORY.md",
)
OPEN = ("ws/notes.md", "ws/a/b/c.txt", "ws/d/f.txt", "ws/memory/telegram/7/MEMORY.md")

LINKS = {
    "out": "..",
    "out_abs": "{tmp}",
    "out_dir": "../outside",
    "out_file": "../outside/secret.txt",
    "out_file_abs": "{tmp}/outside/secret.txt",
    "out_evil": "../ws-evil",
    "out_none": "../outside/none",
    "out_chain": "chain1",
    "chain1": "a/chain2",
    "a/chain2": "../chain3/secret.txt",
    "chain3": "../outside",
    "a/up": "..",
    "a/upup": "../..",
    "a/b/root": "/",
    "a/b/around": "../../../ws/../outside",
    "etc": "/etc",
    "passwd": "/etc/passwd",
    "proc": "/proc",
    "self": "/proc/self",
    "environ": "/proc/self/environ",
    "procroot": "/proc/self/root",
    "cwd": "/proc/self/cwd",
    "fd": "/dev/fd",
    "dev": "/dev",
    "null": "/dev/null",
    "sys": "/sys",
    "loop1": "loop2",
    "loop2": "loop1",
    "ring": "ring/ring",
    "git": ".git",
    "git_config": ".git/config",
    "a/env": "../.env",
    "profile": "USER.md",
    "their": "memory/telegram/8",
    "memory/telegram/7/owner": "../../MEMORY.md",
    "config": "../home/config.json",
    "home": "{tmp}/home",
    "in_dir": "a/b",
    "in_file": "notes.md",
    "in_abs": "{ws}/a/b",
    "memory/telegram/7/bidi": "\u202e.md",
}


def build(tmp: Path) -> None:
    """Create everything below `tmp`."""
    for name in CLOSED:
        _write(tmp / name, f"{CANARY} of {name}\n")
    for name in OPEN:
        _write(tmp / name, f"{INSIDE}\n")
    ws = tmp / "ws"
    for name, target in LINKS.items():
        (ws / name).symlink_to(target.format(tmp=tmp, ws=ws))
    (tmp / "outside" / "secret.txt").chmod(0o600)
    (tmp / "outside" / "shared.txt").write_text("not secret\n")
    os.link(tmp / "outside" / "secret.txt", ws / "hard")
    os.link(tmp / "outside" / "shared.txt", ws / "hard_shared")
    os.link(tmp / "home" / "config.json", ws / "hard_config")
    (tmp / "home" / "config.json").chmod(0o600)
    os.mkfifo(ws / "pipe")
    for name in ("a\u202eb", "line\nend", "esc\x1b[2J"):
        _write(ws / "odd" / name, CANARY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(ws / "socket"))


def protected_state(tmp: Path) -> dict[str, tuple[object, ...]]:
    """Return all protected files with their content, and all names next to the workspace."""
    result = {name: _state(tmp / name) for name in CLOSED}
    result["."] = tuple(sorted(os.listdir(tmp)))
    for path in (path for name in GUARDED for path in (tmp / name).rglob("*")):
        if not path.is_relative_to(tmp / OWN):
            result[str(path.relative_to(tmp))] = _state(path)
    return result


def _state(path: Path) -> tuple[object, ...]:
    if not path.is_file():
        return ("folder",)
    info = path.stat()
    return (path.read_bytes(), info.st_mode, info.st_ino)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
