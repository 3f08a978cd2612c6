"""Long tasks over several sessions: `kore agent --init` and `--auto-continue`.

The files in the folder track the finished work, the progress file the number of sessions.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.context.goal_progress import GoalProgress
from agent.context.long_task import features_of, plan_of, text_of
from agent.errors import ConfigError, KoreError
from agent.i18n import mark_for_translation, plural, t
from agent.prompts import render_prompt
from agent.providers.registry import OFFLINE
from agent.records import frozen
from agent.tools.files.feature_list import LIST, PROGRESS, is_same_plan
from gateway.cli.chat.long_task_progress import LongTaskProgress, ProgressFile, open_progress
from gateway.cli.chat.one_shot import (
    BLOCKED,
    DECIDE,
    DONE,
    FAILED,
    INTERRUPTED,
    LIMIT,
    USAGE,
    Ask,
    OneShotRequest,
    OneShotTurn,
    ask_here,
    interrupts,
)
from gateway.cli.chat.service_connection import ServiceConnection, open_connection
from gateway.config import Settings
from gateway.core.messages import MessageOptions
from gateway.runtime.paths import DataDir
from gateway.turns.agents.profiles import catalogue_of

# Limit of consecutive sessions that change neither checklist nor progress.
_MAX_IDLE_SESSIONS = 2
# Limit of interruptions; a session that was killed this many times is not restarted.
_MAX_INTERRUPTIONS = 3
_STOP_TIMEOUT_S = 60
_STOP_INTERVAL_S = 0.2
MAX_SESSIONS = 50
# Interval for saving the time of a running session.
SAVE_INTERVAL_S = 10.0


@frozen
class LongTaskOptions:
    """Options of a long task; `request` applies to every session."""

    request: OneShotRequest
    folder: Path
    text: str | None = None
    max_sessions: int = MAX_SESSIONS
    max_hours: float | None = None
    team: tuple[str, ...] = ()


def long_task_options(
    args: argparse.Namespace, request: OneShotRequest, settings: Settings, home: DataDir
) -> LongTaskOptions:
    """Return the options. Raises `ConfigError` for incompatible flags."""
    if args.session or args.resume is not None or args.latest:
        raise ConfigError(t("a long task starts new sessions: -c, -s and -r cannot be used"))
    if not args.auto_continue:
        if not request.text:
            raise ConfigError(t("--init needs a task"), hint='kore agent --init "the task"')
        if args.max_sessions or args.max_hours or args.team:
            raise ConfigError(t("--max-sessions, --max-hours and --team require --auto-continue"))
    folder = Path(request.options.cwd or settings.agent.workspace)
    limit = args.max_sessions or MAX_SESSIONS
    team = _team(args.team or "", folder, settings, home)
    return LongTaskOptions(request, folder, request.text or None, limit, args.max_hours, team)


def reject_offline_model(options: MessageOptions, status: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if the offline echo model would do the work.

    `options` apply to every session, `status` is the status of the service.
    """
    agent_model = (options.agent or {}).get("model")
    model = options.model or agent_model or status.get("model")
    if model == OFFLINE:
        raise ConfigError(
            t("a long task needs a real model; the offline stand-in cannot do it"),
            hint=t("Set a key such as OPENAI_API_KEY, pass --model, or run `kore init`."),
        )


def _team(names: str, folder: Path, settings: Settings, home: DataDir) -> tuple[str, ...]:
    """Return the names of existing agents. Raises `ConfigError` for an unknown agent."""
    requested = tuple(filter(None, (name.strip() for name in names.split(","))))
    if not requested:
        return ()

    if settings.subagents.max_depth < 1:
        raise ConfigError(t("--team: subagents.max_depth is 0, so no sub-agents can run"))
    catalogue = catalogue_of(home, settings)
    by_name = {name: catalogue.find(name, folder) for name in requested}
    if missing := [name for name, agent in by_name.items() if agent is None]:
        raise ConfigError(
            t("--team: unknown agent {name!r}", name=missing[0][:80]),
            hint=t("`kore agents list` shows them"),
        )
    return tuple(agent.name for agent in by_name.values() if agent is not None)


