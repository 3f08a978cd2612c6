"""`/NAME` in requests of programs: commands, skills, and words that are neither."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from agent.providers.scripted import ScriptedProvider
from agent.skills.catalog import SkillCatalog, SkillPaths
from agent.types import Context, assistant
from tests.agent.skills.skill_files import write
from tests.gateway.parts import tool_call
from tests.gateway.server.openai_api.clients import client_of, says, served_with_model
from tests.gateway.server.served import Served, served

SKILL = "---\ndescription: Makes a release.\n---\nTag $0 now."
POLICY = """\
roles:
  reader: {tools: {skill: {}}}
"""


def add_prompts(server: Served, folder: Path) -> None:
    own = folder / "own"
    write(own / "skills", "make-release", SKILL)
    write(own / "skills", "run", "---\ndescription: Runs.\n---\n!`touch ran.txt`")
    (own / "commands").mkdir()
    (own / "commands" / "fix.md").write_text("Mend $ARGUMENTS.")
    paths = SkillPaths(folder / "user", own, server.parts.workspace)
    server.parts.agent.skills = SkillCatalog(paths)


@asynccontextmanager
async def client_with_role(server: Served, role: str) -> AsyncIterator[openai.AsyncOpenAI]:
    secret = server.tokens.add("kiosk", ("chat",), role)
    async with openai.AsyncOpenAI(
        base_url=f"{server.address}/v1", api_key=secret, max_retries=0
    ) as client:
        yield client


def words_for_model(model: ScriptedProvider) -> str:
    """Return the words and the context of the last person's message."""
    message = next(each for each in reversed(model.requests[-1].messages) if each.role == "user")
    return "\n".join(
        [message.text, *(part.text for part in message.content if isinstance(part, Context))]
    )


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("/make-release v1", "Tag v1 now."),
        ("/fix issue 7", "Mend issue 7."),
        ("/fix", "Mend ."),
        ("/review the tests", "Review the changes in this folder"),
    ],
)
async def test_program_invokes_commands_and_skills(tmp_path: Path, typed: str, text: str) -> None:
    model = ScriptedProvider(["done", "done"])
    async with served(tmp_path, model) as server, client_of(server) as client:
        add_prompts(server, tmp_path)
        await client.chat.completions.create(model="kore", messages=says(typed))
        assert text in words_for_model(model)
        await client.responses.create(model="kore", input=typed)
        assert text in words_for_model(model)


@pytest.mark.parametrize("text", ["/etc and /usr?", "/usr/bin", "// a comment", "/word more"])
async def test_other_words_with_a_slash_reach_the_model_unchanged(
    tmp_path: Path, text: str
) -> None:
    async with served(tmp_path) as server, client_of(server) as client:
        answer = await client.chat.completions.create(model="kore", messages=says(text))
        response = await client.responses.create(model="kore", input=text)
    assert answer.choices[0].message.content == f"re: {text}"
    assert response.output_text == f"re: {text}"


@pytest.mark.parametrize("text", ["/auto", "/mode@kore auto", "\n /MODE auto", "/skills new x"])
async def test_program_without_the_scope_admin_runs_no_command(tmp_path: Path, text: str) -> None:
    async with served(tmp_path) as server, client_of(server) as client:
        with pytest.raises(openai.PermissionDeniedError):
            await client.chat.completions.create(model="kore", messages=says(text))
        with pytest.raises(openai.PermissionDeniedError):
            await client.responses.create(model="kore", input=text)
        assert await server.parts.service.list_sessions() == []


async def test_plain_model_gets_the_words_unchanged(tmp_path: Path) -> None:
    async with served_with_model(tmp_path) as (server, model), client_of(server) as client:
        add_prompts(server, tmp_path)
        for text in ("/make-release v1", "/auto"):
            await client.chat.completions.create(model="stand-in", messages=says(text))
            assert model.requests[-1].body["messages"] == says(text)


@pytest.mark.parametrize(("role", "is_read"), [("guest", False), ("reader", True)])
async def test_role_determines_if_a_program_invokes_a_skill(
    tmp_path: Path, role: str, is_read: bool
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    model = ScriptedProvider(["done", "done"])
    async with (
        served(tmp_path, model, policy=policy) as server,
        client_with_role(server, role) as client,
    ):
        add_prompts(server, tmp_path)
        for text in ("/make-release v1", "/make-release"):
            await client.chat.completions.create(model="kore", messages=says(text))
            assert text in words_for_model(model)
            assert ("Tag" in words_for_model(model)) == is_read


async def test_word_of_a_token_with_a_role_is_for_the_model(tmp_path: Path) -> None:
    async with served(tmp_path) as server, client_with_role(server, "guest") as client:
        answer = await client.chat.completions.create(model="kore", messages=says("/etc"))
    assert answer.choices[0].message.content == "re: /etc"


async def test_skill_gives_a_role_no_further_tools(tmp_path: Path) -> None:
    """The role may read the skill, but not run the command in it."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    touch: Any = assistant("", (tool_call("1", "exec", command="touch ran.txt"),))
    model = ScriptedProvider([touch, "not allowed"])
    async with (
        served(tmp_path, model, policy=policy) as server,
        client_with_role(server, "reader") as client,
    ):
        add_prompts(server, tmp_path)
        await client.chat.completions.create(model="kore", messages=says("/run"))
        assert "touch ran.txt" in words_for_model(model)
        (result,) = (each for each in model.requests[-1].messages if each.role == "tool")
        assert result.is_error
        assert not (server.parts.workspace / "ran.txt").exists()
