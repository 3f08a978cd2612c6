import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from agent.security.taint.file_marks import is_marked, mark_tainted
from agent.tools import output_spill
from agent.tools.output_spill import SpillBuffer, prune, spill_folder


def spill(folder: Path, chunks: list[bytes], limit: int = 100) -> tuple[str, SpillBuffer]:
    with SpillBuffer(folder, limit) as out:
        for chunk in chunks:
            out.feed(chunk)
        return out.text(), out


def test_short_output_writes_no_file(tmp_path: Path) -> None:
    text, out = spill(tmp_path / "spill", [b"a\xc3", b"\xa9b"])
    assert text == "aéb"
    assert out.file is None
    assert not (tmp_path / "spill").exists()


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text("aé😀\n", max_size=60), max_size=20))
def test_text_has_head_and_tail_and_file_has_everything(tmp_path: Path, pieces: list[str]) -> None:
    whole = "".join(pieces).encode()
    text, out = spill(tmp_path, [piece.encode() for piece in pieces])
    if len(whole) <= 100:
        assert text == whole.decode()
        return
    assert out.file is not None
    assert out.file.read_bytes() == whole
    head, _, rest = text.partition("\n… (")
    note, _, tail = rest.partition(")\n")
    assert whole.decode().startswith(head)
    assert whole.decode().endswith(tail)
    assert "\ufffd" not in text
    left_out = len(whole) - len(head.encode()) - len(tail.encode())
    assert note.startswith(f"{left_out:,} bytes left out")


def test_many_short_lines_are_cut(tmp_path: Path) -> None:
    text, out = spill(tmp_path, [b"\n" * 1500, b"x\n" * 1500], 10_000)
    assert text.count("\n") < 2_010
    assert out.file is not None
    assert out.file.stat().st_size == 4500


def test_memory_and_file_size_are_limited(tmp_path: Path) -> None:
    with SpillBuffer(tmp_path, 1000) as out:
        for _ in range(1100):
            out.feed(b"x" * 65_536)
        assert len(out._head) + len(out._tail) <= 2000
        text = out.text()
    assert out.file is not None
    assert out.file.stat().st_size == output_spill.SPILL_LIMIT_BYTES
    assert "the first 64,000,000 bytes" in text


def test_output_is_shown_if_it_cannot_be_saved(tmp_path: Path) -> None:
    (tmp_path / "spill").write_text("in the way")
    text, _ = spill(tmp_path / "spill", [b"x" * 500, b"y" * 500])
    assert text.startswith("xxx")
    assert text.endswith("yyy")
    assert "could not be saved" in text


def test_linked_spill_folder_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "spill").symlink_to("elsewhere")
    spill(tmp_path / "spill", [b"x" * 500])
    assert os.listdir(tmp_path / "elsewhere") == []


def test_old_files_are_pruned_on_the_next_spill(tmp_path: Path) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    for path, days in ((old, 8), (new, 6)):
        path.write_text("x")
        then = time.time() - days * 24 * 3600
        os.utime(path, (then, then))
    spill(tmp_path, [b"x" * 500])
    assert not old.exists()
    assert new.exists()


def test_oldest_files_are_pruned_beyond_the_folder_limit(tmp_path: Path) -> None:
    for i in range(3):
        path = tmp_path / f"{i}.txt"
        path.touch()
        os.truncate(path, output_spill.SPILL_FOLDER_LIMIT_BYTES // 2)
        os.utime(path, (time.time() - 100 + i,) * 2)
    prune(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["1.txt", "2.txt"]


def test_files_behind_a_link_are_not_pruned(tmp_path: Path) -> None:
    old = tmp_path / "elsewhere" / "old.txt"
    old.parent.mkdir()
    old.touch()
    os.utime(old, (1, 1))
    (tmp_path / "spill").symlink_to("elsewhere")
    spill(tmp_path / "spill", [b"x" * 500])
    assert old.exists()


def test_untrusted_saved_output_is_marked(tmp_path: Path) -> None:
    probe = tmp_path / "probe"
    probe.touch()
    mark_tainted(probe, probe)
    if not is_marked(probe):
        pytest.skip("this file system keeps no extended attributes")
    workspace = tmp_path / "workspace"
    for marks in (None, workspace):
        with SpillBuffer(workspace / "spill", 10, marks) as out:
            out.feed(b"x" * 100)
        assert out.file is not None
        assert is_marked(out.file) == is_marked(workspace) == (marks is not None)


def test_saved_output_leaves_a_repository_clean(tmp_path: Path) -> None:
    git = ("git", "-C", str(tmp_path))
    subprocess.run([*git, "init", "-q"], check=True)
    spill(spill_folder(tmp_path), [b"x" * 500])
    status = subprocess.run([*git, "status", "--porcelain"], capture_output=True, check=True)
    assert status.stdout == b""
