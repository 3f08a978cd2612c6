"""Judge of goals: a model decides from the last messages whether a goal is met."""

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Any

from agent.context.compaction.summarizer import ask_model, transcript
from agent.errors import BadReply, ProviderError, TimedOut
from agent.i18n import t
from agent.prompts import load_prompt, render_prompt
from agent.providers.base import ModelRequest
from agent.providers.pool import ModelPool
from agent.providers.usage import UsageMeter
from agent.records import frozen
from agent.security.redaction import Redactor
from agent.text.visible import escape_line
from agent.types import Message, user

log = logging.getLogger(__name__)

MAX_TRIES = 3
_TIMEOUT_S = 120.0
_MAX_MESSAGES = 60
_MAX_TRANSCRIPT_TOKENS = 16_000
# Share of the model's window for the transcript.
_SHARE = 0.5
# The thoughts of a reasoning model count as well.
_REPLY_TOKENS = 4_000
_MAX_LINE_CHARS = 500


@frozen
class GoalVerdict:
    """Judgement of a goal: `evidence` if it is met, otherwise what is `missing`, each one line.

    `asks`: the last message asks the person something that the work needs to continue.
    """

    is_met: bool
    evidence: str = ""
    missing: str = ""
    asks: bool = False


@frozen
class GoalJudge:
    """Judge that asks the model of the profile "quick"; its input and output are redacted."""

    models: ModelPool
    redactor: Redactor

    async def judge(self, goal: str, messages: Sequence[Message], meter: UsageMeter) -> GoalVerdict:
        """Return the verdict on a conversation.

        If a reply is not a verdict, the model is asked again. Raises `ProviderError` after
        `MAX_TRIES` tries, `LimitReached` and `ConfigError`.
        """
        for n in range(1, MAX_TRIES + 1):
            try:
                return await self._ask(goal, messages, meter)
            except ProviderError as exc:
                if n == MAX_TRIES or not exc.retryable:
                    raise
                log.info("the judge gave no verdict (try %d): %s", n, exc)
        raise AssertionError("the last try returns or raises")

    async def _ask(self, goal: str, messages: Sequence[Message], meter: UsageMeter) -> GoalVerdict:
        model = self.models.open(self.models.profile("quick"))
        room = min(int(model.window_tokens * _SHARE), _MAX_TRANSCRIPT_TOKENS)
        text = render_prompt(
            "goal_judge_request",
            goal=goal,
            transcript=transcript(messages[-_MAX_MESSAGES:], room),
        )
        request = ModelRequest(
            model.model,
            load_prompt("goal_judge"),
            [user(self.redactor.clean(text))],
            temperature=model.temperature,
            max_tokens=min(model.max_tokens or _REPLY_TOKENS, model.window_tokens // 5),
        )
        try:
            async with asyncio.timeout(max(_TIMEOUT_S, model.patience_s)):
                reply = await ask_model(model, request, meter)
        except TimeoutError as exc:
            raise TimedOut(t("the check of the goal timed out")) from exc
        return read_verdict(self.redactor.clean(reply.text))


def read_verdict(text: str) -> GoalVerdict:
    """Return the verdict in the first JSON object of a reply. Raises `BadReply` without one."""
    begin = text.find("{")
    try:
        data, _ = json.JSONDecoder().raw_decode(text, begin if begin >= 0 else 0)
        return _verdict(data)
    except ValueError as exc:
        raise BadReply(t("the model gave no verdict on the goal")) from exc


def _verdict(data: Any) -> GoalVerdict:
    """Return the verdict in a JSON value. Raises ValueError for any other value."""
    if not isinstance(data, dict) or not isinstance(data.get("met"), bool):
        raise ValueError("no verdict")
    is_met = data["met"]
    missing = _line(data.get("missing"))
    if not is_met and not missing:
        raise ValueError("a verdict says what is missing")
    return GoalVerdict(is_met, _line(data.get("evidence")), missing, data.get("asks") is True)


def _line(value: Any) -> str:
    """Return a text as one line without control characters; '' for any other value."""
    text = " ".join(value.split()) if isinstance(value, str) else ""
    return escape_line(text)[:_MAX_LINE_CHARS]
