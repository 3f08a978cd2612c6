import codecs
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from agent.errors import ToolError
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.files.edit import EditFile
from agent.tools.files.read_write import AppendFile, ReadFile
from agent.types import ToolResult

FORMS = {
    "utf-8": b"",
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}


def encoding_of(data: bytes) -> str:
    """Return the encoding of text added to this file."""
    # This mark starts with the one of UTF-16.
    if data.startswith(codecs.BOM_UTF32_LE):
        return "utf-32-le"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16-le" if data.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    try:
        data.decode()
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def encode(text: str, form: str) -> bytes:
    return FORMS[form] + text.encode("utf-8" if form == "utf-8-sig" else form)


async def edit(call: CallContext, **args: Any) -> ToolResult:
    return await EditFile(ToolSettings()).run(args, call)


@pytest.mark.parametrize("form", FORMS)
async def test_encoding_and_line_ends_are_kept(
    call: CallContext, workspace: Path, form: str
) -> None:
    path = workspace / "f.txt"
    path.write_bytes(encode("één\r\ntwo\r\n😀", form))
    await edit(call, path="f.txt", old_string="two\n😀", new_string="2\n3")
    assert path.read_bytes() == encode("één\r\n2\r\n3", form)


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.text(st.characters(exclude_characters="\0#", exclude_categories=["Cs"]), max_size=20),
    st.text(st.characters(exclude_characters="\0#", exclude_categories=["Cs"]), max_size=20),
    st.sampled_from(sorted(FORMS)),
)
async def test_untouched_bytes_stay_identical(
    call: CallContext, workspace: Path, head: str, tail: str, form: str
) -> None:
    path = workspace / "f.txt"
    path.write_bytes(encode(f"{head}#old#{tail}", form))
    await edit(call, path="f.txt", old_string="#old#", new_string="new")
    assert path.read_bytes() == encode(f"{head}new{tail}", form)


@pytest.mark.parametrize(
    "data",
    [
        b"\xe9\xe9 old",
        b"\xb3aaaaaaaaaa old",
        b"old\0old",
        codecs.BOM_UTF16_LE + b"o\0l\0d\0\0\xd8",
        b"\xff\xfe\xff",
    ],
)
async def test_undecodable_file_is_left_untouched(
    call: CallContext, workspace: Path, data: bytes
) -> None:
    path = workspace / "f.txt"
    path.write_bytes(data)
    with pytest.raises(ToolError, match=r"f\.txt"):
        await edit(call, path="f.txt", old_string="old", new_string="new")
    assert path.read_bytes() == data


async def test_result_carries_a_diff_with_three_lines_of_context(
    call: CallContext, workspace: Path
) -> None:
    (workspace / "f.txt").write_text("".join(f"{i}\n" for i in range(1, 20)))
    result = await edit(call, path="f.txt", old_string="10\n", new_string="ten\n")
    assert [artifact.kind for artifact in result.artifacts] == ["diff"]
    lines = result.artifacts[0].content.splitlines()
    assert lines[2:] == ["@@ -7,7 +7,7 @@", " 7", " 8", " 9", "-10", "+ten", " 11", " 12", " 13"]


async def test_edits_are_made_in_order_or_not_at_all(call: CallContext, workspace: Path) -> None:
    path = workspace / "f.txt"
    path.write_text("a b c")
    good = {"old_string": "a", "new_string": "b2"}
    await edit(call, path="f.txt", edits=[good, {"old_string": "b2 b", "new_string": "x"}])
    assert path.read_text() == "x c"
    with pytest.raises(ToolError, match=r"Edit 2 of 2.*No edit was made"):
        await edit(
            call,
            path="f.txt",
            edits=[{"old_string": "c", "new_string": "d"}, {"old_string": "q", "new_string": "r"}],
        )
    assert path.read_text() == "x c"


@pytest.mark.parametrize(
    "args",
    [{}, {"edits": []}, {"edits": ["a"]}, {"edits": [{"old_string": "a"}]}, {"old_string": "a"}],
)
async def test_incomplete_edits_are_explained(
    call: CallContext, workspace: Path, args: dict[str, Any]
) -> None:
    (workspace / "f.txt").write_text("a")
    with pytest.raises(ToolError, match="edit"):
        await edit(call, path="f.txt", **args)


