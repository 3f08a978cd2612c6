"""Checks of stored data: permissions and integrity of the database."""

import os
import re
import secrets
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import KoreError
from agent.i18n import t
from gateway.config import Settings
from gateway.config.json_files.document import private
from gateway.ops.doctor.checks import Check
from gateway.runtime.paths import DataDir
from gateway.store.errors import StoreBusy

if TYPE_CHECKING:
    from gateway.store.files.file_store import SharedFiles

_LOOPBACK = re.compile(r"\(http://(?:127\.|localhost[:/)]|\[::1\])")


def check_home(home: DataDir) -> Check:
    """Check that Kore's folder and its files with secrets are accessible only to their owner."""
    if not home.root.is_dir():
        return Check("home", "warn", t("{root} does not exist yet", root=home.root), "kore init")
    if not os.access(home.root, os.W_OK | os.X_OK):
        return Check(
            "home", "fail", t("{root} is not writable", root=home.root), t("check its owner")
        )
    folders = (home.root, home.logs, home.audit)
    within = {path for folder in folders for path in folder.glob("*")} - {home.workspace}
    return _private("home", [home.root, *sorted(within)]) or Check("home", "ok", str(home.root))


def check_files(settings: Settings) -> Check:
    """Check that files outside of Kore's folder are accessible only to their owner."""
    files = [*settings.store.local_paths, *filter(None, [settings.logging.file])]
    return _private("files", files) or Check("files", "ok", t("private"))


def _private(name: str, paths: Sequence[Path]) -> Check | None:
    """Return a warning if others can read one of these paths, which may disappear meanwhile."""
    readable = []
    for path in paths:
        with suppress(FileNotFoundError):
            if not private(path):
                readable.append(path)
    if not readable:
        return None
    more = t(" and {n} more", n=len(readable) - 1) if len(readable) > 1 else ""
    fix = f"chmod go= {' '.join(shlex.quote(str(path)) for path in readable)}"
    return Check(
        name, "warn", t("readable by other users: {found}{more}", found=readable[0], more=more), fix
    )


def check_database(path: Path, check_file: Callable[[Path], tuple[str, int | None]]) -> Check:
    """Check that the database is intact and has a schema that this Kore supports.

    `check_file` is the function of `gateway.store.sqlite.migrator`. A database that is locked by
    a running Kore is not checked.
    """
    if not path.exists():
        return Check(
            "database",
            "ok",
            t("{path} does not exist yet; it is created at the first start", path=path),
        )
    try:
        verdict, version = check_file(path)
    except StoreBusy:
        return Check("database", "ok", t("{path}, in use; stop Kore to check it", path=path))
    except KoreError as exc:
        return Check("database", "fail", str(exc), exc.hint)
    if verdict != "ok":
        return Check(
            "database",
            "fail",
            f"{path}: {verdict}",
            t("stop Kore, keep a copy of the file and restore a backup (kore backup)"),
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


def check_server(place: str, schema: Callable[[], int]) -> Check:
    """Check that the database server responds and has tables that this Kore supports.

    `schema` returns the number of its newest migration and raises `KoreError`.
    """
    try:
        version = schema()
    except KoreError as exc:
        return Check("database", "fail", str(exc), exc.hint)
    if not version:
        return Check(
            "database", "ok", t("{path} is empty; it is filled at the first start", path=place)
        )
    return Check("database", "ok", t("{path}, schema {version}", path=place, version=version))


def check_shared_files(files: "Callable[[], SharedFiles]") -> Check:
    """Check the shared store by writing, reading and deleting a small file."""
    content = secrets.token_bytes(64)
    try:
        store = files().trial
        digest = store.put(content)
        read = BytesIO()
        store.fetch(digest, read, len(content))
        store.delete(digest)
    except KoreError as exc:
        return Check("shared files", "fail", str(exc), exc.hint)
    place = store.place
    if "(http://" in place and not _LOOPBACK.search(place):
        return Check(
            "shared files",
            "warn",
            t("{place}: what is sent there is not encrypted on its way", place=place),
            t("use an endpoint with https://"),
        )
    return Check("shared files", "ok", t("{place}, written and read", place=place))
