"""Runner for the real program: in a separate process, or in this process to check its output."""

import contextlib
import io
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.__main__ import main
from tests import fork_server, postgres_server

ROOT = Path(__file__).parents[3]


def kore(
    *words: str | Path,
    home: Path,
    environ: Mapping[str, str] | None = None,
    stdin: str = "",
    timeout_s: float = fork_server.TIMEOUT_S,
) -> subprocess.CompletedProcess[str]:
    """Run `kore` in `home`'s parent with an almost empty environment."""
    clean = _clean(home)
    env = {**clean, **postgres_server.environ_of(home), **(environ or {})}
    return fork_server.run(words, cwd=home.parent, env=env, stdin=stdin, timeout_s=timeout_s)


def kore_here(
    *words: str | Path, home: Path, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `kore` in this process, for a verb that rejects its input and changes nothing."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.chdir(home.parent),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        clean = _clean(home)
        for name in list(os.environ):
            patch.delenv(name)
        for name, value in {**clean, **(environ or {})}.items():
            patch.setenv(name, value)
        code = main(list(map(str, words)))
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(words, code, *texts)


def _clean(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home.parent), "KORE_HOME": str(home)}
