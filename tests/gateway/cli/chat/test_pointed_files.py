"""`kore agent -f PATH`: pictures, folders and files that are too large, as the model sees them."""

import asyncio
import json
import os

from tests import postgres_server
from tests.fakes.model import ModelServer
from tests.fork_server import start_piped
from tests.gateway.cli.chat.long_task_scene import Place
from tests.gateway.end_to_end.received_files import png


async def run(place: Place, *words: str) -> tuple[int, str]:
    """Run `kore agent -m look`, and return its exit code and its stderr."""
    own = {"KORE_HOME": str(place.home), **postgres_server.environ_of(place.home)}
    environ = {"PATH": os.environ["PATH"], "HOME": str(place.work.parent)} | own
    words = ("agent", "--cwd", str(place.work), "-m", "look", *words)
    process = await start_piped(words, cwd=place.work, env=environ)
    async with asyncio.timeout(60):
        _, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, err.decode()


def question(model_server: ModelServer) -> str:
    """Return the last user message, as the model received it."""
    return json.dumps(model_server.requests[-1].body["messages"][-1], ensure_ascii=False)


async def test_picture_is_sent_as_a_picture(place: Place, model_server: ModelServer) -> None:
    (place.work / "a.png").write_bytes(png(1))
    model_server.script("seen")
    code, err = await run(place, "-f", "a.png")
    assert code == 0, err
    prompt = question(model_server)
    assert "data:image/png;base64," in prompt
    assert "\ufffd" not in prompt
    assert prompt.count("refers to the file") == 0


async def test_omitted_file_is_named_with_its_size(place: Place, model_server: ModelServer) -> None:
    (place.work / "a.bin").write_bytes(b"a\0b")
    (place.work / "long.txt").write_text("line\n" * 300_000)
    model_server.script("seen")
    code, err = await run(place, "-f", "a.bin", "-f", "long.txt")
    assert code == 0, err
    prompt = question(model_server)
    assert "a.bin (3 B). It is not text and is not shown here" in prompt
    assert "long.txt (1.5 MB). It does not fit here: read it in parts" in prompt
    assert "a.bin is not text; the model can open it with a tool" in err


async def test_folder_is_listed(place: Place, model_server: ModelServer) -> None:
    (place.work / "docs").mkdir()
    (place.work / "docs" / "a.md").write_text("a")
    model_server.script("seen")
    code, err = await run(place, "-f", "docs")
    assert code == 0, err
    assert f"[The folder {place.work / 'docs'}, as it is now:]" in question(model_server)
    assert "docs is a folder; the model sees what is in it" in err


async def test_pipe_is_rejected_without_blocking(place: Place) -> None:
    os.mkfifo(place.work / "pipe")
    code, err = await run(place, "-f", "pipe")
    assert code == 2
    assert "pipe: cannot be read: not a regular file" in err
