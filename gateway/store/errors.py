"""What the database refuses, in our words."""

from pathlib import Path

from agent.errors import KoreError

RESTORE = (
    "Stop Kore, keep a copy of the file, and put a backup in its place: `kore restore FILE`"
    " (`kore backup` makes them). Without one, move the file away."
)


class StoreError(KoreError):
    """The database cannot be used; it is never recreated by itself."""

    code = "store"


class StoreBusy(StoreError):
    """The disk or the database is full, locked or failing: the same may be done later."""


class StoreCorrupt(StoreError):
    """The file is not whole: only a backup in its place mends that."""

    def __init__(self, file: Path | None, found: str) -> None:
        which = f" {file}" if file is not None else ""
        super().__init__(f"the database{which} is damaged: {found}", hint=RESTORE)


def seal_broken() -> StoreError:
    """For a stored text that does not open."""
    return StoreError(
        "a sealed text does not open: it was changed, or put into another row",
        hint="Put a backup in its place (`kore backup` makes them).",
    )
