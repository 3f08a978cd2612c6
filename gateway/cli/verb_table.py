"""Table of verbs.

A row names the verb's function by its dotted path; the module is imported only to run the verb.
`gateway/cli/arguments.py` declares the arguments.
"""

import argparse
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from agent.errors import ConfigError
from agent.i18n import t
from gateway.core.channel_table import DEFAULT_CHANNEL


class Verb(NamedTuple):
    """Verb; `function` is the `module:name` of a function that maps parsed arguments to an exit
    code.
    """

    name: str
    summary: str
    function: str
    examples: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    # Hint for an option that the verb does not know.
    unknown: str = ""
    # Library that the verb needs, installed by the extra of the same name.
    library: str = ""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        declarations = import_module("gateway.cli.arguments")
        getattr(declarations, f"add_{self.name}_arguments")(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Import the function and call it; a subcommand may have set a different function.

        Raises `ConfigError` if the verb's library is not installed.
        """
        if self.library and find_spec(self.library) is None:
            raise ConfigError(
                t("kore {verb} needs a package that is not installed", verb=self.name),
                hint=t("install it: pip install 'kore-assistant[{extra}]'", extra=self.name),
            )
        module, _, name = getattr(args, "function", self.function).partition(":")
        return int(getattr(import_module(module), name)(args))


VERBS = (
    Verb(
        "agent",
        "chat with the agent here, or ask one question",
        "gateway.cli.chat.agent:run",
        (
            "kore agent",
            'kore agent -m "what is in this folder?"',
            "git diff | kore agent -p review",
        ),
        ("chat", "run"),
    ),
    Verb(
        "gateway",
        "run the gateway with every enabled channel",
        "gateway.cli.verbs.gateway:run",
        ("kore gateway",),
    ),
    Verb(
        "worker",
        "run turns for a gateway with workers",
        "gateway.cli.verbs.server.worker:run",
        ("kore worker", "kore gateway --workers 4"),
    ),
    Verb(
        "init",
        "create a configuration and a workspace",
        "gateway.cli.verbs.init:run",
        ("kore init", "kore init --yes"),
    ),
    Verb(
        "channel",
        "manage chat apps: add, list, new, test, remove",
        "gateway.cli.verbs.channel:run",
        (
            f"kore channel add {DEFAULT_CHANNEL}",
            f"kore channel add {DEFAULT_CHANNEL} --token-env BOT_TOKEN --no-wait",
            "kore channel list",
        ),
    ),
    Verb(
        "config",
        "check, show or edit the configuration",
        "gateway.cli.verbs.config.verb:run",
        (
            "kore config validate",
            "kore config set agent.model openai/gpt-5",
            f"kore config get {DEFAULT_CHANNEL}.allow_from",
            "kore config edit",
        ),
    ),
    Verb(
        "status",
        "show the status",
        "gateway.cli.verbs.status:run",
        ("kore status", "kore status --all", "kore status --json"),
    ),
    Verb(
        "trust",
        "trust a folder's configuration and files",
        "gateway.cli.verbs.trust:run",
        ("kore trust", "kore trust ~/code/mine", "kore trust --revoke"),
    ),
    Verb(
        "logs",
        "show the gateway's log",
        "gateway.cli.verbs.logs:run",
        ("kore logs -f", "kore logs -n 200 --level warning"),
    ),
    Verb(
        "reload",
        "reload the configuration of the running gateway",
        "gateway.cli.verbs.runtime:run_reload",
        ("kore reload", "kore reload --json"),
    ),
    Verb(
        "doctor",
        "diagnose problems and suggest fixes",
        "gateway.cli.verbs.doctor:run",
        ("kore doctor", "kore doctor --live"),
    ),
    Verb(
        "models",
        "list models and test them",
        "gateway.cli.verbs.models:run",
        ("kore models list", "kore models test", "kore models test quick"),
    ),
    Verb(
        "sessions",
        "list, show or export sessions",
        "gateway.cli.verbs.sessions:run",
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
        "gateway.cli.verbs.agents:run_agents",
        (
            "kore agents list",
            "kore agents show explore",
            "kore agents new critic --tools Read,Grep",
        ),
    ),
    Verb(
        "hooks",
        "list hooks, or run those for setting up a folder",
        "gateway.cli.verbs.hooks:run",
        ("kore hooks list", "kore hooks setup"),
    ),
    Verb(
        "plugin",
        "manage plugins: install, list, update, remove, audit",
        "gateway.cli.verbs.extensions.plugin:run",
        (
            "kore plugin install ./my-plugin",
            "kore plugin install owner/repository --ref v1.2",
            "kore plugin audit",
        ),
    ),
    Verb(
        "market",
        "manage markets of plugins: add, list, search, update",
        "gateway.cli.verbs.extensions.market:run",
        ("kore market add owner/repository", "kore market search release notes"),
    ),
    Verb(
        "skills",
        "manage skills: list, show, validate, new",
        "gateway.cli.verbs.extensions.skills:run",
        ("kore skills list", "kore skills validate ./my-skill", "kore skills new release-notes"),
    ),
    Verb(
        "mcp",
        "manage MCP servers: add, list, test, remove",
        "gateway.cli.verbs.mcp.verb:run",
        (
            "kore mcp add docs https://example.org/mcp",
            "kore mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes",
            "kore mcp test files",
        ),
    ),
    Verb(
        "serve",
        "serve clients, browsers and other machines",
        "gateway.cli.verbs.server.serve:run_serve",
        ("kore serve", "kore serve --listen-addr auto", "kore serve --listen-addr unix:/run/kore"),
    ),
    Verb(
        "web",
        "open Kore in a browser",
        "gateway.cli.verbs.server.serve:run_web",
        ("kore web", "kore web --no-browser"),
    ),
    Verb(
        "attach",
        "chat with a Kore on another machine",
        "gateway.cli.verbs.server.attach:run",
        ("kore attach", "KORE_TOKEN=… kore attach https://kore.example.org"),
    ),
    Verb(
        "token",
        "manage access tokens of the server: add, list, revoke",
        "gateway.cli.verbs.server.token:run",
        ("kore token add phone --scope chat --scope approve", "kore token list"),
    ),
    Verb(
        "tui",
        "chat full-screen: sessions in tabs, panes, search",
        "gateway.cli.verbs.tui:run",
        ("kore tui", "kore tui -c", "KORE_TOKEN=… kore tui https://kore.example.org"),
        library="textual",
    ),
    Verb(
        "acp",
        "run as the agent of an editor (Agent Client Protocol)",
        "gateway.cli.verbs.acp:run",
        ("kore acp",),
        library="acp",
    ),
    Verb(
        "tools",
        "list the tools the model can use",
        "gateway.cli.verbs.agents:run_tools",
        ("kore tools list",),
    ),
    Verb(
        "audit",
        "show, search and verify the audit log",
        "gateway.cli.verbs.audit:run",
        ("kore audit tail --follow", "kore audit search --denied --since 7d", "kore audit verify"),
    ),
    Verb(
        "cron",
        "manage reminders and scheduled tasks: list, add, change, run now",
        "gateway.cli.verbs.cron:run",
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
        "gateway.cli.verbs.people:run_pair",
        (
            "kore pair list",
            "kore pair approve ABCD-EFGH",
            f"kore pair revoke {DEFAULT_CHANNEL}:123",
        ),
    ),
    Verb(
        "policy",
        "explain permissions and manage permanent grants",
        "gateway.cli.verbs.policy:run",
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
        "gateway.cli.verbs.people:run_user",
        (
            f"kore user show {DEFAULT_CHANNEL}:123",
            f"kore user export {DEFAULT_CHANNEL}:123 -o theirs.zip",
            f"kore user delete {DEFAULT_CHANNEL}:123",
        ),
    ),
    Verb(
        "service",
        "run the gateway as a service: install, status, logs, uninstall",
        "gateway.cli.verbs.service:run",
        ("kore service install", "kore service logs --follow"),
    ),
    Verb(
        "replay",
        "retry a failed message",
        "gateway.cli.verbs.runtime:run_replay",
        ("kore replay 42",),
    ),
    Verb(
        "store",
        "change or remove the encryption key of stored messages",
        "gateway.cli.verbs.store:run",
        ("kore store rekey --to NEW_KORE_KEY", "kore store rekey --plain"),
    ),
    Verb(
        "eval",
        "run evaluation cases, with a model or a script",
        "gateway.cli.verbs.eval:run",
        ("kore eval", "kore eval --model openai/gpt-5 --repeat 3 evals", "kore eval --scripted"),
    ),
    Verb(
        "review",
        "review changes: uncommitted ones, a branch or a pull request",
        "gateway.cli.verbs.review.verb:run",
        ("kore review", "kore review --base main --json", "kore review --comment"),
    ),
    Verb(
        "backup",
        "back up the database, or everything",
        "gateway.cli.verbs.backup:run",
        ("kore backup ~/kore-backup.db", "kore backup ~/kore-all.zip"),
    ),
    Verb(
        "restore",
        "restore from a backup",
        "gateway.cli.verbs.restore:run",
        ("kore restore ~/kore-all.zip", "kore restore ~/kore-backup.db --yes"),
    ),
    Verb(
        "completion",
        "generate shell completions for bash, zsh or fish",
        "gateway.cli.verbs.completion:run",
        ("source <(kore completion bash)", "kore completion fish | source"),
    ),
)


def find_verb(word: str) -> Verb | None:
    return next((verb for verb in VERBS if word == verb.name or word in verb.aliases), None)


def all_words() -> list[str]:
    return [word for verb in VERBS for word in (verb.name, *verb.aliases)]
