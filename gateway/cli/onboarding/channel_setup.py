"""Setup of a channel: ask for its credentials, check them, and store them."""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.records import frozen
from gateway.channels.spec import ChannelIdentity, ChannelSpec, SetupStep
from gateway.cli.onboarding.dialogue import Dialogue
from gateway.config import Settings
from gateway.config.channel_section import ChannelSection, environment_variable
from gateway.config.key_catalog import own_setting
from gateway.config.origin import Key
from gateway.core.errors import ServiceUnreachable

_MAX_TRIES = 5
_REFERENCE = re.compile(r"\$\{(\w+)\}")


@frozen
class StepAnswer:
    """Value of a step; `variable` is the environment variable it came from, None if typed."""

    step: SetupStep
    text: str
    variable: str | None = None


@frozen
class SetupResult:
    """Answers to all steps and the settings with them.

    `identity` is the account on the platform; None if the platform could not be reached.
    """

    answers: tuple[StepAnswer, ...]
    section: ChannelSection
    identity: ChannelIdentity | None


@frozen
class ConfigChange:
    """Keys of config.json and names of secrets.json to write; None removes a name."""

    config: Mapping[Key, Any]
    secrets: Mapping[str, str | None]


@frozen
class ChannelSetup:
    """Setup of one account of a channel; `account` is the name of an additional account."""

    spec: ChannelSpec[Any]
    settings: Settings
    account: str | None = None

    @property
    def section(self) -> ChannelSection:
        section: ChannelSection = self.spec.section_of(self.settings)
        return section

    @property
    def key(self) -> Key:
        """Path of the channel's section in config.json."""
        return tuple(self.spec.settings_key.split("."))

    def configured(self) -> ChannelSection | None:
        """Return the section with this account's credentials as the first account's.

        Returns None if the account is not connected.
        """
        section = self.section
        if not section.enabled:
            return None
        if self.account is None:
            return section if section.has_credentials else None
        for account in section.accounts:
            if account.name == self.account:
                keys = [step.key for step in self.spec.steps if hasattr(account, step.key)]
                return section.model_copy(update={key: getattr(account, key) for key in keys})
        return None

    def require_configured(self) -> ChannelSection:
        """Return the section like `configured`; raise `KoreError` if there is none."""
        section = self.configured()
        if section is None:
            raise KoreError(
                t("this account is not connected"),
                hint=t("`kore channel list` shows the connected accounts"),
            )
        return section

    def check(self, answers: Sequence[StepAnswer]) -> SetupResult:
        """Check the credentials with the platform.

        Raises `KoreError`, including `ServiceUnreachable` if there is no answer.
        """
        section = self._section_with(answers)
        return SetupResult(tuple(answers), section, self.identify(section))

    def _section_with(self, answers: Sequence[StepAnswer]) -> ChannelSection:
        for answer in answers:
            answer.step.check(answer.text)
        values = {answer.step.key: answer.text for answer in answers}
        try:
            section: ChannelSection = self.spec.section.model_validate(
                {**dict(self.section), **values}
            )
        except ValidationError as exc:
            error = exc.errors(include_url=False, include_input=False)[0]
            raise KoreError(f"{'.'.join(map(str, error['loc']))}: {error['msg']}") from None
        return section

    def identify(self, section: ChannelSection) -> ChannelIdentity:
        """Return the account on the platform. Raises `KoreError`."""
        if self.spec.identify is None:
            return ChannelIdentity(
                self.account or self.spec.first_account(section), self.spec.title
            )
        return asyncio.run(self.spec.identify(section))

    def exported(self) -> list[StepAnswer]:
        """Return the answers from environment variables, or an empty list unless all are set."""
        answers = []
        for step in self.spec.steps:
            names = [environment_variable(self.spec.name, step.key)] if self._has_own_names else []
            names.append(self.variable(step))
            name = next((name for name in names if os.environ.get(name)), None)
            if name is None:
                return []
            answers.append(StepAnswer(step, os.environ[name].strip(), name))
        return answers

    def from_variable(self, name: str) -> SetupResult:
        """Use a named variable as the only credential. Raises `KoreError`."""
        text = os.environ.get(name, "").strip()
        if not text:
            raise ConfigError(
                t("the environment variable {name} is not set", name=name),
                hint=t("export it, or omit --token-env to be asked"),
            )
        if len(self.spec.steps) != 1:
            names = ", ".join(self.variable(step) for step in self.spec.steps)
            raise ConfigError(t("this channel needs several variables: {names}", names=names))
        return self.check([StepAnswer(self.spec.steps[0], text, name)])

    def from_lines(self, lines: Sequence[str]) -> SetupResult:
        """Use lines of text as answers, one per step. Raises `KoreError`."""
        steps = self.spec.steps
        texts = [*map(str.strip, lines), *[""] * len(steps)][: len(steps)]
        return self.check(list(map(StepAnswer, steps, texts)))

    def ask(self, dialogue: Dialogue) -> SetupResult:
        """Ask until the platform accepts the answers, offering exported ones first.

        Raises `KoreError` without an accepted answer.
        """
        exported = self.exported()
        names = ", ".join(str(answer.variable) for answer in exported)
        is_wanted = exported and dialogue.confirm(t("Use the token in {name}?", name=names))
        if is_wanted and (connection := self._try(dialogue, exported)):
            return connection
        for step in self.spec.steps:
            for line in step.instructions():
                dialogue.say(line)
        for _ in range(_MAX_TRIES):
            answers = [
                StepAnswer(
                    step,
                    (dialogue.secret if self._is_secret(step) else dialogue.ask)(step.question()),
                )
                for step in self.spec.steps
            ]
            if connection := self._try(dialogue, answers):
                return connection
        raise KoreError(t("no token given; nothing was written"))

    def _try(self, dialogue: Dialogue, answers: Sequence[StepAnswer]) -> SetupResult | None:
        """Check the answers; return None if the person has to be asked again.

        Without a network, the answers can be stored and checked later.
        """
        while True:
            try:
                return self.check(answers)
            except ServiceUnreachable as exc:
                _complain(dialogue, exc)
                ways = [t("try again"), t("keep the token and verify it later"), t("another token")]
                match dialogue.choose(t("What now?"), ways, default=1):
                    case 1:
                        return SetupResult(tuple(answers), self._section_with(answers), None)
                    case 2:
                        return None
            except KoreError as exc:
                _complain(dialogue, exc)
                return None

    def addition(self, connection: SetupResult, raw: Mapping[str, Any]) -> ConfigChange:
        """Return the changes that connect the account; `raw` is the current configuration file.

        Raises `ConfigError` for an additional account without a first one.
        """
        if self.account is not None and ChannelSetup(self.spec, self.settings).configured() is None:
            raise ConfigError(
                t("no account is connected yet"), hint=t("connect the first one without --name")
            )
        values: dict[str, Any] = {}
        secrets: dict[str, str | None] = {}
        for answer in connection.answers:
            if not self._is_secret(answer.step):
                values[answer.step.key] = answer.text
                continue
            variable = answer.variable or self._free_name(answer, connection)
            if not answer.variable:
                secrets[variable] = answer.text
            is_own = variable == environment_variable(self.spec.name, answer.step.key)
            if not (is_own and self._has_own_names):
                values[answer.step.key] = f"${{{variable}}}"
        if self.account is None:
            config = {(*self.key, key): value for key, value in values.items()}
            return ConfigChange({(*self.key, "enabled"): True, **config}, secrets)
        others = [entry for entry in self._accounts(raw) if entry.get("name") != self.account]
        accounts = [*others, {"name": self.account, **values}]
        return ConfigChange({(*self.key, "accounts"): accounts}, secrets)

    def removal(self, raw: Mapping[str, Any]) -> ConfigChange:
        """Return the changes that disconnect the account and remove its credentials."""
        keys = [step.key for step in self.spec.steps if self._is_secret(step)]
        config: dict[Key, Any]
        if self.account is None:
            entry = self._raw_section(raw)
            config = {(*self.key, "enabled"): False, **{(*self.key, key): "" for key in keys}}
        else:
            accounts = self._accounts(raw)
            entry = next((item for item in accounts if item.get("name") == self.account), {})
            remaining = [item for item in accounts if item.get("name") != self.account]
            config = {(*self.key, "accounts"): remaining}
        references = (_REFERENCE.fullmatch(str(entry.get(key))) for key in keys)
        return ConfigChange(config, {match[1]: None for match in references if match})

    def variable(self, step: SetupStep) -> str:
        """Return the environment variable for a step's value, also its name in secrets.json."""
        stored_as = own_setting(self.spec.section.model_fields[step.key]).stored_as
        return stored_as or f"{self.spec.name}_{step.key}".upper()

    def _is_secret(self, step: SetupStep) -> bool:
        return step.key in self.spec.section.credentials

    @property
    def _has_own_names(self) -> bool:
        """True if Kore's own variables set this account's keys."""
        return self.account is None and self.spec.is_built_in

    def _raw_section(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        section: Any = raw
        for part in self.key:
            section = section.get(part) if isinstance(section, dict) else None
        return section if isinstance(section, dict) else {}

    def _accounts(self, raw: Mapping[str, Any]) -> list[dict[str, Any]]:
        accounts = self._raw_section(raw).get("accounts")
        entries = accounts if isinstance(accounts, list) else []
        return [entry for entry in entries if isinstance(entry, dict)]

    def _free_name(self, answer: StepAnswer, connection: SetupResult) -> str:
        """Return a name for secrets.json that no exported variable overrides."""
        name = self.variable(answer.step)
        name = name if self.account is None else f"{name}_{self.account.upper()}"
        if os.environ.get(name, answer.text) == answer.text:
            return name
        return f"{name}_{self.spec.first_account(connection.section)}"


def _complain(dialogue: Dialogue, exc: KoreError) -> None:
    dialogue.say(f"  {exc}" + (f"; {exc.hint}" if exc.hint else ""))
