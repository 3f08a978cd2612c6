"""Outputs of notebook cells: their texts and pictures."""

import base64
import binascii
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.records import frozen
from agent.text.notebook import Notebook, NotebookCell
from agent.text.terminal_output import TerminalOutput
from agent.types import Image

# Maximum length of a cell's output; the end is shown, because it contains the result.
MAX_OUTPUT_CHARS = 4_000
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
# The first available form of an output is shown. Jupyter adds plain text to almost every output.
_TEXTS = ("text/plain", "text/markdown", "text/latex", "application/json", "text/html")


@frozen
class ShownOutputs:
    """Outputs of some cells: their joined texts, each on a separate line, and their pictures."""

    text: str = ""
    images: Sequence[Image] = ()

    @property
    def size_bytes(self) -> int:
        return len(self.text.encode("utf-8", "replace"))


def outputs_within(
    notebook: Notebook, path: Path, first: int, last: int, limit_bytes: int
) -> ShownOutputs:
    """Return the outputs of the cells whose last line is one of the lines `first` to `last`."""
    blocks: list[str] = []
    images: list[Image] = []
    room = limit_bytes
    for number, (cell, end) in enumerate(zip(notebook.cells, notebook.last_lines(), strict=True)):
        if not first <= end <= last:
            continue
        texts, pictures = _parts(cell, len(images))
        text = "\n".join(texts)
        command = f"jq '.cells[{number}].outputs' {shlex.quote(str(path))}"
        if len(text) > MAX_OUTPUT_CHARS:
            half = MAX_OUTPUT_CHARS // 2
            text = f"{text[:half]}\n… ({len(text):,} characters; all: {command})\n{text[-half:]}"
        if not text:
            continue
        text = f"[output of cell {number + 1}]\n{text}"
        room -= len(text.encode("utf-8", "replace")) + 1
        if room < 0:
            blocks.append(f"… (the outputs from cell {number + 1} on do not fit; see {command})")
            break
        blocks.append(text)
        images += pictures
    return ShownOutputs("".join(f"\n{block}" for block in blocks), images)


def _parts(cell: NotebookCell, pictures_before: int) -> tuple[list[str], list[Image]]:
    texts: list[str] = []
    images: list[Image] = []
    for output in cell.outputs:
        if not isinstance(output, Mapping):
            continue
        if output.get("output_type") == "error":
            traceback = _joined(output.get("traceback"), "\n")
            texts.append(_plain(traceback or f"{output.get('ename')}: {output.get('evalue')}"))
        elif "text" in output:
            texts.append(_plain(_joined(output["text"])))
        else:
            data = output.get("data")
            data = data if isinstance(data, Mapping) else {}
            for image in _pictures(data):
                images.append(image)
                texts.append(f"[picture {pictures_before + len(images)}]")
            texts += _first_text(data)
    return [text for text in texts if text], images


def _pictures(data: Mapping[str, Any]) -> Iterator[Image]:
    for media_type in _PICTURES:
        if media_type in data:
            try:
                content = base64.b64decode(_joined(data[media_type]))
            except (binascii.Error, ValueError):
                continue
            yield Image(media_type, content)
            return


def _first_text(data: Mapping[str, Any]) -> Iterator[str]:
    for media_type in _TEXTS:
        if media_type in data:
            value = data[media_type]
            is_text = isinstance(value, str | list)
            yield _plain(_joined(value) if is_text else json.dumps(value, ensure_ascii=False))
            return
    if names := [name for name in data if name not in _PICTURES]:
        yield f"[{', '.join(map(str, names))}]"


def _joined(value: Any, separator: str = "") -> str:
    """Return a text that the format stores as a string or as a list of lines."""
    return separator.join(map(str, value)) if isinstance(value, list) else str(value or "")


def _plain(text: str) -> str:
    """Return the text as a terminal would finally show it."""
    screen = TerminalOutput()
    data = screen.feed(text.encode("utf-8", "replace")) + screen.end()
    return data.decode("utf-8", "replace").rstrip("\n")
