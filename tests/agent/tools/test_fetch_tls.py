"""TLS in a separate process, because aiohttp reads the trusted certificates on import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import asyncio, ssl, sys
from pathlib import Path
from aiohttp import web
from agent.errors import ToolError
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.web.fetch import WebFetch
from agent.settings import ToolSettings
from agent.types import ToolCall

folder = Path(sys.argv[1])
names = []

async def main():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    context.sni_callback = lambda sock, name, ctx: names.append(name)
    app = web.Application()
    async def hello(request):
        return web.Response(text="host " + request.host)
    app.router.add_get("/", hello)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    here = ToolEnvironment("s", folder, folder / "m")
    call = CallContext(ToolCall("c", "web_fetch", {}, "{}"), here, print)
    fetch = WebFetch(ToolSettings(), lambda address: address.is_loopback)
    for host in ("localhost", "127.0.0.1"):
        try:
            print((await fetch.run({"url": f"https://{host}:{port}/"}, call)).for_model)
        except ToolError as exc:
            print("refused", exc)
    print("names", *names)
    await runner.cleanup()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=folder, capture_output=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return folder


def test_certificate_is_checked_against_the_name_and_not_the_address(certificate: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(certificate)],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "SSL_CERT_FILE": str(certificate / "cert.pem")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "host localhost:" in done.stdout
    assert "refused https://127.0.0.1" in done.stdout
    assert "names localhost" in done.stdout
