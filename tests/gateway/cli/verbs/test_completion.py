"""Shell completion scripts, and the completions that bash derives from them."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.gateway.cli.kore import kore

BASH = shutil.which("bash")


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    return kore("completion", "bash", home=tmp_path_factory.mktemp("kore")).stdout


@pytest.mark.skipif(BASH is None, reason="asks a real bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        (["kore", "chan"], ["channel"]),
        (["kore", "ch"], ["chat", "channel"]),
        (["kore", "--home", "config", "models", ""], ["list", "test"]),
        (["kore", "channel", "add", ""], ["telegram"]),
        (["kore", "run", "--permission-m"], ["--permission-mode"]),
        (["kore", "agent", "--model", "gateway", "--eff"], ["--effort"]),
        (["kore", "backup", ""], []),
        (["kore", "completion", "f"], ["fish"]),
    ],
)
def test_bash_offers_valid_words(script: str, line: list[str], offered: list[str]) -> None:
    commands = [
        script,
        f"COMP_WORDS=({shlex.join(line)}) COMP_CWORD={len(line) - 1}",
        "_kore",
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    result = subprocess.run(
        [str(BASH), "--norc", "-c", "\n".join(commands)], capture_output=True, text=True, check=True
    )
    assert (result.stderr, result.stdout.split()) == ("", offered)


def test_zsh_and_fish_get_the_same_words_and_fish_descriptions(tmp_path: Path, script: str) -> None:
    assert kore("completion", "zsh", home=tmp_path).stdout.endswith(script)
    lines = kore("completion", "fish", home=tmp_path).stdout.splitlines()
    start = "complete -c kore -n '__fish_use_subcommand' -f -a reload -d "
    assert start + "'reload the configuration of the running gateway'" in lines
    within = "complete -c kore -n '__fish_seen_subcommand_from channel; and "
    assert any(
        line.startswith(f"{within}__fish_seen_subcommand_from add' -l token-env -r -d '")
        for line in lines
    )
    assert any(line.startswith(f"{within}not __fish_seen_subcommand_from add ") for line in lines)
