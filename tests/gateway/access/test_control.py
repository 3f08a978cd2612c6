import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.access.control import AccessControl
from gateway.channels.table import owner_of
from gateway.channels.telegram.spec import SPEC as TELEGRAM
from gateway.commands import is_command
from gateway.config import Settings
from gateway.core.messages import Sender
from tests.gateway.parts import chat_message, console_message

WORKSPACE = Path("/w")
ACCESS = AccessControl("chat:7", {("chat", "bot"): ("8",), ("chat", "open"): ("*",)})


def test_allow_list_applies_per_bot() -> None:
    assert ACCESS.is_allowed(chat_message("x", sender=Sender("7")))
    assert ACCESS.is_allowed(chat_message("x", sender=Sender("8")))
    assert not ACCESS.is_allowed(chat_message("x", sender=Sender("9", "7")))
    assert ACCESS.is_allowed(chat_message("x", sender=Sender("9"), account="open"))
    assert not ACCESS.is_allowed(chat_message("x", sender=Sender("8"), account="unknown"))
    assert not ACCESS.is_allowed(chat_message("x", sender=Sender("8"), channel="other"))


def test_console_user_is_always_the_owner() -> None:
    assert AccessControl(None, {}).is_allowed(console_message("x"))
    assert AccessControl(None, {}).is_owner(console_message("x"))


def test_start_folder_replaced_by_a_link_is_ignored(tmp_path: Path) -> None:
    root, part = tmp_path / "repo", tmp_path / "repo" / "part"
    for folder in (part, tmp_path / "other"):
        folder.mkdir(parents=True)
    message = console_message("x", options={"cwd": str(root), "start_folder": str(part)})
    assert ACCESS.start_folder(WORKSPACE, message) == part
    part.rmdir()
    part.symlink_to(tmp_path / "other")
    assert ACCESS.start_folder(WORKSPACE, message) is None


def test_owner_of_another_channel_is_not_owner_here() -> None:
    assert not ACCESS.is_owner(chat_message("x", sender=Sender("7"), channel="other"))


@pytest.mark.parametrize(
    ("owner", "allow", "expected"),
    [
        (None, (), None),
        (None, ("7",), "telegram:7"),
        (None, ("7", "8"), None),
        (None, ("*",), None),
        ("telegram:1", ("7",), "telegram:1"),
    ],
)
def test_only_person_on_the_allow_list_is_the_owner(
    owner: str | None, allow: tuple[str, ...], expected: str | None
) -> None:
    settings = Settings()
    section = TELEGRAM.section_of(settings).model_copy(update={"allow_from": allow})
    access = settings.access.model_copy(update={"owner": owner})
    changed = settings.model_copy(update={TELEGRAM.name: section, "access": access})
    assert owner_of(changed) == expected


def test_most_specific_role_applies_except_to_the_owner() -> None:
    roles = {"chat": "plan", "chat:chat:-100": "writer", "chat:8": "builder", "chat:7": "guest"}
    access = AccessControl("chat:7", ACCESS.allow, roles)

    def role(sender: str, chat: str = "1", **more: object) -> str:
        return access.role(chat_message("x", chat, sender=Sender(sender), **more))

    assert role("8", "-100", private=False) == "builder"
    assert role("9", "-100", private=False) == "writer"
    assert role("9", "-200", private=False) == "plan"
    assert role("7", "-100", private=False) == "build"
    assert access.role(console_message("x")) == "build"


def test_people_listed_by_name_have_a_higher_default_role() -> None:
    access = AccessControl("chat:7", {("chat", "bot"): ("8", "*")})
    assert access.role(chat_message("x", sender=Sender("7"))) == "build"
    assert access.role(chat_message("x", sender=Sender("8"))) == "general"
    assert access.role(chat_message("x", sender=Sender("9"))) == "guest"
    assert access.role(chat_message("x", sender=Sender("8"), channel="other")) == "guest"


def memory(chat: str = "1", **more: object) -> Path:
    return ACCESS.memory(WORKSPACE, chat_message("x", chat, **more)).relative_to(
        WORKSPACE / "memory"
    )


def test_memory_of_the_owner_is_for_private_chats_only() -> None:
    assert memory() == Path("MEMORY.md")
    assert memory("-100", private=False) == Path("chat/-100/MEMORY.md")
    assert memory(sender=Sender("8")) == Path("chat/8/MEMORY.md")


# 7 is the owner, whose memory is stored elsewhere.
ids = (st.text(max_size=200) | st.text("./\\_-aA%", max_size=12)).filter(lambda id_: id_ != "7")


@given(ids)
def test_ids_cannot_leave_the_memory_folder(id_: str) -> None:
    path = memory(sender=Sender(id_))
    folder, name, file = path.parts
    assert (folder, file) == ("chat", "MEMORY.md")
    assert len(name.encode()) <= 255
    assert not set(name) & set("/\\\0")
    assert name not in ("", ".", "..")


@given(ids, ids)
def test_people_never_share_a_memory(one: str, other: str) -> None:
    same = memory(sender=Sender(one)) == memory(sender=Sender(other))
    assert same == (one == other)


def test_similar_ids_get_different_paths() -> None:
    alike = ["@bob:x.org", "_bob_x_org", "@bob:x_org", "@bob.x:org", "%40.bob", "a" * 121]
    paths = [memory(sender=Sender(id_)) for id_ in alike]
    assert all(result != other for result, other in itertools.combinations(paths, 2))


def test_only_known_people_in_private_chats_are_trusted() -> None:
    assert not ACCESS.is_untrusted(chat_message("x", sender=Sender("7")))
    assert not ACCESS.is_untrusted(chat_message("x", sender=Sender("8")))
    assert ACCESS.is_untrusted(chat_message("x", sender=Sender("9"), account="open"))
    assert ACCESS.is_untrusted(chat_message("x", sender=Sender("7"), private=False))


def test_message_forwarded_by_the_owner_is_untrusted_and_not_a_command() -> None:
    passed_on = chat_message("/auto", sender=Sender("7"), forwarded=True)
    assert ACCESS.is_untrusted(passed_on)
    assert ACCESS.is_allowed(passed_on)
    assert not is_command(passed_on)
    assert is_command(chat_message("/auto", sender=Sender("7")))