@frozen
class SessionOutcome:
    """Exit code of a session's turn, its stop reason, and the total time so far."""

    code: int
    stop_reason: str | None
    total_s: float


@frozen
class LongTaskSession:
    """Runner of the sessions of a task in sequence; `clock` is monotonic time in seconds."""

    connection: ServiceConnection
    plan: LongTaskOptions
    progress_file: ProgressFile
    ask: Ask | None
    note_interval_s: float
    clock: Callable[[], float]

    def used(self, progress: LongTaskProgress) -> GoalProgress:
        """Return the usage that counts towards the limits; a session counts as a turn."""
        hours = self.plan.max_hours
        return GoalProgress(
            turns=progress.done,
            max_turns=self.plan.max_sessions,
            worked_s=progress.worked_s,
            max_s=None if hours is None else hours * 3600,
            cost_nusd=0,
            max_nusd=None,
        )

    async def run(
        self, text: str, progress: LongTaskProgress, interrupted: asyncio.Event
    ) -> SessionOutcome:
        """Run `text` as a turn in a new session; a person or the time limit may stop it."""
        # The turn accepts a single event, so both stops have to share it.
        stop = asyncio.Event()
        timer = None
        if (used := self.used(progress)).max_s is not None:
            remaining_s = used.max_s - used.worked_s
            timer = asyncio.get_running_loop().call_later(remaining_s, stop.set)
        relay = asyncio.create_task(_forward_event(interrupted, stop))
        started_s = self.clock()
        try:
            code, stopped = await self._turn(text, stop, progress)
        finally:
            relay.cancel()
            await asyncio.wait({relay})
            if timer is not None:
                timer.cancel()
        return SessionOutcome(code, stopped, progress.worked_s + self.clock() - started_s)

    async def _turn(
        self, text: str, stop: asyncio.Event, progress: LongTaskProgress
    ) -> tuple[int, str | None]:
        """Run the turn; return the exit code and the stop reason."""
        if self.plan.request.project is not None:
            self.plan.request.project.forget()
        request = replace(self.plan.request, text=text)
        turn = OneShotTurn(self.connection, request, sys.stdout, sys.stderr, self.ask)
        running_progress = replace(progress, lane=turn.lane)
        self.progress_file.write(running_progress)
        saver = asyncio.create_task(self._save_regularly(running_progress))
        try:
            code = await turn.run(stop)
        finally:
            saver.cancel()
            await asyncio.wait({saver})
        return code, turn.stop_reason

    async def _save_regularly(self, progress: LongTaskProgress) -> None:
        """Save the progress regularly: a kill loses at most one interval of working time."""
        started_s = self.clock()
        while True:
            await asyncio.sleep(self.note_interval_s)
            with suppress(OSError):
                self.progress_file.write(
                    replace(progress, worked_s=progress.worked_s + self.clock() - started_s)
                )


async def _forward_event(first: asyncio.Event, second: asyncio.Event) -> None:
    await first.wait()
    second.set()


async def run_long_task(
    args: argparse.Namespace, request: OneShotRequest, settings: Settings, home: DataDir
) -> int:
    """Run the task in `request.text` and return the exit code.

    Raises `ConfigError` for incompatible flags.
    """
    task = long_task_options(args, request, settings, home)
    interrupted = asyncio.Event()
    with interrupts(interrupted), open_progress(home, task.folder) as progress_file:
        async with open_connection(
            settings, home, full_access=request.options.full_access
        ) as connection:
            reject_offline_model(request.options, await connection.service.status())
            ask = ask_here(interrupted)
            if ask is None:
                options = replace(request.options, unattended=True)
                task = replace(task, request=replace(request, options=options))
            runner = LongTaskRunner(connection, task, progress_file, ask)
            return await (runner.run if args.auto_continue else runner.init)(interrupted)


