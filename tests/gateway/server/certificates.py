"""Certificates of a private authority."""

import shutil
import subprocess
from pathlib import Path

import pytest

OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed")


def run(*words: str | Path) -> None:
    subprocess.run([OPENSSL or "openssl", *words], check=True, capture_output=True)


class Certificates:
    """A private CA and certificates signed by it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        subject = ("-subj", "/CN=test CA")
        files = ("-keyout", self.key("ca"), "-out", self.file("ca"))
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
        # Python 3.13 accepts a CA only with this extension.
        usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
        run("req", "-x509", *curve, *subject, *usage, *files)
        for name in ("server", "client"):
            request = folder / f"{name}.csr"
            run("req", *curve, "-subj", f"/CN={name}", "-keyout", self.key(name), "-out", request)
            extensions = folder / "extensions"
            extensions.write_text(
                "subjectAltName=DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n"
            )
            ca = ("-CA", self.file("ca"), "-CAkey", self.key("ca"), "-CAcreateserial")
            signed = ("-days", "2", "-extfile", extensions, "-out", self.file(name))
            run("x509", "-req", "-in", request, *ca, *signed)

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.pem"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"
