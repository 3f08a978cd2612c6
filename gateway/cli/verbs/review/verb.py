"""Command `kore review`: findings about changes, as text, JSON or comments.

The changes may come from a stranger. The model therefore has only tools for reading, works in a
temporary home of Kore without memory, project settings or earlier sessions, and reads a copy of the
commit without untracked files.
"""

import argparse
import asyncio
import io
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agent.errors import ConfigError
from agent.i18n import t
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.secret_values import secrets_in_map
from agent.subagents.catalog import built_in
from agent.turn.tool_catalog import tool_traits
from gateway.cli.chat.one_shot import DONE, FAILED, OneShotRequest, OneShotTurn, interrupts
from gateway.cli.chat.output_schema import OutputSchema
from gateway.cli.chat.project_options import project_context
from gateway.cli.chat.service_connection import open_connection
from gateway.cli.folders import current_folder, data_dir_of
from gateway.cli.output import print_json, tell
from gateway.cli.program import as_installed
from gateway.cli.project_folder import existing_folder
from gateway.cli.settings import settings_of, sources_of
from gateway.cli.verbs.review.changes import Changes, read_changes
from gateway.cli.verbs.review.comments import MergeRequest, RequestState, find_request
from gateway.cli.verbs.review.findings import SCHEMA, Review, omission, text_of
from gateway.cli.verbs.review.repository import GitReader, git_reader
from gateway.config import Settings
from gateway.core.messages import MessageOptions
from gateway.runtime.log_setup import open_logs
from gateway.runtime.paths import DataDir

_REVIEWER = "review"
_READING = ("read", "search")


def run(args: argparse.Namespace) -> int:
    """Return the exit code of the turn. Raises `KoreError`."""
    folder = existing_folder(args.cwd) if args.cwd is not None else current_folder().resolve()
    home = data_dir_of(args)
    with TemporaryDirectory(prefix="kore-review-") as name:
        place = _Place(Path(name).resolve())
        settings = place.settings(args)
        home.ensure()
        open_logs(
            settings, args.crash.redactor, terminal=False, default_file=home.logs / "agent.log"
        )
        # Tokens of the code host are in the environment.
        clean = args.crash.redactor.with_values(secrets_in_map(os.environ)).clean
        with git_reader(folder) as git:
            request = find_request(git.top, clean) if args.comment else None
            state = None if request is None else request.load()
            if state is not None and state.is_reviewed:
                tell(
                    t(
                        "{commit} has been reviewed already; nothing is posted",
                        commit=state.head[:12],
                    )
                )
                return DONE
            changes = _changes(git, args.base, state)
            if not (changes.files or changes.left_out):
                tell(t("there are no changes to review"))
                if args.json:
                    _print_json(Review((), ""), changes, None)
                return DONE
            workspace = git.top if changes.head is None else place.tree
            if changes.head is not None:
                git.export(changes.head, place.tree)
        code, summary = asyncio.run(_answer(args, settings, place.home, workspace, changes))
    if summary is None or summary["output"] is None:
        return code or FAILED
    review = Review.of_output(summary["output"], clean)
    _print(args, review, changes, summary)
    if request is not None:
        _post(request, review, changes)
    return code


@frozen
class _Place:
    """Temporary folder of a review."""

    folder: Path

    @property
    def home(self) -> DataDir:
        return DataDir(self.folder / "home")

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    def settings(self, args: argparse.Namespace) -> Settings:
        """Return the person's settings for the temporary home. Raises `ConfigError`."""
        overrides: dict[str, Any] = {
            "agent.workspace": str(self.home.workspace),
            "store.url": f"sqlite:///{self.home.database}",
            "security.restrict_to_workspace": True,
            "lsp.enabled": False,
            "mcp_servers": {},
        }
        return settings_of(args, overrides, {sources_of(args).project_file: None})


