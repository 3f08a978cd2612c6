"""Remote control of a fake Bot API from another process, over HTTP.

POST /control/user_says   arguments of `BotApi.user_says`, or a list of them
POST /control/user_presses  {"chat_id", "message_id", "data"}
POST /control/user_stops  {"chat_id"}
POST /control/fail        {"method", "fault": {"kind", ...}, "times" | "probability", "seed"}
POST /control/heal
GET  /control/sent?since=N&wait_s=S   journal entries from N on; waits until there is one
GET  /control/chat?chat_id=N
GET  /control/state
"""

import time
from dataclasses import asdict
from typing import Any

from aiohttp import web

from tests.fakes.bot_api import BotApi
from tests.fakes.faults import fault_from_json


class BotControl:
    """Control routes for a server that has not started yet."""

    def __init__(self, api: BotApi) -> None:
        self._api = api
        api.app.router.add_routes(
            [
                web.post("/control/user_says", self._user_says),
                web.post("/control/user_presses", self._user_presses),
                web.post("/control/user_stops", self._user_stops),
                web.post("/control/fail", self._fail),
                web.post("/control/heal", self._heal),
                web.get("/control/sent", self._sent),
                web.get("/control/chat", self._chat),
                web.get("/control/state", self._state),
            ]
        )

    async def _user_says(self, request: web.Request) -> web.Response:
        body = await request.json()
        if isinstance(body, list):
            return web.json_response(
                [asdict(await self._api.user_says(**message)) for message in body]
            )
        return web.json_response(asdict(await self._api.user_says(**body)))

    async def _user_presses(self, request: web.Request) -> web.Response:
        return web.json_response(asdict(await self._api.user_presses(**await request.json())))

    async def _user_stops(self, request: web.Request) -> web.Response:
        return web.json_response(asdict(await self._api.user_stops(**await request.json())))

    async def _fail(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        fault = fault_from_json(body.pop("fault"))
        self._api.fail(body.pop("method"), fault, **body)
        return web.json_response({"ok": True})

    async def _heal(self, request: web.Request) -> web.Response:
        self._api.heal()
        return web.json_response({"ok": True})

    async def _sent(self, request: web.Request) -> web.Response:
        since = int(request.query.get("since", "0"))
        deadline = time.monotonic() + float(request.query.get("wait_s", "0"))
        while len(self._api.sent) <= since and not self._api.stopping:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                break
            await self._api.news(remaining_s)
        return web.json_response([asdict(effect) for effect in self._api.sent[since:]])

    async def _chat(self, request: web.Request) -> web.Response:
        chat_id = int(request.query["chat_id"])
        return web.json_response([asdict(shown) for shown in self._api.chat(chat_id)])

    async def _state(self, request: web.Request) -> web.Response:
        api = self._api
        gatekeeper = api.methods.gatekeeper
        return web.json_response(
            {
                "refused": gatekeeper.refused if gatekeeper else 0,
                "confirmed_offset": api.confirmed_offset,
                "pending_updates": api.pending_updates,
                "delivered": api.updates.delivered,
                "polling": api.polling,
                "polls_done": api.polls_done,
                "first_poll_at": api.first_poll_at,
                "calls": len(api.calls),
                "sent": len(api.sent),
            }
        )
