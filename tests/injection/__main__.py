"""Run the suite in the sandboxes that `make test` does not use, and as an ordinary user.

    python -m tests.injection [PYTEST ARGUMENTS]

Root runs it with no sandbox, an ordinary user with bubblewrap, with Landlock alone and with none.
Landlock does not confine root, so Kore runs no command with it there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.security.sandbox.trusted_programs import SYSTEM_PATH

ROOT = Path(__file__).parents[2]
NOBODY = 65534
AS_NOBODY: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def main(arguments: Sequence[str]) -> int:
    """Return 1 when a run failed."""
    if os.geteuid() != 0:
        codes = [run(sys.executable, sandbox, arguments) for sandbox in ("landlock", "none")]
        return int(any(codes))
    codes = [run(sys.executable, "none", arguments)]
    folder = Path(tempfile.mkdtemp(prefix="kore-injection-", dir="/var/tmp"))
    try:
        os.chown(folder, NOBODY, NOBODY)
        python = ordinary_python(folder)
        if python is None:
            print(f"SKIPPED [1] {__package__}: an ordinary user can run no Python {VERSION} here")
        else:
            # The user's programs may be in folders that others cannot read.
            own = {"HOME": str(folder), "PATH": SYSTEM_PATH}
            settled = {**own, "PYTEST_DEBUG_TEMPROOT": str(folder)}
            cache = ("-o", f"cache_dir={folder / 'cache'}")
            for sandbox in ("bwrap", "landlock", "none"):
                codes.append(run(python, sandbox, (*arguments, *cache), settled, **AS_NOBODY))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return int(any(codes))


def run(
    python: str,
    sandbox: str,
    arguments: Sequence[str],
    environ: Mapping[str, str] | None = None,
    **rights: Any,
) -> int:
    print(f"\n{'as an ordinary user' if rights else 'here'}, sandbox {sandbox}:", flush=True)
    command = (python, "-m", "pytest", "tests/injection", "-m", "not slow", *arguments)
    own = {"KORE_TEST_SANDBOX": sandbox, "PYTHONDONTWRITEBYTECODE": "1", **(environ or {})}
    return subprocess.run(command, cwd=ROOT, env=os.environ | own, **rights).returncode


def ordinary_python(folder: Path) -> str | None:
    """Return a Python with this one's libraries that an ordinary user can run."""
    names = (sys.executable, f"/usr/bin/python{VERSION}", f"/usr/local/bin/python{VERSION}")
    base = next(filter(None, (real_python(name) for name in names)), None)
    if base is None:
        return None
    venv = folder / "venv"
    subprocess.run([base, "-m", "venv", "--without-pip", venv], check=True, **AS_NOBODY)
    own, python = venv / "lib" / f"python{VERSION}" / "site-packages", str(venv / "bin" / "python")
    libraries = [path for path in sys.path if path.endswith("-packages")]
    (own / "suite.pth").write_text("\n".join([str(ROOT), *libraries]))
    imports = [python, "-c", "import agent, pytest"]
    usable = subprocess.run(imports, cwd="/", capture_output=True, **AS_NOBODY).returncode == 0
    return python if usable else None


def real_python(name: str) -> str | None:
    """Return the resolved program, if an ordinary user can run it and it has this version."""
    code = (
        "import sys; is_it = sys.argv[1] == '%d.%d' % sys.version_info[:2];"
        " print(sys._base_executable if is_it else '')"
    )
    try:
        process = subprocess.run(
            [name, "-c", code, VERSION], cwd="/", capture_output=True, text=True, **AS_NOBODY
        )
    except OSError:
        return None
    return process.stdout.strip() or None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
