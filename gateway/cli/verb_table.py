"""The table of verbs. A verb's module is imported only when it is called.

A verb is two functions: `add_arguments(parser)` and `run(args) -> int`. In a module that several
verbs share they carry its name: `add_reload_arguments` and `run_reload`.
"""

import argparse
from importlib import import_module
from typing import Any, NamedTuple


class Verb(NamedTuple):
    name: str
    summary: str
    examples: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    # What is said beside an option that the verb does not know.
    unknown: str = ""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        self._function("add_arguments", f"add_{self.name}_arguments")(parser)

    def run(self, args: argparse.Namespace) -> int:
        return int(self._function("run", f"run_{self.name}")(args))

    def _function(self, name: str, shared_name: str) -> Any:
        """Imports the verb's module."""
        shared = _SHARED.get(self.name)
        module = shared or _ELSEWHERE.get(self.name, f"verbs.{self.name}")
        return getattr(import_module(f"gateway.cli.{module}"), shared_name if shared else name)


# Verbs whose module is not in gateway/cli/verbs/.
_ELSEWHERE = {"agent": "chat.agent", "completion": "completion"}
# Verbs that share a module.
_SHARED = {
    "agents": "verbs.agents",
    "backup": "verbs.backup",
    "pair": "verbs.people",
    "reload": "verbs.runtime",
    "replay": "verbs.runtime",
    "restore": "verbs.backup",
    "status": "verbs.runtime",
    "tools": "verbs.agents",
    "user": "verbs.people",
}


VERBS = (
    Verb(
        "agent",
        "talk to the agent here, or ask it one thing",
        (
            "kore agent",
            'kore agent -m "what is in this folder?"',
            "git diff | kore agent -p review",
        ),
        ("chat", "run"),
    ),
    Verb("gateway", "run the service: Telegram and every other enabled channel", ("kore gateway",)),
    Verb("init", "make a first configuration and workspace", ("kore init", "kore init --yes")),
    Verb(
        "channel",
        "connect a chat app: add, list, test, remove",
        (
            "kore channel add telegram",
            "kore channel add telegram --token-env TELEGRAM_BOT_TOKEN --no-wait",
            "kore channel list",
        ),
    ),
    Verb(
        "config",
        "check, show or change the configuration",
        (
            "kore config validate",
            "kore config set agent.model openai/gpt-5",
            "kore config get telegram.allow_from",
            "kore config edit",
        ),
    ),
    Verb("status", "what is running, and how it is", ("kore status", "kore status --json")),
    Verb(
        "trust",
        "let the files of a folder count as your own",
        ("kore trust", "kore trust ~/code/mine", "kore trust --revoke"),
    ),
    Verb("logs", "what the gateway logged", ("kore logs -f", "kore logs -n 200 --level warning")),
    Verb(
        "reload",
        "have the running gateway read its configuration again",
        ("kore reload", "kore reload --json"),
    ),
    Verb(
        "doctor",
        "look for what is wrong and say how to mend it",
        ("kore doctor", "kore doctor --live"),
    ),
    Verb(
        "models",
        "which models there are, and whether they answer",
        ("kore models list", "kore models test", "kore models test quick"),
    ),
    Verb(
        "sessions",
        "list, show or export conversations",
        (
            "kore sessions list",
            "kore sessions show 20250218_001946",
            'kore sessions search "kitchen light" Zürich',
            "kore sessions export 20250218_001946 --format markdown > talk.md",
        ),
    ),
    Verb(
        "agents",
        "who can be sent out to do a piece of work: list, show, new",
        (
            "kore agents list",
            "kore agents show explore",
            "kore agents new critic --tools Read,Grep",
        ),
    ),
    Verb("tools", "what the model can do, under which names", ("kore tools list",)),
    Verb(
        "audit",
        "who was allowed to do what, and whether the record of it is whole",
        ("kore audit tail --follow", "kore audit search --denied --since 7d", "kore audit verify"),
    ),
    Verb(
        "cron",
        "reminders and tasks that come due by themselves: list, add, change, run now",
        (
            "kore cron list",
            'kore cron add "tomorrow 9:00" "call the dentist"',
            'kore cron add --ask "0 7 * * 1-5" "what is on my calendar today?"',
            "kore cron run 3",
        ),
    ),
    Verb(
        "pair",
        "who may write to Kore: list, approve, revoke",
        ("kore pair list", "kore pair approve ABCD-EFGH", "kore pair revoke telegram:123"),
    ),
    Verb(
        "policy",
        "what would happen to a command, and what was allowed for longer than once",
        (
            'kore policy check "git push"',
            "kore policy check --role general --channel telegram --json ls",
            "kore policy explain --mode accept-edits 'make test && git push'",
            "kore policy grants",
            "kore policy revoke 3",
        ),
        unknown="a command with options goes in quotes: kore policy check 'ls -la'",
    ),
    Verb(
        "user",
        "give out all that is kept of one person, or delete it",
        (
            "kore user show telegram:123",
            "kore user export telegram:123 -o theirs.zip",
            "kore user delete telegram:123",
        ),
    ),
    Verb(
        "service",
        "keep the gateway running: install, status, logs, uninstall",
        ("kore service install", "kore service logs --follow"),
    ),
    Verb("replay", "queue a message again that was given up on", ("kore replay 42",)),
    Verb(
        "store",
        "seal the stored messages with another key, or none",
        ("kore store rekey --to NEW_KORE_KEY", "kore store rekey --plain"),
    ),
    Verb(
        "eval",
        "try the agent on test cases, with a model or by script",
        ("kore eval", "kore eval --model openai/gpt-5 --repeat 3 evals", "kore eval --scripted"),
    ),
    Verb(
        "backup",
        "copy the database while it is in use, or all there is",
        ("kore backup ~/kore-backup.db", "kore backup ~/kore-all.zip"),
    ),
    Verb(
        "restore",
        "put a backup in the place of what there is",
        ("kore restore ~/kore-all.zip", "kore restore ~/kore-backup.db --yes"),
    ),
    Verb(
        "completion",
        "what lets Tab complete this in bash, zsh or fish",
        ("source <(kore completion bash)", "kore completion fish | source"),
    ),
)


def find_verb(word: str) -> Verb | None:
    return next((verb for verb in VERBS if word == verb.name or word in verb.aliases), None)


def all_words() -> list[str]:
    return [word for verb in VERBS for word in (verb.name, *verb.aliases)]
