"""Checks of the machine: Python, packages, disk and clock."""

import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from agent.i18n import t
from agent.records import frozen
from gateway.runtime.paths import DataDir


@frozen
class Check:
    """Result of a check; `fix` is the suggested action if it is not ok."""

    name: str
    state: Literal["ok", "warn", "fail"]
    detail: str
    fix: str | None = None


_DISTRIBUTION = "kore-assistant"

_LOW_BYTES, _FULL_BYTES = 1_000_000_000, 100_000_000

_MAX_SKEW_S = 60

# Watches for a project (`WatchLimits.folders`) and editors; and today's usual limit.
_WATCHES, _MORE_WATCHES = 30_000, 524_288

# A correct clock cannot be earlier than the writing of this source.
_WRITTEN_AT = 1_780_000_000


def check_python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check(
        "python", "ok", t("{found} at {executable}", found=version, executable=sys.executable)
    )


def check_packages() -> Check:
    """Check that no other installed package has the name of one of ours."""
    rivals = sorted(set(_rivals()))
    if rivals:
        return Check(
            "packages",
            "fail",
            t(
                "conflicts with installed packages of the same name: {rivals}",
                rivals=", ".join(rivals),
            ),
            t("install Kore in its own virtual environment"),
        )
    return Check("packages", "ok", t("no name conflicts"))


def _rivals() -> Iterator[str]:
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"] or ""
        if name.lower().replace("_", "-") == _DISTRIBUTION:
            continue
        top = (distribution.read_text("top_level.txt") or "").split()
        files = {str(file).split("/")[0] for file in distribution.files or ()}
        if {"agent", "gateway", "kore"} & {*top, *files}:
            yield name


def check_disk(folder: Path) -> Check:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    detail = t("{free:.1f} GB free in {folder}", free=free / 1000000000.0, folder=folder)
    if free < _FULL_BYTES:
        return Check(
            "disk", "fail", detail, t("free some disk space; Kore cannot store messages without it")
        )
    if free < _LOW_BYTES:
        return Check("disk", "warn", detail, t("free some disk space soon"))
    return Check("disk", "ok", detail)


def check_watches(limit: Path = Path("/proc/sys/fs/inotify/max_user_watches")) -> Check:
    """Check that the kernel's limit of watches suffices for a large project."""
    try:
        count = int(limit.read_text())
    except (OSError, ValueError):
        return Check("watching", "ok", t("no limit known"))
    detail = t("up to {count:,} folders", count=count)
    if count >= _WATCHES:
        return Check("watching", "ok", detail)
    fix = t(
        "in larger projects some changes are noticed later; to raise the limit: {command}",
        command=f"sysctl fs.inotify.max_user_watches={_MORE_WATCHES}",
    )
    return Check("watching", "warn", detail, fix)


def check_clock(home: DataDir, skew_s: float | None = None) -> Check:
    """Check that the clock is plausible; `skew_s` is a server's clock minus ours, if known."""
    now = time.time()
    newest = max((p.stat().st_mtime for p in (home.config, home.database) if p.exists()), default=0)
    fix = t("set the clock, or run a time service such as systemd-timesyncd")
    if now < _WRITTEN_AT or newest > now + _MAX_SKEW_S:
        return Check("clock", "fail", t("the clock went backwards"), fix)
    if skew_s is not None and abs(skew_s) > _MAX_SKEW_S:
        return Check(
            "clock", "warn", t("{abs:.0f} s off from the server's clock", abs=abs(skew_s)), fix
        )
    return Check("clock", "ok", time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(now)))


def check_turns(status: Mapping[str, Any]) -> Check:
    """Check for failed turns; an older running Kore may have written `status`."""
    if not status.get("turns_failed"):
        return Check("turns", "ok", t("none failed since it started"))
    detail = t(
        "failed since it started: {n}; the last one at {at}: {why}",
        n=status["turns_failed"],
        at=time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status["last_failure_at"])),
        why=status["last_failure_reason"],
    )
    if status["failing_model"] is None:
        return Check("turns", "ok", detail)
    fix = t(
        "the model {model} fails every time: test it with `kore doctor --live`",
        model=status["failing_model"],
    )
    return Check("turns", "warn", detail, fix)


def check_owner(home: DataDir, running: bool) -> Check:
    if running:
        return Check(
            "owner", "ok", t("Kore is running and listens at {socket}", socket=home.socket)
        )
    if home.socket.exists():
        return Check(
            "owner",
            "ok",
            t("not running; leftover {socket} (harmless)", socket=home.socket),
        )
    return Check("owner", "ok", t("not running"))
