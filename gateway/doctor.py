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
from agent.language import later, t
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
NO_SANDBOX = later('set security.sandbox to "auto"')
NO_WAY_OUT = later("install bubblewrap (apt install bubblewrap), or empty security.exec_hosts")
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
    return Check(
        "python", "ok", t("{found} at {executable}", found=found, executable=sys.executable)
    )


def check_home(home: Home) -> Check:
    """Kore's folder and the files with secrets in it belong to their owner only."""
    if not home.root.is_dir():
        return Check("home", "warn", t("{root} is not there yet", root=home.root), "kore init")
    if not os.access(home.root, os.W_OK | os.X_OK):
        return Check(
            "home", "fail", t("{root} cannot be written to", root=home.root), t("check who owns it")
        )
    folders = (home.root, home.logs, home.audit)
    within = {path for folder in folders for path in folder.glob("*")} - {home.workspace}
    return _private("home", [home.root, *sorted(within)]) or Check("home", "ok", str(home.root))


def check_files(settings: Settings) -> Check:
    """What was put elsewhere belongs to its owner only, too."""
    files = [*settings.store.files, *filter(None, [settings.logging.file])]
    return _private("files", files) or Check("files", "ok", t("nobody else can read them"))


def _private(name: str, paths: Sequence[Path]) -> Check | None:
    """A warning when others can read one of these; they may come and go meanwhile."""
    found = []
    for path in paths:
        with suppress(FileNotFoundError):
            if not private(path):
                found.append(path)
    if not found:
        return None
    more = t(" and {n} more", n=len(found) - 1) if len(found) > 1 else ""
    fix = f"chmod go= {' '.join(shlex.quote(str(path)) for path in found)}"
    return Check(name, "warn", t("others can read {found}{more}", found=found[0], more=more), fix)


def check_model(settings: Settings, environ: Mapping[str, str]) -> Check:
    """The model has an address and a key; nobody is asked."""
    try:
        require_model(settings)
        config = resolve(chosen_model(settings, environ), model_list(settings), environ)
    except KoreError as exc:
        return Check(
            "model", "fail", str(exc), exc.hint or t("set the key, or another agent.model")
        )
    if config.model == OFFLINE:
        fix = t("set OPENAI_API_KEY or another vendor's key")
        return Check("model", "warn", t("offline/echo, a stand-in that does not think"), fix)
    return Check(
        "model", "ok", t("{model} at {api_base}", model=config.model, api_base=config.api_base)
    )


def check_limits(settings: Settings, environ: Mapping[str, str]) -> Check:
    """Limits on money can hold for the model: its price is known."""
    try:
        config = resolve(chosen_model(settings, environ), model_list(settings), environ)
    except KoreError:
        return Check("limits", "ok", t("not looked at: there is no model"))
    if found := unenforceable(settings.limits, config):
        sentence, _, fix = found.partition(". ")
        return Check("limits", "warn", sentence, fix)
    return Check(
        "limits", "ok", t("money") if has_money_limits(settings.limits) else t("none on money")
    )


def check_policy(settings: Settings) -> Check:
    """Which roles hold."""
    from gateway.policies import Policies

    try:
        Policies.of(settings)
    except KoreError as exc:
        return Check("policy", "fail", str(exc), exc.hint or t("mend the file"))
    file = settings.security.policy_file
    return Check("policy", "ok", str(file) if file else t("no file, the built-in roles hold"))


def check_telegram(settings: Settings) -> Check:
    if not settings.telegram.enabled:
        return Check("telegram", "ok", t("not enabled"))
    try:
        require_telegram(settings)
    except KoreError as exc:
        return Check("telegram", "fail", str(exc), exc.hint)
    if "*" in settings.telegram.allow_from:
        return Check(
            "telegram",
            "warn",
            t('allow_from is ["*"]: everybody may use the agent'),
            t("list numeric ids in telegram.allow_from"),
        )
    if not settings.telegram.allow_from:
        return Check(
            "telegram", "ok", t("who writes to the bot gets a code: `kore pair approve CODE`")
        )
    return Check(
        "telegram", "ok", t("{allow_from} may use it", allow_from=len(settings.telegram.allow_from))
    )


