"""Command `kore store`: change the encryption key, copy the database, mark it as restored."""

import argparse
import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from agent.errors import ConfigError, KoreError
from agent.i18n import plural, t
from agent.records import frozen
from agent.undo.blob_store import BlobStore
from gateway.cli.arguments import STORE_KEY_SETTING
from gateway.cli.folders import data_dir_of
from gateway.cli.output import print_json
from gateway.cli.settings import settings_of
from gateway.config.sections import StoreSection
from gateway.config.value_types import StoreUrl
from gateway.runtime.lock import acquire
from gateway.runtime.paths import DataDir
from gateway.store.cipher import Cipher, cipher_of
from gateway.store.copying import copy_store
from gateway.store.files.file_store import SharedFiles
from gateway.store.files.opening import open_shared_files
from gateway.store.opening import open_store, store_cipher, whole_database, whole_postgres
from gateway.store.repositories.execution import restored_backup
from gateway.store.sqlite.rekey import is_sealed, rekey


@frozen
class KeyName:
    """Name of the variable with a key, or None; `named_by` is the flag or setting that names it."""

    variable: str | None
    named_by: str = STORE_KEY_SETTING

    def cipher(self) -> Cipher | None:
        return cipher_of(self.variable, os.environ, self.named_by)


def run(args: argparse.Namespace) -> int:
    actions = {"rekey": _run_rekey, "copy": _run_copy, "mark-restored": _run_mark_restored}
    return actions[args.action](args)


def _run_copy(args: argparse.Namespace) -> int:
    home, settings = data_dir_of(args), settings_of(args)
    urls = []
    for text in (args.source, args.target):
        if text == "store":
            urls.append(settings.store.url)
            continue
        try:
            urls.append(TypeAdapter(StoreUrl).validate_python(text))
        except ValidationError as exc:
            raise ConfigError(
                t(
                    'found "{text}", expected {expected}',
                    # A text that looks like a URL may contain a password.
                    text=text if "@" not in text else "…",
                    expected=t("sqlite:///PATH or postgresql://USER@HOST/DATABASE"),
                )
            ) from exc
    cipher = store_cipher(settings, os.environ)
    with acquire(home.lock, "kore store copy"):
        counts = copy_store(whole_database(urls[0], exists=True), whole_database(urls[1]), cipher)
    rows = sum(counts.values())
    if args.json:
        print_json({"rows": rows, "tables": counts})
        return 0
    print(
        plural(
            rows,
            "{n:,} row copied and compared",
            "{n:,} rows of {tables} tables copied and compared",
            tables=len(counts),
        )
    )
    if urls[1] != settings.store.url:
        print(t("Set store.url to the new address before the next start."))
    return 0


def _run_mark_restored(args: argparse.Namespace) -> int:
    home, settings = data_dir_of(args), settings_of(args)
    _require_database(settings.store)
    home.ensure()
    with acquire(home.lock, "kore store mark-restored"):
        asyncio.run(_mark_restored(settings.store, home))
    if args.json:
        print_json({"restored": True})
        return 0
    print(t("The next start closes what was under way in this database, and tells the chats."))
    return 0


async def _mark_restored(section: StoreSection, home: DataDir) -> None:
    """Mark the database as its owner, so that processes from before the restore cannot write."""
    cipher = cipher_of(section.encryption_key_env, os.environ)
    store = open_store(section.url, home.root, check=False, cipher=cipher)
    try:
        await store.transact(restored_backup.mark, time.time())
    finally:
        await store.close()


def _require_database(section: StoreSection) -> None:
    path = section.path
    if path is not None and not path.exists():
        raise KoreError(
            t("no database at {path} yet", path=path), hint=t("It is created at the first start.")
        )


def _run_rekey(args: argparse.Namespace) -> int:
    home, settings = data_dir_of(args), settings_of(args)
    configured = settings.store.encryption_key_env
    _require_database(settings.store)
    old = KeyName(args.source, "--from") if args.source else KeyName(configured)
    new = KeyName(args.to, "--to") if args.to else KeyName(None if args.plain else configured)

    with acquire(home.lock, "kore store rekey"):
        if not args.plain and new.variable is None:
            raise ConfigError(
                t("no key given, and {setting} is not set", setting=STORE_KEY_SETTING),
                hint=t("--to NAME_OF_VARIABLE, or --plain"),
            )
        shared = _shared_files(settings.store)

        def forget() -> None:
            # Undo data that is encrypted with the old key, or not encrypted, must not remain.
            BlobStore(home.undo).clear()
            if shared is not None:
                shared.undo.delete_others()
                shared.all_inboxes.delete_others()

        texts = _rekey(settings.store, old, new, forget)
    name = new.variable
    if args.json:
        print_json({"texts": texts, "key": name, "configured": configured})
        return 0
    if name is None:
        print(plural(texts, "{n:,} row is unencrypted", "{n:,} rows are unencrypted"))
    else:
        text = plural(
            texts,
            "{n:,} row is encrypted with the key in {name}",
            "{n:,} rows are encrypted with the key in {name}",
            name=name,
        )
        print(text)
    if name != configured:
        print(
            t(
                "The setting {setting} is {now}: set it to {name} before the next start."
                if name
                else "The setting {setting} is {now}: remove it before the next start.",
                setting=STORE_KEY_SETTING,
                now=configured,
                name=name,
            )
        )
    return 0


def _shared_files(store: StoreSection) -> SharedFiles | None:
    """Return the shared files.

    Raises `KoreError` while files wait to be sent, because they are encrypted with the old key.
    """
    if store.files is None:
        return None

    shared = open_shared_files(store.files, None)
    if any(True for _ in shared.outgoing.list()):
        raise KoreError(
            t("files in {place} wait to be sent; they need the current key", place=shared.place),
            hint=t("Start Kore, wait until they are sent, and stop it again."),
        )
    return shared


def _rekey(store: StoreSection, old: KeyName, new: KeyName, forget: Callable[[], None]) -> int:
    server = None if store.path is not None else whole_postgres(store.url)
    sealed = server.is_sealed() if server else is_sealed(Path(store.place))
    cipher = None
    if sealed:
        if old.variable is None:
            raise ConfigError(
                t(
                    "the database {path} is encrypted, but {setting} is not set",
                    path=store.place,
                    setting=STORE_KEY_SETTING,
                ),
                hint=t("pass it with --from NAME_OF_VARIABLE"),
            )
        if old.variable == new.variable:
            raise ConfigError(
                t(
                    "the database {path} is already encrypted with the key in {name}",
                    path=store.place,
                    name=old.variable,
                ),
                hint=t(
                    "set the new key with --to NAME_OF_VARIABLE, or remove encryption with --plain"
                ),
            )
        cipher = old.cipher()
    elif new.variable is None:
        raise KoreError(t("the database {path} is not encrypted; nothing to do", path=store.place))
    if server is None:
        return rekey(Path(store.place), cipher, new.cipher(), forget)
    count = server.rekey(cipher, new.cipher())
    forget()
    return count
