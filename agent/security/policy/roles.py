"""Roles: tools that a person may use, with their limits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files.globs import matches
from agent.security.policy.base import (
    CHANGING_KINDS,
    COMMAND_TOOL,
    READING_TOOL,
    SERVER_TOOLS,
    WRITING_TOOL,
    Decision,
    ToolRequest,
    is_server_tool,
)
from agent.security.policy.call_effects import CallEffects
from agent.security.shell.variables import is_risky
from agent.types import ToolKind

# Matches every tool that a role does not name.
ANY = "*"

BUILT_IN = "built in"


@frozen
class ToolRule:
    """Rule of a role for a tool. A scope of None sets no limit.

    `paths` are globs relative to the workspace (`docs/**`; `*` stays within a folder), `commands`
    are the first words of commands ("git status"), `hosts` host names ("*.example.org"). With
    `new_files_only`, existing files cannot be changed.
    """

    allow: bool = True
    ask: bool = False
    new_files_only: bool = False
    paths: tuple[str, ...] | None = None
    commands: tuple[str, ...] | None = None
    hosts: tuple[str, ...] | None = None


@frozen
class Grants:
    """Three switches of an agent, which only restrict a role."""

    allow_write: bool = True
    allow_command: bool = True
    confirm_before_command: bool = False


@frozen
class Role:
    """Rules by tool; undeclared tools are denied.

    `source` describes the origin of the role. With `escalates`, a person is asked about a call that
    the role does not allow, if it can be shown in full. `kinds` contains the known kinds of the
    named tools.
    """

    name: str
    tools: Mapping[str, ToolRule]
    source: str = BUILT_IN
    grants: Grants = field(default_factory=Grants)
    escalates: bool = False
    kinds: Mapping[str, ToolKind] = field(default_factory=dict)

    def rule(self, tool: str, governed_by: str | None = None) -> ToolRule | None:
        """Return the rule for a tool, or else for `governed_by`, or else for `*`."""
        return self._named_rule(tool, governed_by) or self.tools.get(ANY)

    def editing_rules(self, request: ToolRequest) -> Mapping[str, ToolRule]:
        """Return the rules, by tool, that apply to a call besides `*`.

        If the role does not name the tool and the call changes files, these are the rules of all
        named tools of the same kind. Otherwise a limit on editing files would not cover other
        editing tools.
        """
        named_rule = self._named_rule(request.tool, request.governed_by)
        if named_rule is not None or not changes_files(request):
            return {}
        kinds = ("edit", request.kind)
        return {name: self.tools[name] for name, kind in self.kinds.items() if kind in kinds}

    def command_rules(self, tool: str, governed_by: str | None) -> Sequence[ToolRule]:
        """Return the rules for editing files that apply to a command.

        If the role does not name its tool, these are the rules of all tools that change files;
        otherwise, the rule for writing files.
        """
        if self._named_rule(tool, governed_by) is not None:
            write = self.rule(WRITING_TOOL)
            return [ToolRule(allow=False) if write is None else write]
        kinds = self.kinds.items()
        return [self.tools[name] for name, kind in kinds if kind in CHANGING_KINDS]

    def may_write(self, tool: str, governed_by: str | None = None) -> bool:
        """Return whether commands may change files.

        The files are unknown before a command runs, so a limit on files denies it if the role does
        not name the tool.
        """
        rule = self.rule(tool, governed_by)
        if rule is None or not self.grants.allow_write:
            return rule is None and self.escalates
        rules = self.command_rules(tool, governed_by)
        if self._named_rule(tool, governed_by) is not None:
            return rule.paths is not None or rules[0].allow
        return all(
            rule_for_files.allow
            and rule_for_files.paths is None
            and not rule_for_files.new_files_only
            for rule_for_files in rules
        )

    def _named_rule(self, tool: str, governed_by: str | None) -> ToolRule | None:
        own = self.tools.get(tool) or self.tools.get(governed_by or tool)
        return own or self._server_rule(tool, governed_by)

    def _server_rule(self, tool: str, governed_by: str | None) -> ToolRule | None:
        """Return the rule for a tool of an MCP server by a pattern.

        A tool that searches for such tools is allowed if there is any pattern for them.
        """
        patterns = [name for name in self.tools if name.startswith(SERVER_TOOLS)]
        if governed_by == SERVER_TOOLS:
            return ToolRule() if patterns else None
        return next(
            (self.tools[pattern] for pattern in patterns if is_server_tool(tool, pattern)), None
        )

    def with_grants(self, grants: Grants) -> "Role":
        return replace(self, grants=grants)


def changes_files(request: ToolRequest) -> bool:
    """Return whether a call other than a command changes files, by its tool's kind or its plan."""
    if request.kind != "other":
        return request.kind in CHANGING_KINDS
    return request.command is None and bool(request.changes or request.creates)


