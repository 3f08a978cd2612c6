"""Command `kore restore`: unpack and check a backup, and put it in place."""

import argparse
import os
import shlex
import shutil
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from zipfile import ZipFile, ZipInfo

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.security.files.folder_tree import (
    FolderCursor,
    copy_tree,
    new_file,
    scratch_folder,
)
from agent.security.files.safe_open import open_folder_beneath
from agent.security.taint.file_marks import MarkLevel
from gateway.cli.folders import data_dir_of
from gateway.cli.output import print_json, size
from gateway.cli.settings import settings_of, sources_of
from gateway.cli.verbs.backup import (
    CHANNELS,
    CONFIG_FILES,
    DATABASE,
    WORKSPACE,
    config_files,
    counts_text,
)
from gateway.config import Settings
from gateway.config.atomic_write import write_atomic
from gateway.config.json_files.document import read_object, read_text
from gateway.ops.backup_marks import put_marks, read_marks
from gateway.ops.restore_review import review_restore
from gateway.runtime.lock import acquire
from gateway.runtime.paths import DataDir
from gateway.store.copying import check_empty, copy_store
from gateway.store.errors import StoreError
from gateway.store.opening import store_cipher, whole_database, whole_postgres
from gateway.store.sqlite.backup import BackupSummary, mark_restored, put_in_place, read_back

# Enough for about a million files.
_MAX_DIRECTORY_BYTES = 100_000_000

# Maximum size of the end of a zip file: its record, a comment of at most 65,535 bytes, and the
# records of ZIP64.
_MAX_TAIL_BYTES = 66_000

# Size limit of configuration and secrets, which are read into memory.
_MAX_CONFIG_BYTES = 10_000_000

# Each file needs at least one disk block.
_BLOCK_BYTES = 4096

_USABLE_SHARE = 0.9


def run(args: argparse.Namespace) -> int:
    file, home = (Path.cwd() / args.file.expanduser()).resolve(), data_dir_of(args)
    home.ensure()
    if not file.is_file():
        raise KoreError(t("{path}: no such file", path=file))
    with (
        acquire(home.lock, "kore restore"),
        scratch_folder(".restore-", home.root) as parts,
    ):
        marks = _unpack(file, parts)
        try:
            summary = read_back(parts / DATABASE)
        except StoreError as exc:  # the original message names the unpacked temporary file
            message = str(exc).replace(str(parts / DATABASE), str(file))
            raise StoreError(message, hint=exc.hint) from exc
        previous: list[str] = []
        new_settings = settings_of(args) if args.database_only else _settings_of_backup(args, parts)
        _check_database(new_settings)
        print(f"{file}: {size(file.stat().st_size)}, {counts_text(summary)}", file=sys.stderr)
        if not args.database_only:
            _review(args, parts, new_settings)
        _confirm(args)
        if not args.database_only:
            previous += _restore_files(parts, config_files(args), home)
        # From now on, the restored configuration determines the paths.
        settings = settings_of(args)
        restored_summary = _restore_database(parts / DATABASE, settings, previous)
        if not args.database_only and (parts / WORKSPACE).is_dir():
            previous += _restore_workspace(parts / WORKSPACE, settings.agent.workspace, marks)
        if not args.database_only and (parts / CHANNELS).is_dir():
            # If a kill leaves no such folder, the next start takes the new one as complete.
            home.channels.mkdir(mode=0o700, exist_ok=True)
            previous += _restore_workspace(parts / CHANNELS, home.channels, {})
            home.channels.chmod(0o700)
    if args.json:
        print_json(
            {"counts": restored_summary.counts, "schema": restored_summary.schema, "kept": previous}
        )
        return 0
    print(t("restored and verified: {found}", found=counts_text(restored_summary)))
    for path in previous:
        print(t("previous version: {path}", path=path))
    print(t("Messages received and confirmed after the backup are only in the previous version."))
    return 0


