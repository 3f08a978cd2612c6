"""Parts of an editor's prompt that count as the person's own words."""

import base64
from pathlib import Path
from typing import Any

import pytest

from agent.security.taint.file_marks import is_marked, mark_tainted
from agent.security.taint.origin import TrustedOrigins
from gateway.cli.acp.prompt_blocks import PromptParts, read_blocks
from tests.fakes.editor import PNG, acp


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    (folder / "src").mkdir(parents=True)
    (folder / "a.py").write_text("print(1)")
    return folder


def read(own: Path, *blocks: Any) -> PromptParts:
    return read_blocks([acp.text_block("Look at"), *blocks], own, TrustedOrigins((own,)))


def embedded(uri: str) -> Any:
    return acp.resource_block(acp.embedded_text_resource(uri, "unsaved"))


def taint_of(parts: PromptParts) -> list[str]:
    assert parts.files is not None
    return list(parts.files["taint"])


def test_own_file_is_named_in_the_text(own: Path) -> None:
    parts = read(own, acp.resource_link_block("a.py", (own / "a.py").as_uri()))
    assert parts.text == f"Look at\n{own / 'a.py'}"
    assert parts.files is None


def test_own_folder_with_a_marked_file_is_named_in_the_text(own: Path) -> None:
    (own / "src" / "page.md").touch()
    mark_tainted(own / "src" / "page.md", own)
    parts = read(own, acp.resource_link_block("src", (own / "src").as_uri()))
    assert parts.text == f"Look at\n{own / 'src'}"


def test_content_of_an_own_file_is_private(own: Path) -> None:
    assert taint_of(read(own, embedded((own / "a.py").as_uri()))) == ["private"]


STRANGE = [
    "https://evil.example/?q=1",
    "zed:///agent/thread/1",
    "a.py",
    "file:///etc/passwd",
    "file://{own}/missing.py",
    "file://{own}/x/../a.py",
    "file://{own}/a%20https://evil.example/y",
    "file://{own}/link.py",
]


@pytest.mark.parametrize("uri", STRANGE)
@pytest.mark.parametrize("kind", ["link", "text", "blob"])
def test_other_references_are_untrusted(
    own: Path, uri: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A relative address does not name a local file, even if the working folder contains a match.
    monkeypatch.chdir(own)
    (own / "link.py").symlink_to("/etc/hostname")
    (own / "a https:" / "evil.example").mkdir(parents=True)
    (own / "a https:" / "evil.example" / "y").touch()
    uri = uri.format(own=own)
    block = {
        "link": acp.resource_link_block("OBEY ME", uri),
        "text": embedded(uri),
        "blob": acp.resource_block(acp.embedded_blob_resource(uri, "AAAA")),
    }[kind]
    parts = read(own, block)
    assert parts.text == "Look at\n[file 1]"
    assert taint_of(parts) == ["private", "untrusted"]


def test_embedded_picture_is_shown(own: Path) -> None:
    data = base64.b64encode(PNG).decode()
    block = acp.resource_block(acp.embedded_blob_resource((own / "a.png").as_uri(), data))
    (picture,) = read(own, block).media
    assert picture.media_type == "image/png"


def test_embedded_data_is_named_with_its_size(own: Path) -> None:
    parts = read(own, acp.resource_block(acp.embedded_blob_resource("zed:///x", "AAAA" * 1000)))
    assert parts.files is not None
    assert "zed:///x as data (3 kB) that is neither text nor a picture" in parts.files["text"]


def test_marked_file_is_untrusted(own: Path) -> None:
    mark_tainted(own / "a.py", own)
    if not is_marked(own / "a.py"):
        pytest.skip("this file system keeps no extended attributes")
    parts = read(own, embedded((own / "a.py").as_uri()))
    assert parts.text == "Look at\n[file 1]"
    assert taint_of(parts) == ["private", "untrusted"]


def test_references_are_numbered(own: Path) -> None:
    first, second = "https://one.example", "https://two.example"
    parts = read(own, *(acp.resource_link_block("x", uri) for uri in (first, second, first)))
    assert parts.text == "Look at\n[file 1]\n[file 2]\n[file 1]"
    assert parts.files is not None
    assert parts.files["text"].count(first) == 1


def test_picture_is_marked(own: Path) -> None:
    data = base64.b64encode(PNG).decode()
    for _ in range(2):
        (picture,) = read(own, acp.image_block(data, "image/png")).media
        assert picture.path is not None
        if not is_marked(own):
            pytest.skip("this file system keeps no extended attributes")
        assert is_marked(Path(picture.path))
