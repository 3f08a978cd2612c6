import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from agent.security.policy.base import (
    LimitsHosts,
    LimitsPaths,
    LimitsWriting,
    PermissionMode,
    ToolRequest,
)
from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.access.control import AccessControl
from gateway.access.roles import PolicySettings, RoleRegistry
from gateway.core.messages import InboundMessage, MessageOptions, Sender
from gateway.turns.permissions import TurnPermissions
from tests.gateway.parts import chat_message, console_message
from tests.gateway.turns.nobody import Nobody

HERE = Path("/w")
EXEC = "exec"


def rules(
    roles: Mapping[str, str] | None = None,
    modes: Mapping[str, PermissionMode] | None = None,
    *,
    confined: bool = False,
) -> TurnPermissions:
    access = AccessControl("chat:7", {("chat", "bot"): ("8",)}, roles or {})
    policies = RoleRegistry(PolicySettings(blocked_commands=("rm",), modes=modes or {}))
    return TurnPermissions(access, cast(ApprovalCoordinator, Nobody()), HERE, policies, confined)


def request(tool: str = EXEC, command: str = "git status") -> ToolRequest:
    if tool == EXEC:
        return ToolRequest(EXEC, "unsafe", {}, HERE, command=command, folder=HERE, read_only=True)
    return ToolRequest(tool, "idempotent", {}, HERE, changes=(HERE / "a",))


def verdict(
    *messages: InboundMessage,
    tool_request: ToolRequest | None = None,
    mode: str | None = None,
    by: TurnPermissions | None = None,
) -> str:
    policy = (by or rules()).permissions(messages, "s", mode, turn=1).policy
    return policy.decide(tool_request or request()).verdict


def other_message(**more: Any) -> InboundMessage:
    return chat_message("x", sender=Sender("8"), **more)


def test_console_is_asked_and_commands_of_chats_are_denied() -> None:
    assert verdict(console_message("x")) == "ask"
    assert verdict(chat_message("x")) == "deny"
    assert rules().permissions([console_message("x")], "s", turn=1).remedy == ""


@pytest.mark.parametrize(
    ("options", "is_advised"), [({}, True), ({"auto": True}, False), ({"mode": "auto"}, False)]
)
def test_yes_option_is_advised_if_it_helps_an_unattended_run(
    options: dict[str, Any], is_advised: bool
) -> None:
    unattended = console_message("x", options={"unattended": True, **options})
    remedy = rules().permissions([unattended], "s", turn=1).remedy
    assert ("`-y`" in remedy) == is_advised


def role(*messages: InboundMessage) -> str:
    """Return the role that is recorded for the speakers."""
    named = rules().permissions(messages, "s", turn=1).role
    return named if isinstance(named, str) else named()


def test_sandboxed_chat_follows_role_and_mode() -> None:
    permissions = rules(confined=True)
    assert verdict(chat_message("x"), by=permissions) == "allow"
    assert verdict(chat_message("x"), tool_request=request(command="make"), by=permissions) == "ask"
    assert verdict(
        chat_message("x"), tool_request=request(command="make"), mode="accept-edits", by=permissions
    ) == ("allow")
    assert verdict(other_message(), by=permissions) == "deny"


def test_only_boolean_true_enables_auto() -> None:
    assert verdict(console_message("x", options={"auto": True})) == "allow"
    assert verdict(console_message("x", options={"auto": "true"})) == "ask"
    rm = request(command="rm -rf x")
    assert verdict(console_message("x", options={"auto": True}), tool_request=rm) == "deny"
    assert (
        verdict(console_message("x", options={"mode": "plan"}), tool_request=request("write_file"))
        == "deny"
    )
    assert verdict(console_message("x", options={"mode": "everything"})) == "ask"


def test_remote_sender_cannot_choose_permissions_or_folder() -> None:
    options = {"auto": True, "mode": "auto", "cwd": "/etc", "allowed_tools": ["exec"]}
    assert verdict(chat_message("x", options=options)) == "deny"
    assert verdict(chat_message("x", options=options), tool_request=request("write_file")) == "ask"
    assert rules().working_dir(chat_message("x", options=options)) == HERE
    assert (
        rules().working_dir(console_message("x", options={"cwd": "/etc"})) == Path("/etc").resolve()
    )
    assert rules().working_dir(console_message("x")) == HERE


