"""Schema of a later version of Kore, with an additional migration."""

import shutil
from pathlib import Path

from gateway.store.schema import Schema

_LATER = "CREATE TABLE later (id {number} PRIMARY KEY);\n"


def later_schema(today: Schema, folder: Path) -> Schema:
    """Write a copy of `today` with one more table and its migration into `folder`."""
    shutil.copytree(today.folder, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    number = "INTEGER" if today.folder.name == "sqlite" else "bigint"
    statement = _LATER.format(number=number)
    with (folder / "schema.sql").open("a") as tables:
        tables.write(statement)
    add_migration(folder, today.newest + 1, statement)
    return Schema(folder)


def add_migration(folder: Path, number: int, script: str) -> None:
    (folder / "migrations").mkdir(exist_ok=True)
    (folder / "migrations" / f"{number:04}_later.sql").write_text(script)
