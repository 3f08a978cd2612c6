"""`kore store`: which key the stored messages are sealed with."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import ConfigError, KoreError
from agent.i18n import plural, t
from agent.records import frozen
from gateway.cli.context import data_dir_of, settings_of
from gateway.cli.output import print_json
from gateway.runtime.lock import acquire

if TYPE_CHECKING:
    from gateway.store.cipher import Cipher

_SETTING = "store.encryption_key_env"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="rekey")
    rekey = actions.add_parser(
        "rekey", help="change or remove the key that encrypts all stored messages"
    )
    rekey.add_argument(
        "--from",
        dest="source",
        metavar="ENV_NAME",
        help=f"the variable with the key until now (else that of {_SETTING})",
    )
    target = rekey.add_mutually_exclusive_group()
    target.add_argument(
        "--to", metavar="ENV_NAME", help=f"the variable with the new key (else that of {_SETTING})"
    )
    target.add_argument("--plain", action="store_true", help="store them unencrypted from now on")
    rekey.add_argument("--json", action="store_true", help="print JSON")


@frozen
class KeyName:
    """The variable that holds a key, or None; `named_by` is the flag or setting that says so."""

    variable: str | None
    named_by: str = _SETTING

    def cipher(self) -> "Cipher | None":
        from gateway.store.cipher import cipher_of

        return cipher_of(self.variable, os.environ, self.named_by)


def run(args: argparse.Namespace) -> int:
    home, settings = data_dir_of(args), settings_of(args)
    configured = settings.store.encryption_key_env
    path = settings.store.path
    if not path.exists():
        raise KoreError(
            t("no database at {path} yet", path=path), hint=t("It is created at the first start.")
        )
    old = KeyName(args.source, "--from") if args.source else KeyName(configured)
    new = KeyName(args.to, "--to") if args.to else KeyName(None if args.plain else configured)
    from agent.undo.blob_store import BlobStore

    with acquire(home.lock, "kore store rekey"):
        if not args.plain and new.variable is None:
            raise ConfigError(
                t("no key given, and {setting} is not set", setting=_SETTING),
                hint=t("--to NAME_OF_VARIABLE, or --plain"),
            )
        # What undo has kept with the old key, or without one, must not stay.
        texts = _rekey(path, old, new, BlobStore(home.undo).clear)
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
                setting=_SETTING,
                now=configured,
                name=name,
            )
        )
    return 0


def _rekey(path: Path, old: KeyName, new: KeyName, forget: Callable[[], None]) -> int:
    from gateway.store.sqlite.rekey import is_sealed, rekey

    cipher = None
    if is_sealed(path):
        if old.variable is None:
            raise ConfigError(
                t(
                    "the database {path} is encrypted, but {setting} is not set",
                    path=path,
                    setting=_SETTING,
                ),
                hint=t("pass it with --from NAME_OF_VARIABLE"),
            )
        if old.variable == new.variable:
            raise ConfigError(
                t(
                    "the database {path} is already encrypted with the key in {name}",
                    path=path,
                    name=old.variable,
                ),
                hint=t(
                    "set the new key with --to NAME_OF_VARIABLE, or remove encryption with --plain"
                ),
            )
        cipher = old.cipher()
    elif new.variable is None:
        raise KoreError(t("the database {path} is not encrypted; nothing to do", path=path))
    return rekey(path, cipher, new.cipher(), forget)
