"""Skeleton of a channel package: the example of the repository under another name."""

from pathlib import Path

from agent.errors import KoreError
from agent.i18n import t

_NAME = "echo"


def write_skeleton(name: str, folder: Path) -> list[Path]:
    """Write a new package for the channel `name` and return its files.

    Raises `KoreError` if the folder exists or cannot be written.
    """
    words = name.split("_")
    paths = []
    try:
        folder.mkdir(parents=True)
        for source in sorted(_example().iterdir()):
            if not source.is_file():
                continue
            text = source.read_text("utf-8").replace(_NAME, name)
            text = text.replace(f'"{_NAME.title()}"', f'"{" ".join(words).title()}"')
            text = text.replace(_NAME.title(), "".join(word.title() for word in words))
            target = folder / source.name.replace(_NAME, name)
            target.write_text(text, "utf-8")
            paths.append(target)
    except OSError as exc:
        raise KoreError(
            t("{path}: cannot be written: {reason}", path=folder, reason=exc.strerror)
        ) from None
    return paths


def _example() -> Path:
    """Return the example folder: inside the package in a wheel, next to it in a checkout."""
    shipped = Path(__file__).parents[2] / "channel_skeleton"
    return shipped if shipped.is_dir() else Path(__file__).parents[3] / "examples" / "echo_channel"
