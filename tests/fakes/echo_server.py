"""Server in a process of its own, which repeats what it receives."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class EchoServer:
    """Server in another process; `visits` is known once it has ended."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.service = f"127.0.0.1:{port}"
        self.visits = 0


@asynccontextmanager
async def another_process(host: str = "127.0.0.1") -> AsyncIterator[EchoServer]:
    """Yield a server in a process of its own: this process counts as Kore."""
    program = (
        "import socket, sys\n"
        "family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET\n"
        "s = socket.socket(family)\n"
        "s.bind((sys.argv[1], 0))\n"
        "s.listen()\n"
        "print(s.getsockname()[1], flush=True)\n"
        "while True:\n"
        "    c, _ = s.accept()\n"
        "    with c:\n"
        "        text = b''\n"
        "        while data := c.recv(4096): text += data\n"
        "        c.sendall(b'heard ' + text)\n"
        "        print('visit', flush=True)\n"
    )
    process = await asyncio.create_subprocess_exec(
        "/usr/bin/python3", "-c", program, host, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    echo = EchoServer(int(await process.stdout.readline()))
    try:
        yield echo
    finally:
        process.kill()
        rest = await process.stdout.read()
        echo.visits = rest.count(b"visit")
        await process.wait()
