"""Encrypted message storage in a real gateway: new, changed, removed and wrong keys."""

import base64
import secrets
from collections.abc import Mapping
from pathlib import Path

from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.gateway.end_to_end.gateway_process import GatewayProcess
from tests.gateway.store.transactions import database_content

CHAT = 7
KEYS = {
    "ONE_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
    "TWO_KEY": secrets.token_bytes(32).hex(),
}


class Sealed(GatewayProcess):
    """Gateway with keys in its environment."""

    keys: Mapping[str, str] = KEYS

    def _environ(self) -> Mapping[str, str]:
        return {**super()._environ(), **self.keys}

    def seal_with(self, name: str | None) -> None:
        self.configure({"store": {"encryption_key_env": name}})

    def stored(self) -> bytes:
        """Return the content of the database and of its copies."""
        files = sorted(self.home.glob("*.db*"))
        return database_content(self.database) + b"".join(file.read_bytes() for file in files)


async def test_sealed_store_survives_restarts_backups_and_new_keys(
    tmp_path: Path, bot_api: BotApi, model_server: ModelServer
) -> None:
    gateway = Sealed(tmp_path, bot_api, model_server)
    gateway.seal_with("ONE_KEY")
    async with gateway:
        assert await gateway.answers_to(CHAT, "canary one") == ["echo: canary one"]
        assert (await gateway.kore("backup", gateway.home / "copy.db")).code == 0
        rekeying = await gateway.kore("store", "rekey", "--to", "TWO_KEY")
        assert (rekeying.code, "is in use by kore gateway" in rekeying.err) == (75, True)
        await gateway.kill()
        assert b"canary" not in gateway.stored()
        await gateway.start()
        await gateway.answers_to(CHAT, "canary two")
    before = gateway.stored()
    assert b"canary" not in before
    changed = await gateway.kore("store", "rekey", "--to", "TWO_KEY")
    assert changed.code == 0, changed.err
    assert "set it to TWO_KEY" in changed.out
    refused = await gateway.kore("sessions", "list")
    assert (refused.code, "a different key from the one in ONE_KEY" in refused.err) == (1, True)
    gateway.seal_with("TWO_KEY")
    async with gateway:
        # The model receives the whole conversation, decrypted with the new key.
        await gateway.answers_to(CHAT, "canary three")
        text = model_server.requests[-1].raw.decode()
        assert all(word in text for word in ("canary one", "canary two", "canary three"))
    assert b"canary" not in gateway.stored()


async def test_wrong_key_is_one_sentence_and_plain_mode_restores_access(
    tmp_path: Path, bot_api: BotApi, model_server: ModelServer
) -> None:
    gateway = Sealed(tmp_path, bot_api, model_server)
    async with gateway:
        await gateway.answers_to(CHAT, "canary one")
    gateway.seal_with("ONE_KEY")
    for verb in ("gateway", "sessions"):
        refused = await gateway.kore(verb, *(["list"] if verb == "sessions" else []))
        assert refused.code == 1
        assert "is not encrypted" in refused.err
        assert "kore store rekey" in refused.err
    gateway.seal_with("NO_KEY")
    missing = await gateway.kore("gateway")
    assert (missing.code, "NO_KEY, which is not set" in missing.err) == (2, True)
    blamed = await gateway.kore("store", "rekey", "--to", "NO_KEY")
    assert (blamed.code, "--to refers to NO_KEY, which is not set" in blamed.err) == (2, True)
    sealed = await gateway.kore("store", "rekey", "--to", "ONE_KEY", "--json")
    assert sealed.code == 0, sealed.err
    assert b"canary" not in gateway.stored()
    gateway.seal_with(None)
    unnamed = await gateway.kore("store", "rekey", "--plain")
    assert (unnamed.code, "--from NAME_OF_VARIABLE" in unnamed.err) == (2, True)
    opened = await gateway.kore("store", "rekey", "--plain", "--from", "ONE_KEY")
    assert opened.code == 0, opened.err
    again = await gateway.kore("store", "rekey", "--plain")
    assert (again.code, "is not encrypted; nothing to do" in again.err) == (1, True)
    which = await gateway.kore("store", "rekey")
    assert (which.code, "no key given" in which.err) == (2, True)
    async with gateway:
        await gateway.answers_to(CHAT, "canary two")
        assert "canary one" in model_server.requests[-1].raw.decode()