def in_paths(path: Path, root: Path, globs: tuple[str, ...]) -> bool:
    """Return whether a real path is below the real folder `root` and matches one of the globs.

    `**` matches any number of folders, including none: `docs/**` also matches `docs`.
    """
    if not path.is_relative_to(root):
        return False
    parts = path.relative_to(root).parts
    return any(matches(parts, _parts(glob)) for glob in globs)


def in_commands(argv: tuple[str | None, ...], prefixes: tuple[str, ...]) -> bool:
    """Return whether a command begins with one of the prefixes, compared word by word."""
    for prefix in prefixes:
        words = tuple(prefix.split())
        if words == (ANY,) or (words and argv[: len(words)] == words):
            return True
    return False


def in_hosts(host: str, names: tuple[str, ...]) -> bool:
    """Return whether a host matches one of the names; `*.example.org` matches subdomains."""
    host = host.casefold().rstrip(".")
    for name in names:
        pattern = name.casefold().rstrip(".")
        if pattern in (ANY, host) or (pattern.startswith("*.") and host.endswith(pattern[1:])):
            return True
    return False


@cache
def _parts(glob: str) -> tuple[str, ...]:
    return tuple(part for part in glob.split("/") if part not in ("", "."))


_MAX_LINE_CHARS = 120


# Rules that a person may override. Scopes for shown files and for hosts are enforced while a tool
# runs, so an approval would have no effect.
_ESCALATED = frozenset(
    {"role-tool", "role-editing", "role-commands", "role-new-files", "role-redirect"}
)


def role_objections(
    role: Role, reach: CallEffects, *, ask: bool, confined: bool
) -> Iterator[Decision]:
    """Yield every objection of a role to a call.

    Without `ask`, the role's questions count as answered, because the person has chosen this.
    `confined` means that a sandbox keeps a command from changing files if the role does not allow
    that.
    """
    for decision in _objections(role, reach, ask=ask, confined=confined):
        if role.escalates and decision.verdict == "deny" and _can_escalate(decision.rule, reach):
            reason = render_prompt("policy/role_escalation", role=role.name)
            yield Decision("ask", reason, "role-escalation")
        else:
            yield decision


def _can_escalate(rule: str, reach: CallEffects) -> bool:
    return rule in _ESCALATED or (rule == "role-paths" and reach.request.effect != "read")


def _objections(role: Role, reach: CallEffects, *, ask: bool, confined: bool) -> Iterator[Decision]:
    request = reach.request
    rule = role.rule(request.tool, request.governed_by)
    if rule is None or not rule.allow:
        yield _deny("role-tool", role=role.name, tool=request.tool)
        return
    yield from _grants(role, reach, ask=ask)
    if reach.is_command:
        if reach.unclear_reason and _limits_commands(role, rule):
            reason = render_prompt("policy/ask_unclear", why=reach.unclear_reason)
            yield Decision("ask", reason, "ask-unclear")
        yield from _commands(role, rule, reach)
        yield from _redirects(role, rule, reach)
        yield from _writing(role, reach, ask=ask, confined=confined)
    else:
        yield from _paths(role, request.tool, rule, reach, needs_path=request.tool in role.tools)
        yield from _editing(role, reach, ask=ask)
    yield from _hosts(role, rule, request)
    if rule.ask and ask:
        reason = render_prompt("policy/role_ask", role=role.name, tool=request.tool)
        yield Decision("ask", reason, "role-ask")


def _editing(role: Role, reach: CallEffects, *, ask: bool) -> Iterator[Decision]:
    """Yield objections of the editing rules to an unnamed tool that changes files."""
    tool = reach.request.tool
    for name, rule in role.editing_rules(reach.request).items():
        if not rule.allow:
            yield _deny("role-editing", role=role.name, tool=tool, like=name)
            return
        yield from _paths(role, tool, rule, reach, needs_path=True)
        if rule.new_files_only and not reach.writes:
            yield _deny("role-unplanned", role=role.name, tool=tool)
        if rule.ask and ask:
            reason = render_prompt("policy/role_ask", role=role.name, tool=tool)
            yield Decision("ask", reason, "role-ask")


def _writing(role: Role, reach: CallEffects, *, ask: bool, confined: bool) -> Iterator[Decision]:
    """Yield questions about a command that could change files against the rules for editing."""
    tool, governed_by = reach.request.tool, reach.request.governed_by
    if reach.kind == "reads":
        return
    if not confined and not role.may_write(tool, governed_by):
        yield Decision("ask", render_prompt("policy/role_writing", role=role.name), "role-writing")
    if ask and any(rule.ask for rule in role.command_rules(tool, governed_by)):
        reason = render_prompt("policy/role_ask", role=role.name, tool=tool)
        yield Decision("ask", reason, "role-ask")


