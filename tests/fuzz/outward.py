"""Fuzz targets for text of models and pages: arguments, commands, addresses, archives."""

import bz2
import gzip
import io
import lzma
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from agent.errors import ArchiveRefused, ToolError
from agent.security.archive import extract
from agent.security.archive.entry import ArchiveLimits
from agent.security.files import file_io
from agent.security.files.paths import resolve_in_workspace
from agent.security.files.safe_open import open_folder_beneath
from agent.security.network.urls import read_url
from agent.security.shell.parser import parse_script
from agent.security.taint.link_stream import defuse_links
from agent.settings import ToolSettings
from agent.tools.built_in import default_tools
from agent.tools.registry import ToolRegistry
from tests.agent.security.paths.cases import HARMLESS, REFUSED
from tests.agent.security.paths.world import LINKS as PLANTED
from tests.agent.security.paths.world import build
from tests.agent.security.ssrf_cases import URLS as ADDRESSES
from tests.fuzz.inputs import any_text, flip_bytes, texts, trees
from tests.fuzz.run import Target

COMMANDS = (
    "git status && git diff | head -20; ls -la",
    "for f in *.py; do echo \"$f\"; done; if [ -f a ]; then cat a; fi",
    "cat <<'EOF' > out.txt\nhello $(id)\nEOF\n",
    "echo $(rm -rf \"$HOME\") `id` ${x:-$(y)} $((1 + 2)) > /dev/null 2>&1",
    "env A=1 nice -n 5 xargs -0 sh -c 'eval \"$1\"' _ {} <(sort a) >(tee b)",
    "find . -name '*.o' -exec rm {} + ; (cd x; make) & wait",
    "case $x in a) b;; *) c;; esac; f() { g; }; f; [[ $a =~ ^b$ ]] && $'\\x72m'",
)  # fmt: skip
SIGNS = (
    *("&&", "||", ";", "|", "&", "$(", ")", "`", "${", "}", "<<EOF\n", "EOF\n", ">", "<", "'", '"'),
    *(
        "\\\n",
        "$'",
        "((",
        "))",
        "[[",
        "]]",
        "{",
        "if ",
        "then ",
        "fi",
        "do ",
        "done",
        "esac",
        "=",
        "rm ",
    ),
    *(
        "sh -c ",
        "eval ",
        "xargs ",
        "env ",
        "sudo ",
        "$x",
        "!",
        "#",
        "*",
        "~",
        "\n",
        "-exec ",
        "{} +",
    ),
)


def _arguments(scratch: Path) -> Callable[[Any], None]:
    toolbox = ToolRegistry(default_tools(ToolSettings()))

    def check(call: Any) -> None:
        name, args = call
        with suppress(ToolError):
            toolbox.validate(toolbox.get(name), args)

    return check


def _shell(scratch: Path) -> Callable[[str], None]:
    def check(command: str) -> None:
        parse_script(command)

    return check


def _urls(scratch: Path) -> Callable[[str], None]:
    def check(address: str) -> None:
        with suppress(ToolError):
            url = read_url(address)
            assert url.scheme in ("http", "https")
            assert url.raw_host
            assert not url.user
            assert str(url).isprintable()

    return check


def _links(scratch: Path) -> Callable[[str], None]:
    def check(markdown: str) -> None:
        defuse_links(markdown, lambda url: False)

    return check


def _paths(scratch: Path) -> Callable[[str], None]:
    build(scratch)
    ws = scratch / "ws"

    def check(requested_path: str) -> None:
        with suppress(ToolError):
            path = resolve_in_workspace(requested_path, ws, restrict=True, blocked=(".git", ".env"))
            assert path.is_relative_to(ws)
            if file_io.kind(path) == "folder":
                with open_folder_beneath(path) as fd:
                    assert os.readlink(f"/proc/self/fd/{fd}") == str(path)
            else:
                file_io.read(path, 1000)

    return check


def _archives(scratch: Path) -> Callable[[bytes], None]:
    packed, out = scratch / "packed", scratch / "out"
    caps = ArchiveLimits(entries=50, total_bytes=2_000_000, file_bytes=1_000_000)

    def check(data: bytes) -> None:
        packed.write_bytes(data)
        with suppress(ArchiveRefused):
            extract(packed, out, caps)
        left = set(os.listdir(scratch)) - {"packed", "out"}
        assert not left, left
        for folder, folders, files in os.walk(out):
            assert not [name for name in (*folders, *files) if Path(folder, name).is_symlink()]
        shutil.rmtree(out, ignore_errors=True)

    return check


def _examples() -> list[bytes]:
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a.txt", "d/b.txt", "ü.txt"):
            archive.writestr(name, name * 30)
    with tarfile.open(fileobj=tarred, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in ("a.txt", "d/" + "n" * 120, "ü.txt"):
            info = tarfile.TarInfo(name)
            info.size = 30
            archive.addfile(info, io.BytesIO(b"x" * 30))
    plain = tarred.getvalue()[:6144]
    return [zipped.getvalue(), plain, *(pack(plain) for pack in _PACKERS)]


_PACKERS: tuple[Callable[[bytes], bytes], ...] = (gzip.compress, bz2.compress, lzma.compress)
_TOOLS = ToolRegistry(default_tools(ToolSettings()))
_NAMES = (*(spec.name for spec in _TOOLS.specs()), "Read", "Bash", "MultiEdit", "LS")
_CALLS = (
    {"path": "a.txt", "line_start": 1, "line_end": 2},
    {"file_path": "a", "edits": [{"old_string": "a", "new_string": "b"}], "replace_all": True},
    {"command": "ls", "timeout_s": 1.5, "workdir": "."},
    {"url": "http://example.com", "query": "x", "count": 5, "offset": 3, "limit": 7},
)


def _call(random: Random) -> tuple[str, dict[str, Any]]:
    name = random.choice(_NAMES) if random.random() < 0.9 else any_text(random)
    args = _LIKELY(random)
    return name, args if isinstance(args, dict) else {"path": args}


_LIKELY = trees(_CALLS)
ARGUMENTS = Target("arguments", _call, _arguments)
SHELL = Target("shell", texts(COMMANDS, SIGNS), _shell)
URLS = Target(
    "urls", texts(ADDRESSES, ("http://", "https:", "@", "#", "?", "[", "]", ":", "//")), _urls
)
LINKS = Target(
    "links",
    texts(
        (
            "[a](http://x.y/?d=1) ![b](<c>) <http://d> http://e.f, www.g.h",
            "[r]: http://x.y 't'\n[r]",
        ),
        ("[", "]", "(", ")", "<", ">", "http://", "![", "`", "\n\n", "\\"),
    ),
    _links,
)
PATHS = Target(
    "paths",
    texts((*REFUSED, *HARMLESS), (*PLANTED, "/", "..", "a", ".git", "memory", "notes.md")),
    _paths,
)
ARCHIVES = Target("archives", flip_bytes(_examples()), _archives)
