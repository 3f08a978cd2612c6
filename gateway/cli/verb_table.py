"""Table of verbs; the module of a verb is imported only when it is called.

A verb is two functions: `add_arguments(parser)` and `run(args) -> int`. In a module that several
verbs share, the names include the verb: `add_reload_arguments` and `run_reload`.
"""

import argparse
from importlib import import_module
from typing import Any, NamedTuple

from gateway.core.channel_table import DEFAULT_CHANNEL


class Verb(NamedTuple):
    name: str
    summary: str
    examples: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    # Hint for an option that the verb does not know.
    unknown: str = ""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        self._function("add_arguments", f"add_{self.name}_arguments")(parser)

    def run(self, args: argparse.Namespace) -> int:
        return int(self._function("run", f"run_{self.name}")(args))

    def _function(self, name: str, shared_name: str) -> Any:
        """Import the verb's module and return its function."""
        shared = _SHARED.get(self.name)
        module = shared or _ELSEWHERE.get(self.name, f"verbs.{self.name}")
        return getattr(import_module(f"gateway.cli.{module}"), shared_name if shared else name)


# Verbs whose module is not in gateway/cli/verbs/.
_ELSEWHERE = {
    **{name: f"verbs.extensions.{name}" for name in ("market", "plugin", "skills")},
    "agent": "chat.agent",
    "completion": "completion",
    "config": "verbs.config.verb",
    "mcp": "verbs.mcp.verb",
    **{name: f"verbs.server.{name}" for name in ("attach", "token", "worker")},
}
# Verbs that share a module.
_SHARED = {
    "agents": "verbs.agents",
    "backup": "verbs.backup",
    "pair": "verbs.people",
    "reload": "verbs.runtime",
    "replay": "verbs.runtime",
    "restore": "verbs.backup",
    "serve": "verbs.server.serve",
    "status": "verbs.runtime",
    "tools": "verbs.agents",
    "user": "verbs.people",
    "web": "verbs.server.serve",
}


