"""Policy decisions for every line of evasions.toml; the sandbox tests run the same lines."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.security.policy.base import BLOCKED_COMMANDS
from agent.security.shell.classifier import classify, find_blocked_word
from agent.security.shell.parser import parse_script

CORPUS = Path(__file__).with_name("evasions.toml")
VALUES = {"{outside}": "/srv/outside", "{port}": "4711", "{pid}": "815"}


def evasions() -> Iterator[tuple[str, dict[str, Any]]]:
    for category, entries in tomllib.loads(CORPUS.read_text("utf-8")).items():
        for entry in entries:
            line = entry["run"]
            for name, value in VALUES.items():
                line = line.replace(name, value)
            yield f"{category}: {line!r}", entry | {"run": line}


def test_corpus_has_at_least_150_different_lines() -> None:
    lines = [entry["run"] for _, entry in evasions()]
    assert len(set(lines)) == len(lines) >= 150


def test_evasions_are_never_reads_and_only_contained_ones_are_works(tmp_path: Path) -> None:
    wrong = []
    for name, entry in evasions():
        kind = classify(parse_script(entry["run"]), tmp_path, tmp_path)
        if kind == "reads" or (kind == "works" and not entry.get("contained")):
            wrong.append(f"{kind}  {name}")
    assert not wrong, "\n".join(wrong)


def test_blocked_words_are_found_in_every_spelling() -> None:
    missed = [
        f"{result}  {name}"
        for name, entry in evasions()
        if (result := find_blocked_word(entry["run"], BLOCKED_COMMANDS)) != entry.get("blocked")
        and "blocked" in entry
    ]
    assert not missed, "\n".join(missed)
