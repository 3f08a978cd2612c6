"""`kore agent`: a conversation in this terminal, or one turn for a script."""

import argparse
import asyncio
import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError
from gateway.cli.basis import home_of, settings_of
from gateway.cli.once import DONE, INTERRUPTED, Ask, OneTurn, Order
from gateway.home import Home

if TYPE_CHECKING:
    from gateway.settings import Settings

_STDIN_LIMIT_BYTES = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("text", nargs="?", metavar="TEXT", help="say this, print the answer (- reads stdin)")
    add("-m", "--message", metavar="TEXT", help="the same as TEXT")
    add("-p", "--print", metavar="TEXT", dest="printed", help="the same; stdin is added to it")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-c", "--continue", action="store_true", dest="latest", help="go on with the last session"
    )
    where.add_argument("-s", "--session", metavar="ID", help="go on with this session")
    where.add_argument(
        "-r", "--resume", nargs="?", const="", metavar="ID", help="the same, or choose from a list"
    )
    add("--model", metavar="NAME", help="a name from model_list, or vendor/model")
    add("-y", "--auto", action="store_true", help="approve what would be asked")
    add("--cwd", type=Path, metavar="DIR", help="work in this folder")
    add("--max-iter", type=_whole, metavar="N", help="at most N model calls in a turn")
    add(
        "--output-format",
        choices=("text", "json", "stream-json"),
        default="text",
        help="of a single turn (default: text)",
    )


def run(args: argparse.Namespace) -> int:
    """The exit code: 0 done, 1 error, 2 usage, 3 BLOCKED, 4 DECIDE, 5 a limit, 130 interrupted."""
    text, options = _text(args), _options(args)
    settings, home = settings_of(args), home_of(args)
    _log_to_file(settings, home)
    try:
        if text is None:
            return asyncio.run(_talk(args, options, settings, home))
        session = args.session or args.resume
        order = Order(text, args.output_format, session, args.latest, options)
        return asyncio.run(_once(order, settings, home))
    except asyncio.CancelledError:
        return INTERRUPTED


def _log_to_file(settings: "Settings", home: Home) -> None:
    """The terminal is for the conversation; what this process logs goes to a file of its own."""
    from gateway.logs import open_logs

    home.ensure()
    open_logs(settings, terminal=False, default_file=home.logs / "agent.log")


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number from 1")
    return int(text)


def _text(args: argparse.Namespace) -> str | None:
    """What to say in a single turn; None for a conversation. Raises `ConfigError`."""
    given = [text for text in (args.text, args.message, args.printed) if text is not None]
    if len(given) > 1:
        raise ConfigError("found several messages, expected one of TEXT, -m and -p")
    text: str | None = given[0] if given else None
    if text == "-" or (text is None and not sys.stdin.isatty()):
        text = _stdin()
    elif args.printed is not None and _is_fed():
        text = f"{text}\n\n{_stdin()}".strip()
    if text is None:
        if args.output_format != "text":
            raise ConfigError("--output-format is for a single turn", hint="kore agent -m TEXT …")
        return None
    if not text.strip():
        raise ConfigError("the message is empty", hint="kore agent -m TEXT, or text on stdin")
    if args.resume == "":
        raise ConfigError("-r needs the ID of a session here", hint="kore sessions list shows them")
    return text


def _stdin() -> str:
    content = sys.stdin.buffer.read(_STDIN_LIMIT_BYTES + 1)
    if len(content) > _STDIN_LIMIT_BYTES:
        raise ConfigError(f"stdin holds more than {_STDIN_LIMIT_BYTES:,} bytes")
    return content.decode(errors="replace")


def _is_fed() -> bool:
    """Whether stdin is a pipe or a file, not a terminal, a closed or an empty one."""
    mode = os.fstat(sys.stdin.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _options(args: argparse.Namespace) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if args.model:
        options["model"] = args.model
    if args.auto:
        options["auto"] = True
    if args.max_iter:
        options["max_iterations"] = args.max_iter
    if args.cwd is not None:
        folder = Path.cwd() / args.cwd.expanduser()
        if not folder.is_dir():
            raise ConfigError(f"--cwd {args.cwd}: no such folder")
        options["cwd"] = str(folder.resolve())
    return options


async def _once(order: Order, settings: "Settings", home: Home) -> int:
    from gateway.cli.link import open_service

    interrupted = asyncio.Event()
    with _interrupts(interrupted):
        async with open_service(settings, home) as service:
            status = await service.status()
            chosen = order.options.get("model", status.get("model"))
            if (hint := status.get("model_hint")) and chosen == status.get("model"):
                print(hint, file=sys.stderr)
            ask = _ask_here(interrupted)
            if ask is None:
                order = replace(order, options={**order.options, "unattended": True})
            return await OneTurn(service, order, sys.stdout, sys.stderr, ask).run(interrupted)


def _ask_here(interrupted: asyncio.Event) -> Ask | None:
    """A way to ask whoever sits at this terminal; None when nobody does."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    from gateway.console.approvals import ask_at_terminal

    return ask_at_terminal(sys.stdin, sys.stderr, interrupted)


async def _talk(
    args: argparse.Namespace, options: dict[str, Any], settings: "Settings", home: Home
) -> int:
    from gateway.cli.link import open_service
    from gateway.console.repl import Start, converse

    session = args.session or args.resume
    fresh = not (session or args.latest or args.resume == "")
    start = Start(session or None, fresh, args.resume == "", options)
    await converse(lambda: open_service(settings, home), start, home.root)
    return DONE


@contextmanager
def _interrupts(interrupted: asyncio.Event) -> Iterator[None]:
    """The first Ctrl-C sets the event, the second ends the program."""
    loop, main = asyncio.get_running_loop(), asyncio.current_task()

    def on_signal() -> None:
        if interrupted.is_set() and main is not None:
            main.cancel()
        interrupted.set()

    loop.add_signal_handler(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        with suppress(RuntimeError):
            loop.remove_signal_handler(signal.SIGINT)
