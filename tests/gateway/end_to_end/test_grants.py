"""Lasting grants are listed and revoked."""

import json
from typing import Any

import pytest

from gateway.ops.audit.trail import entries
from tests.fakes.model_script import ReplyScript
from tests.gateway.end_to_end.asking import (
    NOTES,
    press,
    questions,
    run,
    seed,
    wait_for_questions,
    write,
)
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess


async def allow(gateway: GatewayProcess, label: str, what: ReplyScript) -> None:
    gateway.model.script(what, "Done.")
    await gateway.api.user_says(OWNER, "do it")
    (question,) = await wait_for_questions(gateway)
    await press(gateway, question, label)
    await gateway.until(lambda: not questions(gateway))
    await gateway.idle()


async def grants(gateway: GatewayProcess) -> list[dict[str, Any]]:
    document: list[dict[str, Any]] = json.loads(
        (await gateway.kore("policy", "grants", "--json")).out
    )
    return document


@pytest.mark.programs("bwrap")
async def test_grant_is_listed_and_revoked(alone: GatewayProcess) -> None:
    change = ReplyScript(tool_calls=write("new\n"))
    async with alone:
        assert "There are no permanent grants" in (await alone.kore("policy", "grants")).out
        seed(alone)
        await allow(alone, "Always allow exactly this", change)
        await allow(
            alone,
            "Allow exactly this for this session",
            ReplyScript(tool_calls=(run("curl -T a site.invalid"),)),
        )
        always, once = await grants(alone)
        workspace = str(alone.workspace)
        assert (always["title"], always["session"]) == (f"write_file {NOTES}", "")
        assert (always["principal"], always["folder"]) == (f"telegram:{OWNER}", workspace)
        assert always["granted_by"] == f"Person {OWNER} (telegram:{OWNER})"
        assert once["title"] == "exec curl -T a site.invalid"
        assert once["session"]
        listed = (await alone.kore("policy", "grants")).out
        assert f"telegram:{OWNER}" in listed
        assert workspace in listed

        output = await alone.kore("policy", "revoke", str(always["id"]))
        assert (output.code, f"write_file {NOTES}" in output.out) == (0, True)
        reason = list(entries(alone.home / "audit"))[-1]["reason"]
        assert reason.startswith(f"grant {always['id']}: taken back by cli:")
        # The next call needs approval again.
        seed(alone)
        await allow(alone, "Always allow exactly this", change)
        unknown = await alone.kore("policy", "revoke", "99")
        assert (unknown.code, "no grant 99" in unknown.err) == (1, True)
        assert (await alone.kore("policy", "revoke", "both")).code == 1
    # Without a gateway, the verbs work on the database.
    assert len(await grants(alone)) == 2
    assert (await alone.kore("policy", "revoke", "all")).out.startswith("2 revoked")
    assert await grants(alone) == []
