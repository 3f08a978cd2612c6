"""Workspace: created from the shipped starter and never overwritten."""

from pathlib import Path
from tempfile import mkdtemp

from agent.errors import ConfigError
from agent.i18n import t


def ensure_workspace(path: Path) -> bool:
    """Create the workspace if there is none; return whether it was created.

    An existing folder belongs to the user, regardless of its content. Raises `ConfigError`.
    """
    try:
        if path.is_dir():
            return False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Create it atomically, because a partial folder would be mistaken for the user's.
        new_folder = Path(mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        _copy(starter(), new_folder)
        new_folder.rename(path)
    except OSError as exc:
        raise ConfigError(
            t(
                "agent.workspace: {path} cannot be created: {reason}",
                path=path,
                reason=exc.strerror,
            ),
            hint=t("set agent.workspace to a writable folder"),
        ) from None
    return True


def starter() -> Path:
    """Return the starter workspace, from the wheel or the checkout."""
    shipped = Path(__file__).parents[1] / "starter"
    return shipped if shipped.is_dir() else Path(__file__).parents[2] / "workspace"


def _copy(source: Path, target: Path) -> None:
    for entry in source.iterdir():
        if entry.is_dir():
            (target / entry.name).mkdir()
            _copy(entry, target / entry.name)
        elif entry.name != ".gitkeep":
            (target / entry.name).write_bytes(entry.read_bytes())
