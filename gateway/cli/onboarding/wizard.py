"""Setup wizard of `kore init`: steps can be repeated or skipped; files are written at the end."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.i18n import (
    ENGLISH,
    LANGUAGES,
    current_locale,
    is_writable,
    language_of_terminal,
    set_locale,
    t,
)
from agent.records import frozen
from gateway.cli.onboarding.dialogue import BACK, SKIP, Back, Dialogue, Skip
from gateway.cli.onboarding.persona import Persona, ask_persona, write_persona
from gateway.cli.onboarding.provider import ask_provider
from gateway.config import Settings
from gateway.config.editing import change_config, change_secrets
from gateway.config.model_entries import model_list
from gateway.config.origin import Key
from gateway.ops.doctor.configuration import check_sandbox
from gateway.runtime.paths import DataDir
from gateway.runtime.workspace import ensure_workspace


@dataclass(slots=True)
class SetupPlan:
    """Changes to write: keys of config.json and names of secrets.json with their new values."""

    config: dict[Key, Any] = field(default_factory=dict)
    secrets: dict[str, str | None] = field(default_factory=dict)
    persona: Persona = field(default_factory=Persona)
    model: str = ""

    def write(self, home: DataDir, path: Path, workspace: Path) -> None:
        """Write secrets, configuration and workspace, each file atomically. Raises `ConfigError`.

        The order ensures that a written file never refers to a missing file.
        """
        with _without_interrupts():
            home.ensure()
            if self.secrets:
                change_secrets(home.secrets, self.secrets)
            change_config(path, self.config)
            ensure_workspace(workspace)
            write_persona(workspace, self.persona)


def with_model(raw: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[Key, Any]:
    """Return the keys that make `entry` the active model; other entries are unchanged."""
    entries = raw.get("model_list")
    others = [
        item
        for item in (entries if isinstance(entries, list) else [])
        if not (isinstance(item, dict) and item.get("model_name") == entry["model_name"])
    ]
    return {("agent", "model"): entry["model_name"], ("model_list",): [dict(entry), *others]}


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the block has ended."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_LANGUAGES = ("English", "简体中文", "繁體中文")

_PLAIN = ("English", "Chinese, simplified", "Chinese, traditional")


@frozen
class SetupContext:
    """Home folder and its current configuration (`raw`, as JSON), which the answers update."""

    home: DataDir
    settings: Settings
    raw: Mapping[str, Any]


Step = Callable[[Dialogue, SetupPlan, SetupContext], None]


def converse(dialogue: Dialogue, context: SetupContext) -> SetupPlan:
    """Ask all questions without writing. Raises `KeyboardInterrupt`, `KoreError`."""
    plan, position = SetupPlan(), 0
    while position < len(_STEPS):
        answers_before = dialogue.answers
        try:
            _STEPS[position](dialogue, plan, context)
        except Back:
            # Go from the middle of a step to its beginning, and from there to the previous step.
            position -= 1 if dialogue.answers == answers_before else 0
            position = max(position, 0)
        except Skip:
            dialogue.say(t("Unchanged."))
            position += 1
        else:
            position += 1
    return plan


def _language(dialogue: Dialogue, plan: SetupPlan, context: SetupContext) -> None:
    dialogue.say()
    labels, question = _LANGUAGES, "Language / 语言 / 語言"
    if not is_writable(LANGUAGES[-1], sys.stdout.encoding):
        labels, question = _PLAIN, "Language"
    number = dialogue.choose(question, labels, LANGUAGES.index(current_locale()))
    language = LANGUAGES[number]
    # A language that this terminal cannot display is used for chats only.
    set_locale(language if is_writable(language, sys.stdout.encoding) else ENGLISH)
    plan.persona.language = _LANGUAGES[number]
    configured = context.settings.agent.language
    if configured != language and (
        configured != "auto" or language_of_terminal(os.environ) != language
    ):
        plan.config["agent", "language"] = language
    dialogue.say(
        t(
            "Enter = default in [brackets]; {back} back; {skip} skip; Ctrl-C quits "
            "without writing anything.",
            back=BACK,
            skip=SKIP,
        )
    )


def _model(dialogue: Dialogue, plan: SetupPlan, context: SetupContext) -> None:
    dialogue.say()
    names = {model_config.name: model_config.model for model_config in model_list(context.settings)}
    current = names.get(context.settings.agent.model)
    for key in (("agent", "model"), ("model_list",)):
        plan.config.pop(key, None)
    plan.secrets.clear()
    choice = ask_provider(
        dialogue,
        os.environ,
        current,
        find_local=context.settings.agent.find_local_models,
    )
    if choice is not None:
        plan.secrets.update(choice.secrets)
        if choice.entry is not None:
            plan.config.update(with_model(context.raw, choice.entry))
        elif current:
            plan.config["agent", "model"] = "offline/echo"


def _persona(dialogue: Dialogue, plan: SetupPlan, context: SetupContext) -> None:
    dialogue.say()
    ask_persona(dialogue, plan.persona, context.settings.agent.workspace)


def _sandbox(dialogue: Dialogue, _: SetupPlan, context: SetupContext) -> None:
    """Report the sandbox for commands, or a sandbox that could be used; ask nothing."""
    dialogue.say()
    dialogue.say(t("Looking for a sandbox for the commands I run …"))
    check = check_sandbox(context.settings, context.home)
    dialogue.say(f"  {check.detail}" + (f"\n  {check.fix}" if check.fix else ""))


_STEPS: tuple[Step, ...] = (_language, _model, _persona, _sandbox)