async def test_plan_shows_the_change_without_making_it(call: CallContext, workspace: Path) -> None:
    path = workspace / "f.txt"
    path.write_text("one\n")
    args = {"path": "f.txt", "old_string": "one", "new_string": "two"}
    plan = await EditFile(ToolSettings()).plan(args, call)
    assert plan.changes == (path,)
    assert plan.diff is not None
    assert "-one\n+two" in plan.diff
    assert path.read_text() == "one\n"
    with pytest.raises(ToolError, match="not found"):
        await EditFile(ToolSettings()).plan({**args, "old_string": "zzz"}, call)


async def test_mode_and_link_survive_an_edit(call: CallContext, workspace: Path) -> None:
    path = workspace / "run.sh"
    path.write_text("old")
    path.chmod(0o750)
    (workspace / "link").symlink_to("run.sh")
    await edit(call, path="link", old_string="old", new_string="new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o750
    assert (workspace / "link").is_symlink()
    assert sorted(os.listdir(workspace)) == ["link", "run.sh"]


# Pieces of files: text, malformed text, text in other encodings, and both line ends.
PIECES = st.lists(
    st.sampled_from(
        [b"word ", b"\n", b"\r\n", b"\r", b"\t", "é".encode(), "漢😀".encode(), b"caf\xe9 au lait ",
         b"\xff", b"\x81", b"\0", b"na\xefve reader ", "語".encode("shift_jis"), b"\xef\xbb\xbf"]
    )
    | st.binary(max_size=4),
    max_size=8,
).map(b"".join)  # fmt: skip


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PIECES, PIECES, st.sampled_from(["new", "", "a b", "#old##old#"]))
async def test_edit_changes_only_its_span_or_nothing(
    call: CallContext, workspace: Path, head: bytes, tail: bytes, new: str
) -> None:
    assume(b"#old#" not in head and b"#old#" not in tail)
    assume(not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)))
    path = workspace / "f.txt"
    path.write_bytes(head + b"#old#" + tail)
    try:
        await edit(call, path="f.txt", old_string="#old#", new_string=new)
    except ToolError:
        assert path.read_bytes() == head + b"#old#" + tail
    else:
        assert path.read_bytes() == head + new.encode() + tail


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PIECES, PIECES, st.lists(st.sampled_from(["#a#", "#b#", "#c#", "zzz"]), max_size=4))
async def test_failed_edit_among_several_changes_nothing(
    call: CallContext, workspace: Path, head: bytes, tail: bytes, olds: list[str]
) -> None:
    assume(b"#" not in head + tail)
    assume(not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)))
    path = workspace / "f.txt"
    before = head + b"#a# #b# #c#" + tail
    path.write_bytes(before)
    expected = before
    for old in olds:
        expected = expected.replace(old.encode(), old[1].encode() * 2)
    edits = [{"old_string": old, "new_string": old[1] * 2} for old in olds]
    try:
        await edit(call, path="f.txt", edits=edits)
    except ToolError:
        assert path.read_bytes() == before
    else:
        assert path.read_bytes() == expected
        assert len(set(olds)) == len(olds)


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(b"\x00\x00", "new\n", "utf-16-le")
@given(PIECES, st.sampled_from(["new\n", "é", "漢", "\r\n", "“q”"]), st.sampled_from(sorted(FORMS)))
async def test_append_preserves_existing_bytes(
    call: CallContext, workspace: Path, head: bytes, added: str, form: str
) -> None:
    path = workspace / "f.txt"
    before = FORMS[form] + head
    path.write_bytes(before)
    try:
        await AppendFile(ToolSettings()).run({"path": "f.txt", "content": added}, call)
    except ToolError:
        assert path.read_bytes() == before
        return
    after = path.read_bytes()
    assert after.startswith(before)
    tail = after[len(before) :].decode(encoding_of(before)).replace("\r\n", "\n")
    plain = added.replace("\r\n", "\n")
    assert tail in (plain, f"\n{plain}")


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.lists(st.sampled_from(["x y", "  deep", "\tdeep", "“q” — ü", ""]), max_size=6),
    st.lists(st.sampled_from(["\n", "\r\n"]), min_size=6, max_size=6),
    st.sampled_from(sorted(FORMS)),
)
async def test_reverse_edit_restores_the_file(
    call: CallContext, workspace: Path, lines: list[str], ends: list[str], form: str
) -> None:
    text = "".join(a + b for a, b in zip(lines, ends, strict=False)) + "the end"
    path = workspace / "f.txt"
    path.write_bytes(encode(text, form))
    await edit(call, path="f.txt", old_string="the end", new_string="§")
    await edit(call, path="f.txt", old_string="§", new_string="the end")
    assert path.read_bytes() == encode(text, form)