def _review(args: argparse.Namespace, parts: Path, new_settings: Settings) -> None:
    """Show the changes of the configuration and ask about each moved path. Raises `KoreError`."""
    review = review_restore(
        _current_settings(args), new_settings, parts, config_files(args)[CONFIG_FILES[2]]
    )
    for line in review.lines:
        print(line, file=sys.stderr)
    for place in review.places:
        moves = t(
            "The {name} of the backup goes to {path}.", name=place.name, path=place.display_path
        )
        if not sys.stdin.isatty():
            hint = t(
                "nothing was restored; if it may go there, set {variable}, or use --database-only",
                variable=place.variable,
            )
            raise KoreError(moves, hint=hint)
        print(moves, file=sys.stderr)
        _ask_for_yes(t("Replace what is there? Type yes: "))


def _current_settings(args: argparse.Namespace) -> Settings:
    """Return the current settings, or the defaults if they do not load."""
    try:
        return settings_of(args)
    except ConfigError:
        sources = sources_of(args)
        return sources.load({sources.own_file: {}, sources.secrets_file: {}})


def _confirm(args: argparse.Namespace) -> None:
    if args.yes:
        return
    if not sys.stdin.isatty():
        raise KoreError(t("nothing was restored"), hint=t("use --yes to skip the question"))
    _ask_for_yes(t("Replace the current data? Type yes: "))


