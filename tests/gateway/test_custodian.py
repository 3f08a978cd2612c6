"""What the custodian does away with besides rows and folders; the rest is proven end to end."""

from pathlib import Path

from gateway.access import Access
from gateway.custodian import Custodian
from gateway.home import Home
from gateway.messages import OutboundFile, OutboundPart, Route, Sender
from gateway.outgoing import FOLDER
from gateway.store import inbox, outbox
from gateway.store.inbox import Arrival, Entry
from gateway.store.outbox import Letter
from tests.gateway.parts import Parts, opened, said


async def nothing() -> None:
    return None


async def parcel(parts: Parts, who: str) -> Path:
    """Somebody has written, and a file waits to be sent to them."""
    copy = parts.database.folder / FOLDER / f"copy{who}"
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(b"theirs")
    message = said("hi", who, sender=Sender(who))
    await parts.database.run(inbox.accept, Arrival("chat", "bot", 0.0), [Entry(message, "read")])
    content = OutboundPart("", files=(OutboundFile("a.txt", str(copy), size_bytes=6),))
    letter = Letter(f"file:{who}", Route("chat", "bot", who), [content])
    await parts.database.run(outbox.put, None, [letter], 0.0)
    return copy


async def test_files_that_wait_to_be_sent_to_somebody_go_with_them(tmp_path: Path) -> None:
    async with opened(tmp_path, []) as parts:
        gone, kept = await parcel(parts, "71"), await parcel(parts, "72")
        custodian = Custodian(
            parts.database,
            Home(tmp_path / "home"),
            parts.workspace,
            Access(None, {}),
            lambda session: None,
            lambda connection: None,
            nothing,
        )
        await custodian.delete("chat:71", copies=False)
        assert not gone.exists()
        assert kept.exists()
