"""Questions to the person at an editor: approvals and questions of MCP servers."""

import logging
import os
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Literal

import acp
from acp.schema import (
    AcceptElicitationResponse,
    ElicitationCapabilities,
    ElicitationFormSessionMode,
    ElicitationSchema,
    ElicitationStringPropertySchema,
    ElicitationUrlSessionMode,
    PermissionOption,
    ToolCallUpdate,
)

from agent.approvals import Answer, QuestionOption, ServerQuestion
from agent.events import ApprovalAsked
from agent.i18n import mark_for_translation, t
from agent.text.visible import escape_line
from gateway.core.approval import ApprovalReply
from gateway.core.markdown import code_block
from gateway.core.turn_choice import TurnChoice

log = logging.getLogger(__name__)

_FIELD = "answer"
_CHOICE = "choice-"
_KINDS: dict[Answer, Literal["allow_once", "allow_always", "reject_once"]] = {
    "once": "allow_once",
    "session": "allow_always",
    "always": "allow_always",
    "deny": "reject_once",
}
_SECRET = mark_for_translation(
    "The MCP server {name} asks for what looks like a password. Editors may store what you type, "
    "so I declined. To answer it, ask again in a terminal: {command}"
)
_TEXT = mark_for_translation(
    "The MCP server {name} asks something that this editor cannot show, so I declined. To answer "
    "it, ask again in a terminal: {command}"
)
_NO = ApprovalReply("deny")


def question_content(approval: ApprovalAsked) -> list[Any]:
    """Return all lines of a question in code blocks that the text cannot close."""
    content = []
    for is_diff, lines in groupby(approval.view.lines, lambda line: line.kind == "diff"):
        text = code_block("\n".join(line.text for line in lines), "diff" if is_diff else "text")
        content.append(acp.tool_content(acp.text_block(text)))
    return content


def _option_id(option: QuestionOption) -> str:
    return "prefix" if option.scope == "prefix" else option.answer


