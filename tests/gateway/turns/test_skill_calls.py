"""Skill calls in a chat: `/NAME arguments`."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.providers.custom import CustomProvider
from agent.providers.pool import ModelPool, OpenModel
from agent.providers.registry import ModelConfig
from agent.providers.scripted import ScriptedProvider
from agent.skills.catalog import SkillCatalog, SkillPaths
from agent.types import Context, Message
from gateway.core.messages import MessageOptions
from tests.agent.props import call, calls
from tests.agent.skills.skill_files import write
from tests.gateway.access.approvals import Asking
from tests.gateway.parts import Parts, accept_messages, chat_message, console_message, running
from tests.gateway.turns.paced import Paced, list_dir_reply

PLAIN = "---\ndescription: Makes a release.\ndisable-model-invocation: true\n---\nTag $0 now."


def add_skills(parts: Parts, tmp_path: Path, *plugins: str) -> Path:
    """Set a catalogue for the chat's workspace and return the folder of its skills.

    The folders `plugins` have the names of the plugins.
    """
    paths = SkillPaths(
        tmp_path / "user",
        tmp_path / "own",
        parts.workspace,
        plugins=tuple((name, tmp_path / name) for name in plugins),
        plugin_commands=tuple((name, tmp_path / name / "commands") for name in plugins),
    )
    parts.agent.skills = SkillCatalog(paths)
    return parts.workspace / "skills"


def context_of(model: ScriptedProvider) -> str:
    return contexts(
        next(message for message in model.requests[-1].messages if message.role == "user")
    )


def contexts(message: Message) -> str:
    return "\n".join(part.text for part in message.content if isinstance(part, Context))


@pytest.mark.parametrize("typed", ["/make-release v1", "/make_release@my_bot v1"])
async def test_chat_invokes_a_skill(tmp_path: Path, typed: str) -> None:
    model = ScriptedProvider(["done"])
    async with running(tmp_path, model, owner="chat:7") as parts:
        write(add_skills(parts, tmp_path), "make-release", PLAIN, tag="#!/bin/sh\n")
        message = chat_message(typed)
        await parts.bus.submit(message)
        await parts.until_answered(message)
    assert "Tag v1 now." in context_of(model)
    assert model.requests[0].messages[-1].text.startswith(typed)


@pytest.mark.parametrize(("rule", "is_read"), [("{}", True), ("{ask: true}", False)])
async def test_role_determines_if_a_skill_is_read_without_a_question(
    tmp_path: Path, rule: str, is_read: bool
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f'roles: {{general: {{tools: {{"*": {rule}}}}}}}')
    model = ScriptedProvider(["done"])
    async with running(tmp_path, model, policy=policy) as parts:
        write(add_skills(parts, tmp_path), "make-release", PLAIN)
        message = chat_message("/make-release v1")
        await parts.bus.submit(message)
        await parts.until_answered(message)
    assert ("Tag v1 now." in context_of(model)) == is_read


async def test_single_word_runs_a_skill(tmp_path: Path) -> None:
    model = ScriptedProvider(["done"])
    async with running(tmp_path, model, owner="chat:7") as parts:
        write(add_skills(parts, tmp_path), "statsu", PLAIN)
        message = chat_message("/statsu")
        await parts.bus.submit(message)
        await parts.until_answered(message)
        await parts.bus.submit(chat_message("/hlep"))
        assert "did you mean" in (await parts.platform.answers("1", 2))[-1]
    assert "Tag $0 now." in context_of(model)


@pytest.mark.parametrize(
    ("skill", "more"),
    [
        ("---\ndescription: d\nuser-invocable: false\n---\nCANARY", {}),
        ("---\ndescription: d\n---\nCANARY", {"forwarded": True}),
    ],
)
async def test_other_messages_do_not_invoke_a_skill(
    tmp_path: Path, skill: str, more: dict[str, bool]
) -> None:
    model = ScriptedProvider(["done"])
    async with running(tmp_path, model, owner="chat:7") as parts:
        write(add_skills(parts, tmp_path), "one", skill)
        message = chat_message("/one two", **more)
        await parts.bus.submit(message)
        await parts.until_answered(message)
    assert "CANARY" not in context_of(model)


async def test_role_without_the_tool_invokes_no_skill(tmp_path: Path) -> None:
    model = ScriptedProvider(["done"])
    async with running(tmp_path, model, owner="chat:8") as parts:
        write(add_skills(parts, tmp_path), "make-release", PLAIN)
        message = chat_message("/make-release v1")
        await parts.bus.submit(message)
        await parts.until_answered(message)
    assert "Tag" not in context_of(model)


async def test_forked_skill_names_its_agent(tmp_path: Path) -> None:
    model = ScriptedProvider(["done"])
    text = "---\ndescription: d\ncontext: fork\nagent: explore\n---\nCount."
    async with running(tmp_path, model, owner="chat:7") as parts:
        write(add_skills(parts, tmp_path), "survey", text)
        message = chat_message("/survey the files")
        await parts.bus.submit(message)
        await parts.until_answered(message)
    assert "to `explore` with `task`" in context_of(model)
    assert "ARGUMENTS: the files" in context_of(model)


async def test_plugin_skill_is_untrusted(tmp_path: Path) -> None:
    model = ScriptedProvider(["done", "again"])
    async with running(tmp_path, model, owner="chat:7") as parts:
        write(tmp_path / "plugin", "theirs", PLAIN)
        add_skills(parts, tmp_path, "plugin")
        message = chat_message("/theirs v1")
        await parts.bus.submit(message)
        await parts.until_answered(message)
        await parts.until_stored("session", taint="untrusted")
    assert "Tag v1 now." in context_of(model)


@pytest.mark.parametrize(("model", "used"), [("other", "other"), ("nosuch", "scripted")])
async def test_skill_selects_its_model(tmp_path: Path, model: str, used: str) -> None:
    models = {name: ScriptedProvider(["done"]) for name in ("scripted", "other")}
    pool = ModelPool.of(models["scripted"], {})
    pool.known = (*pool.known, ModelConfig("other", "openai/other", api_key="k"))
    pool._open["other"] = OpenModel(CustomProvider(models["other"], "other"), "other")
    async with running(tmp_path, pool, owner="chat:7") as parts:
        text = f"---\ndescription: d\nmodel: {model}\neffort: high\n---\nB"
        write(add_skills(parts, tmp_path), "one", text)
        message = chat_message("/one")
        await parts.bus.submit(message)
        await parts.until_answered(message)
    assert [name for name, result in models.items() if result.requests] == [used]


async def test_resumed_turn_uses_the_model_of_the_skill(tmp_path: Path) -> None:
    wrote = calls(call("write_file", path="skills/x.md", content="x\n"))
    usual, other = ScriptedProvider(["wrong"]), ScriptedProvider([wrote, "done"])
    pool = ModelPool.of(usual, {})
    pool.known = (*pool.known, ModelConfig("other", "openai/other", api_key="k"))
    pool._open["other"] = OpenModel(CustomProvider(other, "other"), "other")
    async with running(tmp_path, pool, owner="chat:7", platform=Asking()) as parts:
        write(add_skills(parts, tmp_path), "one", "---\ndescription: d\nmodel: other\n---\nB")
        message = chat_message("/one")
        await parts.bus.submit(message)
        await parts.until_stored("approval", state="open")
        [result] = await parts.service.list_approvals()
        await parts.service.answer_approval(result.nonce, "once", "cli:0")
        await parts.until_answered(message)
    assert (len(usual.requests), len(other.requests)) == (0, 2)


async def test_skill_is_written_from_the_conversation_after_approval(tmp_path: Path) -> None:
    path = "skills/tidy-up/SKILL.md"
    text = '---\nname: tidy-up\ndescription: "Tidies: a folder."\n---\nRun `ls $0`.\n'
    wrote = calls(call("write_file", path=path, content=text))
    model = ScriptedProvider([wrote, "Call it with /tidy-up FOLDER.", "tidied"])
    async with running(tmp_path, model, owner="chat:7", platform=Asking()) as parts:
        add_skills(parts, tmp_path)
        first = chat_message("/skills new for folders")
        await parts.bus.submit(first)
        await parts.until_stored("approval", state="open")
        [result] = await parts.service.list_approvals()
        assert "+Run `ls $0`." in (result.request.diff or "")
        assert not (parts.workspace / path).exists()
        assert await parts.service.answer_approval(result.nonce, "once", "cli:0")
        await parts.until_answered(first)
        message = chat_message("/tidy-up docs")
        await parts.bus.submit(message)
        await parts.until_answered(message)
    request = contexts(model.requests[0].messages[0])
    assert "into a skill: for folders" in request
    assert "`skills/NAME/SKILL.md`" in request
    assert "Run `ls docs`." in contexts(model.requests[-1].messages[-1])


def add_command(folder: Path, name: str, text: str) -> None:
    (folder / "commands").mkdir(parents=True)
    (folder / "commands" / f"{name}.md").write_text(text)


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("/fix issue 7", "Mend issue 7."),
        ("/FIX@my_bot issue 7", "Mend issue 7."),
        ("/theirs:go far", "Go far."),
        ("/theirs:make-release v1", "Tag v1 now."),
        ("/review the tests", "Review the changes in this folder that are not committed yet: the"),
    ],
)
async def test_chat_invokes_a_prompt(tmp_path: Path, typed: str, text: str) -> None:
    model = ScriptedProvider(["done"])
    async with running(tmp_path, model, owner="chat:7") as parts:
        add_command(tmp_path / "own", "fix", "Mend $ARGUMENTS.")
        add_command(tmp_path / "theirs", "go", "Go $0.")
        write(tmp_path / "theirs", "make-release", PLAIN)
        add_skills(parts, tmp_path, "theirs")
        message = chat_message(typed)
        await parts.bus.submit(message)
        await parts.until_answered(message)
    assert text in context_of(model)
    assert model.requests[0].messages[-1].text == typed


async def test_own_skill_replaces_a_built_in_command(tmp_path: Path) -> None:
    model = ScriptedProvider(["done"])
    async with running(tmp_path, model, owner="chat:7") as parts:
        write(add_skills(parts, tmp_path), "review", PLAIN)
        listed = await parts.service.list_commands()
        message = chat_message("/review v1")
        await parts.bus.submit(message)
        await parts.until_answered(message)
    assert "Tag v1 now." in context_of(model)
    summaries = [each["summary"] for each in listed if each["name"] == "review"]
    assert summaries == ["Makes a release."]
    assert "init" in {each["name"] for each in listed}


async def test_terminal_invokes_a_prompt_whatever_tools_it_allows(tmp_path: Path) -> None:
    model = ScriptedProvider(["done"])
    async with running(tmp_path, model) as parts:
        add_command(tmp_path / "own", "fix", "Mend $ARGUMENTS.")
        add_skills(parts, tmp_path)
        news = {"text": "The tree.", "taint": ["private", "untrusted"], "evicted": 0}
        options = MessageOptions(allowed_tools=("read_file",), project=news)
        message = replace(console_message("/fix issue 7"), options=options)
        await parts.bus.submit(message)
        await parts.until_answered(message)
    assert "Mend issue 7." in context_of(model)


async def test_plugin_command_is_untrusted(tmp_path: Path) -> None:
    model = ScriptedProvider(["done"])
    async with running(tmp_path, model, owner="chat:7") as parts:
        add_command(tmp_path / "theirs", "go", "Go $0.")
        add_skills(parts, tmp_path, "theirs")
        message = chat_message("/theirs:go far")
        await parts.bus.submit(message)
        await parts.until_answered(message)
        await parts.until_stored("session", taint="untrusted")
    assert "may not have read it" in context_of(model)


async def test_name_of_several_plugins_is_explained(tmp_path: Path) -> None:
    model = ScriptedProvider(["done"])
    async with running(tmp_path, model, owner="chat:7") as parts:
        for plugin in ("first", "second"):
            write(tmp_path / plugin, "commit", PLAIN)
        add_skills(parts, tmp_path, "first", "second")
        await parts.bus.submit(chat_message("/commit"))
        (answer,) = await parts.platform.answers("1", 1)
        message = chat_message("/commit all")
        await parts.bus.submit(message)
        await parts.until_answered(message)
    assert answer == "`/commit` is in several plugins: `/first:commit`, `/second:commit`"
    assert "with this name: /first:commit, /second:commit." in context_of(model)


async def test_prompt_does_not_join_a_running_turn(tmp_path: Path) -> None:
    model = Paced(list_dir_reply(), "Painted.", "Mended.")
    async with running(tmp_path, model, owner="chat:7") as parts:
        add_command(tmp_path / "own", "fix", "Mend $ARGUMENTS.")
        add_skills(parts, tmp_path)
        await accept_messages(parts, chat_message("/queue steer"), chat_message("paint it"))
        await model.wait_for_request(1)
        await accept_messages(parts, chat_message("/fix issue 7"))
        model.let_go(3)
        await parts.platform.answers("1", 3)
    assert "Mend issue 7." in contexts(model.requests[-1].messages[-1])
    assert len(model.requests) == 3
