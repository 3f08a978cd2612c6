"""Working folder of a conversation: file mentions, custom commands and project context."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agent.i18n import t
from agent.security.files.folder_identity import real_start_folder
from agent.skills.commands import CustomCommands

if TYPE_CHECKING:
    from agent.context.project.context import ProjectContext
    from gateway.cli.console.input.file_mentions import FileMention
    from gateway.core.messages import Media


@dataclass(slots=True)
class ConsoleWorkdir:
    """Working folder of a console: `root`, or `start_folder` inside it.

    The model does not see `blocked_paths`. `open_project` opens a project that shows mentioned
    files, `models` lists model names; both are slow. `context_window` returns the window of a model
    in tokens, `model_title` its display name.
    """

    root: Path
    blocked_paths: Sequence[str]
    open_project: "Callable[[], ProjectContext]"
    models: Callable[[], Sequence[str]]
    context_window: Callable[[str], int] = field(default=lambda _: 0)
    model_title: Callable[[str], str] = field(default=str)
    custom_commands: CustomCommands = field(default_factory=lambda: CustomCommands(()))
    start_folder: Path | None = None
    _project: "ProjectContext | None" = field(default=None, init=False)

    @property
    def folder(self) -> Path:
        """Folder where relative paths start now."""
        return real_start_folder(self.root, self.start_folder) or self.root

    def prompt_commands(self) -> list[tuple[str, str]]:
        """Return the commands that are prompts, each with its slash and its summary."""
        return [(f"/{prompt.name}", prompt.summary) for prompt in self.custom_commands.menu()]

    def project(self) -> "ProjectContext":
        if self._project is None:
            self._project = self.open_project()
        return self._project

    def forget(self) -> None:
        if self._project is not None:
            self._project.forget()

    def mentions(self, text: str, pasted: Sequence[tuple[int, int]]) -> "FileMention | None":
        """Return the files that each `@path` of a text refers to, or None without any."""
        if "@" not in text:
            return None
        from gateway.cli.console.input.file_mentions import find_mentions

        return find_mentions(text, self.folder, self.blocked_paths, pasted)


def remarks(mentions: "FileMention") -> list[str]:
    """Return remarks for the person about the files that they mentioned."""
    lines = []
    attached = [path.name + "/" * path.is_dir() for path in (*mentions.files, *mentions.pictures)]
    if attached:
        lines.append(t("attached: {names}", names=", ".join(attached)))
    lines += [t("{path} is blocked and was not attached", path=path) for path in mentions.blocked]
    lines += map(not_text_remark, mentions.binary)
    for name in mentions.missing:
        lines.append(t("{name} not found; only the name was sent", name=name))
    return lines


def not_text_remark(path: Path) -> str:
    """Return a remark for the person; the model gets instructions for reading the file."""
    return t("{path} is not text; the model can open it with a tool", path=path)


def media_of(pictures: "Iterable[Path]") -> "tuple[Media, ...]":
    """Return pictures as attachments with their paths and current contents."""
    return tuple(media for path in pictures if (media := _media(path)) is not None)


def _media(path: Path) -> "Media | None":
    from hashlib import sha256

    from agent.errors import ToolError
    from agent.security.files import file_io
    from agent.text.media_types import MAX_PICTURE_BYTES, sniff_image_type
    from gateway.core.messages import Media

    try:
        data = file_io.read(path, MAX_PICTURE_BYTES)
    except ToolError:  # deleted since the line was typed
        return None
    return Media(
        "photo",
        str(path),
        path.name,
        sniff_image_type(data[:16]),
        len(data),
        digest=sha256(data).hexdigest(),
    )
