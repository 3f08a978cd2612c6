"""Status of the running process, for `/status` and `kore status`."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from agent.code.status import ServerStatus
from agent.errors import ConfigError
from agent.i18n import mark_for_translation, plural, t
from agent.providers.pool import ModelPool
from agent.providers.registry import OFFLINE, resolve_model
from agent.records import frozen
from gateway.channels.base import Channel, ChannelStatus, SupportsStatus
from gateway.channels.supervisor import ChannelSupervisor
from gateway.core.messages import CONSOLE
from gateway.core.token_routes import API

OFFLINE_HINT = mark_for_translation(
    "This is the offline stand-in, not a real model. Set OPENAI_API_KEY (or "
    "another vendor's key), start Ollama, or run `kore init`."
)
# States of a channel for people; JSON has the untranslated words.
_STATES = {
    "starting": mark_for_translation("starting"),
    "running": mark_for_translation("running"),
    "polling": mark_for_translation("polling"),
    "webhook": mark_for_translation("webhook"),
    "retrying": mark_for_translation("retrying"),
    "conflict": mark_for_translation("conflict"),
    "storage": mark_for_translation("storage error"),
    "refused": mark_for_translation("refused"),
    "stopped": mark_for_translation("stopped"),
}

_SERVER_STATES = {
    "idle": mark_for_translation("stopped"),
    "starting": mark_for_translation("starting"),
    "ready": mark_for_translation("running"),
    "failed": mark_for_translation("failed"),
}


@frozen
class RuntimeStatus:
    """Facts about the process. `started_at` is monotonic time in seconds, `sandbox` the sandbox of
    commands, `exec_hosts` the hosts and local services that they may reach; `language_servers`
    lists the servers that were used. `notify_after_s` is the setting for all screens."""

    models: Callable[[], ModelPool]
    workspace: Path
    channels: Mapping[tuple[str, str], Channel]
    supervisor: ChannelSupervisor
    started_at: float
    sandbox: str = "none"
    exec_hosts: tuple[str, ...] = ()
    language_servers: Callable[[], Sequence[ServerStatus]] = tuple

    def __call__(self) -> dict[str, Any]:
        return {
            "model": (model := self.models().default),
            "model_is": _endpoint_text(self.models()),
            "model_hint": OFFLINE_HINT if model == OFFLINE else None,
            "workspace": str(self.workspace),
            "home": str(Path.home()),
            "sandbox": self.sandbox,
            "exec_hosts": ", ".join(self.exec_hosts) or None,
            "language_servers": [
                {**asdict(server), "folder": str(server.folder)}
                for server in self.language_servers()
            ],
            "uptime_s": round(time.monotonic() - self.started_at),
            "channels": {
                f"{channel.name}:{channel.account}": asdict(status)
                for channel in self.channels.values()
                if (status := self._status(channel)) is not None
            },
        }

    def _status(self, channel: Channel) -> ChannelStatus | None:
        if isinstance(channel, SupportsStatus):
            own: ChannelStatus | None = channel.status
        else:
            own = None if channel.name in (CONSOLE, API) else ChannelStatus("running")
        failure = self.supervisor.failures.get((channel.name, channel.account))
        if failure is None:
            return own
        state: Any = own.state if own and own.state == "refused" else "stopped"
        return ChannelStatus(state, own.last_poll_at if own else None, failure)

    def for_chat(self) -> dict[str, str]:
        """Return the channels, language servers and uptime in words."""
        states = {name: _status_text(status) for name, status in self()["channels"].items()}
        servers = [_server_text(server) for server in self.language_servers()]
        if servers:
            states[mark_for_translation("Language servers")] = "; ".join(servers)
        return {
            **states,
            mark_for_translation("Uptime"): str(timedelta(seconds=self()["uptime_s"])),
        }


def _server_text(server: ServerStatus) -> str:
    state = t(_SERVER_STATES[server.state])
    if server.failure and server.state != "ready":
        return f"{server.name} ({state}: {server.failure})"
    return f"{server.name} ({state}, {server.folder})"


def _endpoint_text(models: ModelPool) -> str | None:
    """Return the default model as `vendor/model at address`; None without an address."""
    try:
        config = resolve_model(models.default, models.known, models.environ)
    except ConfigError as exc:
        return str(exc)
    return f"{config.model} at {config.api_base}" if config.api_base else None


def _status_text(status: Mapping[str, Any]) -> str:
    """Return a channel's state in words, without unknown facts."""
    words = [t(_STATES[status["state"]])]
    if (at := status["last_poll_at"]) is not None:
        words.append(t("last contact {s:.0f} s ago", s=max(0.0, time.time() - at)))
    if pending := status["pending"]:
        words.append(plural(pending, "{n} update pending", "{n} updates pending"))
    if waiting := status["waiting"]:
        words.append(plural(waiting, "rate-limited: {n} chat", "rate-limited: {n} chats"))
    if error := status["last_error"]:
        words.append(str(error))
    return t(", ").join(words)


def resident_bytes() -> int:
    """Return the resident memory from /proc/self/statm (in pages); 0 without this file."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0
