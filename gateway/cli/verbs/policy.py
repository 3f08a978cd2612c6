"""Command `kore policy`: permission decisions, their rules, and permanent grants."""

import argparse
import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.security.sandbox.selector import select_sandbox
from gateway.access.policy_case import (
    PolicyCase,
    decision_facts,
    describe_role,
    make_case,
    scopes_of,
)
from gateway.access.roles import RoleRegistry, known_tools_of
from gateway.cli.folders import data_dir_of
from gateway.cli.output import clean, moment, print_json, print_table
from gateway.cli.service_link import service_of
from gateway.cli.settings import settings_of
from gateway.config import Settings
from gateway.runtime.paths import DataDir
from gateway.runtime.sandbox import sandbox_options


def run(args: argparse.Namespace) -> int:
    """Return 0 for any decision. Raises `ConfigError` for a bad policy file or an unknown role."""
    if args.action in ("grants", "revoke"):
        return _run_grants(args)
    if args.action == "check" and not " ".join(args.words).strip():
        raise ConfigError(t("the command is empty"), hint='kore policy check "git push"')

    settings = settings_of(args)
    case = _case(args, settings)
    if args.action == "check":
        return _check(case, args)
    return _explain(case, args, _tool(args.words, settings))


def _case(args: argparse.Namespace, settings: Settings) -> PolicyCase:
    policies = RoleRegistry.of(settings)
    policies.check(args.role, "--role")
    return make_case(
        policies,
        role=args.role,
        mode=args.mode,
        channel=args.channel,
        folder=Path(os.path.realpath(Path.cwd())),
        is_confined=_is_confined(settings, data_dir_of(args)),
    )


def _is_confined(settings: Settings, home: DataDir) -> bool:
    """Return whether a sandbox works here; the result is stored in Kore's folder."""
    home.ensure()
    return select_sandbox(sandbox_options(settings, home.root), home.root).sandbox.confines


def _check(case: PolicyCase, args: argparse.Namespace) -> int:
    decision = case.policy.decide(case.request(" ".join(args.words)))
    if args.json:
        print_json(decision_facts(decision))
    else:
        print(f"{decision.verdict}: {clean(decision.reason)} ({decision.rule})")
    return 0


def _explain(case: PolicyCase, args: argparse.Namespace, tool: str | None) -> int:
    facts = _describe_case(case)
    if tool is not None:
        facts["tool"] = {"name": tool, **scopes_of(case.role, tool)}
    if args.words and tool is None:
        facts["verdicts"] = case.verdicts(" ".join(args.words))
    if args.json:
        print_json(facts)
        return 0
    for name in ("role", "source", "mode", "trust", "sandbox", "agents"):
        if facts.get(name):
            print(f"{name + ':':<9}{clean(str(facts[name]))}")
    if tool is not None:
        print_table(("tool", "scopes"), [(tool, _scopes_text(scopes_of(case.role, tool)))])
    elif args.words:
        rows = [(v["decision"], v["rule"], v["part"], v["reason"]) for v in facts["verdicts"]]
        print_table(("verdict", "rule", "command", "reason"), rows)
    else:
        rules = ((name, _scopes_text(facts["tools"][name])) for name in facts["tools"])
        print_table(("tool", "scopes"), rules)
    return 0


def _describe_case(case: PolicyCase) -> dict[str, Any]:
    principal = case.policy.principal
    facts = describe_role(case.role)
    return {
        "role": facts["name"],
        "source": facts["source"],
        "mode": principal.mode,
        "trust": principal.trust,
        "sandbox": "confines commands" if principal.is_confined else "none",
        "agents": facts["agents"],
        "tools": facts["tools"],
    }


def _tool(words: list[str], settings: Settings) -> str | None:
    """Return the tool named by a single word, or None if the words are a command."""
    return known_tools_of(settings).canonical(words[0]) if len(words) == 1 else None


def _scopes_text(scopes: dict[str, Any]) -> str:
    """Format scopes: `{"allow": True, "paths": ["docs/**"]}` as "allowed, paths docs/**"."""
    words = ["allowed" if scopes["allow"] else "denied"]
    words += [name.replace("_", " ") for name in ("ask", "new_files_only") if name in scopes]
    for name in ("paths", "commands", "hosts"):
        if name in scopes:
            words.append(f"{name} {', '.join(scopes[name]) or '(none)'}")
    return "; ".join(words)


def _run_grants(args: argparse.Namespace) -> int:
    """Return 0. Raises `KoreError` for an unknown grant number."""
    asyncio.run(_grants(args))
    return 0


async def _grants(args: argparse.Namespace) -> None:
    async with service_of(args) as service:
        if args.action == "revoke":
            print(await service.revoke_grants(_grant_number(args.id)))
        else:
            _list_grants(await service.list_grants(), as_json=args.json)


def _grant_number(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal():
        shortened = text[:80]
        raise KoreError(
            t('expected a grant number or "all", found {found!r}', found=shortened),
            hint=t("`kore policy grants` lists them"),
        )
    return int(text)


def _list_grants(grants: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json(grants)
    elif not grants:
        print(t("There are no permanent grants."))
    else:
        rows = [
            (
                str(grant["id"]),
                grant["principal"],
                f"in {grant['session']}" if grant["session"] else "always",
                moment(grant["granted_at"]),
                grant["folder"],
                grant["title"],
            )
            for grant in grants
        ]
        print_table(("id", "person", "valid", "since", "folder", "title"), rows)
