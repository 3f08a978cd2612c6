import subprocess
import sys

from tests.gateway.cli.kore import ROOT


def test_channel_loads_no_terminal_libraries() -> None:
    code = "import gateway.channels.telegram.opening, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "telegram" in loaded
    assert not loaded & {"click", "rich", "pygments", "prompt_toolkit"}
