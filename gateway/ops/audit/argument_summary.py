"""Reduction of call arguments for the audit log."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

from agent.i18n import t
from agent.security.audit import AuditEntry, AuditLevel
from gateway.ops.audit.trail import AuditError

_CUT_CHARS = 200
# Arguments whose beginning a summary shows; other texts are reduced to their length.
_TELLING = frozenset(
    {"path", "file_path", "filename", "folder", "workdir", "cwd", "command", "url", "host"}
    | {"query", "pattern", "glob", "to", "name", "operation", "action", "chat", "who", "role"}
    | {"mode"}
)


def summarize(entry: AuditEntry, level: AuditLevel, clean: Callable[[str], str]) -> AuditEntry:
    """Return the entry as written. Raises `AuditError` for arguments that JSON cannot represent."""
    summarizer = ArgumentSummarizer(level, clean)
    try:
        params = summarizer.params(entry.params)
    except RecursionError as exc:
        raise AuditError(
            t("the audit entry cannot be written: its parameters are nested too deeply")
        ) from exc
    return replace(entry, params=params, reason=summarizer.text(entry.reason))


class ArgumentSummarizer:
    """Summarizer for a level of detail; `clean` removes secrets from every text."""

    def __init__(self, level: AuditLevel, clean: Callable[[str], str]) -> None:
        self._level = level
        self._clean = clean

    def params(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if self._level == "full":
            return {self.text(name): self._summarize_value(value) for name, value in params.items()}
        return {self.text(name): self._short(name, value) for name, value in params.items()}

    def _summarize_value(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {
                    self.text(str(name)): self._summarize_value(entry)
                    for name, entry in value.items()
                }
            case list() | tuple():
                return [self._summarize_value(item) for item in value]
            case None | bool() | int():
                return value
            case float() if isfinite(value):
                return value
            case _:
                return self.text(str(value))

    def _short(self, name: str, value: Any) -> Any:
        match value:
            case str() if name in _TELLING:
                text = self.text(value)
                return text if len(text) <= _CUT_CHARS else f"{text[:_CUT_CHARS]}…"
            case str():
                return f"({len(value):,} characters)"
            case Mapping() | list() | tuple():
                return f"({len(value):,} items)"
            case _:
                return self._summarize_value(value)

    def text(self, text: str) -> str:
        return self._clean(text)
