"""Client of the page and of Node programs, and its type definitions."""

import asyncio
import json
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from gateway.server.tokens import TokenFile
from tests.fakes.model import ModelServer
from tests.gateway.server.processes import KEY, Machine, free_port
from tests.gateway.server.typescript_client import CLIENT
from tests.house.typescript import FILE
from tests.node import FLAGS, node

TSC = shutil.which("tsc")
ROUNDS = 4

# Sends each message after the previous answer, and prints the messages received.
PROGRAM = """
const { CallError, Connection } = await import(process.argv[1])
const [address, token, rounds] = process.argv.slice(2)
const kore = new Connection({ address, token })
const session = await kore.until("create_session", {})
const told = []
let answered = 0
await new Promise((resolve, reject) => {
  const onEvent = async (event) => {
    if (event.type !== "message") return
    told.push([event.seq, event.message.role])
    if (event.message.role !== "assistant") return
    console.log("answer")
    if (++answered == rounds) return resolve()
    await kore.say(session, `round ${answered}`)
  }
  kore.followSession({ session, level: "info" }, onEvent, reject)
  kore.say(session, "round 0").catch(reject)
})
const refused = await kore.call("no_such_call").catch((error) => error)
console.log(JSON.stringify({ told, code: refused instanceof CallError && refused.code }))
kore.close()
"""
TYPED = """
import { Connection, type SessionEvent } from "./protocol.mjs"

const kore = new Connection({ address: "http://127.0.0.1:8790", token: "t" })

export async function names(): Promise<string[]> {
  const sessions = await kore.call("list_sessions", { limit: 5 })
  await kore.call("status")
  kore.follow("follow_sessions", () => ({ level: "warning" }), (news) => console.log(news.session))
  return sessions.map((one) => one.name)
}

export function told(event: SessionEvent): string {
  switch (event.type) {
    case "message":
      return event.message.role
    case "notice":
      return event.level
    default:
      return event.type
  }
}
// @ts-expect-error: there is no such call
kore.call("no_such_call")
// @ts-expect-error: an argument is missing
kore.call("send_message", { session: null })
// @ts-expect-error: no such level
kore.followSession({ session: "s", level: "loud" }, () => {})
"""


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    async with ModelServer(api_key=KEY) as model:
        yield Machine(tmp_path, model)


def end(program: asyncio.subprocess.Process) -> None:
    if program.returncode is None:
        program.kill()


async def test_node_program_survives_a_killed_server(machine: Machine) -> None:
    port = free_port()
    token = TokenFile(machine.home / "tokens.json").add("program", ("chat",))
    listen = ("--listen-addr", f"127.0.0.1:{port}")
    words = (node(), *FLAGS, "-e", PROGRAM)
    arguments = (str(CLIENT), f"http://127.0.0.1:{port}", token, str(ROUNDS))
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(machine.serving(*listen))
        program = await asyncio.create_subprocess_exec(
            *words,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        stack.callback(end, program)
        assert program.stdout is not None
        async with asyncio.timeout(60):
            assert await program.stdout.readline() == b"answer\n"
        # The program's next message is in flight, accepted or being answered.
        first.send_signal(signal.SIGKILL)
        await first.wait()
        async with machine.serving(*listen), asyncio.timeout(60):
            out, err = await program.communicate()
    assert program.returncode == 0, err.decode()
    seen = json.loads(out.splitlines()[-1])
    expected = [[n + 1, ("user", "assistant")[n % 2]] for n in range(2 * ROUNDS)]
    assert seen == {"told": expected, "code": "unknown-call"}


@pytest.mark.skipif(TSC is None, reason="tsc is not installed")
def test_types_accept_valid_programs_and_reject_invalid_ones(tmp_path: Path) -> None:
    for file in (FILE, CLIENT):
        shutil.copy(file, tmp_path)
    (tmp_path / "program.mts").write_text(TYPED)
    options = ("--noEmit", "--strict", "--target", "es2022", "--module", "nodenext")
    checked = subprocess.run(
        [str(TSC), *options, "--lib", "es2022,dom", "program.mts", "protocol.d.mts"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
