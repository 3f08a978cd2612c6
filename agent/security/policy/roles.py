"""Roles: which tools somebody may use, and how far each may reach."""

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cache
from pathlib import Path

from agent.records import frozen
from agent.security.files.globs import matches

# Every tool: what a role says about it holds for those that it does not name.
ANY = "*"
BUILT_IN = "built in"


@frozen
class ToolRule:
    """What a role says about a tool. A scope that is None sets no limit of its own.

    `paths` are globs relative to the workspace (`docs/**`; `*` stays within a folder), `commands`
    the first words of commands ("git status"), `hosts` names of machines ("*.example.org").
    With `new_files_only` existing files stay as they are.
    """

    allow: bool = True
    ask: bool = False
    new_files_only: bool = False
    paths: tuple[str, ...] | None = None
    commands: tuple[str, ...] | None = None
    hosts: tuple[str, ...] | None = None


@frozen
class Grants:
    """The three switches of an agent; they take away from a role and never add to it."""

    allow_write: bool = True
    allow_command: bool = True
    confirm_before_command: bool = False


@frozen
class Role:
    """Tools by name; one that is not declared is denied. `source` says where the role is from."""

    name: str
    tools: Mapping[str, ToolRule]
    source: str = BUILT_IN
    grants: Grants = field(default_factory=Grants)

    def rule(self, tool: str) -> ToolRule | None:
        """What holds for a tool: `process` goes on with what `exec` began."""
        own = self.tools.get(tool) or (self.tools.get("exec") if tool == "process" else None)
        return own or self.tools.get(ANY)

    def with_grants(self, grants: Grants) -> "Role":
        return replace(self, grants=grants)


@cache
def built_in_roles() -> Mapping[str, Role]:
    """The roles that Kore brings along, from `roles.yaml` beside this module."""
    from agent.security.policy.policy_file import parse_policy

    text = Path(__file__).with_name("roles.yaml").read_text("utf-8")
    return parse_policy(text, BUILT_IN).roles


def in_paths(path: Path, root: Path, globs: tuple[str, ...]) -> bool:
    """Whether a real path lies below the real folder `root` and matches one of the globs.

    `**` is any number of folders, also none: `docs/**` is `docs` itself too.
    """
    if not path.is_relative_to(root):
        return False
    parts = path.relative_to(root).parts
    return any(matches(parts, _parts(glob)) for glob in globs)


def in_commands(argv: tuple[str | None, ...], prefixes: tuple[str, ...]) -> bool:
    """Whether the words of a command begin with those of one of the prefixes, word by word."""
    for prefix in prefixes:
        words = tuple(prefix.split())
        if words == (ANY,) or (words and argv[: len(words)] == words):
            return True
    return False


def in_hosts(host: str, names: tuple[str, ...]) -> bool:
    """Whether a machine is one of these; `*.example.org` is every name below example.org."""
    host = host.casefold().rstrip(".")
    for name in names:
        wanted = name.casefold().rstrip(".")
        if wanted in (ANY, host) or (wanted.startswith("*.") and host.endswith(wanted[1:])):
            return True
    return False


@cache
def _parts(glob: str) -> tuple[str, ...]:
    return tuple(part for part in glob.split("/") if part not in ("", "."))
