"""Command `kore agent`: a terminal conversation, or a single turn for scripts."""

import argparse
import asyncio
import os
import select
import stat
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import ConfigError
from agent.i18n import t
from gateway.access.full_access import full_access_banner, new_token
from gateway.cli.chat.one_shot import (
    INTERRUPTED,
    OneShotRequest,
    OneShotTurn,
    ask_here,
    interrupts,
    line_reader,
)
from gateway.cli.chat.project_options import project_of
from gateway.cli.chat.service_connection import fork_session, open_connection
from gateway.cli.folders import data_dir_of
from gateway.cli.output import tell
from gateway.cli.program import as_installed, preload
from gateway.cli.project_folder import added_dirs, choose_place, is_folder_chosen
from gateway.cli.service_link import settings_or_last_valid
from gateway.cli.settings import settings_of, sources_of
from gateway.config import Settings
from gateway.core.messages import MessageOptions
from gateway.runtime.log_setup import open_logs
from gateway.runtime.paths import DataDir
from gateway.turns.agents.profiles import agent_option, skill_catalog

if TYPE_CHECKING:
    from agent.skills.commands import CustomCommands
    from gateway.cli.chat.output_schema import OutputSchema

_STDIN_LIMIT_BYTES = 1_000_000
_STDIN_NOTICE_S = 1.0
_STDIN_TIMEOUT_S = 5.0


def run(args: argparse.Namespace) -> int:
    """Return the exit code.

    0 done, 1 error, 2 usage, 3 BLOCKED, 4 DECIDE, 5 a limit, 6 a denied call, 130 interrupted.
    """
    if args.profile is None:
        return _run(args)
    from cProfile import Profile

    profile = Profile()
    try:
        return profile.runcall(_run, args)
    finally:
        profile.dump_stats(args.profile)


def _run(args: argparse.Namespace) -> int:
    if args.fork_session and not (args.latest or args.session or args.resume):
        raise ConfigError(t("--fork-session needs a session"), hint=t("add -c, -s ID or -r ID"))
    if args.full_access and args.sandbox not in (None, "none"):
        raise ConfigError(t("--full-access cannot be combined with --sandbox"))
    text, options = _text(args), _options(args)
    schema = _schema(args, text)
    home = data_dir_of(args)
    if home.config.exists():
        preload("aiohttp")
    overrides = {"security.sandbox": args.sandbox} if args.sandbox else None
    if args.trust:
        # The project's file applies once its folder is known.
        settings = settings_of(args, overrides, {sources_of(args).project_file: None})
    else:
        settings = settings_or_last_valid(args, overrides)
    may_ask = options.full_access is None
    place, settings = choose_place(args, settings, home, may_ask=may_ask, trusts=args.trust)
    if place is not None:
        options = place.apply(options)
    choose_agent = None
    if args.agent is not None:
        choose_agent = partial(agent_option, home, settings, args.agent)
        options = replace(options, agent=choose_agent(options.cwd))
    _log_to_file(args, settings, home)
    if options.full_access is not None:
        folder = options.cwd or str(settings.agent.workspace)
        print(full_access_banner(folder), file=sys.stderr)
    try:
        if args.init or args.auto_continue:
            from gateway.cli.chat.long_task import run_long_task

            project = project_of(args, options, settings, place)
            request = OneShotRequest(
                text or "", args.output_format, options=options, project=project
            )
            return asyncio.run(run_long_task(args, request, settings, home))
        if text is None:
            # This loads Rich and prompt_toolkit.
            from gateway.cli.chat.conversation import ConsolePlaces, talk

            return asyncio.run(talk(ConsolePlaces(args, options, settings, home, place)))
        session = args.session or args.resume
        project = project_of(args, options, settings, place)
        streams = args.printed is not None
        request = OneShotRequest(
            text,
            args.output_format,
            session,
            args.latest,
            options,
            project,
            streams,
            # The warning about full access named the folder.
            is_folder_chosen=is_folder_chosen(args) or options.full_access is not None,
            choose_agent=choose_agent,
            schema=schema,
            commands=_commands(text, options, settings, home),
            fails_on_denied=args.fail_on_denied,
        )
        return asyncio.run(_once(request, settings, home, forked=args.fork_session))
    except asyncio.CancelledError:
        return INTERRUPTED


def _commands(
    text: str, options: MessageOptions, settings: Settings, home: DataDir
) -> "CustomCommands | None":
    """Return the prompts of the folder, which most texts cannot invoke."""
    if not text.startswith("/"):
        return None
    root = Path(options.cwd or settings.agent.workspace)
    return skill_catalog(home, settings).commands(root.resolve())


def _log_to_file(args: argparse.Namespace, settings: Settings, home: DataDir) -> None:
    """Log to a file, because the terminal is for the conversation."""
    home.ensure()
    open_logs(settings, args.crash.redactor, terminal=False, default_file=home.logs / "agent.log")