def test_tools_of_a_run_are_chosen_at_the_console() -> None:
    only = console_message("x", options={"auto": True, "allowed_tools": ["read_file"]})
    assert verdict(only) == "deny"
    without = console_message("x", options={"auto": True, "disallowed_tools": ["exec"]})
    assert verdict(without) == "deny"
    assert verdict(without, tool_request=request("write_file")) == "allow"
    broken = console_message("x", options={"auto": True, "allowed_tools": "exec"})
    assert verdict(broken) == "deny"


def test_people_have_their_configured_role() -> None:
    change = request("write_file")
    assert verdict(chat_message("x"), tool_request=change) == "ask"
    assert verdict(other_message(), tool_request=change) == "deny"
    assert verdict(other_message(), tool_request=change, by=rules({"chat:8": "build"})) == "ask"
    assert role(other_message()) == "general"


def test_subagent_report_has_the_permissions_of_all_requesters() -> None:
    change = request("write_file")
    message = chat_message(
        "done", task=1, kind="subagent_report", options={"session": "s", "taint": []}
    )
    assert verdict(message, tool_request=change) == "ask"
    shared = {**message.options.to_json(), "speakers": [{"id": "8", "name": ""}]}
    both = chat_message("done", task=1, kind="subagent_report", options=shared)
    assert verdict(both, tool_request=change) == "deny"
    assert role(both) == "build+general"
    # A person's own message cannot set these options.
    assert verdict(chat_message("x", options=shared), tool_request=change) == "ask"


def test_undefined_role_allows_nothing() -> None:
    unknown = rules({"chat:8": "no-such"})
    read = ToolRequest("read_file", "read", {}, HERE)
    decision = unknown.permissions([other_message()], "s", turn=1).policy.decide(read)
    assert (decision.verdict, decision.rule) == ("deny", "unknown-role")


def test_turn_of_several_people_has_their_common_permissions() -> None:
    change = request("write_file")
    assert verdict(other_message(), chat_message("x"), tool_request=change) == "deny"
    assert verdict(chat_message("x"), other_message(), tool_request=change) == "deny"
    assert role(other_message(), chat_message("x")) == "general+build"


def test_conversation_mode_overrides_the_channel_mode() -> None:
    change = request("write_file")
    assert verdict(chat_message("x"), tool_request=change, mode="accept-edits") == "allow"
    assert verdict(chat_message("x"), tool_request=change, mode="plan") == "deny"
    assert (
        verdict(chat_message("x"), tool_request=change, by=rules(modes={"chat": "auto"})) == "allow"
    )
    assert (
        verdict(console_message("x"), tool_request=change, by=rules(modes={"cli": "plan"}))
        == "deny"
    )


def test_looser_owner_mode_does_not_apply_to_others() -> None:
    change = request("write_file")
    shared = rules({"chat:8": "build"})
    group = {"chat": "-5", "private": False}
    assert (
        verdict(chat_message("x", **group), tool_request=change, mode="auto", by=shared) == "allow"
    )
    assert verdict(other_message(**group), tool_request=change, mode="auto", by=shared) == "ask"
    assert verdict(other_message(**group), tool_request=change, mode="plan", by=shared) == "deny"


