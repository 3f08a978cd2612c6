"""`kore doctor`'s checks: each looks at one thing and says how to mend it."""

import os
import shlex
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from urllib.parse import quote

from agent.errors import ConfigError, KoreError
from agent.frozen import frozen
from agent.providers.routing import OFFLINE, resolve
from agent.security.sandbox.choice import GET_ONE, choose
from gateway.caps import has_money_limits, unenforceable
from gateway.confinement import wishes
from gateway.home import Home
from gateway.settings import Settings, require_model, require_telegram
from gateway.settings.document import private
from gateway.settings.models import chosen_model, model_list

DISTRIBUTION = "kore-assistant"
_LOW_BYTES, _FULL_BYTES = 1_000_000_000, 100_000_000
_SKEW_S = 60
NO_SANDBOX = 'set security.sandbox to "auto"'
NO_WAY_OUT = "install bubblewrap (apt install bubblewrap), or empty security.exec_hosts"
# No clock that is right can show an earlier time than this source was written.
_WRITTEN_AT = 1_780_000_000


@frozen
class Check:
    """What one look came to; `fix` says what to do when it is not ok."""

    name: str
    state: Literal["ok", "warn", "fail"]
    detail: str
    fix: str | None = None


def check_python() -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    return Check("python", "ok", f"{found} at {sys.executable}")


def check_home(home: Home) -> Check:
    """Kore's folder and the files with secrets in it belong to their owner only."""
    if not home.root.is_dir():
        return Check("home", "warn", f"{home.root} is not there yet", "kore init")
    if not os.access(home.root, os.W_OK | os.X_OK):
        return Check("home", "fail", f"{home.root} cannot be written to", "check who owns it")
    folders = (home.root, home.logs, home.audit)
    within = {path for folder in folders for path in folder.glob("*")} - {home.workspace}
    return _private("home", [home.root, *sorted(within)]) or Check("home", "ok", str(home.root))


def check_files(settings: Settings) -> Check:
    """What was put elsewhere belongs to its owner only, too."""
    files = [*settings.store.files, *filter(None, [settings.logging.file])]
    return _private("files", files) or Check("files", "ok", "nobody else can read them")


def _private(name: str, paths: Sequence[Path]) -> Check | None:
    """A warning when others can read one of these; they may come and go meanwhile."""
    found = []
    for path in paths:
        with suppress(FileNotFoundError):
            if not private(path):
                found.append(path)
    if not found:
        return None
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    fix = f"chmod go= {' '.join(shlex.quote(str(path)) for path in found)}"
    return Check(name, "warn", f"others can read {found[0]}{more}", fix)


def check_model(settings: Settings, environ: Mapping[str, str]) -> Check:
    """The model has an address and a key; nobody is asked."""
    try:
        require_model(settings)
        config = resolve(chosen_model(settings, environ), model_list(settings), environ)
    except KoreError as exc:
        return Check("model", "fail", str(exc), exc.hint or "set the key, or another agent.model")
    if config.model == OFFLINE:
        return Check(
            "model",
            "warn",
            "offline/echo, a stand-in that does not think",
            "set OPENAI_API_KEY or another vendor's key",
        )
    return Check("model", "ok", f"{config.model} at {config.api_base}")


def check_limits(settings: Settings, environ: Mapping[str, str]) -> Check:
    """Limits on money can hold for the model: its price is known."""
    try:
        config = resolve(chosen_model(settings, environ), model_list(settings), environ)
    except KoreError:
        return Check("limits", "ok", "not looked at: there is no model")
    if found := unenforceable(settings.limits, config):
        sentence, _, fix = found.partition(". ")
        return Check("limits", "warn", sentence, fix)
    return Check("limits", "ok", "money" if has_money_limits(settings.limits) else "none on money")


def check_policy(settings: Settings) -> Check:
    """Which roles hold."""
    from gateway.policies import Policies

    try:
        Policies.of(settings)
    except KoreError as exc:
        return Check("policy", "fail", str(exc), exc.hint or "mend the file")
    file = settings.security.policy_file
    return Check("policy", "ok", str(file) if file else "no file, the built-in roles hold")


def check_telegram(settings: Settings) -> Check:
    if not settings.telegram.enabled:
        return Check("telegram", "ok", "not enabled")
    try:
        require_telegram(settings)
    except KoreError as exc:
        return Check("telegram", "fail", str(exc), exc.hint)
    if "*" in settings.telegram.allow_from:
        return Check(
            "telegram",
            "warn",
            'allow_from is ["*"]: everybody may use the agent',
            "list numeric ids in telegram.allow_from",
        )
    if not settings.telegram.allow_from:
        return Check(
            "telegram", "ok", "who writes to the bot gets a code: `kore pair approve CODE`"
        )
    return Check("telegram", "ok", f"{len(settings.telegram.allow_from)} may use it")


