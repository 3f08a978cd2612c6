"""Pictures returned by tools: validated, and stored in a file next to long outputs.

A conversation contains a reference to that file, so that neither the database nor a later request
contains a picture that is not shown. The file does not change after the tool has read the picture.
"""

import hashlib
import os
import stat
from dataclasses import replace
from pathlib import Path

from agent.text.media_types import MAX_PICTURE_BYTES, sniff_image_type
from agent.tools.output_spill import create_file, spill_folder
from agent.types import Image, ImageFile, ToolResult

MAX_PICTURES = 8
_NAME_DIGITS = 32


def too_large(size_bytes: int) -> str:
    """Return the reason why a picture is not shown, and a remedy."""
    return (
        f"a picture of {size_bytes:,} bytes; at most {MAX_PICTURE_BYTES:,} can be shown. Make a "
        "smaller copy with exec, such as 1568 pixels wide, and read that."
    )


def keep_images(result: ToolResult, workspace: Path) -> ToolResult:
    """Return the result with references for its pictures, and notes on those not shown."""
    notes: list[str] = []
    images: list[Image | ImageFile] = []
    for n, image in enumerate(result.images):
        if len(images) == MAX_PICTURES:
            notes.append(
                f"{len(result.images) - n} more pictures; {MAX_PICTURES} are shown at a time."
            )
            break
        if isinstance(image, ImageFile):
            images.append(image)
        elif len(image.data) > MAX_PICTURE_BYTES:
            notes.append(too_large(len(image.data)))
        elif (media_type := sniff_image_type(image.data[:16])) is None:
            notes.append("a picture that is not a PNG, JPEG, GIF or WebP.")
        else:
            marks = workspace if "untrusted" in result.taint else None
            images.append(_keep(image.data, media_type, workspace, marks))
    text = "\n".join((result.for_model, *(f"(Not shown: {note})" for note in notes)))
    return replace(result, for_model=text, images=tuple(images))


def _keep(data: bytes, media_type: str, workspace: Path, marks: Path | None) -> Image | ImageFile:
    """Store a picture in a file named by its content; return the picture itself if that fails."""
    digest = hashlib.sha256(data).hexdigest()
    folder = spill_folder(workspace)
    name = f"{digest[:_NAME_DIGITS]}.{media_type.rpartition('/')[2]}"
    path = folder / name
    try:
        if not _is_kept(path, len(data)):
            with create_file(folder, name, marks) as file:
                file.write(data)
    except OSError:
        return Image(media_type, data)
    return ImageFile(str(path), media_type, digest)


def _is_kept(path: Path, size_bytes: int) -> bool:
    """Return whether the file exists, and mark it as just used."""
    try:
        info = path.lstat()
        if not stat.S_ISREG(info.st_mode) or info.st_size != size_bytes:
            path.unlink()
            return False
        os.utime(path)
    except FileNotFoundError:
        return False
    return True