def test_changed_policy_file_applies_to_the_next_call(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("roles: {build: {tools: {read_file: {}}}}")
    policies = RoleRegistry(PolicySettings(file))
    by = TurnPermissions(
        AccessControl("chat:7", {}), cast(ApprovalCoordinator, Nobody()), HERE, policies
    )
    policy = by.permissions([console_message("x", options={"auto": True})], "s", turn=1).policy
    assert policy.decide(request()).verdict == "deny"
    file.write_text("roles: {build: {tools: {exec: {}}}}")
    os.utime(file, ns=(1, 1))
    assert policy.decide(request()).verdict == "allow"


def test_private_chats_and_groups_have_separate_memory() -> None:
    assert rules().memory(chat_message("x")) == HERE / "memory" / "MEMORY.md"
    assert (
        rules().memory(chat_message("x", "-5", private=False)) == HERE / "memory/chat/-5/MEMORY.md"
    )


def test_search_scope_is_limited_by_every_speaker(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        "roles:\n"
        "  reader: {tools: {read_file: {paths: ['docs/**']}, grep: {}}}\n"
        "  finder: {tools: {grep: {paths: ['**/*.md']}}}\n"
        "  writer: {tools: {write_file: {}}}\n"
    )
    roles = {"chat:8": "reader", "chat:9": "finder", "chat:10": "writer", "chat:11": "unknown"}
    access = AccessControl("chat:7", {("chat", "bot"): ("8", "9", "10", "11")}, roles)
    policies = RoleRegistry(PolicySettings(file))
    by = TurnPermissions(access, cast(ApprovalCoordinator, Nobody()), tmp_path, policies, True)

    def paths(*senders: str) -> Any:
        messages = [chat_message("x", sender=Sender(sender)) for sender in senders]
        policy = by.permissions(messages, "s", None, turn=1).policy
        assert isinstance(policy, LimitsPaths)
        return policy.paths("grep")

    assert paths("7") == ()
    assert paths("8") == (("docs/**",),)
    assert paths("8", "9", "8", "7") == (("docs/**",), ("**/*.md",))
    assert paths("10") == ((),)
    assert paths("7", "11") == ((),)


OWN, OTHER = "a" * 32, "b" * 32


def with_full_access() -> TurnPermissions:
    return replace(rules({"chat:8": "build"}), full_access=OWN)


def test_full_access_applies_only_to_messages_of_this_process() -> None:
    by, removal = with_full_access(), request(command="rm -rf build; sudo x; echo ${x@P}")
    result = {"options": {"full_access": OWN}}
    assert verdict(console_message("x", **result), tool_request=removal, by=by) == "allow"
    assert verdict(console_message("x"), tool_request=removal, by=by) == "deny"
    other_process = console_message("x", options={"full_access": OTHER})
    assert verdict(other_process, tool_request=removal, by=by) == "deny"
    # A gateway has no token to compare with, and the next process has another one.
    assert verdict(console_message("x", **result), tool_request=removal, by=rules()) == "deny"
    # A chat message with the token, and a job created by its conversation.
    assert verdict(chat_message("x", **result), tool_request=removal, by=by) == "deny"
    job = replace(console_message("x", **result), kind="job", job=3)
    assert verdict(job, tool_request=removal, by=by) == "deny"
    for message, outcome in ((console_message("x", **result), True), (job, False)):
        assert by.permissions([message], "s", turn=1).full_access is outcome
    # A person who joins the turn is subject to the rules.
    joined = (console_message("x", **result), other_message())
    assert verdict(*joined, tool_request=removal, by=by) == "deny"


def test_commands_may_write_if_every_speaker_may(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        "roles:\n"
        "  writer: {tools: {exec: {}, write_file: {}}}\n"
        "  reader: {tools: {'*': {}, write_file: false}}\n"
    )
    access = AccessControl(
        "chat:7", {("chat", "bot"): ("8", "9")}, {"chat:8": "writer", "chat:9": "reader"}
    )
    policies = RoleRegistry(PolicySettings(file))
    by = TurnPermissions(access, cast(ApprovalCoordinator, Nobody()), tmp_path, policies, True)

    def may_write(*speakers: str) -> bool:
        messages = [chat_message("x", sender=Sender(speaker)) for speaker in speakers]
        policy = by.permissions(messages, "s", turn=1).policy
        assert isinstance(policy, LimitsWriting)
        return policy.may_write("exec")

    assert may_write("8")
    assert not may_write("9")
    assert not may_write("8", "9")


def test_full_access_does_not_apply_to_other_messages() -> None:
    by = with_full_access()
    auto = console_message("x", options={"auto": True})
    assert verdict(auto, by=by) == "ask"
    assert by.mode(auto, None) == "ask"
    assert by.mode(console_message("x", options={"mode": "plan"}), None) == "plan"


def test_full_access_does_not_limit_paths_and_hosts() -> None:
    by = with_full_access()
    message = console_message("x", options={"full_access": OWN})
    policy = by.permissions([message], "s", turn=1).policy
    assert isinstance(policy, LimitsPaths)
    assert policy.paths("grep") == ()
    assert isinstance(policy, LimitsHosts)
    assert policy.hosts("exec") is None


def test_token_that_is_not_text_is_dropped() -> None:
    for value in (True, 1, None, [OWN]):
        assert MessageOptions.from_json({"full_access": value}).full_access is None
