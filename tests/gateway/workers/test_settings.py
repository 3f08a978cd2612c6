"""Changes while workers run turns: people, jobs, limits, and the configuration."""

import json
import signal

import pytest

from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.asking import questions, seed, wait_for_questions, write
from tests.gateway.end_to_end.config_file import change_section
from tests.gateway.end_to_end.gateway_process import OWNER
from tests.gateway.end_to_end.pairing_codes import code_for
from tests.gateway.workers.worker_group import WorkerGroup

pytestmark = pytest.mark.asyncio(loop_scope="module")
STRANGER = 77
SECTIONS = {"telegram": {"allow_from": []}, "security": {"approval_timeout_s": 1.5}}


def models_asked(group: WorkerGroup) -> set[str]:
    return {request.body["model"] for request in group.model.requests}


async def test_workers_answer_an_approved_person_until_revoked(
    group: WorkerGroup,
) -> None:
    code = await code_for(group.front, STRANGER)
    assert (await group.front.kore("pair", "approve", code)).code == 0
    assert (await group.answers_to(STRANGER, "hi"))[-1] == "echo: hi"
    # A worker that fails uses the language chosen by the person.
    await group.answers_to(STRANGER, "/language zh-Hans")
    group.model.script(ReplyScript(text="late", waits_at=0))
    await group.api.user_says(STRANGER, "go")
    await group.front.until(lambda: group.model.waiting)
    await group.answers_to(STRANGER, "/stop")
    assert group.api.answers(STRANGER)[-1] == "⏹ 已停止。"
    assert (await group.front.kore("pair", "revoke", f"telegram:{STRANGER}")).code == 0
    before = len(group.model.requests)
    await group.answers_to(STRANGER, "still there?")
    assert len(group.model.requests) == before


async def test_unanswered_question_expires_at_the_front(group: WorkerGroup) -> None:
    seed(group.front)
    group.model.script(ReplyScript(tool_calls=write("new\n")), "Too late.")
    await group.api.user_says(OWNER, "change it")
    await wait_for_questions(group.front)
    await group.front.until(lambda: group.api.answers(OWNER)[-1] == "Too late.")
    assert not questions(group.front)


async def test_reminder_and_task_created_in_a_worker_run(
    group: WorkerGroup,
) -> None:
    add = Call("schedule", {"action": "add", "when": "in 1s", "text": "tea"})
    group.model.script(ReplyScript(tool_calls=(add,)), "I will.")
    await group.api.user_says(OWNER, "remind me of tea")
    await group.front.until(lambda: any("⏰ tea" in answer for answer in group.api.answers(OWNER)))
    await group.front.until(lambda: "I will." in group.api.answers(OWNER))
    await group.answers_to(OWNER, "/cron ask in 1s count")
    await group.front.until(lambda: "echo: count" in group.api.answers(OWNER)[-1])
    turns = await group.rows("turn", "worker", order="id")
    assert turns[-1][0] is not None


async def test_each_process_reloads_its_own_file(group: WorkerGroup) -> None:
    first, second = group.workers
    for item in (first, second):
        change_section(item, "agent", model="other")
    # The first worker gets a signal; the second notices the change on its own.
    first.signal(signal.SIGHUP)
    for worker in (first, second):
        await worker.until(lambda worker=worker: "changed: agent.model" in worker.output())
    group.model.requests.clear()
    await group.answers_to(OWNER, "hi")
    assert models_asked(group) == {"other"}
    # An error is logged by the process that owns the file and has no other effect.
    second.config.write_text("{")
    await second.until(lambda: "still using the last valid configuration" in second.output())
    answers = group.api.answers(OWNER)
    assert not any("config.json" in item for item in answers)
    second.config.write_text(first.config.read_text())
    await second.until(lambda: "configuration fixed and reloaded" in second.output())


async def test_cost_limit_is_shared_by_all_workers(group: WorkerGroup) -> None:
    prices = {"price_input_usd": 1000, "price_output_usd": 1000}
    for worker in (group.front, *group.workers):
        config = json.loads(worker.config.read_text())
        config["agent"]["model"] = "stand-in"
        config["model_list"] = [{**entry, **prices} for entry in config["model_list"]]
        config["limits"] = {"cost_per_day_usd": 10}
        worker.config.write_text(json.dumps(config))
        worker.signal(signal.SIGHUP)
    for worker in (group.front, *group.workers):
        await worker.until(lambda worker=worker: "limits.cost_per_day_usd" in worker.output())
    group.model.requests.clear()
    # A call reserves about 2 dollars while it runs, and costs about as much.
    group.model.latency_s = 0.2
    places = range(-320, -300)
    for place in places:
        await group.api.user_says(place, f"@kore_test_bot {place}", user_id=OWNER)
    await group.idle()
    numbers = [place for place in places if f"echo: {place}" in group.api.answers(place)]
    refused = [place for place in places if "the limit of $10.00" in group.api.answers(place)[-1]]
    assert len(numbers) == len(group.model.requests) == len(places) - len(refused)
    # The cost of a call depends on the prompt, and the reservation is the minimum cost: at most a
    # fifth less. Two separate limits would allow twice as much.
    costs = [cost / 1e9 for (cost,) in await group.rows("usage", "cost_nusd") if cost]
    assert len(costs) == len(numbers) > 2
    assert 10 - 1.2 * max(costs) < sum(costs) < 10 * 1.25
    turns = await group.rows("turn", "worker", order="id DESC")
    assert len(set(turns[: len(places)])) == 2
