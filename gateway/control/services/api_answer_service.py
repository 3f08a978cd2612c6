"""The calls about answers over the OpenAI-compatible API, for the process that owns the data."""

import time

from gateway.core.messages import console_principal
from gateway.core.records import ApiAnswer, ApiRequest
from gateway.store.port import Store
from gateway.store.repositories import api_answers


class ApiAnswerService:
    """Implements `gateway.control.service.ApiAnswerCalls`."""

    def __init__(self, database: Store) -> None:
        self._answers = database

    async def begin_api_answer(self, request: ApiRequest) -> ApiAnswer | None:
        # Bare models are for tokens that speak for the owner of this machine.
        principal = request.principal or console_principal()
        return await self._answers.transact(api_answers.begin, request, principal, time.time())

    async def keep_api_answer(self, answer: ApiAnswer) -> bool:
        owner = console_principal()
        return await self._answers.transact(api_answers.keep, answer, owner, time.time())

    async def find_api_answer(self, token: str, answer_id: str) -> ApiAnswer | None:
        return await self._answers.transact(api_answers.find, token, answer_id, time.time())
