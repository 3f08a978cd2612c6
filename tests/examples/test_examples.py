"""Each program in examples/, started as a user does, with a fake model server."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import fork_server
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.house.tree import ROOT

EXAMPLES = ROOT / "examples"
PROGRAM = """
import runpy, sys, warnings
warnings.simplefilter("error", ResourceWarning)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


async def run(
    model: ModelServer, folder: Path, name: str, *words: str, typed: str = ""
) -> "subprocess.CompletedProcess[str]":
    environ = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": model.base_url,
    }
    return await asyncio.to_thread(
        fork_server.run,
        ["python", "-c", PROGRAM, EXAMPLES / name, *words],
        cwd=folder,
        env=environ,
        stdin=typed,
    )


def request_text(model: ModelServer, n: int = -1) -> str:
    """Return the text of an entire request."""
    return json.dumps(model.requests[n].body)


def calling(name: str, **arguments: Any) -> ReplyScript:
    return ReplyScript(tool_calls=(Call(name, arguments),))


@pytest.mark.parametrize(("total", "code"), [(17.5, 0), (18.0, 1)])
async def test_invoice_becomes_validated_data(tmp_path: Path, total: float, code: int) -> None:
    (tmp_path / "letter.txt").write_text("Invoice 7: two pots at 8.75, 17.50 in all. Tea & Sons")
    items = [{"name": "pot", "amount": 2, "price_eur": 8.75}]
    answer = {"number": "7", "supplier": "Tea & Sons", "items": items, "total_eur": total}
    async with ModelServer() as model:
        model.script(json.dumps(answer))
        done = await run(model, tmp_path, "invoice.py", "letter.txt")
    assert (done.returncode, json.loads(done.stdout)) == (code, answer), done.stderr
    assert ("not 18.00" in done.stderr) == bool(code)


async def test_shop_questions_are_answered_from_its_database(tmp_path: Path) -> None:
    async with ModelServer() as model:
        model.script(
            calling("orders_of", customer="Ada", only_open=True),
            calling("cancel", number=1),
            calling("cancel", number=2),
            "Your order 2 is cancelled.",
        )
        done = await run(model, tmp_path, "shop.py", "Cancel what is open.")
        assert done.stdout == "Your order 2 is cancelled.\n", done.stderr
        assert "2: a pot, open" in request_text(model, 1)
        assert "There is no open order 1." in request_text(model, 2)
        assert "Order 2 is cancelled." in request_text(model, 3)


async def test_coding_agent_shows_each_change_and_asks(tmp_path: Path) -> None:
    (tmp_path / "cart.py").write_text("def total(prices):\n    return 0\n")
    edit = {"path": "cart.py", "old_string": "return 0", "new_string": "return sum(prices)"}
    async with ModelServer() as model:
        model.script(
            calling("read_file", path="cart.py"),
            calling("edit_file", **edit),
            calling("write_file", path="cart.py", content="broken"),
            "It was the sum.",
        )
        done = await run(model, tmp_path, "fix_tests.py", ".", typed="y\nn\n")
    assert done.returncode == 0, done.stderr
    assert "+    return sum(prices)" in done.stdout
    assert "It was the sum." in done.stdout
    assert (tmp_path / "cart.py").read_text() == "def total(prices):\n    return sum(prices)\n"


async def test_receptionist_hands_over(tmp_path: Path) -> None:
    matter = {"summary": "charged twice", "is_urgent": True}
    async with ModelServer() as model:
        model.script(
            calling("transfer_to_billing", **matter), calling("refund", invoice="7"), "It is begun."
        )
        done = await run(model, tmp_path, "help_desk.py", "I was charged twice.")
        assert done.stdout == "[receptionist: charged twice, urgent]\nbilling: It is begun.\n"
        assert "The refund of 7 has begun." in request_text(model)


async def test_files_are_reviewed_concurrently(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1 / 0\n")
    text = json.dumps([{"line": 1, "problem": "division by zero"}])
    async with ModelServer() as model:
        model.script(text, text)
        done = await run(model, tmp_path, "review_files.py", "a.py", "b.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "a.py:1: division by zero\nb.py:1: division by zero\n"
    assert "tokens in" in done.stderr


async def test_chat_continues_and_masks_card_numbers(tmp_path: Path) -> None:
    async with ModelServer() as model:
        model.script("Hello, Ada.", "You are Ada.")
        typed = "I am Ada.\nMy card is 4111 1111 1111 1111.\n"
        first = await run(model, tmp_path, "careful_chat.py", typed=typed)
        assert "Not sent: it holds a card number." in first.stdout, first.stderr
        assert first.stdout.endswith("The model was asked 1 times.\n")
        second = await run(model, tmp_path, "careful_chat.py", typed="Who am I?\n")
        assert "You are Ada." in second.stdout
        assert "I am Ada." in request_text(model)
        assert not any("4111" in request_text(model, n) for n in range(len(model.requests)))


def test_every_example_is_listed_in_the_readme() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert all(f"[{file.name}]({file.name})" in listed for file in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", ["fix_tests", "help_desk", "invoice", "shop"])
def test_example_without_its_argument_shows_its_usage(name: str) -> None:
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"python examples/{name}.py " in done.stderr
    assert "Traceback" not in done.stderr
