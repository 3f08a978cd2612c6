"""Stored data of a person: exported, and deleted to the last byte."""

import json
import os
import zipfile
from pathlib import Path

from gateway.store.repositories import preferences
from gateway.store.repositories.user_data import erasure
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess
from tests.gateway.store.transactions import database_content, open_transaction

PERSON, OTHER, GROUP = 71, 72, -100500
WORDS = ("Zebrafinch", "Quokkafield", "Axolotlpond")


def places_with(gateway: GatewayProcess, word: str) -> list[str]:
    """Return the database and the files that contain this word in any common encoding."""
    forms = [word.encode(), word.lower().encode(), word.encode("utf-16-le")]
    contents = {
        str(path.relative_to(gateway.home)): path.read_bytes()
        for path in sorted(gateway.home.rglob("*"))
        if path.is_file()
    }
    contents[gateway.database.name] = database_content(gateway.database)
    return [name for name, content in contents.items() if any(form in content for form in forms)]


async def talk_in_chats(gateway: GatewayProcess) -> None:
    """Have this person and others write in private chats and in a group."""
    await gateway.answers_to(OWNER, "the owner says Hollyhock")
    await gateway.answers_to(PERSON, f"my word is {WORDS[0]}")
    await gateway.answers_to(PERSON, "/new")
    await gateway.answers_to(PERSON, f"and {WORDS[1]} it is")
    await gateway.answers_to(OTHER, "mine is Marigold")
    memory = gateway.workspace / "memory" / "telegram" / str(PERSON) / "MEMORY.md"
    memory.parent.mkdir(parents=True)
    memory.write_text(f"likes {WORDS[2]}")
    await gateway.kore("sessions", "search", "Marigold")


async def test_export_contains_own_messages_and_nothing_of_others(
    alone: GatewayProcess, tmp_path: Path
) -> None:
    async with alone:
        await talk_in_chats(alone)
        # As old as files of an image or a checkout may be.
        os.utime(alone.workspace / "memory" / "telegram" / str(PERSON) / "MEMORY.md", (0, 0))
        target = tmp_path / "out.zip"
        ran = await alone.kore("user", "export", f"telegram:{PERSON}", "-o", target)
        assert ran.code == 0, ran.err
        assert target.stat().st_mode & 0o777 == 0o600
        with zipfile.ZipFile(target) as packed:
            texts = {name: packed.read(name).decode() for name in packed.namelist()}
        whole = "".join(texts.values())
        assert all(word in whole for word in WORDS)
        assert "Marigold" not in whole
        assert "Hollyhock" not in whole
        assert sum(name.startswith("sessions/") for name in texts) == 2
        received = [json.loads(line) for line in texts["messages_received.jsonl"].splitlines()]
        assert received[0]["message"]["content"].endswith(WORDS[0])
        assert "memory/MEMORY.md" in texts
        again = await alone.kore("user", "export", f"telegram:{PERSON}", "-o", target)
        assert (again.code, "already exists" in again.err) == (1, True)


async def test_deletion_leaves_no_byte(alone: GatewayProcess) -> None:
    async with alone:
        await talk_in_chats(alone)
        assert all(places_with(alone, word) for word in WORDS)
        output = await alone.kore("user", "delete", f"telegram:{PERSON}")
        assert output.code == 1
        assert "2 conversations" in output.err
        assert places_with(alone, WORDS[0])
        ran = await alone.kore("user", "delete", f"telegram:{PERSON}", "--yes")
        assert ran.code == 0, ran.err
        for word in WORDS:
            assert places_with(alone, word) == []
        assert places_with(alone, "Marigold")
        process_output = await alone.kore("sessions", "search", "Marigold")
        assert "Marigold" in process_output.out
        assert (await alone.kore("sessions", "search", WORDS[0])).out.count(WORDS[0]) == 0
        gone = await alone.kore("user", "show", f"telegram:{PERSON}")
        assert (gone.code, "no data is stored about" in gone.err) == (1, True)
        # The person may return and start from the beginning.
        assert (await alone.answers_to(PERSON, "hello"))[-1] == "echo: hello"
    assert places_with(alone, WORDS[0]) == []


async def test_start_completes_a_killed_deletion(alone: GatewayProcess) -> None:
    async with alone:
        await talk_in_chats(alone)
    principal = f"telegram:{PERSON}"
    plan = {"principal": principal, "workspace": str(alone.workspace), "owner": False}
    with open_transaction(alone.database) as tx:
        tx.run("BEGIN")
        erasure.erase(tx, principal, 0.0)
        preferences.put_state(tx, preferences.DELETION, json.dumps({**plan, "copies": False}))
        tx.run("COMMIT")
    assert places_with(alone, WORDS[2])
    async with alone:
        for word in (*WORDS, principal):
            assert [name for name in places_with(alone, word) if not is_record(name)] == []
        assert places_with(alone, "Marigold")


def is_record(name: str) -> bool:
    """Return whether the file is a record of actions, which is not deleted.

    These are the audit log and the gateway's log.
    """
    return name.startswith(("audit", "logs"))


async def test_only_turns_of_the_person_are_emptied_in_a_group(alone: GatewayProcess) -> None:
    me = "@kore_test_bot"
    async with alone:
        await alone.answers_to(GROUP, f"{me} Marigold", user_id=OTHER)
        await alone.answers_to(GROUP, f"{me} {WORDS[0]}", user_id=PERSON)
        await alone.answers_to(GROUP, f"{me} Snapdragon", user_id=OTHER)
        assert places_with(alone, WORDS[0])
        assert (await alone.kore("user", "delete", f"telegram:{PERSON}", "--yes")).code == 0
        assert places_with(alone, WORDS[0]) == []
        assert places_with(alone, "Snapdragon")
        alone.model.requests.clear()
        await alone.answers_to(GROUP, f"{me} and now?", user_id=OTHER)
        sent = json.dumps(alone.model.requests[-1].body)
        assert "Snapdragon" in sent
        assert WORDS[0] not in sent