def check_database(path: Path) -> Check:
    """The database is whole. It is opened for reading only and never repaired here.

    A running Kore keeps it to itself: then it is not looked into.
    """
    if not path.exists():
        return Check(
            "database", "ok", t("{path} is not there yet; the first start makes it", path=path)
        )
    try:
        database = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=1)
        try:
            verdict = str(database.execute("PRAGMA quick_check(1)").fetchone()[0])
            version = database.execute("PRAGMA user_version").fetchone()[0]
        finally:
            database.close()
    except sqlite3.Error as exc:
        if getattr(exc, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            return Check(
                "database", "ok", t("{path}, in use; stop Kore to have it looked into", path=path)
            )
        verdict, version = str(exc), None
    if verdict != "ok":
        return Check(
            "database",
            "fail",
            f"{path}: {verdict}",
            t("stop kore, keep a copy of the file, and put a backup in its place (kore backup)"),
        )
    return Check(
        "database",
        "ok",
        t(
            "{path}, {st_size:,} bytes, schema {version}",
            path=path,
            st_size=path.stat().st_size,
            version=version,
        ),
    )


def check_disk(folder: Path) -> Check:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    detail = t("{free:.1f} GB free for {folder}", free=free / 1000000000.0, folder=folder)
    if free < _FULL_BYTES:
        return Check("disk", "fail", detail, t("make room; Kore cannot keep messages without it"))
    if free < _LOW_BYTES:
        return Check("disk", "warn", detail, t("make room soon"))
    return Check("disk", "ok", detail)


def check_clock(home: Home, skew_s: float | None = None) -> Check:
    """The clock is plausible; `skew_s` is a server's clock minus ours, when one was asked."""
    now = time.time()
    newest = max((p.stat().st_mtime for p in (home.config, home.database) if p.exists()), default=0)
    fix = t("set the clock, or run a time service such as systemd-timesyncd")
    if now < _WRITTEN_AT or newest > now + _SKEW_S:
        return Check("clock", "fail", t("the clock is behind what it has already shown"), fix)
    if skew_s is not None and abs(skew_s) > _SKEW_S:
        return Check(
            "clock", "warn", t("{abs:.0f} s away from the server's clock", abs=abs(skew_s)), fix
        )
    return Check("clock", "ok", time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(now)))


def check_packages() -> Check:
    """Nobody else has installed a package named like one of ours."""
    rivals = sorted(set(_rivals()))
    if rivals:
        return Check(
            "packages",
            "fail",
            t("also installed, with packages of the same name: {rivals}", rivals=", ".join(rivals)),
            t("install Kore into a virtual environment of its own"),
        )
    return Check("packages", "ok", t("agent, gateway and kore are ours alone"))


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
        held = t("{sandbox}, tried: every escape failed", sandbox=choice.sandbox.name)
        if hosts := ", ".join(settings.security.exec_hosts):
            if not choice.sandbox.leads_out:
                held = t(
                    "{sandbox} cannot hold commands to {hosts}: they are refused",
                    sandbox=choice.sandbox.name,
                    hosts=hosts,
                )
                return Check("sandbox", "warn", held, t(NO_WAY_OUT))
            held += t("; commands reach {hosts}", hosts=hosts)
        return Check("sandbox", "ok", f"{held} ({before})" if before else held)
    if settings.security.sandbox == "none":
        return Check("sandbox", "warn", t("none: commands can do all that you can"), t(NO_SANDBOX))
    return Check("sandbox", "warn", t("none ({before})", before=before), GET_ONE)


def check_owner(home: Home, running: bool) -> Check:
    if running:
        return Check(
            "owner", "ok", t("Kore is running; it listens at {socket}", socket=home.socket)
        )
    if home.socket.exists():
        return Check(
            "owner",
            "ok",
            t("not running; {socket} is left over and does no harm", socket=home.socket),
        )
    return Check("owner", "ok", t("not running"))


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
