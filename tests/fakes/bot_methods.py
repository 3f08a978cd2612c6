"""Bot API methods that have an effect and return at once (all but getUpdates).

https://core.telegram.org/bots/api#available-methods
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from tests.fakes.bot_chats import ChatMessage, Chats, Effect
from tests.fakes.bot_files import METHODS, BotFiles
from tests.fakes.bot_limits import Gatekeeper
from tests.fakes.bot_rich import check_rich, rich_text
from tests.fakes.bot_text import Refusal, bad_request, check_entities, check_text
from tests.fakes.bot_updates import UpdateQueue

Params = Mapping[str, Any]


def integer(params: Params, name: str) -> int | None:
    """Return a whole number; form fields carry it as text."""
    value = params.get(name)
    if value is None or value == "":
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        raise bad_request(f'parameter "{name}" must be of type Integer') from None


def structure(params: Params, name: str) -> Any:
    """Return an object or a list; form fields carry it as JSON text."""
    value = params.get(name)
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            raise bad_request(f"can't parse {name} JSON object") from None
    return value


class BotMethods:
    """Handlers of Bot API calls on the chats; `gatekeeper` None sends without limits."""

    def __init__(self, chats: Chats, updates: UpdateQueue, files: BotFiles) -> None:
        self.gatekeeper: Gatekeeper | None = None
        # False for a server before Bot API 10.1.
        self.knows_rich = True
        self.webhook_url = ""
        self.webhook_secret = ""
        self.webhook_trouble: tuple[int, str] | None = None
        self.commands: list[Mapping[str, Any]] = []
        self._chats = chats
        self._updates = updates
        self._files = files
        self._methods: dict[str, Callable[[Params], Any]] = {
            "getme": self._get_me,
            "sendmessage": self._send_message,
            "editmessagetext": self._edit_message_text,
            "editmessagereplymarkup": self._edit_message_reply_markup,
            "sendmessagedraft": self._send_message_draft,
            "sendrichmessage": self._send_rich_message,
            "sendrichmessagedraft": self._send_rich_message_draft,
            "deletemessage": self._delete_message,
            "sendchataction": self._send_chat_action,
            "setmycommands": self._set_my_commands,
            "answercallbackquery": self._answer_callback_query,
            "setwebhook": self._set_webhook,
            "setmessagereaction": self._set_reaction,
            "deletewebhook": self._delete_webhook,
            "getwebhookinfo": self._get_webhook_info,
            "getfile": files.get_file,
            "sendmediagroup": self._send_album,
            **{method: partial(self._send_file, method) for method in METHODS},
            "logout": self._note("logOut"),
            "close": self._note("close"),
        }

    def call(self, method: str, params: Params) -> Any:
        """Return the `result` of the method. Raise Refusal on an error."""
        function = self._methods.get(method.lower())
        if function is None or ("rich" in method.lower() and not self.knows_rich):
            raise Refusal(404, "Not Found: method not found")
        return function(params)

    def _get_me(self, params: Params) -> Any:
        return dict(self._chats.me) | {
            "can_join_groups": True,
            "can_read_all_group_messages": False,
            "supports_inline_queries": False,
        }

    def _note(self, method: str) -> Callable[[Params], bool]:
        def done(params: Params) -> bool:
            self._record(Effect(method, None, params=dict(params)))
            return True

        return done

    def _record(self, effect: Effect) -> None:
        self._chats.journal.append(effect)

    def _admit(self, params: Params, thread_id: int | None = None) -> int:
        chat_id = integer(params, "chat_id")
        if chat_id is None:
            raise bad_request("chat_id is empty")
        self._chats.check_reachable(chat_id, thread_id)
        wait = self.gatekeeper.retry_after(chat_id) if self.gatekeeper else None
        if wait is not None:
            raise Refusal(429, f"Too Many Requests: retry after {wait}", wait)
        return chat_id

    def _send_message(self, params: Params) -> Any:
        text = check_text(params.get("text"))
        entities = check_entities(text, params.get("entities"))
        thread_id = integer(params, "message_thread_id")
        chat_id = self._admit(params, thread_id)
        reply_to = self._reply_target(chat_id, params)
        shown = self._chats.put(
            ChatMessage(
                0,
                chat_id,
                text,
                from_bot=True,
                sender_id=self._chats.me["id"],
                entities=entities,
                thread_id=thread_id,
                reply_to=reply_to,
                reply_markup=structure(params, "reply_markup"),
            )
        )
        self._record_shown("sendMessage", shown, params)
        return self._chats.message_json(shown)

    def _send_rich_message(self, params: Params) -> Any:
        blocks = check_rich(structure(params, "rich_message"))
        thread_id = integer(params, "message_thread_id")
        chat_id = self._admit(params, thread_id)
        shown = self._chats.put(
            ChatMessage(
                *(0, chat_id, rich_text(blocks), True, self._chats.me["id"]),
                thread_id=thread_id,
                reply_to=self._reply_target(chat_id, params),
                reply_markup=structure(params, "reply_markup"),
                blocks=blocks,
            )
        )
        self._record_shown("sendRichMessage", shown, params)
        return self._chats.message_json(shown)

    def _send_rich_message_draft(self, params: Params) -> bool:
        blocks = check_rich(structure(params, "rich_message"), is_draft=True)
        return self._show_draft("sendRichMessageDraft", params, rich_text(blocks))

    def _send_file(self, method: str, params: Params) -> Any:
        return self._send_files(method, params)[0]

    def _send_album(self, params: Params) -> Any:
        return self._send_files("sendmediagroup", params)

    def _send_files(self, method: str, params: Params) -> list[Any]:
        sent = self._files.sent(method, params)
        thread_id = integer(params, "message_thread_id")
        chat_id = self._admit(params, thread_id)
        self._chats.check_takes_files(chat_id, sent[0][0].kind)
        reply_to = self._reply_target(chat_id, params)
        results = []
        for file, caption in sent:
            entities = check_entities(caption, params.get("caption_entities"))
            media = {file.kind: self._files.field(file.kind, file.data, file.name, None)}
            shown = ChatMessage(
                *(0, chat_id, caption, True, self._chats.me["id"], entities),
                thread_id=thread_id,
                reply_to=reply_to,
                media=media,
            )
            results.append(self._chats.put(shown))
        plain = {name: value for name, value in params.items() if isinstance(value, str | int)}
        self._record(
            Effect(
                {"sendmediagroup": "sendMediaGroup"}.get(
                    method, f"send{METHODS.get(method, '').capitalize()}"
                ),
                chat_id,
                thread_id,
                results[0].text,
                results[0].entities,
                results[0].message_id,
                reply_to,
                params=plain,
                files=[file for file, _ in sent],
            )
        )
        return [self._chats.message_json(shown) for shown in results]

    def _reply_target(self, chat_id: int, params: Params) -> int | None:
        reply = structure(params, "reply_parameters") or {}
        message_id = integer(reply, "message_id") or integer(params, "reply_to_message_id")
        if message_id is None or self._chats.get(chat_id, message_id) is not None:
            return message_id
        if reply.get("allow_sending_without_reply"):
            return None
        raise bad_request("message to be replied not found")

    def _edit_message_text(self, params: Params) -> Any:
        rich = structure(params, "rich_message") if self.knows_rich else None
        blocks = check_rich(rich) if rich else []
        text = (
            rich_text(blocks)
            if rich
            else check_text(params.get("text"), too_long="MESSAGE_TOO_LONG")
        )
        entities = check_entities(text, params.get("entities"))
        chat_id = self._admit(params)
        message_id = integer(params, "message_id") or 0
        markup = structure(params, "reply_markup")
        new = ChatMessage(
            *(message_id, chat_id, text, True, 0, entities), reply_markup=markup, blocks=blocks
        )
        shown = self._chats.edit(chat_id, message_id, new)
        self._record_shown("editMessageText", shown, params)
        return self._chats.message_json(shown)

    def _edit_message_reply_markup(self, params: Params) -> Any:
        chat_id = self._admit(params)
        message_id = integer(params, "message_id") or 0
        old = self._chats.get(chat_id, message_id)
        if old is None:
            raise bad_request("message to edit not found")
        new = replace(old, reply_markup=structure(params, "reply_markup"))
        shown = self._chats.edit(chat_id, message_id, new)
        self._record_shown("editMessageReplyMarkup", shown, params)
        return self._chats.message_json(shown)

    def _send_message_draft(self, params: Params) -> bool:
        text = params.get("text") or ""
        if text:
            check_entities(check_text(text), params.get("entities"))
        return self._show_draft("sendMessageDraft", params, text)

    def _show_draft(self, method: str, params: Params, text: str) -> bool:
        chat_id = self._admit(params)
        if chat_id < 0:
            raise bad_request("TEXTDRAFT_PEER_INVALID")
        if not integer(params, "draft_id"):
            raise bad_request("draft_id must be non-zero")
        self._chats.drafts[chat_id] = text
        if str(params.get("can_stop", "")).lower() == "true":
            thread = integer(params, "message_thread_id")
            topic = {"message_thread_id": thread} if thread else {}
            self._chats.stoppable[chat_id] = {"draft_id": integer(params, "draft_id"), **topic}
        self._record(Effect(method, chat_id, text=text, params=dict(params)))
        return True

    def _record_shown(self, method: str, shown: ChatMessage, params: Params) -> None:
        self._record(
            Effect(
                method,
                shown.chat_id,
                shown.thread_id,
                shown.text,
                shown.entities,
                shown.message_id,
                shown.reply_to,
                params=dict(params),
            )
        )

    def _delete_message(self, params: Params) -> bool:
        chat_id = self._admit(params)
        message_id = integer(params, "message_id") or 0
        self._chats.delete(chat_id, message_id)
        self._record(Effect("deleteMessage", chat_id, message_id=message_id))
        return True

    def _send_chat_action(self, params: Params) -> bool:
        thread_id = integer(params, "message_thread_id")
        chat_id = self._admit(params, thread_id)
        self._record(Effect("sendChatAction", chat_id, thread_id, params=dict(params)))
        return True

    def _set_my_commands(self, params: Params) -> bool:
        self.commands = structure(params, "commands") or []
        scope = structure(params, "scope") or {"type": "default"}
        if scope["type"] == "chat":
            self._chats.check_reachable(int(scope["chat_id"]), None)
        menu = {"commands": self.commands, "scope": scope, "language": params.get("language_code")}
        self._record(Effect("setMyCommands", None, params=menu))
        return True

    def _answer_callback_query(self, params: Params) -> bool:
        self._record(
            Effect("answerCallbackQuery", None, text=params.get("text"), params=dict(params))
        )
        return True

    def _set_reaction(self, params: Params) -> bool:
        chat_id = self._admit(params)
        message_id = integer(params, "message_id") or 0
        if self._chats.get(chat_id, message_id) is None:
            raise bad_request("message to react not found")
        shown = [item["emoji"] for item in structure(params, "reaction") or []]
        self._chats.reactions[chat_id, message_id] = shown
        text = "".join(shown)
        self._record(Effect("setMessageReaction", chat_id, text=text, message_id=message_id))
        return True

    def _set_webhook(self, params: Params) -> bool:
        self.webhook_url = str(params.get("url") or "")
        self.webhook_secret = str(params.get("secret_token") or "")
        self.webhook_trouble = None
        self._record(Effect("setWebhook", None, params={"url": self.webhook_url}))
        return True

    def _delete_webhook(self, params: Params) -> bool:
        self.webhook_url = ""
        drop = str(params.get("drop_pending_updates", "")).lower() == "true"
        if drop:
            self._updates.drop()
        self._record(Effect("deleteWebhook", None, params={"drop_pending_updates": drop}))
        return True

    def _get_webhook_info(self, params: Params) -> Any:
        return {
            "url": self.webhook_url,
            "has_custom_certificate": False,
            "pending_update_count": len(self._updates.pending),
            **self._trouble(),
        }

    def _trouble(self) -> dict[str, Any]:
        if self.webhook_trouble is None:
            return {}
        at, result = self.webhook_trouble
        return {"last_error_date": at, "last_error_message": result}
