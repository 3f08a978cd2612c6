"""Schema of a database engine: the tables of a new database, and migrations for older ones.

`schema.sql` always contains the current tables. The folder `migrations` contains the changes since
the baseline, named like `0084_what_changes.sql` and numbered across both engines, so either may
lack a number.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

from agent.records import frozen
from gateway.store.errors import StoreError, catalogue_text

# Number of the oldest schema that is upgraded.
BASELINE = 83
_TOO_OLD = catalogue_text(
    "Open it once with Kore at commit 40c09bfc (27 November 2026), which upgrades it to schema 83;"
    " after that, start this version."
)


@frozen
class Schema:
    """SQL files of an engine in `folder`."""

    folder: Path

    @property
    def tables(self) -> str:
        """Statements that create a new database."""
        return (self.folder / "schema.sql").read_text("utf-8")

    @property
    def migrations(self) -> Mapping[int, Path]:
        """Migrations since the baseline, in numeric order."""
        files = sorted((self.folder / "migrations").glob("*.sql"))
        return {int(file.name[:4]): file for file in files}

    @property
    def numbers(self) -> Collection[int]:
        """Numbers in the table `migration` of an up-to-date database."""
        return (BASELINE, *self.migrations)

    @property
    def newest(self) -> int:
        return max(self.numbers)

    def pending(self, applied: Collection[int], path: object) -> Mapping[int, Path]:
        """Return the migrations that a database with the numbers `applied` still needs.

        Raises `StoreError` if it is newer than this Kore or older than the baseline.
        """
        later = {number for number in applied if number > BASELINE}
        if unknown := later.difference(self.migrations):
            raise StoreError(
                "the database {path} was created by a newer Kore (schema {found}; this version"
                " supports {supported})",
                path=path,
                found=max(unknown),
                supported=self.newest,
                hint="Install the newer version again.",
            )
        if BASELINE not in applied:
            raise too_old(path, max(applied, default=0))
        return {number: file for number, file in self.migrations.items() if number not in applied}


def too_old(path: object, number: int) -> StoreError:
    """Return the error for a database or backup from before the baseline."""
    return StoreError(
        "{path} is from an early version of Kore (schema {number}; this version supports schema"
        " {oldest} and newer)",
        path=path,
        number=number,
        oldest=BASELINE,
        hint=_TOO_OLD,
    )


def foreign(path: object, hint: str) -> StoreError:
    """Return the error for a database with tables of another program."""
    return StoreError("the database {path} holds tables of another program", path=path, hint=hint)