def _text(args: argparse.Namespace) -> str | None:
    """Return the text of a single turn; None for a conversation. Raises `ConfigError`."""
    texts = [text for text in (args.text, args.message, args.printed) if text is not None]
    if len(texts) > 1:
        raise ConfigError(t("use only one of TEXT, -m and -p"))
    text: str | None = texts[0] if texts else None
    if text == "-" or (text is None and not args.auto_continue and not sys.stdin.isatty()):
        text = _stdin()
    elif args.printed is not None and _has_piped_input():
        text = f"{text}\n\n{appended_input()}".strip()
    if text is None:
        if args.output_format != "text" and not args.auto_continue:
            raise ConfigError(
                t("--output-format only works for a single turn"), hint="kore agent -m TEXT …"
            )
        return None
    if not text.strip():
        raise ConfigError(
            t("the message is empty"), hint=t("use kore agent -m TEXT, or pipe text to stdin")
        )
    if args.resume == "":
        raise ConfigError(
            t("-r needs a session ID here"), hint=t("`kore sessions list` shows them")
        )
    return text


def _schema(args: argparse.Namespace, text: str | None) -> "OutputSchema | None":
    """Return the schema of the answer. Raises `ConfigError`, also without a single turn."""
    is_single = text is not None and not (args.init or args.auto_continue)
    if args.fail_on_denied and not is_single:
        raise ConfigError(
            t("--fail-on-denied only works for a single turn"), hint="kore agent -m TEXT …"
        )
    if args.output_schema is None:
        return None
    if not is_single or args.output_format == "stream-json":
        raise ConfigError(
            t("--output-schema only works for a single turn, as text or as json"),
            hint="kore agent -m TEXT …",
        )
    # The import loads all tools.
    from gateway.cli.chat.output_schema import OutputSchema

    return OutputSchema.load(args.output_schema)


def _stdin() -> str:
    content = sys.stdin.buffer.read(_STDIN_LIMIT_BYTES + 1)
    if len(content) > _STDIN_LIMIT_BYTES:
        raise ConfigError(t("stdin has more than {limit:,} bytes", limit=_STDIN_LIMIT_BYTES))
    return content.decode(errors="replace")


def appended_input(notice_s: float = _STDIN_NOTICE_S, timeout_s: float = _STDIN_TIMEOUT_S) -> str:
    """Return stdin, or '' if it remains open and silent for `timeout_s`.

    A notice is printed after `notice_s` of silence. Once any input has arrived, it is read to the
    end.
    """
    if not _has_input(notice_s):
        wait_s = timeout_s - notice_s
        notice = t(
            "nothing has come on stdin yet; continuing without it in {n:g} seconds "
            "(to skip it: </dev/null)",
            n=wait_s,
        )
        tell(notice)
        if not _has_input(wait_s):
            return ""
    return _stdin()


def _has_input(timeout_s: float) -> bool:
    """Return whether stdin becomes readable, or reaches its end, within the time."""
    return bool(select.select([sys.stdin], [], [], timeout_s)[0])


def _has_piped_input() -> bool:
    """Return whether stdin is a pipe or a file, and not a terminal or /dev/null."""
    mode = os.fstat(sys.stdin.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _options(args: argparse.Namespace) -> MessageOptions:
    return MessageOptions(
        model=args.model or None,
        effort=args.effort,
        auto=bool(args.auto),
        mode=args.permission_mode or None,
        full_access=new_token() if args.full_access else None,
        allowed_tools=_tools(args, args.allowed_tools, "--allowed-tools"),
        disallowed_tools=_tools(args, args.disallowed_tools, "--disallowed-tools"),
        add_dirs=added_dirs(args),
        max_iterations=args.max_iter or None,
        max_cost_usd=args.max_cost,
    )


def _tools(args: argparse.Namespace, names: str | None, flag: str) -> tuple[str, ...] | None:
    """Return the canonical names of tools. Raises `ConfigError` for an unknown name or alias."""
    if names is None:
        return None

    # A client of a running Kore loads no tools without these flags.
    from agent.security.policy.policy_file import guess
    from gateway.access.roles import known_tools_of

    known_tools = known_tools_of(settings_of(args))
    tools = []
    for name in filter(None, (part.strip() for part in names.split(","))):
        tool = known_tools.canonical(name)
        if tool is None:
            suggestion = guess(name, known_tools.names)
            message = t('unknown tool "{name}"{guess}', name=name, guess=suggestion)
            raise ConfigError(f"{flag}: {message}")
        tools.append(tool)
    return tuple(tools)


async def _once(request: OneShotRequest, settings: Settings, home: DataDir, *, forked: bool) -> int:
    interrupted = asyncio.Event()
    with interrupts(interrupted):
        async with open_connection(
            settings, home, full_access=request.options.full_access
        ) as connection:
            service = connection.service
            status = await service.status()
            model = request.options.model or status.get("model")
            if (hint := status.get("model_hint")) and model == status.get("model"):
                print(as_installed(t(hint)), file=sys.stderr)
            if request.project is not None and request.project.remark and request.output == "text":
                print(request.project.remark, file=sys.stderr)
            ask = ask_here(interrupted)
            if ask is None:
                request = replace(request, options=replace(request.options, unattended=True))
            if forked:
                fork = await fork_session(service, request.session, request.options.cwd)
                request = replace(request, session=fork, latest=False)
            turn = OneShotTurn(
                *(connection, request, sys.stdout, sys.stderr, ask), line_reader(interrupted)
            )
            return await turn.run(interrupted)
