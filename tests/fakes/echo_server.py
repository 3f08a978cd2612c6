"""Echo server in a separate process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class EchoServer:
    """Server in another process; `visits` is available once it has ended."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.service = f"127.0.0.1:{port}"
        self.visits = 0


@asynccontextmanager
async def another_process(place: str = "127.0.0.1") -> AsyncIterator[EchoServer]:
    """Yield an echo server on a host or a Unix socket. Its process is separate, because the process
    of the test counts as Kore."""
    program = (
        "import socket, sys\n"
        "place = sys.argv[1]\n"
        "is_unix = place.startswith('/')\n"
        "family = socket.AF_INET6 if ':' in place else socket.AF_INET\n"
        "s = socket.socket(socket.AF_UNIX if is_unix else family)\n"
        "s.bind(place if is_unix else (place, 0))\n"
        "s.listen()\n"
        "print(0 if is_unix else s.getsockname()[1], flush=True)\n"
        "while True:\n"
        "    c, _ = s.accept()\n"
        "    with c:\n"
        "        text = b''\n"
        "        while data := c.recv(4096): text += data\n"
        "        c.sendall(b'heard ' + text)\n"
        "        print('visit', flush=True)\n"
    )
    process = await asyncio.create_subprocess_exec(
        "/usr/bin/python3", "-c", program, place, stdout=asyncio.subprocess.PIPE
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