VERBS = (
    Verb(
        "agent",
        "chat with the agent here, or ask one question",
        (
            "kore agent",
            'kore agent -m "what is in this folder?"',
            "git diff | kore agent -p review",
        ),
        ("chat", "run"),
    ),
    Verb("gateway", "run the gateway with every enabled channel", ("kore gateway",)),
    Verb(
        "worker",
        "run turns for a gateway that leaves them to workers",
        ("kore worker", "kore gateway --workers 4"),
    ),
    Verb("init", "create a configuration and a workspace", ("kore init", "kore init --yes")),
    Verb(
        "channel",
        "manage chat apps: add, list, new, test, remove",
        (
            f"kore channel add {DEFAULT_CHANNEL}",
            f"kore channel add {DEFAULT_CHANNEL} --token-env BOT_TOKEN --no-wait",
            "kore channel list",
        ),
    ),
    Verb(
        "config",
        "check, show or edit the configuration",
        (
            "kore config validate",
            "kore config set agent.model openai/gpt-5",
            f"kore config get {DEFAULT_CHANNEL}.allow_from",
            "kore config edit",
        ),
    ),
    Verb("status", "show the status", ("kore status", "kore status --all", "kore status --json")),
    Verb(
        "trust",
        "trust a folder's configuration and files",
        ("kore trust", "kore trust ~/code/mine", "kore trust --revoke"),
    ),
    Verb("logs", "show the gateway's log", ("kore logs -f", "kore logs -n 200 --level warning")),
    Verb(
        "reload",
        "reload the configuration of the running gateway",
        ("kore reload", "kore reload --json"),
    ),
    Verb(
        "doctor",
        "diagnose problems and suggest fixes",
        ("kore doctor", "kore doctor --live"),
    ),
    Verb(
        "models",
        "list models and test them",
        ("kore models list", "kore models test", "kore models test quick"),
    ),
    Verb(
        "sessions",
        "list, show or export sessions",
        (
            "kore sessions list",
            "kore sessions show 20250218_001946",
            'kore sessions search "kitchen light" Zürich',
            "kore sessions export 20250218_001946 --format markdown > talk.md",
        ),
    ),
    Verb(
        "agents",
        "manage agents: list, show, new",
        (
            "kore agents list",
            "kore agents show explore",
            "kore agents new critic --tools Read,Grep",
        ),
    ),
    Verb(
        "plugin",
        "manage plugins: install, list, update, remove, audit",
        (
            "kore plugin install ./my-plugin",
            "kore plugin install owner/repository --ref v1.2",
            "kore plugin audit",
        ),
    ),
    Verb(
        "market",
        "manage markets of plugins: add, list, search, update",
        ("kore market add owner/repository", "kore market search release notes"),
    ),
    Verb(
        "skills",
        "manage skills: list, show, validate, new",
        ("kore skills list", "kore skills validate ./my-skill", "kore skills new release-notes"),
    ),
    Verb(
        "mcp",
        "manage MCP servers: add, list, test, remove",
        (
            "kore mcp add docs https://example.org/mcp",
            "kore mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes",
            "kore mcp test files",
        ),
    ),
    Verb(
        "serve",
        "serve clients, browsers and other machines",
        ("kore serve", "kore serve --listen-addr auto", "kore serve --listen-addr unix:/run/kore"),
    ),
    Verb("web", "open Kore in a browser", ("kore web", "kore web --no-browser")),
    Verb(
        "attach",
        "chat with a Kore that runs elsewhere",
        ("kore attach", "KORE_TOKEN=… kore attach https://kore.example.org"),
    ),
    Verb(
        "token",
        "manage who may speak to the server: add, list, revoke",
        ("kore token add phone --scope chat --scope approve", "kore token list"),
    ),
    Verb(
        "tui",
        "chat in the whole terminal: sessions in tabs, panes, search",
        ("kore tui", "kore tui -c", "KORE_TOKEN=… kore tui https://kore.example.org"),
    ),
    Verb("acp", "be the agent of an editor (Agent Client Protocol)", ("kore acp",)),
    Verb("tools", "list the tools the model can use", ("kore tools list",)),
    Verb(
        "audit",
        "show, search and verify the audit log",
        ("kore audit tail --follow", "kore audit search --denied --since 7d", "kore audit verify"),
    ),
    Verb(
        "cron",
        "scheduled reminders and tasks: list, add, change, run now",
        (
            "kore cron list",
            'kore cron add "tomorrow 9:00" "call the dentist"',
            'kore cron add --ask "0 7 * * 1-5" "what is on my calendar today?"',
            "kore cron run 3",
        ),
    ),
    Verb(
        "pair",
        "manage access: list, approve, revoke",
        (
            "kore pair list",
            "kore pair approve ABCD-EFGH",
            f"kore pair revoke {DEFAULT_CHANNEL}:123",
        ),
    ),
    Verb(
        "policy",
        "explain permissions and manage permanent grants",
        (
            'kore policy check "git push"',
            f"kore policy check --role general --channel {DEFAULT_CHANNEL} --json ls",
            "kore policy explain --mode accept-edits 'make test && git push'",
            "kore policy grants",
            "kore policy revoke 3",
        ),
        unknown="put a command with options in quotes: kore policy check 'ls -la'",
    ),
    Verb(
        "user",
        "export or delete a person's data",
        (
            f"kore user show {DEFAULT_CHANNEL}:123",
            f"kore user export {DEFAULT_CHANNEL}:123 -o theirs.zip",
            f"kore user delete {DEFAULT_CHANNEL}:123",
        ),
    ),
    Verb(
        "service",
        "run the gateway as a service: install, status, logs, uninstall",
        ("kore service install", "kore service logs --follow"),
    ),
    Verb("replay", "retry a failed message", ("kore replay 42",)),
    Verb(
        "store",
        "change or remove the encryption key of stored messages",
        ("kore store rekey --to NEW_KORE_KEY", "kore store rekey --plain"),
    ),
    Verb(
        "eval",
        "run evaluation cases, with a model or a script",
        ("kore eval", "kore eval --model openai/gpt-5 --repeat 3 evals", "kore eval --scripted"),
    ),
    Verb(
        "backup",
        "back up the database, or everything",
        ("kore backup ~/kore-backup.db", "kore backup ~/kore-all.zip"),
    ),
    Verb(
        "restore",
        "restore from a backup",
        ("kore restore ~/kore-all.zip", "kore restore ~/kore-backup.db --yes"),
    ),
    Verb(
        "completion",
        "generate shell completions for bash, zsh or fish",
        ("source <(kore completion bash)", "kore completion fish | source"),
    ),
)


def find_verb(word: str) -> Verb | None:
    return next((verb for verb in VERBS if word == verb.name or word in verb.aliases), None)


def all_words() -> list[str]:
    return [word for verb in VERBS for word in (verb.name, *verb.aliases)]
