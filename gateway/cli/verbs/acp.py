"""Command `kore acp`: Kore as the agent of an editor."""

import argparse
import asyncio
import os
import stat
import sys

from agent.errors import ConfigError
from agent.i18n import t
from gateway.cli.acp.editor_agent import serve
from gateway.cli.chat.service_connection import open_connection
from gateway.cli.folders import data_dir_of
from gateway.cli.output import tell
from gateway.cli.service_link import settings_or_last_valid
from gateway.core.messages import MessageOptions
from gateway.runtime.log_setup import open_logs
from gateway.turns.agents.profiles import agent_option


def run(args: argparse.Namespace) -> int:
    """Serve an editor over standard input and output. Raises `KoreError`."""
    _check_streams()
    return asyncio.run(_serve(args))


def _check_streams() -> None:
    """Raise `ConfigError` for files, because the library needs pipes."""
    for stream in (sys.stdin, sys.stdout):
        mode = os.fstat(stream.fileno()).st_mode
        if stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not stream.isatty()):
            raise ConfigError(
                t("kore acp speaks with an editor over pipes; found a file or /dev/null"),
                hint=t("name `kore acp` in the editor's settings; see docs/editors.md"),
            )
    if sys.stdin.isatty():
        tell(t("kore acp waits for an editor, which starts it; Ctrl-C ends it."))


async def _serve(args: argparse.Namespace) -> int:

    # Loaded here, because it may have to ask a running Kore in a separate event loop.
    settings, home = await asyncio.to_thread(settings_or_last_valid, args), data_dir_of(args)
    home.ensure()
    # Standard output is for the protocol.
    open_logs(settings, args.crash.redactor, terminal=False, default_file=home.logs / "acp.log")
    options = MessageOptions(mode=args.permission_mode)
    if args.agent is not None:
        agent = agent_option(home, settings, args.agent, None)
        options = MessageOptions(mode=args.permission_mode, agent=agent)
    async with open_connection(settings, home) as connection:
        await serve(connection, settings, home, options)
    return 0