def check_database(path: Path) -> Check:
    """The database is whole. It is opened for reading only and never repaired here.

    A running Kore keeps it to itself: then it is not looked into.
    """
    if not path.exists():
        return Check("database", "ok", f"{path} is not there yet; the first start makes it")
    try:
        database = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=1)
        try:
            verdict = str(database.execute("PRAGMA quick_check(1)").fetchone()[0])
            version = database.execute("PRAGMA user_version").fetchone()[0]
        finally:
            database.close()
    except sqlite3.Error as exc:
        if getattr(exc, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            return Check("database", "ok", f"{path}, in use; stop Kore to have it looked into")
        verdict, version = str(exc), None
    if verdict != "ok":
        return Check(
            "database",
            "fail",
            f"{path}: {verdict}",
            "stop kore, keep a copy of the file, and put a backup in its place (kore backup)",
        )
    return Check("database", "ok", f"{path}, {path.stat().st_size:,} bytes, schema {version}")


def check_disk(folder: Path) -> Check:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    detail = f"{free / 1e9:.1f} GB free for {folder}"
    if free < _FULL_BYTES:
        return Check("disk", "fail", detail, "make room; Kore cannot keep messages without it")
    if free < _LOW_BYTES:
        return Check("disk", "warn", detail, "make room soon")
    return Check("disk", "ok", detail)


def check_clock(home: Home, skew_s: float | None = None) -> Check:
    """The clock is plausible; `skew_s` is a server's clock minus ours, when one was asked."""
    now = time.time()
    newest = max((p.stat().st_mtime for p in (home.config, home.database) if p.exists()), default=0)
    fix = "set the clock, or run a time service such as systemd-timesyncd"
    if now < _WRITTEN_AT or newest > now + _SKEW_S:
        return Check("clock", "fail", "the clock is behind what it has already shown", fix)
    if skew_s is not None and abs(skew_s) > _SKEW_S:
        return Check("clock", "warn", f"{abs(skew_s):.0f} s away from the server's clock", fix)
    return Check("clock", "ok", time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(now)))


def check_packages() -> Check:
    """Nobody else has installed a package named like one of ours."""
    rivals = sorted(set(_rivals()))
    if rivals:
        return Check(
            "packages",
            "fail",
            f"also installed, with packages of the same name: {', '.join(rivals)}",
            "install Kore into a virtual environment of its own",
        )
    return Check("packages", "ok", "agent, gateway and kore are ours alone")


def check_sandbox(settings: Settings, home: Home) -> Check:
    """Commands are confined. Every back end that could be used is tried anew, by real escapes."""
    folder = home.root if home.root.is_dir() else None
    with ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="kore-doctor-")))
        try:
            choice = choose(wishes(settings), folder, afresh=True)
        except ConfigError as exc:
            return Check("sandbox", "fail", str(exc), exc.hint)
    before = "; ".join(f"{name}: {reason}" for name, reason in choice.failures.items())
    if choice.sandbox.confines:
        held = f"{choice.sandbox.name}, tried: every escape failed"
        if hosts := ", ".join(settings.security.exec_hosts):
            if not choice.sandbox.leads_out:
                held = f"{choice.sandbox.name} cannot hold commands to {hosts}: they are refused"
                return Check("sandbox", "warn", held, NO_WAY_OUT)
            held += f"; commands reach {hosts}"
        return Check("sandbox", "ok", f"{held} ({before})" if before else held)
    if settings.security.sandbox == "none":
        return Check("sandbox", "warn", "none: commands can do all that you can", NO_SANDBOX)
    return Check("sandbox", "warn", f"none ({before})", GET_ONE)


def check_owner(home: Home, running: bool) -> Check:
    if running:
        return Check("owner", "ok", f"Kore is running; it listens at {home.socket}")
    if home.socket.exists():
        return Check("owner", "ok", f"not running; {home.socket} is left over and does no harm")
    return Check("owner", "ok", "not running")


def local_checks(settings: Settings, home: Home, environ: Mapping[str, str]) -> list[Check]:
    """All that can be looked at without asking anybody."""
    return [
        check_model(settings, environ),
        check_limits(settings, environ),
        check_policy(settings),
        check_telegram(settings),
        check_database(settings.store.path),
        check_files(settings),
        check_disk(settings.store.path.parent),
        check_packages(),
        check_sandbox(settings, home),
    ]


def _rivals() -> Iterator[str]:
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"] or ""
        if name.lower().replace("_", "-") == DISTRIBUTION:
            continue
        top = (distribution.read_text("top_level.txt") or "").split()
        files = {str(file).split("/")[0] for file in distribution.files or ()}
        if {"agent", "gateway", "kore"} & {*top, *files}:
            yield name
