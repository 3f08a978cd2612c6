import hashlib
from pathlib import Path

from agent.context import images
from agent.context.images import ImageLoader
from agent.text.media_types import MAX_PICTURE_BYTES
from agent.types import Context, Image, ImageFile, Message, Part, Text


def put(folder: Path, name: str, data: bytes) -> ImageFile:
    (folder / name).write_bytes(data)
    return ImageFile(name, "image/png", hashlib.sha256(data).hexdigest())


def png(n: int, size: int = 100) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + bytes([n]) * size


def user_message(*parts: Part) -> Message:
    return Message("user", (Text("look"), *parts))


def kinds(messages: object) -> list[type]:
    return [type(message.content[1]) for message in messages]  # type: ignore[attr-defined]


async def test_reference_becomes_the_picture(tmp_path: Path) -> None:
    message = user_message(put(tmp_path, "a.png", png(1)))
    (shown,) = await ImageLoader(tmp_path).with_pictures([message])
    assert shown.content[1] == Image("image/png", png(1))


async def test_messages_without_pictures_are_returned_unchanged(tmp_path: Path) -> None:
    messages = [user_message(), user_message(Context("x"))]
    assert await ImageLoader(tmp_path).with_pictures(messages) is messages


async def test_same_picture_gives_the_same_message_object(
    tmp_path: Path,
) -> None:
    messages = [user_message(put(tmp_path, "a.png", png(1)))]
    loader = ImageLoader(tmp_path)
    (first,) = await loader.with_pictures(messages)
    (second, _) = await loader.with_pictures([*messages, user_message()])
    assert first is second


async def test_only_the_newest_pictures_are_shown(tmp_path: Path) -> None:
    messages = [
        user_message(put(tmp_path, f"{n}.png", png(n))) for n in range(images.MAX_IMAGES + 2)
    ]
    shown = await ImageLoader(tmp_path).with_pictures(messages)
    assert kinds(shown) == [Context] * 2 + [Image] * images.MAX_IMAGES


async def test_large_pictures_reduce_the_number_shown(tmp_path: Path) -> None:
    size = MAX_PICTURE_BYTES - 100
    messages = [user_message(put(tmp_path, f"{n}.png", png(n, size))) for n in range(5)]
    shown = await ImageLoader(tmp_path).with_pictures(messages)
    fit = images.MAX_BYTES // size
    assert kinds(shown) == [Context] * (5 - fit) + [Image] * fit


async def test_missing_or_changed_picture_becomes_a_placeholder(tmp_path: Path) -> None:
    gone = ImageFile("never.png", "image/png", "0")
    changed = put(tmp_path, "b.png", png(1))
    (tmp_path / "b.png").write_bytes(png(2))
    linked = put(tmp_path, "c.png", png(3))
    (tmp_path / "c.png").rename(tmp_path / "secret.png")
    (tmp_path / "c.png").symlink_to(tmp_path / "secret.png")
    text = put(tmp_path, "d.png", b"not a picture at all")
    shown = await ImageLoader(tmp_path).with_pictures(
        [user_message(item) for item in (gone, changed, linked, text)]
    )
    assert kinds(shown) == [Context] * 4
