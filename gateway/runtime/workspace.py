"""The workspace: made from the starter that ships, and never overwritten."""

from pathlib import Path

from agent.errors import ConfigError
from agent.i18n import t


def ensure_workspace(path: Path) -> bool:
    """Make the workspace if there is none; whether it was made.

    A folder that exists is the user's own, whatever is or is not in it. Raises `ConfigError`.
    """
    try:
        if path.is_dir():
            return False
        from tempfile import mkdtemp

        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Whole or not at all: what is half there would be taken for the user's own.
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
    """The starter workspace: in the wheel beside this module, in a checkout beside the package."""
    shipped = Path(__file__).parents[1] / "starter"
    return shipped if shipped.is_dir() else Path(__file__).parents[2] / "workspace"


def _copy(source: Path, target: Path) -> None:
    for entry in source.iterdir():
        if entry.is_dir():
            (target / entry.name).mkdir()
            _copy(entry, target / entry.name)
        elif entry.name != ".gitkeep":
            (target / entry.name).write_bytes(entry.read_bytes())
