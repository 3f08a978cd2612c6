"""Calls about shells of the owner, as `server.terminal` allows them. They end with this process."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from gateway.calls.context import ServiceContext
from gateway.control.declaration import call
from gateway.terminals.terminal import TerminalSize


@call(scope="admin")
async def terminal_status(ctx: ServiceContext) -> Mapping[str, Any]:
    """Return the `mode` ("off", "sandbox", "full"), the `user` of shells without a sandbox, and the
    `terminals`: `id`, `folder`, `started_at`, `exit_code` (None while it runs)."""
    return ctx.terminals.status()


@call(scope="admin")
async def open_terminal(
    ctx: ServiceContext, place: str | None = None, columns: int = 80, rows: int = 24
) -> str:
    """Start a shell in a folder of `list_places` (None: the workspace); returns the terminal's id.
    It ends after ten minutes without a client."""
    return await ctx.terminals.open(place, TerminalSize(columns, rows))


@call(scope="admin")
@asynccontextmanager
async def follow_terminal(
    ctx: ServiceContext, terminal: str
) -> AsyncIterator[AsyncIterator[Mapping[str, Any]]]:
    """Follow a terminal: its latest output (`screen`, with `columns` and `rows`), then each
    `output`, and at the end the `exit_code`. A client that is too slow gets another `screen`. The
    program waits while no client reads its output."""
    async with ctx.terminals.follow(terminal) as items:
        yield items


@call(scope="admin")
async def write_terminal(ctx: ServiceContext, terminal: str, text: str) -> None:
    """Type text into a terminal."""
    ctx.terminals.write(terminal, text)


@call(scope="admin")
async def resize_terminal(ctx: ServiceContext, terminal: str, columns: int, rows: int) -> None:
    """Set a terminal's size."""
    ctx.terminals.resize(terminal, TerminalSize(columns, rows))


@call(scope="admin")
async def close_terminal(ctx: ServiceContext, terminal: str) -> None:
    """Kill a terminal's shell with all its processes, and discard its output."""
    await ctx.terminals.close(terminal)
