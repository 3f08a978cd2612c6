"""A fake Telegram Bot API: real offsets, real refusals, and faults on demand.

    async with BotApi() as api:
        await api.user_says(7, "hi")
        await api.wait_for(lambda: api.answers(7))

Pass `base_url` to telegram.Bot. `sent` lists the bot's effects, `chat` the visible messages.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.fakes import bot_inbound
from tests.fakes.bot_chats import ChatMessage, Chats, Effect
from tests.fakes.bot_files import BotFiles
from tests.fakes.bot_limits import Gatekeeper, Limits
from tests.fakes.bot_methods import BotMethods
from tests.fakes.bot_polls import LongPolls
from tests.fakes.bot_text import Refusal
from tests.fakes.bot_updates import UpdateQueue
from tests.fakes.bot_wire import answer, describe, parameters, refuse_by_script
from tests.fakes.faults import Fault, FaultPlan
from tests.fakes.loopback import LoopbackServer, reset

TOKEN = "123456:stand-in-token"

WEBHOOK_ACTIVE = (
    "Conflict: can't use getUpdates method while webhook is active; "
    "use deleteWebhook to delete the webhook first"
)


@dataclass(frozen=True, slots=True)
class UserMessage:
    """Ids of a message from a person; `at` is Unix time in seconds."""

    update_id: int
    message_id: int
    at: float


class BotApi(LoopbackServer):
    """Bot API for one token; requests with any other token get a 401."""

    def __init__(self, token: str = TOKEN, *, port: int = 0, limits: Limits | None = None) -> None:
        super().__init__(port)
        self.token = token
        self.chats = Chats()
        self.updates = UpdateQueue()
        self.files = BotFiles(token)
        self.methods = BotMethods(self.chats, self.updates, self.files)
        self.methods.gatekeeper = Gatekeeper(limits) if limits else None
        self.calls: list[str] = []
        self.polls = LongPolls(self.updates, self)
        self._faults = FaultPlan()
        self.app.router.add_route("*", "/bot{token}/{method}", self._handle)
        self.app.router.add_get("/file/bot{token}/{path:.*}", self._give)

    @property
    def base_url(self) -> str:
        return f"{self.url}/bot"

    @property
    def sent(self) -> list[Effect]:
        """Everything that the bot did, in order."""
        return self.chats.journal

    @property
    def sends(self) -> list[Effect]:
        """New messages among the effects, which a reader counts as answers."""
        methods = ("sendMessage", "sendRichMessage")
        return [effect for effect in self.sent if effect.method in methods]

    @property
    def confirmed_offset(self) -> int:
        return self.updates.confirmed_offset

    @property
    def pending_updates(self) -> list[int]:
        """Ids of the updates that the bot has not confirmed."""
        return list(self.updates.pending)

    @property
    def polling(self) -> bool:
        """True while a getUpdates call is waiting."""
        return self.polls.waiting

    @property
    def polls_done(self) -> int:
        return self.polls.done

    @property
    def first_poll_at(self) -> float | None:
        return self.polls.first_at

    def chat(self, chat_id: int) -> list[ChatMessage]:
        """Return all visible messages, from people and the bot, in order and after edits."""
        return self.chats.visible(chat_id)

    def answers(self, chat_id: int) -> list[str]:
        """Return the texts of the bot's visible messages."""
        return [shown.text for shown in self.chat(chat_id) if shown.from_bot]

    def fail(
        self,
        method: str,
        fault: Fault,
        times: int = 1,
        *,
        probability: float | None = None,
        seed: int = 0,
    ) -> None:
        """Make the next `times` calls of the method ("*": any) fail, or each with a probability."""
        if probability is None:
            self._faults.add(method, fault, times)
        else:
            self._faults.add_by_chance(method, fault, probability, seed)

    def heal(self) -> None:
        """Discard all planned faults."""
        self._faults.clear()

    async def user_says(
        self,
        chat_id: int,
        text: str,
        *,
        user_id: int | None = None,
        thread_id: int | None = None,
        chat_type: str | None = None,
        edit_of: int | None = None,
        reply_to: int | None = None,
        fields: Mapping[str, Any] | None = None,
        raw: Mapping[str, Any] | str | bytes | None = None,
    ) -> UserMessage:
        """Send a message as a person; positive chat ids are private, negative ones supergroups.

        `edit_of` is the id of that person's earlier message. `fields` are added to the message.
        `raw` is sent instead: an update without its id, or text verbatim, however broken (see
        `UpdateQueue.add`).
        """
        if raw is not None:
            return self._enqueue(raw, 0)
        if chat_type is not None:
            self.chats.kinds[chat_id] = chat_type
        sender = user_id if user_id is not None else abs(chat_id)
        shown = ChatMessage(
            edit_of or 0, chat_id, text, False, sender, thread_id=thread_id, reply_to=reply_to
        )
        kind, message = bot_inbound.message_update(self.chats, shown, edited=edit_of is not None)
        return self._enqueue({kind: {**message, **(fields or {})}}, shown.message_id, kind)

    async def user_sends(
        self,
        chat_id: int,
        kind: str,
        data: bytes = b"",
        *,
        caption: str = "",
        name: str | None = None,
        size: int | None = None,
        field: Mapping[str, Any] | None = None,
        album: str | None = None,
        reply_to: int | None = None,
        user_id: int | None = None,
    ) -> UserMessage:
        """Send a file with a caption as a person, optionally as part of an `album`.

        `size` is the size that Telegram reports. `field` replaces the file's field in the message,
        for content that is not a file.
        """
        mapping = field if field is not None else self.files.field(kind, data, name, size)
        media = {kind: mapping, **({"media_group_id": album} if album else {})}
        sender = user_id if user_id is not None else abs(chat_id)
        shown = ChatMessage(0, chat_id, caption, False, sender, reply_to=reply_to, media=media)
        update, message = bot_inbound.message_update(self.chats, shown, edited=False)
        return self._enqueue({update: message}, shown.message_id, update)

    async def user_presses(
        self, chat_id: int, message_id: int, data: str, *, user_id: int | None = None
    ) -> UserMessage:
        """Press an inline button of the bot's message as a person."""
        presser = user_id if user_id is not None else abs(chat_id)
        query = bot_inbound.callback_query(self.chats, chat_id, message_id, data, presser)
        return self._enqueue({"callback_query": query}, message_id, "callback_query")

    async def user_stops(self, chat_id: int) -> UserMessage:
        """Press Stop below the draft that the chat shows, as its person; the draft vanishes.

        https://core.telegram.org/bots/api#messagegenerationstopped
        """
        stopped = self.chats.stoppable.pop(chat_id)
        del self.chats.drafts[chat_id]
        update = {"chat": self.chats.chat_json(chat_id), **stopped}
        kind = "stopped_message_generation"
        return self._enqueue({kind: update}, 0, kind)

    def group_becomes(self, group: int, supergroup: int, *, tell: bool = True) -> None:
        """Turn a group into a supergroup, where message ids start again.

        With `tell`, send the two service messages that Telegram eventually sends.
        """
        self.chats.kinds[group] = "group"
        self.chats.upgraded[group] = supergroup
        if not tell:
            return
        for kind, message in bot_inbound.upgrade(self.chats, group, supergroup):
            self._enqueue({kind: message}, 0, kind)

    def bot_becomes(self, chat_id: int, before: str, after: str, *, by: int = 1) -> None:
        """Change the bot's status in a chat: "left", "member", "administrator", "kicked"."""
        gone = after in ("left", "kicked")
        (self.chats.blocked.add if gone else self.chats.blocked.discard)(chat_id)
        change = bot_inbound.membership(self.chats, chat_id, before, after, by)
        self._enqueue({"my_chat_member": change}, 0, "my_chat_member")

    def _enqueue(
        self, update: Mapping[str, Any] | str | bytes, message_id: int, kind: str | None = None
    ) -> UserMessage:
        if kind and not self.polls.lets_through(kind):
            return UserMessage(0, message_id, time.time())
        message = UserMessage(self.updates.add(update), message_id, time.time())
        self.changed()
        return message

    def summary(self) -> str:
        lines = [f"{e.method} {e.chat_id} #{e.message_id} {e.text!r:.80}" for e in self.sent[-20:]]
        waiting = len(self.pending_updates)
        return f"{waiting} updates unconfirmed; the bot did: " + ("; ".join(lines) or "nothing")

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        if request.match_info["token"] != self.token:
            return answer(Refusal(401, describe(401)))
        params = await parameters(request)
        self.calls.append(method)
        fault = self._faults.take(method)
        if fault is not None:
            if fault.kind == "status":
                return refuse_by_script(fault)
            if fault.kind == "reset":
                return await reset(request)
            if fault.kind == "hang":
                return await self.hang(request)
            await self.pause(fault.delay_s)
        try:
            body = await self._carry_out(method, params)
        except Refusal as refusal:
            return answer(refusal)
        finally:
            self.changed()
        return await self._deliver(request, body, fault)

    async def _give(self, request: web.Request) -> web.StreamResponse:
        """Return the bytes of a file; faults for it are planned as "file"."""
        self.calls.append("file")
        data = self.files.content(request.match_info["path"])
        if request.match_info["token"] != self.token or data is None:
            return answer(Refusal(404, describe(404)))
        fault = self._faults.take("file")
        if fault is not None and fault.kind == "status":
            return refuse_by_script(fault)
        if fault is not None and fault.kind in ("reset", "hang"):
            return await (reset(request) if fault.kind == "reset" else self.hang(request))
        return await self._deliver(request, data, fault)

    async def _deliver(
        self, request: web.Request, body: bytes, fault: Fault | None
    ) -> web.StreamResponse:
        if fault is not None and fault.kind == "lost_response":
            return await reset(request)
        if fault is not None and fault.kind == "answerless":
            return await self.hang(request)
        if fault is not None and fault.kind == "truncated":
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            response.content_length = len(body)
            await response.prepare(request)
            response.force_close()
            await response.write(body[: len(body) // 2])
            return response
        return web.Response(body=body, content_type="application/json")

    async def _carry_out(self, method: str, params: Mapping[str, Any]) -> bytes:
        if method.lower() == "getupdates":
            if self.methods.webhook_url:
                raise Refusal(409, WEBHOOK_ACTIVE)
            batch = await self.polls.answer(params)
            return b'{"ok":true,"result":[' + b",".join(batch) + b"]}"
        return json.dumps({"ok": True, "result": self.methods.call(method, params)}).encode()