class LongTaskRunner:
    """Runner of a long task, session after session.

    `exit_code = await LongTaskRunner(connection, plan, progress_file, ask).run(interrupted)`
    """

    def __init__(
        self,
        connection: ServiceConnection,
        plan: LongTaskOptions,
        progress_file: ProgressFile,
        ask: Ask | None,
        save_interval_s: float = SAVE_INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._plan = plan
        self._progress_file = progress_file
        self._clock = clock
        self._session = LongTaskSession(
            connection, plan, progress_file, ask, save_interval_s, clock
        )

    async def init(self, interrupted: asyncio.Event) -> int:
        """Let the agent write the checklist. Raises `ConfigError` if it already exists."""
        folder = self._plan.folder
        if (folder / LIST).exists():
            raise ConfigError(
                t("{path} already exists", path=folder / LIST),
                hint=t("kore agent --auto-continue continues it; delete it to start over"),
            )
        code, _ = await self._make_plan(await self._resume_progress(), interrupted)
        self._progress_file.close()
        return code

    async def run(self, interrupted: asyncio.Event) -> int:
        """Run sessions until the task is complete or a limit is reached."""
        folder, code = self._plan.folder, DONE
        progress = await self._resume_progress()
        if features_of(folder) is None:
            if self._plan.text is None or (folder / LIST).exists():
                template = mark_for_translation("{file} not found in {folder}")
                if (folder / LIST).exists():
                    template = mark_for_translation("{file} in {folder} is not valid")
                raise ConfigError(
                    t(template, file=LIST, folder=folder),
                    hint=t('create one with kore agent --init "the task"'),
                )
            code, progress = await self._make_plan(progress, interrupted)
        if code == DONE:
            code = await self._sessions(progress, interrupted)
        # After an exception the file stays, and the next command continues from there.
        self._progress_file.close()
        return code

    async def _resume_progress(self) -> LongTaskProgress:
        """Return the progress of an interrupted command.

        Raises `KoreError` if its session is still running.
        """
        progress = self._progress_file.read()
        if progress.lane is None:
            return progress
        _say(
            plural(
                progress.done,
                "resuming after an interrupted run, one session done",
                "resuming after an interrupted run, {n} sessions done",
            )
        )
        # If only the terminal was killed, a running gateway continues the session. Two sessions
        # must not run at the same time.
        deadline = self._clock() + _STOP_TIMEOUT_S
        while await self._connection.service.stop_turn(progress.lane):
            if self._clock() > deadline:
                raise KoreError(
                    t("the interrupted session is still running"),
                    hint=t("`kore sessions list` shows it; try again, or stop Kore"),
                )
            await asyncio.sleep(_STOP_INTERVAL_S)
        cuts = progress.cuts if progress.planning else progress.cuts + 1
        progress = replace(progress, lane=None, cuts=cuts, planning=False)
        if progress.cuts >= _MAX_INTERRUPTIONS:
            _say(
                t(
                    "session {n} was interrupted {cuts} times; counting it as done",
                    n=progress.done + 1,
                    cuts=_MAX_INTERRUPTIONS,
                )
            )
            progress = replace(progress, done=progress.done + 1, cuts=0)
        self._progress_file.write(progress)
        return progress

    async def _make_plan(
        self, progress: LongTaskProgress, interrupted: asyncio.Event
    ) -> tuple[int, LongTaskProgress]:
        """Write the plan; return the exit code and the progress with the time spent."""
        folder = self._plan.folder
        text = render_prompt("long_init", plan=plan_of(folder), task=self._plan.text or "")
        planning_progress = replace(progress, planning=True)
        outcome = await self._session.run(text, planning_progress, interrupted)
        code, progress = outcome.code, replace(progress, worked_s=outcome.total_s)
        self._progress_file.write(progress)
        is_late = code == INTERRUPTED and not interrupted.is_set()
        features = features_of(folder)
        if features is not None:
            message = plural(
                len(features),
                "{path} lists {n} feature",
                "{path} lists {n} features",
                path=folder / LIST,
            )
            _say(message)
            # The caller, which counts the hours, reports the time limit.
            return DONE if is_late else code, progress
        if is_late:
            template = mark_for_translation(
                "time limit reached; no valid {file} was written in {folder}"
            )
            _say(t(template, file=LIST, folder=folder))
            return LIMIT, progress
        if code in (DONE, LIMIT):
            template = mark_for_translation(
                "no valid {file} was written in {folder}: describe the task in more "
                "detail, or try again"
            )
            _say(t(template, file=LIST, folder=folder))
            return FAILED, progress
        return code, progress

    async def _sessions(self, progress: LongTaskProgress, interrupted: asyncio.Event) -> int:
        folder = self._plan.folder
        while True:
            passing, total = _count_features(folder)
            if passing == total:
                _say(_all_pass(total, progress.done))
                return DONE
            if (limit := self._session.used(progress).limit) is not None:
                counts = {"passing": passing, "total": total}
                message = plural(
                    progress.done,
                    "{n} session is done; {passing} of {total} features pass",
                    "{n} sessions are done; {passing} of {total} features pass",
                    **counts,
                )
                if limit == "time":
                    message = t("time limit reached; {passing} of {total} features pass", **counts)
                _say(message)
                return LIMIT
            before = _files(folder)
            template = mark_for_translation("session {n}: {passing} of {total} features pass")
            _say(t(template, n=progress.done + 1, passing=passing, total=total))
            outcome = await self._session.run(self._text(progress), progress, interrupted)
            after = _files(folder)
            idle = progress.idle + 1 if after == before else 0
            progress = LongTaskProgress(progress.done + 1, idle=idle, worked_s=outcome.total_s)
            self._progress_file.write(progress)
            if interrupted.is_set():
                return INTERRUPTED
            if not is_same_plan(before[0], after[0]):
                _say(t("{path}: more than pass marks has changed; check it", path=folder / LIST))
                return FAILED
            if (exit_code := _exit_code_of(outcome, progress)) is not None:
                return exit_code

    def _text(self, progress: LongTaskProgress) -> str:
        """Return the prompt of the next session."""
        text = render_prompt("long_session", n=progress.done + 1)
        if self._plan.text:
            text += f"\n\n{self._plan.text}"
        if self._plan.team:
            text += "\n\n" + render_prompt("long_team", team=", ".join(self._plan.team))
        return text


def _exit_code_of(outcome: SessionOutcome, progress: LongTaskProgress) -> int | None:
    """Return the exit code if a session ends the task, or None."""
    if outcome.code in (BLOCKED, DECIDE, FAILED, USAGE):
        return outcome.code
    # After the limit of model calls the next session continues; after the cost limit it does not.
    if outcome.code == LIMIT and outcome.stop_reason == "limit":
        return LIMIT
    if progress.idle >= _MAX_IDLE_SESSIONS:
        message = t(
            "{n} sessions in a row made no change to {file} or {progress}",
            n=_MAX_IDLE_SESSIONS,
            file=LIST,
            progress=PROGRESS,
        )
        _say(message)
        return LIMIT
    return None


def _count_features(folder: Path) -> tuple[int, int]:
    features = features_of(folder) or ()
    return sum(feature.passes for feature in features), len(features)


def _all_pass(total: int, sessions: int) -> str:
    """Return the message for a finished task; without sessions, nothing was left to do."""
    if not sessions:
        return plural(total, "the only feature passes", "all {n} features pass")
    return plural(
        sessions,
        "all {total} features pass, after one session",
        "all {total} features pass, after {n} sessions",
        total=total,
    )


def _files(folder: Path) -> tuple[str, str]:
    """Return the texts of the checklist and the progress notes."""
    return text_of(folder, LIST), text_of(folder, PROGRESS)


def _say(text: str) -> None:
    print(f"── {text}", file=sys.stderr, flush=True)
