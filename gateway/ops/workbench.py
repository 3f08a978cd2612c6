"""Workbench: costs, settings, logs, the audit trail, and the files that describe Kore."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from agent.errors import KoreError, ToolError
from agent.i18n import t
from agent.security.files import file_io
from agent.security.files.file_io import exclusive_file
from agent.security.redaction import Redactor
from agent.security.taint.marked_write import write_marked
from agent.security.taint.taint import NOTHING
from gateway.config import Settings
from gateway.core.log_levels import LOG_LEVELS
from gateway.ops.audit.trail import CURRENT, seconds_of
from gateway.runtime.paths import DataDir
from gateway.runtime.secrets import describe
from gateway.store.port import Store
from gateway.store.repositories import usage

# Files of the workspace that people may edit here; other names are rejected.
NOTES = (
    *("IDENTITY.md", "AGENT.md", "SOUL.md", "USER.md", "HEARTBEAT.md"),
    "memory/MEMORY.md",
)
_NOTE_BYTES = 256_000
_TAIL_BYTES = 512_000
_MAX_DAYS, _MAX_LINES = 366, 1_000


class Workbench:
    """Workbench without cached state."""

    def __init__(
        self, *, database: Store, home: DataDir, settings: Settings, redactor: Redactor
    ) -> None:
        self._database = database
        self._home = home
        self._settings = settings
        self._redactor = redactor

    async def list_costs(self, days: int) -> Sequence[Mapping[str, Any]]:
        """Return the costs of each of the last days, today last."""
        if not 1 <= days <= _MAX_DAYS:
            raise KoreError(t("expected 1 to {most} days", most=_MAX_DAYS))
        today = datetime.now().astimezone().date()
        spans = [_span(today - timedelta(days=n)) for n in reversed(range(days))]
        sums = await self._database.transact(usage.of_spans, [(a, b) for _, a, b in spans])
        return [
            {
                "day": day,
                "cost_usd": spent.known_usd,
                "input_tokens": spent.usage.input,
                "output_tokens": spent.usage.output,
                "calls": spent.calls,
            }
            for (day, _, _), spent in zip(spans, sums, strict=True)
        ]

    def describe_config(self) -> Mapping[str, Any]:
        """Return the configuration without secrets."""
        cleaned: Mapping[str, Any] = self._redactor.clean_data(describe(self._settings))
        return cleaned

    def read_log(self, lines: int, level: str) -> Sequence[Mapping[str, Any]]:
        """Return the newest lines, oldest first. Blocks."""
        if level not in LOG_LEVELS:
            raise KoreError(t("found the level {level!r}", level=level[:80]))
        file = self._settings.logging.file or self._home.logs / "kore.log"
        levels = LOG_LEVELS[LOG_LEVELS.index(level) :]
        entries = [entry for entry in _json_lines(Path(file)) if entry.get("level") in levels]
        return [self._clean(entry) for entry in entries[-min(lines, _MAX_LINES) :]]

    def list_audit(self, limit: int) -> Sequence[Mapping[str, Any]]:
        """Return the newest entries, newest first, with `ts` in Unix seconds. Blocks."""
        entries = _json_lines(self._home.audit / CURRENT)
        newest = entries[: -min(limit, _MAX_LINES) - 1 : -1]
        return [self._clean({**entry, "ts": seconds_of(entry.get("ts"))}) for entry in newest]

    def read_note(self, name: str) -> Mapping[str, Any]:
        """Return the `text` of a note ('' if it is missing) and its `digest`. Blocks."""
        path = self._note(name)
        try:
            data = file_io.read(path, _NOTE_BYTES) if path.exists() else b""
        except ToolError as exc:
            raise KoreError(str(exc)) from exc
        return {"name": name, "text": data.decode(errors="replace"), "digest": _digest(data)}

    def write_note(self, name: str, text: str, digest: str) -> Mapping[str, Any]:
        """Replace the note that has this digest. Blocks."""
        path, data = self._note(name), text.encode(errors="replace")
        if len(data) > _NOTE_BYTES:
            raise KoreError(t("{name} may have {most:,} bytes", name=name, most=_NOTE_BYTES))
        with exclusive_file(path):
            if self.read_note(name)["digest"] != digest:
                raise KoreError(
                    t("{name} was changed meanwhile", name=name),
                    hint=t("read it again, and make your change in that"),
                )
            try:
                # An edit does not make untrusted text in the file the person's own.
                write_marked(path, data, self._settings.agent.workspace, NOTHING)
            except ToolError as exc:
                raise KoreError(str(exc)) from exc
        return {"name": name, "text": text, "digest": _digest(data)}

    def _note(self, name: str) -> Path:
        if name not in NOTES:
            raise KoreError(
                t("found {name!r}, expected one of {names}", name=name[:80], names=", ".join(NOTES))
            )
        return self._settings.agent.workspace / name

    def _clean(self, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        cleaned: Mapping[str, Any] = self._redactor.clean_data(entry)
        return cleaned


def _span(day: date) -> tuple[str, float, float]:
    """Return the name, the start and the end of a day in local time."""
    began_at = datetime(day.year, day.month, day.day)
    return f"{day}", began_at.timestamp(), (began_at + timedelta(days=1)).timestamp()


def _json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the JSON objects at the end of a file, without incomplete or other lines."""
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
            rows = file.read(_TAIL_BYTES).splitlines()
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise KoreError(
            t("{path} cannot be read: {reason}", path=path, reason=exc.strerror)
        ) from None
    entries = []
    for row in rows:
        try:
            entry = json.loads(row)
        except ValueError:
            continue
        if isinstance(entry, dict):
            entries.append(entry)
    return entries


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