async def test_latin_1_file_keeps_its_encoding(call: CallContext, workspace: Path) -> None:
    path = workspace / "f.txt"
    path.write_bytes("Ein Café für Gäste\r\nund Freunde\r\n".encode("latin-1"))
    await edit(call, path="f.txt", old_string="Café für", new_string="Bär ohne")
    assert path.read_bytes() == "Ein Bär ohne Gäste\r\nund Freunde\r\n".encode("latin-1")
    with pytest.raises(ToolError, match="latin-1, which has no '漢'"):
        await edit(call, path="f.txt", old_string="Bär", new_string="漢")
    assert path.read_bytes() == "Ein Bär ohne Gäste\r\nund Freunde\r\n".encode("latin-1")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("これはテストです and some English words beside it", "euc_jp"),
        ("許功蓋 and some English words beside it", "big5"),
        ("“quoted” by Windows – with a dash", "cp1252"),
        ("éèêëàâ", "latin-1"),
    ],
)
async def test_ambiguous_encoding_is_rejected(
    call: CallContext, workspace: Path, text: str, encoding: str
) -> None:
    path = workspace / "f.txt"
    path.write_bytes(f"{text}\nold\n".encode(encoding))
    with pytest.raises(ToolError, match="not valid utf-8"):
        await edit(call, path="f.txt", old_string="old", new_string="new")
    assert path.read_bytes() == f"{text}\nold\n".encode(encoding)


TEN = "".join(f"line {n}\n" for n in range(1, 11))


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("line 5", "line five", "(line 5 on). It reads now:\n2\tline 2\n"),
        ("line 5\n", "", "(line 5 on). It reads now:\n2\tline 2\n3\tline 3\n4\tline 4\n5\tline 6"),
        ("  line 5", "line five", "(line 5 on; matched after ignoring indentation). It reads now:"),
    ],
)
async def test_result_shows_the_current_lines(
    call: CallContext, workspace: Path, old: str, new: str, shown: str
) -> None:
    (workspace / "f.txt").write_text(TEN)
    result = await edit(call, path="f.txt", old_string=old, new_string=new)
    assert shown in result.for_model
    assert result.for_user == f"Made the edit in {workspace / 'f.txt'}."
    assert "line 9" not in result.for_model


async def test_change_across_a_whole_file_lists_only_line_ranges(
    call: CallContext, workspace: Path
) -> None:
    (workspace / "f.txt").write_text("x\n" * 100)
    args = {"old_string": "x", "new_string": "y", "replace_all": True}
    result = await edit(call, path="f.txt", **args)
    path = workspace / "f.txt"
    assert result.for_model == f"Made the edit in {path} (between lines 1 and 100 now)."


async def test_echo_of_a_minified_line_is_short(call: CallContext, workspace: Path) -> None:
    (workspace / "min.js").write_text(f"{'x' * 15_000};a=1;{'y' * 15_000}\nlast\n")
    result = await edit(call, path="min.js", old_string="a=1", new_string="a=2")
    assert len(result.for_model.encode()) < 2_200
    assert "… (30,005 characters)\n2\tlast" in result.for_model


@pytest.mark.parametrize("separator", ["\f", "\r", "\u2028", "\x85", "\v"])
async def test_lines_are_numbered_as_in_read_file(
    call: CallContext, workspace: Path, separator: str
) -> None:
    (workspace / "f.txt").write_bytes(f"one{separator}more\ntwo\nthree\n".encode())
    read = await ReadFile(ToolSettings()).run({"path": "f.txt"}, call)
    result = await edit(call, path="f.txt", old_string="three", new_string="3")
    assert "3\tthree" in read.for_model
    assert "(line 3 on)" in result.for_model
    assert "3\t3" in result.for_model


async def test_missing_file_suggests_similar_names(call: CallContext, workspace: Path) -> None:
    for name in ("settings.yaml", "setings.py", "other.txt", ".env"):
        (workspace / name).write_text("x")
    args = {"path": "settings.json", "old_string": "a", "new_string": "b"}
    with pytest.raises(ToolError) as caught:
        await EditFile(ToolSettings()).plan(args, call)
    assert str(caught.value) == (
        f"{workspace / 'settings.json'} does not exist. Similar: {workspace / 'settings.yaml'}, "
        f"{workspace / 'setings.py'}."
    )
    with pytest.raises(ToolError) as caught:
        await EditFile(ToolSettings()).plan({**args, "path": ".en"}, call)
    assert ".env" not in str(caught.value)