class EditorQuestions:
    """Questioner of the person at an editor; a missing answer denies.

    `offer` are the supported forms besides permission requests.
    """

    def __init__(self, client: acp.Client, offer: ElicitationCapabilities | None) -> None:
        self._client = client
        self._offer = offer or ElicitationCapabilities()

    async def ask(self, session: str, approval: ApprovalAsked, call: str) -> ApprovalReply:
        """Return the answer; `call` is the editor's id of the tool call that needs approval."""
        try:
            if approval.request.server_question is not None:
                return await self._ask_for_server(
                    session, approval, approval.request.server_question, call
                )
            return await self._ask_for_approval(session, approval, call)
        except (acp.RequestError, ValueError) as exc:
            log.warning("the editor cannot show a question: %s", type(exc).__name__)
            return _NO

    async def ask_after_plan(
        self, session: str, choices: Sequence[TurnChoice]
    ) -> TurnChoice | None:
        """Let the person choose what happens with a plan; None without an answer."""
        call, title = f"plan-{os.urandom(4).hex()}", t("After the plan")
        start = acp.start_tool_call(call, title, kind="switch_mode", status="pending")
        await self._client.session_update(session, start)
        options = [
            PermissionOption(
                option_id=choice.key,
                name=choice.label,
                kind="allow_once" if choice.leaves_plan_mode else "reject_once",
            )
            for choice in choices
        ]
        key: str | None = None
        try:
            key = await self._choose(
                session, ToolCallUpdate(tool_call_id=call, title=title), options
            )
        except (acp.RequestError, ValueError) as exc:
            log.warning("the editor cannot show a question: %s", type(exc).__name__)
        end = acp.update_tool_call(call, status="completed")
        await self._client.session_update(session, end)
        return next((choice for choice in choices if choice.key == key), None)

    async def _ask_for_approval(
        self, session: str, approval: ApprovalAsked, call: str
    ) -> ApprovalReply:
        options = [
            PermissionOption(
                option_id=_option_id(option),
                name=option.label,
                kind=_KINDS[option.answer],
            )
            for option in approval.view.options
        ]
        update = ToolCallUpdate(
            tool_call_id=call, title=approval.view.title, content=question_content(approval)
        )
        answer_id = await self._choose(session, update, options)
        for option in approval.view.options:
            if answer_id == _option_id(option):
                return ApprovalReply(option.answer, scope=option.scope)
        return _NO

    async def _ask_for_server(
        self, session: str, approval: ApprovalAsked, query: ServerQuestion, call: str
    ) -> ApprovalReply:
        text = "\n".join([approval.view.title, *(line.text for line in approval.view.lines)])
        if query.is_secret:
            return await self._decline(session, _SECRET, query)
        if query.url and self._offer.url is not None:
            mode = ElicitationUrlSessionMode.model_validate(
                {"sessionId": session, "toolCallId": call, "elicitationId": call, "url": query.url}
            )
            response = await self._client.create_elicitation(text, mode)
            is_yes = isinstance(response, AcceptElicitationResponse)
            return ApprovalReply("once") if is_yes else _NO
        if self._offer.form is not None:
            return await self._show_form(session, query, call, text)
        if query.takes_text:
            return await self._decline(session, _TEXT, query)
        return await self._show_choices(session, query, call, text)

    async def _show_form(
        self, session: str, query: ServerQuestion, call: str, text: str
    ) -> ApprovalReply:
        field = ElicitationStringPropertySchema(
            type="string",
            title=t("Answer"),
            description=escape_line(query.otherwise) or None,
            enum=list(query.choices) or None,
        )
        is_asked = query.takes_text or bool(query.choices)
        form = ElicitationSchema(
            type="object",
            properties={_FIELD: field} if is_asked else {},
            required=[_FIELD] if is_asked and not query.otherwise else None,
        )
        mode = ElicitationFormSessionMode(
            session_id=session, tool_call_id=call, requested_schema=form
        )
        response = await self._client.create_elicitation(text, mode)
        if not isinstance(response, AcceptElicitationResponse):
            return _NO
        value = (response.content or {}).get(_FIELD)
        words = getattr(value, "root", value)
        if words is None or words == "" or not is_asked:
            is_enough = query.otherwise or query.takes_text
            return ApprovalReply("once") if is_enough else _NO
        is_right = isinstance(words, str) and (not query.choices or words in query.choices)
        return ApprovalReply("once", words) if is_right else _NO

    async def _show_choices(
        self, session: str, query: ServerQuestion, call: str, text: str
    ) -> ApprovalReply:
        """Ask with a permission request, for editors without forms."""
        names = [*query.choices, *([query.otherwise] if query.otherwise else [])]
        options = [
            PermissionOption(option_id=f"{_CHOICE}{n}", name=escape_line(name), kind="allow_once")
            for n, name in enumerate(names)
        ]
        deny = PermissionOption(option_id="deny", name=t("Decline"), kind="reject_once")
        block = acp.text_block(code_block(text, "text"))
        update = ToolCallUpdate(tool_call_id=call, content=[acp.tool_content(block)])
        option = await self._choose(session, update, [*options, deny])
        for n, name in enumerate(names):
            if option == f"{_CHOICE}{n}":
                return ApprovalReply("once", name if n < len(query.choices) else "")
        return _NO

    async def _choose(
        self, session: str, call: ToolCallUpdate, options: list[PermissionOption]
    ) -> str | None:
        response = await self._client.request_permission(session, call, options)
        option: str | None = getattr(response.outcome, "option_id", None)
        return option

    async def _decline(self, session: str, reason: str, query: ServerQuestion) -> ApprovalReply:
        words = t(reason, name=escape_line(query.server), command=f"kore agent -r {session}")
        await self._client.session_update(session, acp.update_agent_message_text(f"\n\n{words}"))
        return _NO
