"""Change of the key: complete or not at all, under kills and errors."""

import os
import random
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from agent.types import user
from gateway.core.messages import OutboundPart, Route
from gateway.store.cipher import Cipher
from gateway.store.errors import StoreError
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply, PendingPart
from gateway.store.sqlite.engine import connect
from gateway.store.sqlite.rekey import discard_copies, is_sealed, rekey
from tests import fork_server
from tests.gateway.store.transactions import open_transaction

ROOT = Path(__file__).parents[4]
CANARY = "canary in a mine"
KEYS = {"one": secrets.token_bytes(32), "two": secrets.token_bytes(32)}
# Prints "started" once all modules are loaded; the copy begins at once.
CHANGE = """
import sys
from pathlib import Path
from gateway.store.cipher import Cipher
from gateway.store.sqlite.rekey import rekey
path, old, new = sys.argv[1:]
of = lambda text: Cipher(bytes.fromhex(text), "K") if text else None
old, new = of(old), of(new)
print("started", flush=True)
rekey(Path(path), old, new)
"""


def _cipher(name: str) -> Cipher | None:
    return Cipher(KEYS[name], name.upper()) if name in KEYS else None


def _fill(path: Path, count: int, name: str = "plain") -> None:
    with open_transaction(path, cipher=_cipher(name)) as tx:
        session = sessions.create_session(tx, "cli:0", 1.0)
        words = [user(f"{n} {CANARY} {'x' * 300}") for n in range(count)]
        tx.run("BEGIN")
        sessions.append_messages(tx, session, None, words, 1.0)
        replies = [
            OutgoingReply(f"d{n}", Route("chat", "bot", str(n)), [OutboundPart(f"{n} {CANARY}")])
            for n in range(count)
        ]
        outbox.put(tx, None, replies, 1.0)
        tx.run("COMMIT")


def _read(path: Path, name: str) -> list[str]:
    with open_transaction(path, check=True, cipher=_cipher(name)) as tx:
        ids = [id_ for (id_,) in tx.all("SELECT id FROM session ORDER BY id")]
        texts = [message.text for id_ in ids for message in sessions.load_all(tx, id_)]
        for lane in outbox.lanes_with_mail(tx):
            due = outbox.head(tx, lane, 9.0)
            assert isinstance(due, PendingPart)
            texts.append(due.message.content.text)
        return sorted(texts)


@pytest.mark.parametrize(
    ("old", "new"), [("plain", "one"), ("one", "two"), ("two", "plain"), ("one", "one")]
)
def test_all_texts_open_only_with_the_new_key(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "kore.db"
    _fill(path, 50, old)
    before = _read(path, old)
    assert rekey(path, _cipher(old), _cipher(new)) == 101
    assert _read(path, new) == before
    assert is_sealed(path) == (new != "plain")
    assert [file.name for file in tmp_path.iterdir()] == ["kore.db"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert (CANARY.encode() in path.read_bytes()) == (new == "plain")
    if old != new:
        with pytest.raises(StoreError):
            connect(path, cipher=_cipher(old))


def test_damaged_row_leaves_everything_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    _fill(path, 3, "one")
    with open_transaction(path, cipher=_cipher("one")) as tx:
        tx.run("UPDATE message SET content = 'x' WHERE n = 2")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="an encrypted text cannot be decrypted"):
        rekey(path, _cipher("one"), _cipher("two"))
    assert [file.name for file in tmp_path.iterdir()] == ["kore.db"]
    with open_transaction(path, cipher=_cipher("one")) as tx:
        assert tx.one("SELECT count(*) FROM message") == (3,)
    assert len(before) == path.stat().st_size


def test_database_in_use_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    _fill(path, 3)
    with open_transaction(path), pytest.raises(StoreError, match="in use by another program"):
        rekey(path, None, _cipher("one"))
    assert len(_read(path, "plain")) == 6


def test_old_copies_are_removed_before_the_rekeyed_file(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    _fill(path, 3)
    copy = tmp_path / "backups" / "before-upgrade-1.db"
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())

    def forget() -> None:
        assert not copy.exists()
        raise InterruptedError("a kill at this very moment")

    with pytest.raises(InterruptedError):
        rekey(path, None, _cipher("one"), forget)
    # A second run is possible and still finds work to do.
    assert not is_sealed(path)
    assert rekey(path, None, _cipher("one")) == 7
    assert is_sealed(path)


def _moments(path: Path) -> list[Callable[[], bool]]:
    """Return the moments of the kill: a file appears, has grown or is replaced."""
    work, fresh = path.with_name("kore.db.rekey"), path.with_name("kore.db.rekey-new")
    inode = path.stat().st_ino
    return [
        work.exists,
        lambda: _size_bytes(work) > 100_000,
        fresh.exists,
        lambda: _size_bytes(fresh) > 100_000,
        lambda: path.stat().st_ino != inode,
    ]


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # not yet created, or already removed
        return 0


async def test_kill_9_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    _fill(path, 800)
    expected = _read(path, "plain")
    chance = random.Random(5)
    current, seen = "plain", set()
    for round_ in range(10):
        new = chance.choice([name for name in ("plain", "one", "two") if name != current])
        moments = _moments(path)
        moment = moments[round_] if round_ < len(moments) else _after(chance.randrange(1, 4_000))
        await _killed(path, current, new, moment)
        left = new if _opens(path, new) else current
        assert _read(path, left) == expected, f"round {round_}"
        seen.add(left == new)
        current = left
        discard_copies(path)
        # A kill may leave an empty journal, which SQLite ignores.
        assert [file.name for file in tmp_path.iterdir() if file.stat().st_size] == ["kore.db"]
    assert False in seen, "no kill came in the middle"


def _after(looks: int) -> Callable[[], bool]:
    left = iter(range(looks))
    return lambda: next(left, None) is None


async def _killed(path: Path, old: str, new: str, moment: Callable[[], bool]) -> None:
    keys = [KEYS[name].hex() if name in KEYS else "" for name in (old, new)]
    child = await fork_server.start_piped(
        ["python", "-c", CHANGE, path, *keys], cwd=ROOT, env={"PATH": os.environ["PATH"]}
    )
    assert await child.stdout.readline() == b"started\n"
    while not moment() and child.returncode is None:
        pass
    with suppress(ProcessLookupError):
        child.kill()
    await child.communicate()


def _opens(path: Path, name: str) -> bool:
    try:
        connect(path, cipher=_cipher(name)).close()
    except StoreError:
        return False
    return True
