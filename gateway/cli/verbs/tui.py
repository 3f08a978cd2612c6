"""Command `kore tui`: full-screen application with sessions in tabs."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from agent.errors import ConfigError
from agent.i18n import t
from gateway.cli.chat.conversation import ConsolePlaces
from gateway.cli.chat.service_connection import service_opener
from gateway.cli.console.chat.conversation import Connect
from gateway.cli.console.chat.place import ConsolePlace, choose_first_mode
from gateway.cli.console.output.status_line import StatusLine
from gateway.cli.folders import data_dir_of
from gateway.cli.project_folder import added_dirs, choose_place, is_folder_chosen
from gateway.cli.service_link import settings_or_last_valid
from gateway.cli.tui.full_screen import FullScreen
from gateway.cli.tui.tab_conversation import TabStart
from gateway.cli.verbs.server.attach import connection_to
from gateway.core.messages import MessageOptions, console_principal
from gateway.ops.working_place import WorkingPlace
from gateway.runtime.log_setup import open_logs
from gateway.server.replaceable_service import kept_service
from gateway.turns.agents.profiles import agent_option


def run(args: argparse.Namespace) -> int:
    """Run the application. Raises `KoreError`."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(t("kore tui needs a terminal"))
    return asyncio.run(_run_remote(args) if args.address else _run_local(args))


async def _run_local(args: argparse.Namespace) -> int:
    """Run with the data of this machine, independent of the owner process."""
    # Loaded here, because it may have to ask a running Kore in a separate event loop.
    settings, home = await asyncio.to_thread(settings_or_last_valid, args), data_dir_of(args)
    home.ensure()
    # The screen is for conversations.
    open_logs(settings, args.crash.redactor, terminal=False, default_file=home.logs / "tui.log")
    place, settings = choose_place(args, settings, home)
    options = MessageOptions(model=args.model, mode=args.permission_mode, add_dirs=added_dirs(args))
    if place is not None:
        options = place.apply(options)
    if args.agent is not None:
        agent = agent_option(home, settings, args.agent, options.cwd)
        options = replace(options, agent=agent)
    places = ConsolePlaces(args, options, settings, home, place)
    start = TabStart(
        *(home.root, options, places.open),
        is_folder_chosen=is_folder_chosen(args),
        open_worktree=places.open_worktree,
    )
    return await _show(args, service_opener(settings, home), start, place)


async def _run_remote(args: argparse.Namespace) -> int:
    """Run with a remote Kore."""
    home = data_dir_of(args)
    home.ensure()
    options = MessageOptions(model=args.model, mode=args.permission_mode)
    start = TabStart(home.root, options, lambda _: ConsolePlace(options), is_folder_chosen=True)
    return await _show(args, connection_to(args), start, None)


async def _show(
    args: argparse.Namespace,
    connect: Connect,
    start: TabStart,
    place: WorkingPlace | None,
) -> int:
    async with kept_service(connect) as (service, keeper):
        sessions = list(args.session or ())
        if (
            args.latest
            and (last := await service.last_session(console_principal(), start.options.cwd))
            is not None
        ):
            sessions.append(last)
        for session in sessions:
            await choose_first_mode(service, session, start.options)
        mode = await service.session_mode(None)
        model = str(args.model or (await service.status()).get("model"))
        folder = None if place is None else place.folder

        def new_status(place: ConsolePlace) -> StatusLine:
            if (workdir := place.workdir) is None:
                return StatusLine(place.options, model, mode, lambda _: 0)
            return StatusLine(
                *(place.options, model, mode, workdir.context_window, workdir.model_title)
            )

        full_screen = FullScreen(service, start, new_status, sessions, folder)
        # Exit when the connection to Kore has ended for good.
        keeper.add_done_callback(lambda _: full_screen.exit())
        with _signals(full_screen.exit):
            await full_screen.run_async()
        if full_screen.failure is not None:
            raise full_screen.failure
        if keeper.done():
            keeper.result()
    return 0


@contextmanager
def _signals(leave: Callable[[], None]) -> Iterator[None]:
    """Exit cleanly on signals, so that the terminal is restored."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, leave)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