def _changes(git: GitReader, base: str | None, state: RequestState | None) -> Changes:
    """Return the changes of a request or a branch, or the uncommitted changes."""
    head = git.commit("HEAD" if state is None else state.head)
    if head is None:
        raise ConfigError(t("there is no commit yet"), hint=_fetch_hint(state))
    if state is None and base is None:
        changes = read_changes(git, head, None)
        if changes.files or changes.left_out:
            return changes
    name = base or (git.main_branch() if state is None else state.base)
    if name is None:
        raise ConfigError(t("the main branch is unknown"), hint=t("name it with --base REF"))
    commit = git.commit(name) or git.commit(f"origin/{name}")
    if commit is None:
        raise ConfigError(t("unknown commit: {name}", name=name), hint=_fetch_hint(state))
    start = git.merge_base(commit, head)
    if start is None:
        raise ConfigError(
            t("no common commit with {name}", name=name), hint=t("fetch the whole history")
        )
    return read_changes(git, start, head)


def _fetch_hint(state: RequestState | None) -> str | None:
    return None if state is None else t("fetch the whole history")


async def _answer(
    args: argparse.Namespace, settings: Settings, home: DataDir, workspace: Path, changes: Changes
) -> tuple[int, dict[str, Any] | None]:
    """Return the exit code and the summary of the turn, None if it was interrupted."""
    agent = next(definition for definition in built_in() if definition.name == _REVIEWER)
    reading = tuple(
        name
        for name in agent.tools or ()
        if (traits := tool_traits(name)).kind in _READING and not traits.has_costly_plan
    )
    options = MessageOptions(
        model=args.model or None,
        effort=args.effort,
        mode="plan",
        unattended=True,
        agent=asdict(replace(agent, tools=reading)),
        allowed_tools=reading,
        cwd=str(workspace),
        max_iterations=args.max_iter or None,
        max_cost_usd=args.max_cost,
    )
    # The author of the changes chose the names of the files, too.
    left_out = f"{omission(changes)}\n\n" if changes.left_out else ""
    diff = {
        "text": render_prompt("review_diff", left_out=left_out, diff=changes.text),
        "taint": ["untrusted", "private"],
    }
    request = OneShotRequest(
        render_prompt("review_changes", rules=load_prompt("review_rules")),
        "json",
        options=options,
        project=project_context(workspace, [], settings, home),
        schema=OutputSchema(SCHEMA),
        reports=(diff,),
    )
    out, interrupted = io.StringIO(), asyncio.Event()
    with interrupts(interrupted):
        async with open_connection(settings, home) as connection:
            status = await connection.service.status()
            if status.get("model_hint") and not args.model:
                tell(as_installed(t(status["model_hint"])))
            code = await OneShotTurn(connection, request, out, sys.stderr).run(interrupted)
    text = out.getvalue()
    return code, json.loads(text) if text else None


def _print(
    args: argparse.Namespace, review: Review, changes: Changes, summary: dict[str, Any]
) -> None:
    if args.json:
        _print_json(review, changes, summary)
    else:
        print(text_of(review, changes))


def _print_json(review: Review, changes: Changes, summary: Mapping[str, Any] | None) -> None:
    """Print a review for programs; without a `summary`, no model was called."""
    facts = {
        "base": changes.base,
        "head": changes.head,
        "findings": [asdict(finding) for finding in review.findings],
        "summary": review.summary,
        "left_out": list(changes.left_out),
        "usage": summary and summary["usage"],
        "cost_usd": summary["cost_usd"] if summary else 0.0,
    }
    print_json(facts)


def _post(request: MergeRequest, review: Review, changes: Changes) -> None:
    """Post the review, unless another job has already done so or there is a newer commit."""
    state = request.load()
    if state.is_reviewed or state.head != changes.head:
        tell(t("nothing is posted: the request has changed meanwhile"))
        return
    count = request.post(review, changes)
    tell(t("posted; comments on lines: {n}", n=count))
