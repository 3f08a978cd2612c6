"""The calls about answers over the OpenAI-compatible API, for the process that owns the data."""

import os
import time

from gateway.core.messages import CONSOLE
from gateway.core.records import ApiAnswer, ApiRequest
from gateway.store.port import Store
from gateway.store.repositories import api_answers


class ApiAnswerService:
    """Implements `gateway.control.service.ApiAnswerCalls`."""

    def __init__(self, database: Store) -> None:
        self._answers = database

    async def begin_api_answer(self, request: ApiRequest) -> ApiAnswer | None:
        principal = request.principal or _owner()
        return await self._answers.transact(api_answers.begin, request, principal, time.time())

    async def keep_api_answer(self, answer: ApiAnswer) -> bool:
        return await self._answers.transact(api_answers.keep, answer, _owner(), time.time())

    async def find_api_answer(self, token: str, answer_id: str) -> ApiAnswer | None:
        return await self._answers.transact(api_answers.find, token, answer_id, time.time())


def _owner() -> str:
    """Bare models are for tokens that speak for the owner of this machine."""
    return f"{CONSOLE}:{os.getuid()}"
