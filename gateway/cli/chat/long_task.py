"""Long tasks over several sessions: `kore agent --init` and `--auto-continue`.

The files in the folder track the finished work, the progress file the number of sessions.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from agent.context.long_task import features_of, plan_of, text_of
from agent.errors import ConfigError, KoreError
from agent.i18n import mark_for_translation, plural, t
from agent.prompts import render_prompt
from agent.tools.files.feature_list import LIST, PROGRESS, is_same_plan
from gateway.cli.chat.long_task_options import LongTaskOptions, plan_for, refuse_stand_in
from gateway.cli.chat.long_task_progress import LongTaskProgress, ProgressFile, open_progress
from gateway.cli.chat.long_task_session import BEAT_S, LongTaskSession, SessionOutcome
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
)
from gateway.cli.chat.service_connection import ServiceConnection, open_connection
from gateway.cli.chat.terminal import ask_here, interrupts
from gateway.config import Settings
from gateway.runtime.paths import DataDir

# Limit of consecutive sessions that change neither checklist nor progress.
_IDLE = 2
# Limit of interruptions; a session that was killed this often is not restarted.
_CUTS = 3
_STOP_S = 60
_AGAIN_S = 0.2


async def work(
    args: argparse.Namespace, order: OneShotRequest, settings: Settings, home: DataDir
) -> int:
    """Run the task in `order.text` and return the exit code.

    Raises `ConfigError` for incompatible flags.
    """
    plan = plan_for(args, order, settings, home)
    interrupted = asyncio.Event()
    with interrupts(interrupted), open_progress(home, plan.folder) as progress_file:
        async with open_connection(settings, home, full_access=order.options.full_access) as line:
            refuse_stand_in(order.options, await line.service.status())
            ask = ask_here(interrupted)
            if ask is None:
                options = replace(order.options, unattended=True)
                plan = replace(plan, request=replace(order, options=options))
            long = LongTaskRunner(line, plan, progress_file, ask)
            return await (long.run if args.auto_continue else long.init)(interrupted)


class LongTaskRunner:
    """Runs a long task session after session.

    `exit_code = await LongTaskRunner(line, plan, progress_file, ask).run(interrupted)`
    """

    def __init__(
        self,
        line: ServiceConnection,
        plan: LongTaskOptions,
        progress_file: ProgressFile,
        ask: Ask | None,
        beat_s: float = BEAT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = line
        self._plan = plan
        self._progress_file = progress_file
        self._clock = clock
        self._session = LongTaskSession(line, plan, progress_file, ask, beat_s, clock)

    async def init(self, interrupted: asyncio.Event) -> int:
        """Let the agent write the checklist. Raises `ConfigError` if it already exists."""
        folder = self._plan.folder
        if (folder / LIST).exists():
            raise ConfigError(
                t("{path} already exists", path=folder / LIST),
                hint=t("kore agent --auto-continue continues it; delete it to start over"),
            )
        code, _ = await self._make_plan(await self._take_up(), interrupted)
        self._progress_file.close()
        return code

    async def run(self, interrupted: asyncio.Event) -> int:
        """Run sessions until the task is complete or a limit is reached."""
        folder, code = self._plan.folder, DONE
        progress = await self._take_up()
        if features_of(folder) is None:
            if self._plan.text is None or (folder / LIST).exists():
                lack = mark_for_translation("{file} not found in {folder}")
                if (folder / LIST).exists():
                    lack = mark_for_translation("{file} in {folder} is not valid")
                raise ConfigError(
                    t(lack, file=LIST, folder=folder),
                    hint=t('create one with kore agent --init "the task"'),
                )
            code, progress = await self._make_plan(progress, interrupted)
        if code == DONE:
            code = await self._sessions(progress, interrupted)
        # After an exception the file stays, and the next command continues from there.
        self._progress_file.close()
        return code

    async def _take_up(self) -> LongTaskProgress:
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
        until = self._clock() + _STOP_S
        while await self._connection.service.stop_turn(progress.lane):
            if self._clock() > until:
                raise KoreError(
                    t("the interrupted session is still running"),
                    hint=t("`kore sessions list` shows it; try again, or stop Kore"),
                )
            await asyncio.sleep(_AGAIN_S)
        cuts = progress.cuts if progress.planning else progress.cuts + 1
        progress = replace(progress, lane=None, cuts=cuts, planning=False)
        if progress.cuts >= _CUTS:
            _say(
                t(
                    "session {n} was interrupted {cuts} times; counting it as done",
                    n=progress.done + 1,
                    cuts=_CUTS,
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
        under_way = replace(progress, planning=True)
        worked = await self._session.work(text, under_way, interrupted)
        code, progress = worked.code, replace(progress, worked_s=worked.total_s)
        self._progress_file.write(progress)
        is_late = code == INTERRUPTED and not interrupted.is_set()
        features = features_of(folder)
        if features is not None:
            text_shown = plural(
                len(features),
                "{path} lists {n} feature",
                "{path} lists {n} features",
                path=folder / LIST,
            )
            _say(text_shown)
            # The caller that counts the hours reports the time limit.
            return DONE if is_late else code, progress
        if is_late:
            template = mark_for_translation(
                "time limit reached; no valid {file} was written in {folder}"
            )
            _say(t(template, file=LIST, folder=folder))
            return LIMIT, progress
        if code in (DONE, LIMIT):
            none = mark_for_translation(
                "no valid {file} was written in {folder}: describe the task in more "
                "detail, or try again"
            )
            _say(t(none, file=LIST, folder=folder))
            return FAILED, progress
        return code, progress

    async def _sessions(self, progress: LongTaskProgress, interrupted: asyncio.Event) -> int:
        folder = self._plan.folder
        while True:
            passing, total = _count_features(folder)
            if passing == total:
                _say(_all_pass(total, progress.done))
                return DONE
            left_s = self._session.left_s(progress)
            if left_s <= 0 or progress.done >= self._plan.max_sessions:
                counts = {"passing": passing, "total": total}
                over = plural(
                    progress.done,
                    "{n} session is done; {passing} of {total} features pass",
                    "{n} sessions are done; {passing} of {total} features pass",
                    **counts,
                )
                if left_s <= 0:
                    over = t("time limit reached; {passing} of {total} features pass", **counts)
                _say(over)
                return LIMIT
            before = _files(folder)
            template = mark_for_translation("session {n}: {passing} of {total} features pass")
            _say(t(template, n=progress.done + 1, passing=passing, total=total))
            worked = await self._session.work(self._text(progress), progress, interrupted)
            after = _files(folder)
            idle = progress.idle + 1 if after == before else 0
            progress = LongTaskProgress(progress.done + 1, idle=idle, worked_s=worked.total_s)
            self._progress_file.write(progress)
            if interrupted.is_set():
                return INTERRUPTED
            if not is_same_plan(before[0], after[0]):
                _say(t("{path}: more than pass marks has changed; check it", path=folder / LIST))
                return FAILED
            if (end := _end(worked, progress)) is not None:
                return end

    def _text(self, progress: LongTaskProgress) -> str:
        """Return the prompt of the next session."""
        text = render_prompt("long_session", n=progress.done + 1)
        if self._plan.text:
            text += f"\n\n{self._plan.text}"
        if self._plan.team:
            text += "\n\n" + render_prompt("long_team", team=", ".join(self._plan.team))
        return text


def _end(worked: SessionOutcome, progress: LongTaskProgress) -> int | None:
    """Return the exit code if a session ends the task, or None."""
    if worked.code in (BLOCKED, DECIDE, FAILED, USAGE):
        return worked.code
    # After the limit of model calls the next session continues; after the cost limit it does not.
    if worked.code == LIMIT and worked.stop_reason == "limit":
        return LIMIT
    if progress.idle >= _IDLE:
        message = t(
            "{n} sessions in a row made no change to {file} or {progress}",
            n=_IDLE,
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
