from pathlib import Path

from agent.security.policy import ToolRequest
from gateway.access import Access
from gateway.approvals import Approvals
from gateway.rules import Rules
from gateway.watchers import Watchers
from tests.gateway.parts import said, typed

HERE = Path("/w")


def rules() -> Rules:
    return Rules(Access("chat:7", {}), Approvals(Watchers()), HERE, ("rm",))


def verdict(options: dict[str, object] | None, command: str = "ls") -> str:
    message = said("x") if options is None else typed("x", options=options)
    permissions = rules().permissions(message, "s")
    request = ToolRequest("exec", "unsafe", {}, HERE, command=command)
    return permissions.policy.decide(request).verdict


def test_the_console_is_asked_and_others_are_refused() -> None:
    assert verdict({}) == "ask"
    assert verdict(None) == "deny"
    assert rules().permissions(typed("x"), "s").approver is not None
    assert rules().permissions(said("x"), "s").approver is None
    unattended = typed("x", options={"unattended": True})
    assert rules().permissions(unattended, "s").approver is None


def test_only_a_real_yes_allows_everything() -> None:
    assert verdict({"auto": True}) == "allow"
    assert verdict({"auto": "true"}) == "ask"
    assert verdict({"auto": True}, "rm -rf x") == "deny"


def test_a_remote_sender_cannot_choose_permissions_or_folder() -> None:
    remote = said("x", options={"auto": True, "cwd": "/etc"})
    request = ToolRequest("exec", "unsafe", {}, HERE, command="ls")
    assert rules().permissions(remote, "s").policy.decide(request).verdict == "deny"
    assert rules().root(remote) == HERE
    assert rules().root(typed("x", options={"cwd": "/etc"})) == Path("/etc").resolve()
    assert rules().root(typed("x")) == HERE


def test_memory_is_that_of_whoever_speaks() -> None:
    assert rules().memory(said("x")) == HERE / "memory" / "MEMORY.md"
    assert rules().memory(said("x", "-5", private=False)) == HERE / "memory/chat/-5/MEMORY.md"
