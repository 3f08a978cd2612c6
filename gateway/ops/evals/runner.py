"""Runner of cases: each in a new folder, with the agent of the settings."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from agent import events
from agent.agent import Agent
from agent.errors import ConfigError
from agent.i18n import t
from agent.providers.registry import OFFLINE
from agent.providers.scripted import ScriptedProvider
from agent.records import frozen
from agent.security.files.folder_tree import scratch_folder
from agent.security.policy.engine import PrincipalContext, RolePolicy
from agent.security.policy.policy_file import built_in_roles
from agent.security.sandbox.base import Sandbox
from agent.settings import AgentSettings, ToolSettings
from agent.tools.runner import Permissions
from agent.types import Usage
from gateway.config import Settings
from gateway.ops.evals.case import EvalCase
from gateway.ops.evals.judge import EvalOutcome, failures
from gateway.ops.evals.repository import missing_programs
from gateway.runtime.paths import DataDir
from gateway.runtime.sandbox import choose_sandbox
from gateway.turns.agents.factory import build_agent


@frozen
class Verdict:
    """Result of one run of a case.

    The case has passed if `fault` is empty, unless it was `skipped` for the given reason. `steps`
    counts the replies of the model.
    """

    case: str
    faults: tuple[str, ...]
    seconds: float
    usage: Usage
    cost_usd: float | None
    steps: int = 0
    kind: str | None = None
    skipped: str | None = None

    @property
    def passed(self) -> bool:
        return not self.faults and self.skipped is None


@frozen
class EvalRunner:
    """Runner of cases with the configured model, or with each case's script.

    Calls that would ask a person run if the role `build` allows them in mode auto, inside the
    sandbox of the settings.
    """

    settings: Settings
    home: DataDir
    model: str | None = None
    scripted: bool = False

    async def subject(self) -> str:
        """Return the name of the tested model, or that scripts are used.

        Raises `ConfigError` for a model that is missing or cannot be used.
        """
        if self.scripted:
            return "scripts"
        choice = await choose_sandbox(self.settings, self.home)
        async with aclosing(
            await build_agent(self._settings(), self.home, choice.sandbox)
        ) as agent:
            name = agent.models.default
            if name == OFFLINE and OFFLINE not in (self.model, self.settings.agent.model):
                raise ConfigError(
                    t("no model to evaluate: none is configured, and no API key was found"),
                    hint=t(
                        "Set a key such as OPENAI_API_KEY, choose a model with --model, or use"
                        " --scripted to replay the cases' scripts."
                    ),
                )
            model = agent.models.check(name).model
            return model if model == name else f"{name} ({model})"

    async def run(
        self, cases: Sequence[EvalCase], show: Callable[[Verdict], None], at_once: int = 1
    ) -> list[Verdict]:
        """Return the verdicts in the order of the cases; each is shown once its turn comes."""
        gate = asyncio.Semaphore(at_once)

        async def one(case: EvalCase) -> Verdict:
            async with gate:
                return await self._try_case(case)

        verdicts = []
        async with asyncio.TaskGroup() as group:
            for task in [group.create_task(one(case), name=case.name) for case in cases]:
                verdicts.append(await task)
                show(verdicts[-1])
        return verdicts

    async def _try_case(self, case: EvalCase) -> Verdict:
        """Run and judge a case; a failure of the machine becomes a verdict, too."""
        if missing := missing_programs(case.programs):
            reason = f"{' and '.join(missing)} not installed"
            return Verdict(case.name, (), 0.0, Usage(), 0.0, kind=case.kind, skipped=reason)
        began = time.monotonic()
        try:
            outcome, faults = await self._run_case(case)
        except OSError as exc:
            outcome, faults = None, [f"it could not be run: {exc}"]
        return Verdict(
            case.name,
            tuple(faults),
            time.monotonic() - began,
            outcome.usage if outcome else Usage(),
            outcome.cost_usd if outcome else None,
            outcome.steps if outcome else 0,
            case.kind,
        )

    async def _run_case(self, case: EvalCase) -> tuple[EvalOutcome, list[str]]:
        choice = await choose_sandbox(self.settings, self.home)
        with scratch_folder("kore-eval-") as place:
            folder = await asyncio.to_thread(case.lay_out, place)
            outcome = EvalOutcome(folder, choice.sandbox)
            agent = await self._agent(case, folder, choice.sandbox)
            try:
                async with asyncio.timeout(case.max_seconds):
                    await _converse(agent, case, outcome)
            except TimeoutError:
                if case.max_seconds is None:
                    raise
                outcome.error = f"it took longer than {case.max_seconds:g} s"
            finally:
                await agent.aclose()
            try:
                case.lay_out_hidden(folder)
            except ConfigError as exc:  # a link made by the model leads out of the folder
                return outcome, [str(exc)]
            return outcome, await failures(case, outcome)

    async def _agent(self, case: EvalCase, folder: Path, sandbox: Sandbox) -> Agent:
        principal = PrincipalContext(
            built_in_roles()["build"], "auto", is_confined=sandbox.confines
        )
        permissions = Permissions(RolePolicy(principal))
        most = case.max_iterations or self.settings.agent.max_iterations
        if not self.scripted:
            settings = self._settings(workspace=folder, max_iterations=most)
            return await build_agent(settings, self.home, sandbox, permissions)
        limits = AgentSettings(most, tools=ToolSettings(sandbox=sandbox))
        script = ScriptedProvider(case.replies())
        return Agent(script, workspace=folder, settings=limits, approve=permissions)

    def _settings(self, **changes: Any) -> Settings:
        """Return the settings with the tested values in place."""
        if self.model:
            changes["model"] = self.model
        section = self.settings.agent.model_copy(update=changes)
        return self.settings.model_copy(update={"agent": section})


async def _converse(agent: Agent, case: EvalCase, outcome: EvalOutcome) -> None:
    """Ask one task after the other and record the outcome."""
    for task in case.tasks:
        async with aclosing(agent.stream(task, session=case.name)) as stream:
            async for event in stream:
                match event:
                    case events.IterationStart():
                        outcome.steps += 1
                    case events.ToolStart(name=name):
                        tool = agent.toolbox.find(name)
                        tool_name = tool.name if tool else name
                        outcome.calls[tool_name] = outcome.calls.get(tool_name, 0) + 1
                    case events.Error(message=message):
                        outcome.error = message
                    case events.Done(result):
                        outcome.answer = result.text
                        outcome.usage += result.usage
                        if result.cost_usd is None or outcome.cost_usd is None:
                            outcome.cost_usd = None
                        else:
                            outcome.cost_usd += result.cost_usd
        if outcome.error:
            return
