"""Calls about what screens show beside conversations; `service.py` says how calls are declared."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agent.security.policy.base import PermissionMode
from gateway.core.records import (
    PluginChange,
)


class WorkbenchCalls(Protocol):
    """What a person looks up beside conversations."""

    async def list_costs(self, days: int = 30) -> Sequence[Mapping[str, Any]]:
        """List what each of the last days cost, today last: `day`, `cost_usd`, `input_tokens`,
        `output_tokens`, `calls`."""
        ...

    async def describe_config(self) -> Mapping[str, Any]:
        """Return the settings that this process started with, secrets masked."""
        ...

    async def read_log(self, lines: int = 200, level: str = "info") -> Sequence[Mapping[str, Any]]:
        """Return the newest lines of the log from this level on, oldest first."""
        ...

    async def list_audit(self, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """List the newest entries of the audit log, newest first."""
        ...

    async def read_note(self, name: str) -> Mapping[str, Any]:
        """Return one of the workspace's files (such as USER.md, memory/MEMORY.md): `text`,
        `digest`."""
        ...

    async def write_note(self, name: str, text: str, digest: str) -> Mapping[str, Any]:
        """Replace one of these files, if it still has this `digest`; returns it as `read_note`."""
        ...


class FileCalls(Protocol):
    """Files of the owner's folders. A `place` is one of `list_places`, a `path` begins there."""

    async def list_places(self) -> Sequence[str]:
        """List the folders: the workspace, trusted folders and those of chats."""
        ...

    async def list_folder(self, place: str, path: str = "") -> Sequence[Mapping[str, Any]]:
        """List what lies in a folder, folders first: `name`, `is_folder`, `size` (bytes),
        `changed_at` (Unix time)."""
        ...

    async def read_file(self, place: str, path: str) -> Mapping[str, Any]:
        """Return a text file: `text`, `digest`, `size` (bytes, 1 MB at most); of one that there is
        not the digest is ''."""
        ...

    async def read_picture(self, place: str, path: str) -> Mapping[str, Any]:
        """Return a picture (PNG, JPEG, GIF or WebP, 5 MB at most): `media_type`, and `data` as
        base64."""
        ...

    async def write_file(
        self, place: str, path: str, text: str, digest: str = ""
    ) -> Mapping[str, Any]:
        """Replace a text file, if it still has this `digest` ('': make one that there is not);
        returns it as `read_file`. Of one that has changed the error is `file-changed`."""
        ...

    async def compare_file(self, place: str, path: str, text: str) -> Mapping[str, Any]:
        """Compare a text with the file as it is now: the `diff` from the file to the text, and the
        file's `digest`."""
        ...

    async def make_folder(self, place: str, path: str) -> str:
        """Make a folder, with those above it; returns a sentence."""
        ...

    async def move_path(self, place: str, path: str, to: str) -> str:
        """Move or rename a file or a folder, as `move_file` does: nothing is replaced, and into a
        folder that there is it goes under its own name. Returns a sentence."""
        ...

    async def delete_path(self, place: str, path: str) -> str:
        """Delete a file, or a folder with all that is in it; returns a sentence."""
        ...

    async def undo_change(self, place: str, redo: bool = False) -> Mapping[str, Any]:
        """Take back the latest change that was made to a place by these calls, or make the last
        one that was taken back again: `text` says what came of it, `paths` are those that
        changed. `/undo` of the owner takes them back, too."""
        ...


class PluginCalls(Protocol):
    """Plugins and markets. A `source` is NAME, NAME@MARKET, owner/repository, the address of a git
    repository or an archive, npm:NAME, or a path of Kore's machine that begins with / or ~."""

    async def list_plugins(self) -> Sequence[Mapping[str, Any]]:
        """List the installed plugins with what each brings; `rows` are pairs of label and text."""
        ...

    async def look_at_plugin(
        self, source: str, ref: str = "", update: bool = False
    ) -> Mapping[str, Any]:
        """Fetch a plugin (with `update` the new version of the installed one with the name
        `source`) and show it; nothing is kept or run. `review` is for `install_plugin`, `options`
        are what it asks, `needs` what has to be installed first. May take minutes."""
        ...

    async def install_plugin(
        self,
        source: str,
        review: str,
        answers: Mapping[str, str],
        ref: str = "",
        update: bool = False,
    ) -> str:
        """Install a plugin, if it still is what `look_at_plugin` showed; returns a sentence.
        `answers` are by the keys of `options`. May take minutes."""
        ...

    async def change_plugin(self, name: str, change: PluginChange) -> str:
        """Use a plugin or not, leave it out of updates, or remove it; returns a sentence."""
        ...

    async def list_markets(self) -> Sequence[Mapping[str, Any]]:
        """List the markets: `name`, `from`, `plugins` (how many), `problems` by entry."""
        ...

    async def search_plugins(self, words: str = "", limit: int = 50) -> Sequence[Mapping[str, Any]]:
        """List the entries of all markets with these words, the best first: `name`, `market`,
        `description`, `version`, `pinned`, `installed`, and `problem` if it cannot be used."""
        ...

    async def add_market(self, source: str, ref: str = "") -> str:
        """Fetch a market and keep it; returns a sentence. May take minutes."""
        ...

    async def update_market(self, name: str) -> str:
        """Fetch a market again; returns a sentence. May take minutes."""
        ...

    async def remove_market(self, name: str) -> str:
        """Forget a market; its plugins stay. Returns a sentence."""
        ...


class PolicyCalls(Protocol):
    """What the policy allows."""

    async def check_policy(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        role: str = "build",
        mode: PermissionMode | None = None,
        channel: str = "cli",
    ) -> Mapping[str, Any]:
        """Say what would happen to a call in the workspace; nothing runs: `decision` (allow, ask or
        deny), `reason`, `rule`, `mode`, and for a command (`exec`) the `verdicts` of all rules.
        Without a `mode` that of the channel."""
        ...

    async def list_roles(self) -> Mapping[str, Any]:
        """Return the `roles` (`name`, `source`, `tools` with their scopes, `agents`), who has which
        by `access.roles` (`assigned`), and the `owner`, whose role is always `build`."""
        ...


class SettingsCalls(Protocol):
    """The settings, changed one by one. A `key` is `SECTION.KEY` or leads on into a list or a map
    (`model_list.NAME.api_key`), a `value` text or JSON; None takes the key out of the file."""

    async def list_settings(self) -> Mapping[str, Any]:
        """Return the `file`, the `problem` when it is invalid, and the `settings`: `key`, `value`
        and `own` (as the file has it) without secrets, `from`, `choices`, `at_once`, `widens`, and
        `locked`, why it cannot be changed here."""
        ...

    async def check_setting(self, key: str, value: str | None) -> Mapping[str, Any]:
        """Say what a change would do; nothing is written: `old` and `new`, `effect` (now, restart
        or none), `notes`, `widens`, and the `proposal` for `change_setting`."""
        ...

    async def change_setting(
        self, key: str, value: str | None, proposal: str, confirmed: bool = False
    ) -> Mapping[str, Any]:
        """Write a change that was checked, if the file is still the same, and take it in; returns
        it as `check_setting`. One that `widens` what Kore may do has to be `confirmed`."""
        ...
