"""Files in encodings older than UTF-8: detection, and bytes that an edit leaves alone."""

import random
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.settings import ToolSettings
from agent.text.legacy_encodings import detect_encoding
from agent.text.text_document import decode
from agent.tools.base import CallContext
from agent.tools.files.edit import EditFile
from agent.tools.files.read_write import ReadFile

TEXTS = {
    "gb18030": "// 计算总价\nint total(int a) {\n    return a; /* 返回结果，单位为分 */\n}\n",
    "big5": "// 計算總價\nint total(int a) { return a; } // 傳回結果\n",
    "cp932": "// 合計を計算する\nint total(int a) {\n    return a; // 結果を返す\n}\n",
    "euc_jp": "/* データベース接続の設定 */\nhost=localhost\n",
    "cp949": "// 합계를 계산한다\nint total(int a) { return a; }\n",
    "cp1250": "// Příliš žluťoučký kůň úpěl ďábelské ódy\nint x;\n",
    "cp1251": "// Вычисляет сумму заказа\nint total(int a) { return a; }\n",
    "cp1252": "// Größe in Metern – „ungefähr“ 5 €\nint size;\n",
    "cp1253": "// Υπολογίζει το σύνολο της παραγγελίας\nint x;\n",
    "cp1255": "// מחשב את הסכום\nint x;\n",
    "koi8-r": "// Вычисляет сумму заказа\nint total(int a) { return a; }\n",
}
CODE = "int filler = 1; // nothing\n" * 60


@pytest.mark.parametrize("encoding", TEXTS)
@pytest.mark.parametrize("before", ["", CODE], ids=["alone", "after code"])
def test_encoding_is_detected(encoding: str, before: str) -> None:
    text = before + TEXTS[encoding]
    document = decode(text.encode(encoding), Path("a.c"))
    assert (document.form.encoding, document.text) == (encoding, text)
    assert document.encode() == text.encode(encoding)


async def test_edit_keeps_the_encoding(call: CallContext, workspace: Path) -> None:
    path = workspace / "a.c"
    path.write_bytes(TEXTS["gb18030"].encode("gb18030"))
    result = await ReadFile(ToolSettings()).run({"path": "a.c"}, call)
    assert "1\t// 计算总价" in result.for_model
    assert "the file is in gb18030" in result.for_model
    arguments = {"path": "a.c", "old_string": "总价", "new_string": "总额"}
    await EditFile(ToolSettings()).run(arguments, call)
    assert path.read_bytes() == TEXTS["gb18030"].replace("总价", "总额").encode("gb18030")


async def test_character_outside_of_the_encoding_changes_nothing(
    call: CallContext, workspace: Path
) -> None:
    path = workspace / "a.c"
    path.write_bytes(TEXTS["cp1251"].encode("cp1251"))
    arguments = {"path": "a.c", "old_string": "int", "new_string": "总", "replace_all": True}
    with pytest.raises(ToolError, match="in cp1251, which has no '总'"):
        await EditFile(ToolSettings()).run(arguments, call)
    assert path.read_bytes() == TEXTS["cp1251"].encode("cp1251")


@pytest.mark.parametrize(
    "data",
    [
        "// 计算总价，返回结果\n".encode()[:-4] + b"\xff\n",
        b"\xe9\xe9 old",
        random.Random(1).randbytes(400).replace(b"\0", b"a"),
        b"",
    ],
    ids=["damaged UTF-8", "too short", "random", "empty"],
)
def test_doubtful_bytes_are_not_text(data: bytes) -> None:
    assert detect_encoding(data) is None


def test_unclear_encoding_names_a_way_out() -> None:
    with pytest.raises(ToolError, match="iconv -f ENCODING"):
        decode(b"\xe9\xe9 old", Path("a.c"))


@pytest.mark.parametrize(
    ("encoding", "character"), [("gb18030", "乣"), ("big5", "瓩"), ("cp932", "荏"), ("cp932", "表")]
)
async def test_character_with_the_byte_of_a_shell_sign_is_not_written(
    call: CallContext, workspace: Path, encoding: str, character: str
) -> None:
    """Shells and compilers read bytes: a question would show a character, and a backtick runs."""
    path = workspace / "s.sh"
    text = f"{TEXTS[encoding]}# {character} 1\n"
    path.write_bytes(text.encode(encoding))
    new = f"echo {character}id>PWN {character}\nint"
    arguments = {"path": "s.sh", "old_string": "int total(", "new_string": f"{new} total("}
    with pytest.raises(ToolError, match="which programs may obey"):
        await EditFile(ToolSettings()).run(arguments, call)
    assert path.read_bytes() == text.encode(encoding)
    arguments = {"path": "s.sh", "old_string": "int total(", "new_string": "int all("}
    await EditFile(ToolSettings()).run(arguments, call)
    assert path.read_bytes() == text.replace("int total(", "int all(").encode(encoding)
