"""Kore as an installed agent of harbor, which runs terminal-bench.

    export PYTHONPATH=evals/adapters
    harbor run -d terminal-bench@2.0 --agent kore_harbor.agent:Kore \\
        --model openai/gpt-5 --ak wheel=dist/kore_assistant-0.1.0-py3-none-any.whl

Keyword arguments (`--ak`): `wheel`, the built program, which is copied into the container;
`max_iter`, `max_cost` and `thinking` as for `kore agent`. Written against harbor 0.24.
"""

import json
import os
import shlex
from pathlib import Path, PurePosixPath
from typing import Any

from harbor.agents.installed.base import BaseInstalledAgent, CliFlag, with_prompt_template
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext

from kore_harbor.trajectory import read_events, to_trajectory

_LOGS = PurePosixPath("/logs/agent")
_STREAM = "kore.jsonl"
_INSTALLED = "/installed-agent"
_PATH = 'export PATH="$HOME/.local/bin:$PATH"; '
# uv installs its own Python; a task's image may have an old version, or none.
_UV = (
    "command -v uv >/dev/null || python3 -m pip install --quiet --user uv"
    " || python3 -m pip install --quiet --user --break-system-packages uv"
    " || { command -v curl >/dev/null || { apt-get update -qq; apt-get install -qqy curl; };"
    " curl -LsSf https://astral.sh/uv/install.sh | sh; }"
)
# Vendors whose key is not named VENDOR_API_KEY.
_KEYS = {
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "moonshot": ("MOONSHOT_API_KEY", "KIMI_API_KEY"),
    "qwen": ("DASHSCOPE_API_KEY", "QWEN_API_KEY"),
    "zhipu": ("ZHIPU_API_KEY", "ZHIPUAI_API_KEY"),
}


class Kore(BaseInstalledAgent):
    SUPPORTS_ATIF = True
    CLI_FLAGS = [  # noqa: RUF012  # as the base class has it
        CliFlag("max_iter", cli="--max-iter", type="int"),
        CliFlag("max_cost", cli="--max-cost", type="str"),
        CliFlag("thinking", cli="--thinking", type="bool"),
    ]

    def __init__(self, *args: Any, wheel: str | Path | None = None, **kwargs: Any) -> None:
        self._wheel = Path(wheel or os.environ.get("KORE_WHEEL", ""))
        self._instruction = ""
        super().__init__(*args, **kwargs)

    @staticmethod
    def name() -> str:
        return "kore"

    def get_version_command(self) -> str | None:
        return f"{_PATH}kore --version"

    def parse_version(self, stdout: str) -> str:
        return stdout.strip().split()[-1]

    async def install(self, environment: BaseEnvironment) -> None:
        """Install Kore in a separate environment, with a Python independent of the task's."""
        if not self._wheel.is_file():
            raise ValueError("name the built program: --ak wheel=dist/kore_assistant-….whl")
        await environment.upload_file(self._wheel, f"{_INSTALLED}/{self._wheel.name}")
        wheel = shlex.quote(f"{_INSTALLED}/{self._wheel.name}")
        await self.exec_as_agent(
            environment,
            command=(
                f"set -eu; {_PATH}{_UV}; "
                f"uv tool install --quiet --python 3.12 {wheel}; kore --version"
            ),
        )

    @with_prompt_template
    async def run(
        self, instruction: str, environment: BaseEnvironment, context: AgentContext
    ) -> None:
        if not self.model_name:
            raise ValueError("name a model: --model vendor/model")
        self._instruction = instruction
        await self.exec_as_agent(environment, command=self.command(instruction), env=self._keys())

    def command(self, instruction: str) -> str:
        """Return the command of an unattended turn, whose events go to a file and to harbor."""
        words = ("kore", "agent", "--model", str(self.model_name))
        flags = self.build_cli_flags()
        return (
            f'{_PATH}{shlex.join(words)} --cwd "$PWD" --auto --output-format stream-json'
            f"{f' {flags}' if flags else ''} --message {shlex.quote(instruction)}"
            f" </dev/null 2>{_LOGS}/kore.err | tee {_LOGS}/{_STREAM}"
        )

    def populate_context_post_run(self, context: AgentContext) -> None:
        """Write the trajectory next to the stream, and its totals for harbor's tables."""
        stream = self.logs_dir / _STREAM
        if not stream.is_file():
            return
        with stream.open(encoding="utf-8", errors="replace") as file:
            events = read_events(file)
        version = self.version() or "unknown"
        trajectory = to_trajectory(events, self._instruction, version, self.model_name)
        target = self.logs_dir / "trajectory.json"
        target.write_text(json.dumps(trajectory, indent=1, ensure_ascii=False), encoding="utf-8")
        totals = trajectory["final_metrics"]
        context.n_input_tokens = totals["total_prompt_tokens"]
        context.n_output_tokens = totals["total_completion_tokens"]
        context.n_cache_tokens = totals["total_cached_tokens"]
        context.cost_usd = totals.get("total_cost_usd")

    def _keys(self) -> dict[str, str]:
        """Return the key and the address of the model's vendor, and no other secret of the host."""
        vendor = str(self.model_name).split("/", 1)[0].lower()
        upper = vendor.upper().replace("-", "_")
        names = (*_KEYS.get(vendor, (f"{upper}_API_KEY",)), f"{upper}_BASE_URL")
        result = {name: self._get_env(name) for name in names}
        return {name: value for name, value in result.items() if value}