def _grants(role: Role, reach: CallEffects, *, ask: bool) -> Iterator[Decision]:
    """Yield objections of the three switches in the setting `agents`."""
    grants = role.grants
    if not grants.allow_write and reach.writes:
        yield _deny("agents-write", role=role.name)
    if reach.is_command and not grants.allow_command:
        yield _deny("agents-command", role=role.name)
    if reach.is_command and grants.confirm_before_command and ask:
        yield Decision(
            "ask", render_prompt("policy/agents_confirm", role=role.name), "agents-confirm"
        )


def _limits_commands(role: Role, rule: ToolRule) -> bool:
    """Return whether a role restricts commands beyond the sandbox, so that they must be parsed."""
    if rule.commands is not None or rule.paths is not None or not role.grants.allow_write:
        return True
    files = [role.rule(tool) for tool in (READING_TOOL, WRITING_TOOL)]
    return any(
        rule is None or not rule.allow or rule.paths is not None or rule.new_files_only
        for rule in files
    )


def _commands(role: Role, rule: ToolRule, reach: CallEffects) -> Iterator[Decision]:
    """Yield an objection unless every part begins with a declared prefix, without variables before
    it."""
    if rule.commands is None or reach.script is None:
        return
    parts = (
        part.text
        for part in reach.script.commands
        if part.assignments or (part.argv and not in_commands(part.argv, rule.commands))
    )
    # The variable of a loop is set as well; most of these cannot select a program.
    sets = (f"{name}=" for name in sorted(reach.script.assigned_names) if is_risky(name))
    if (part := next(chain(parts, sets), None)) is not None:
        commands = ", ".join(rule.commands)
        yield _deny("role-commands", role=role.name, commands=commands, part=_shorten_line(part))


def _redirects(role: Role, rule: ToolRule, reach: CallEffects) -> Iterator[Decision]:
    """Yield objections to redirections, by the rule of `exec` or else of the file tools."""
    for tool, paths in ((WRITING_TOOL, reach.writes), (READING_TOOL, reach.reads)):
        if not paths:
            continue
        own = rule if rule.paths is not None else role.rule(tool)
        if own is None or not own.allow:
            yield _deny("role-redirect", role=role.name, path=_inside(paths[0], reach), tool=tool)
        elif own.paths is not None:
            yield from _outside(role, COMMAND_TOOL, own.paths, paths, reach)
        elif own.new_files_only and any(path.exists() for path in paths):
            yield _deny("role-new-files", role=role.name, path=_inside(paths[0], reach))


def _paths(
    role: Role, tool: str, rule: ToolRule, reach: CallEffects, *, needs_path: bool
) -> Iterator[Decision]:
    request = reach.request
    touched = (*reach.reads, *reach.writes)
    if rule.paths is not None:
        if not touched and needs_path:
            # A scope that cannot be checked would have no effect.
            yield _deny("role-unplanned", role=role.name, tool=tool)
        yield from _outside(role, tool, rule.paths, touched, reach)
    if rule.new_files_only and request.changes:
        yield _deny("role-new-files", role=role.name, path=_inside(request.changes[0], reach))


def _outside(
    role: Role, tool: str, globs: tuple[str, ...], paths: Sequence[Path], reach: CallEffects
) -> Iterator[Decision]:
    for path in paths:
        if not in_paths(path, reach.root, globs):
            yield _deny(
                "role-paths",
                role=role.name,
                tool=tool,
                globs=", ".join(globs),
                path=_inside(path, reach),
            )
            return


def _hosts(role: Role, rule: ToolRule, request: ToolRequest) -> Iterator[Decision]:
    if rule.hosts is None:
        return
    hosts = request.hosts or _named_hosts(request)
    # A command without host names reaches no host.
    if not hosts and request.tool in role.tools and request.command is None:
        yield _deny("role-unplanned", role=role.name, tool=request.tool)
    for host in hosts:
        if not in_hosts(host, rule.hosts):
            names = ", ".join(rule.hosts)
            yield _deny("role-hosts", role=role.name, tool=request.tool, hosts=names, host=host)
            return


def _named_hosts(request: ToolRequest) -> tuple[str, ...]:
    url = request.arguments.get("url")
    if not isinstance(url, str):
        return ()
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return ()
    return (host,) if host else ()


def _inside(path: Path, reach: CallEffects) -> str:
    """Return a path for people, relative to the workspace."""
    inside = path.relative_to(reach.root) if path.is_relative_to(reach.root) else path
    return _shorten_line(str(inside))


def _shorten_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_LINE_CHARS else f"{line[:_MAX_LINE_CHARS]}…"


def _deny(rule: str, **values: object) -> Decision:
    return Decision("deny", render_prompt(f"policy/{rule.replace('-', '_')}", **values), rule)
