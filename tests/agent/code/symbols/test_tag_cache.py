"""The tag cache survives restarts, outside of the project."""

import os
import stat
from pathlib import Path

import pytest

from agent.code.symbols import tag_cache
from agent.code.symbols.repository_map import RepositoryMaps
from agent.code.symbols.tag_cache import TagCache
from agent.code.symbols.tags import FileTags
from agent.settings import ToolSettings
from agent.tools.files.workspace_scope import WorkspaceScope
from tests.agent.props import call_context

TAGS = FileTags((("Cart", 1, "class Cart:"),), (("Cart", 2),))
STAMP = (1, 2, 3)


async def _whole(maps: RepositoryMaps, folder: Path) -> str:
    scope = WorkspaceScope(ToolSettings())
    while True:
        answer = await maps.answer(folder, call_context("outline", folder), scope)
        if "looked at so far" not in answer.for_model:
            return answer.for_model


async def test_only_changed_files_are_read_after_a_restart(tmp_path: Path) -> None:
    folder, cache = tmp_path / "work", TagCache(tmp_path / "own" / "maps")
    folder.mkdir()
    for n in range(120):
        (folder / f"page_{n:03}.py").write_text(f"class Page{n:03}: ...\n")
    maps = RepositoryMaps(cache)
    before = await _whole(maps, folder)
    await maps.aclose()

    # With the same time, size and inode the change goes unnoticed.
    unchanged, changed = folder / "page_000.py", folder / "page_001.py"
    info = unchanged.stat()
    unchanged.write_text("class Eggs000: ...\n")
    os.utime(unchanged, ns=(info.st_atime_ns, info.st_mtime_ns))
    changed.write_text("class Another: ...\n")
    maps = RepositoryMaps(cache)
    after = await _whole(maps, folder)
    await maps.aclose()
    assert after == before.replace("class Page001", "class Another")
    assert sorted(os.listdir(folder)) == [f"page_{n:03}.py" for n in range(120)]


def test_saved_tags_are_loaded(tmp_path: Path) -> None:
    cache = TagCache(tmp_path / "maps")
    known = {tmp_path / "work" / "a\n.py": (STAMP, TAGS)}
    cache.save(tmp_path / "work", known)
    assert cache.load(tmp_path / "work") == known
    assert cache.load(tmp_path / "other") == {}
    (path,) = (tmp_path / "maps").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"\xff", b"{}\n{}", b'[0,"x"]\n[]', b"[" * 100_000, None]
)
def test_damaged_cache_is_empty(tmp_path: Path, data: bytes | None) -> None:
    cache = TagCache(tmp_path / "maps")
    cache.save(tmp_path / "work", {tmp_path / "work" / "a.py": (STAMP, TAGS)})
    (path,) = (tmp_path / "maps").iterdir()
    lines = path.read_bytes().splitlines()
    path.write_bytes(data if data is not None else b"\n".join([lines[0], b'["a.py",[1],2]']))
    assert cache.load(tmp_path / "work") == {}


def test_oldest_projects_are_removed(tmp_path: Path) -> None:
    cache = TagCache(tmp_path / "maps")
    for n in range(tag_cache.MAX_PROJECTS + 3):
        cache.save(tmp_path / str(n), {tmp_path / str(n) / "a.py": (STAMP, TAGS)})
        for path in (tmp_path / "maps").iterdir():
            os.utime(path, ns=(0, path.stat().st_mtime_ns - 1_000_000_000))
    assert len(list((tmp_path / "maps").iterdir())) == tag_cache.MAX_PROJECTS
    assert cache.load(tmp_path / "0") == {}
    assert cache.load(tmp_path / str(tag_cache.MAX_PROJECTS + 2)) != {}