def _ask_for_yes(question: str) -> None:
    print(question, end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != "yes":
        raise KoreError(t("nothing was restored"))


def _settings_of_backup(args: argparse.Namespace, parts: Path) -> Settings:
    """Return the settings of the backup, checked before anything is replaced."""
    config, secrets = read_object(parts / CONFIG_FILES[0]), read_object(parts / CONFIG_FILES[1])
    if config is None:
        return settings_of(args)
    sources = sources_of(args)
    try:
        return sources.load({sources.own_file: config, sources.secrets_file: secrets or {}})
    except ConfigError as exc:
        hint = t("nothing was restored; --database-only leaves the configuration as it is")
        raise ConfigError(str(exc), hint=hint) from None


def _check_database(settings: Settings) -> None:
    """Reject a server database with contents before anything is replaced. Raises `StoreError`."""
    if settings.store.path is not None:
        return

    cipher = store_cipher(settings, os.environ)
    check_empty(whole_postgres(settings.store.url), cipher)


def _restore_database(copy: Path, settings: Settings, previous: list[str]) -> BackupSummary:
    """Replace the configured database and return a summary of the new contents.

    The path of the previous database is added to `previous`. Raises `StoreError`.
    """
    if settings.store.path is not None:
        if previous_path := put_in_place(copy, settings.store.path):
            previous.append(str(previous_path))
        return read_back(settings.store.path)

    mark_restored(copy)
    cipher = store_cipher(settings, os.environ)
    # Row by row, and compared; a database with contents is rejected.
    copy_store(whole_database(f"sqlite:///{copy}"), whole_postgres(settings.store.url), cipher)
    return read_back(copy)


def _restore_files(parts: Path, places: Mapping[str, Path], home: DataDir) -> list[str]:
    previous = []
    for name, path in places.items():
        text, previous_text = read_text(parts / name), read_text(path)
        if text is None or text == previous_text:
            continue
        if previous_text is not None:
            home.backups.mkdir(mode=0o700, exist_ok=True)
            previous_path = home.backups / f"before-restore-{_timestamp()}-{name}"
            write_atomic(previous_path, previous_text)
            previous.append(str(previous_path))
            # Print this immediately, because a later step may fail.
            print(
                t("the previous {path} is saved as {aside}", path=path, aside=previous_path),
                file=sys.stderr,
            )
        write_atomic(path, text)
        path.chmod(0o600)
    return previous


def _restore_workspace(
    source: Path, folder: Path, marks: Mapping[str, MarkLevel] | None
) -> list[str]:
    """Replace a folder with the backup's; return the path of the previous folder."""
    previous = []
    new_folder = folder.with_name(f".{folder.name}.restore-{_timestamp()}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        copy_tree(source, new_folder)
        put_marks(new_folder, marks)
        if folder.exists() and not any(folder.iterdir()):
            folder.rmdir()
        elif folder.exists():
            previous_path = folder.with_name(f"{folder.name}.before-restore-{_timestamp()}")
            folder.rename(previous_path)
            previous.append(str(previous_path))
        new_folder.rename(folder)
        if marks is None:
            print(_unknown_marks(folder), file=sys.stderr)
    except OSError as exc:
        raise KoreError(
            t("{path} could not be replaced: {reason}", path=folder, reason=exc)
        ) from exc
    return previous


def _unknown_marks(workspace: Path) -> str:
    return t(
        "this backup does not say which files hold untrusted content, so all of them count as "
        "untrusted; to trust them: kore trust {path}",
        path=shlex.quote(str(workspace)),
    )


def _timestamp() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def _unpack(file: Path, folder: Path) -> Mapping[str, MarkLevel] | None:
    """Unpack the parts of any kind of backup into this folder.

    Returns the marks of its files by their paths in the workspace, None if unknown. Raises
    `KoreError`.
    """
    if not zipfile.is_zipfile(file):
        os.symlink(file, folder / DATABASE)
        return None
    try:
        _check_directory(file)
        with zipfile.ZipFile(file) as archive:
            names = [info.filename for info in archive.infolist() if not info.is_dir()]
            unknown_names = [name for name in names if not _is_backup_entry(name)]
            if unknown_names or DATABASE not in names:
                raise KoreError(t("{path} is not a Kore backup", path=file))
            _check_room(file, archive.infolist(), folder)
            with open_folder_beneath(folder.resolve()) as root, FolderCursor(root) as place:
                for info in archive.infolist():
                    if not info.is_dir():
                        _extract(archive, info, place)
            return read_marks(archive, WORKSPACE)
    except (zipfile.BadZipFile, OSError, RuntimeError) as exc:
        raise KoreError(t("{path} cannot be unpacked: {reason}", path=file, reason=exc)) from exc


def _extract(archive: ZipFile, info: ZipInfo, place: FolderCursor) -> None:
    """Extract a file; its path may be longer than the system allows."""
    *above, name = (part for part in info.filename.split("/") if part not in ("", "."))
    place.go(above)
    with archive.open(info) as source, open(new_file(name, place.folder), "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fchmod(target.fileno(), (info.external_attr >> 16 & 0o777) | 0o600)


def _check_directory(file: Path) -> None:
    """Check that the directory fits into memory, before it is read.

    https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.3.14 and 4.3.16
    """
    with file.open("rb") as archive:
        archive.seek(max(0, file.stat().st_size - _MAX_TAIL_BYTES))
        tail = archive.read()
    sizes = [int.from_bytes(tail[at + 12 : at + 16], "little") for at in _places(tail, b"PK\5\6")]
    sizes += [int.from_bytes(tail[at + 40 : at + 48], "little") for at in _places(tail, b"PK\6\6")]
    # 0xFFFFFFFF is not a size but refers to the larger ZIP64 record.
    if any(_MAX_DIRECTORY_BYTES < size_bytes != 0xFFFFFFFF for size_bytes in sizes):
        raise KoreError(
            t("{path} contains too many files", path=file),
            hint=t("The limit is {size}.", size=size(_MAX_DIRECTORY_BYTES)),
        )


def _places(data: bytes, mark: bytes) -> Iterator[int]:
    at = data.find(mark)
    while at >= 0:
        yield at
        at = data.find(mark, at + 1)


def _check_room(file: Path, archive: Sequence[ZipInfo], folder: Path) -> None:
    """Check that there is space for two copies of the contents, needed until they are in place.

    `zipfile` never extracts more than the size in the entry.
    """
    for info in archive:
        if info.filename in CONFIG_FILES and info.file_size > _MAX_CONFIG_BYTES:
            raise KoreError(
                t("{name} in {path} is too large: {size}", name=info.filename, path=file,
                  size=size(info.file_size))
            )  # fmt: skip
    needed_bytes = 2 * sum(info.file_size + _BLOCK_BYTES for info in archive)
    free = int(shutil.disk_usage(folder).free * _USABLE_SHARE)
    if needed_bytes > free:
        raise KoreError(
            t(
                "{path} needs {wanted}, but only {free} is available",
                path=file,
                wanted=size(needed_bytes),
                free=size(free),
            ),
            hint=t(
                "nothing was restored; free some space or check the file: it may not be a backup"
            ),
        )


def _is_backup_entry(name: str) -> bool:
    parts = name.split("/")
    if ".." in parts or name.startswith("/") or "\\" in name:
        return False
    return name in (DATABASE, *CONFIG_FILES) or (
        len(parts) > 1 and parts[0] in (WORKSPACE, CHANNELS)
    )
