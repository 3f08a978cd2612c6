"""Approvals in the database: asked, answered and closed inside the caller's transaction."""

import math
import secrets
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from agent.approvals import ApprovalRequest, Scope, ServerQuestion
from agent.errors import KoreError
from agent.events import ApprovalAsked
from agent.i18n import mark_for_translation, t, use_locale
from agent.records import frozen
from agent.security.policy.base import SERVER_QUESTION, Answered, AnswerOption, options_for
from agent.types import ToolCall
from gateway.access.control import AccessControl
from gateway.core.approval import (
    ApprovalPrompt,
    ApprovalReply,
    State,
    fingerprint,
    network_fingerprints,
    new_nonce,
    prefix_fingerprint,
    read_press,
    title_of,
    verdict,
)
from gateway.core.markdown import escape_markdown
from gateway.core.messages import CONSOLE, InboundMessage, OutboundPart, Route
from gateway.core.question_view import approval_event
from gateway.core.server_question import read_choice, words_of
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.user_language import UserLanguages
from gateway.runtime.clock import SteadyClock
from gateway.store.port import Transaction
from gateway.store.repositories.access import approvals
from gateway.store.repositories.access.approvals import ApprovalKey
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import chats, outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply

# Who decided, where it was not a person.
_UNSEEN = mark_for_translation("Kore (the file with the full text could not be sent)")

_MOST_WORDS_CHARS = 4_000
# A server waits with its call for an answer, and a turn waits for the call.
_SERVER_WAITS_S = 900.0


@frozen
class ApprovalContext:
    """The turn that asks: its number, the message that it answers, its session, and the folder
    where relative paths start."""

    turn: int
    message: InboundMessage
    session: str
    root: Path


@frozen
class ButtonOutcome:
    """What a press came to: a sentence for the presser, and the question if it was settled.

    `removes_buttons`: the message that it stands below loses its buttons.
    """

    message: InboundMessage
    sentence: str
    closed_approval: ApprovalPrompt | None = None
    removes_buttons: bool = False


class ApprovalService:
    """What is closed here is published by `ApprovalCoordinator` once the transaction is on disk.

    Questions are put, and expire, by `clock`, which does not jump; without `expires_s` they
    wait until they are answered.
    """

    def __init__(
        self,
        *,
        renderer: ReplyRenderer,
        languages: UserLanguages,
        access: AccessControl,
        expires_s: float | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._renderer = renderer
        self._languages = languages
        self._access = access
        self.expires_s = expires_s
        self.clock = clock or SteadyClock()

    def ask(
        self, tx: Transaction, context: ApprovalContext, request: ApprovalRequest, now: float
    ) -> Answered | ApprovalPrompt:
        key = ApprovalKey(
            turn=context.turn,
            call_id=request.call_id,
            session=context.session,
            asker=context.message.principal,
            args_hash=fingerprint(request, context.root, diff=True),
            grant_hash=_grant_hash(request, context),
            unchanged=request.diff == "",
            prefix=request.prefix,
            prefix_hash=prefix_fingerprint(request, context.root),
            network=network_fingerprints(request, context.root),
        )
        decision = approvals.find_decision(tx, key)
        if decision is not None:
            if isinstance(decision, ApprovalPrompt):
                approvals.wait(tx, context.turn)
            return decision
        if approvals.is_stopping(tx, context.turn):
            return Answered("deny", "not asked: the turn is to stop")
        route, principal = self._where(tx, context.message)
        clean = self._renderer.clean
        asked_at = self.clock()
        question = ApprovalPrompt(
            nonce=new_nonce(),
            number=0,
            title=clean(title_of(request)),
            request=replace(
                request,
                arguments=self._renderer.clean_data(dict(request.arguments)),
                reason=clean(request.reason),
                command=request.command and clean(request.command),
                sends=request.sends and clean(request.sends),
                diff=request.diff and clean(request.diff),
                home_settings=tuple(map(clean, request.home_settings)),
            ),
            lane=context.message.session_key,
            session=context.session,
            asker=context.message.principal,
            principal=principal,
            route=route,
            asked_at=asked_at,
            expires_at=math.inf if self.expires_s is None else asked_at + self.expires_s,
            root=str(context.root),
        )
        question = approvals.open_approval(tx, key, question)
        _put(tx, question, context.turn, self._render_prompt(question, context.message), now)
        return question

    def ask_for_server(
        self,
        tx: Transaction,
        context: ApprovalContext,
        call: ToolCall,
        question: tuple[str, ServerQuestion],
        now: float,
    ) -> ApprovalPrompt | None:
        """Put what a server asks, under this nonce; None when the turn is to stop."""
        if approvals.is_stopping(tx, context.turn):
            return None
        nonce, query = question
        clean = self._renderer.clean
        route, principal = self._where(tx, context.message, alone=query.is_secret)
        asked_at = self.clock()
        prompt = ApprovalPrompt(
            nonce=nonce,
            number=0,
            title=clean(t("the MCP server {name} asks", name=query.server)),
            request=ApprovalRequest(
                call.name,
                {},
                "",
                call.id,
                SERVER_QUESTION,
                server_question=replace(query, text=clean(query.text)),
            ),
            lane=context.message.session_key,
            session=context.session,
            asker=context.message.principal,
            principal=principal,
            route=route,
            asked_at=asked_at,
            expires_at=asked_at + min(self.expires_s or _SERVER_WAITS_S, _SERVER_WAITS_S),
            root=str(context.root),
        )
        prompt = approvals.open_server_question(tx, context.turn, call.id, prompt)
        _put(tx, prompt, context.turn, self._render_prompt(prompt, context.message), now)
        return prompt

    def withdraw_for_server(
        self, tx: Transaction, nonce: str, words: str, now: float
    ) -> list[ApprovalPrompt]:
        """The call that the question belongs to is over."""
        question = approvals.find(tx, nonce)
        if question is None or question.state != "open":
            return []
        return [self._close(tx, replace(question, words=words), "withdrawn", None, now)]

    def withdraw_orphans(
        self, tx: Transaction, awaited: Collection[str], now: float
    ) -> list[ApprovalPrompt]:
        """Withdraw what servers asked that have ended with an earlier process: nobody would hear
        the answer, and no other call may get it. Those in `awaited` are asked by this one."""
        closed = []
        for question in approvals.open_server_questions(tx):
            if question.nonce not in awaited:
                with use_locale(self._languages.of_person(question.principal)):
                    words = t("I was restarted, and the server no longer waits for the answer")
                    closed += self.withdraw_for_server(tx, question.nonce, words, now)
                    self._report_withdrawal(tx, question, words, now)
        return closed

    def _report_withdrawal(
        self, tx: Transaction, question: ApprovalPrompt, words: str, now: float
    ) -> None:
        """Where no message shows what became of the question: at the console."""
        if question.route.channel != CONSOLE or question.request.server_question is None:
            return
        text = t(
            "⏹ What the MCP server {name} asked is withdrawn: {words}.",
            name=escape_markdown(question.request.server_question.server),
            words=words,
        )
        parts = self._renderer.render(question.route, text)
        reply = OutgoingReply(f"q{question.number}.withdrawn", question.route, parts, "notice")
        _put(tx, question, None, [reply], now)

    def _where(
        self, tx: Transaction, message: InboundMessage, *, alone: bool = False
    ) -> tuple[Route, str]:
        """The chat where the question is put, `alone` one where no other person reads along, and
        who may answer it."""
        is_here = message.private or message.channel == CONSOLE or not alone
        if self._access.is_owner(message) and is_here:
            route, principal = message.route, message.principal
        else:
            principal = self._access.owner_id or ""
            private_route = chats.private_route(tx, principal)
            if private_route is None:
                raise KoreError(t("this needs approval, and the owner has no private chat with me"))
            route = private_route
        if route.channel != CONSOLE and self._renderer.can_ask(route) is None:
            raise KoreError(t("this needs approval, and nobody can be asked in that chat"))
        return route, principal

    def _render_prompt(
        self, question: ApprovalPrompt, message: InboundMessage
    ) -> list[OutgoingReply]:
        """The question, and a note to the other person's chat that it was asked."""
        replies = []
        channel = self._renderer.can_ask(question.route)
        elsewhere = question.route.lane != message.route.lane
        if channel is not None:
            reply_to = None if elsewhere or message.private else message.message_id
            name = f"q{question.number}"
            with use_locale(self._languages.of_person(question.principal)):
                part = channel.render_approval(question)
                file = channel.render_details(question)
                if file is not None:
                    caption = t("🔐 Question {n} in full", n=question.number)
                    above = [OutboundPart(caption, files=(file,))]
                    file_name = _file_of(question.number)
                    replies.append(OutgoingReply(file_name, question.route, above, "notice"))
            replies.append(OutgoingReply(name, question.route, [part], "approval", reply_to))
        if elsewhere:
            parts = [OutboundPart(t("⏸ This needs the owner's approval. I've asked for it."))]
            replies.append(
                OutgoingReply(f"q{question.number}.told", message.route, parts, "notice")
            )
        return replies

    def event(self, question: ApprovalPrompt, expires_s: float | None) -> ApprovalAsked:
        """The question for screens, in the language of the person who is asked."""
        with use_locale(self._languages.of_person(question.principal)):
            return approval_event(question, expires_s)

    def answer(
        self, tx: Transaction, nonce: str, reply: ApprovalReply, by: str, now: float
    ) -> list[ApprovalPrompt]:
        question = approvals.find(tx, nonce)
        if question is None or question.state != "open":
            return []
        if question.expires_at <= self.clock():
            return [self._close(tx, question, "expired", None, now)]
        return [self._close(tx, _answered(question, reply), reply.answer, by, now)]

    def expire(self, tx: Transaction, now: float) -> list[ApprovalPrompt]:
        expired = approvals.expired(tx, self.clock())
        return [self._close(tx, question, "expired", None, now) for question in expired]

    def deny_unseen(self, tx: Transaction, delivery_id: str, now: float) -> list[ApprovalPrompt]:
        """Deny the question whose file this delivery was: it could not be sent, and no one is
        asked to allow what they cannot see whole."""
        closed = []
        for question in approvals.open_questions(tx):
            if delivery_id != _file_of(question.number):
                continue
            closed.append(self._close(tx, question, "deny", t(_UNSEEN), now))
            with use_locale(self._languages.of_person(question.principal)):
                text = t(
                    "⛔ Question {n} ({title}) is denied: the file with the full text "
                    "could not be sent here.",
                    n=question.number,
                    title=escape_markdown(question.title),
                )
                parts = self._renderer.render(question.route, text)
            reply = OutgoingReply(f"q{question.number}.unseen", question.route, parts, "notice")
            _put(tx, question, None, [reply], now)
        return closed

    def _close(
        self,
        tx: Transaction,
        question: ApprovalPrompt,
        state: State,
        by: str | None,
        now: float,
    ) -> ApprovalPrompt:
        """Store what was decided; the message that asked shows it and loses its buttons."""
        if state in ("session", "always"):
            option = AnswerOption(state, question.scope)
            state = state if option in options_for(question.request) else "once"
        # What a server is answered is for it alone.
        closed = approvals.close_approval(tx, replace(question, value=""), state, by, now)
        name = f"q{question.number}"
        channel = self._renderer.can_ask(question.route)
        if channel is not None and not outbox.drop_unsent(tx, name, "decided"):
            with use_locale(self._languages.of_person(question.principal)):
                part = channel.render_approval(question, verdict(closed))
            reply = OutgoingReply(f"{name}.done", question.route, [part], "approval", edits=name)
            _put(tx, question, None, [reply], now)
        return replace(closed, value=question.value)

    def press(self, tx: Transaction, message: InboundMessage, now: float) -> ButtonOutcome:
        """Carry out a pressed button, or say why not."""
        choice = read_choice(message.content)
        press = read_press(message.content)
        nonce = choice[0] if choice else press[0] if press else ""
        question = approvals.find(tx, nonce) if nonce else None
        if question is None:
            return ButtonOutcome(message, t("This button no longer works."))
        route = (message.channel, message.account, message.chat_id)
        if route != (question.route.channel, question.route.account, question.route.chat_id):
            return ButtonOutcome(message, t("This question belongs to another chat."))
        if message.principal != question.principal or not self._access.is_owner(message):
            return ButtonOutcome(message, t("Only the owner may answer this question."))
        if question.state != "open":
            decided = verdict(question)
            return ButtonOutcome(message, t("Too late: {decided}.", decided=decided))
        if question.expires_at <= self.clock():
            closed = self._close(tx, question, "expired", None, now)
            late = t("Too late: the question has expired and counts as denied.")
            return ButtonOutcome(message, late, closed)
        reply = ApprovalReply("deny")
        if choice is not None and question.request.server_question is not None:
            reply = ApprovalReply("once", words_of(question.request.server_question, choice[1]))
        elif press is not None:
            reply = ApprovalReply(press[1], scope=press[2])
        question = _answered(question, reply)
        closed = self._close(tx, question, reply.answer, _name_of(message), now)
        sentence = t("{decided}.", decided=verdict(closed, names=False))
        return ButtonOutcome(message, sentence, closed)

    def settle_by_reply(
        self, tx: Transaction, message: InboundMessage, now: float
    ) -> ApprovalPrompt | None:
        """A reply to a question's message is a no, and its text is for the model; to what a server
        asks it is the answer. Returns the question; None when the message is no such reply."""
        own_files = any(not one.quoted for one in message.media)
        if message.quoted_id is None or message.forwarded or message.edited or own_files:
            return None
        number = outbox.question_below(tx, message.route.lane, message.quoted_id)
        mine = [one for one in self._answerable(tx, message) if one.number == number]
        if mine and mine[0].request.server_question is not None:
            return self._answer_server(tx, mine[0], message, now)
        return self._deny(tx, mine[0], message, message.content, now) if mine else None

    def deny_by_command(
        self, tx: Transaction, message: InboundMessage, argument: str, now: float
    ) -> tuple[str, ApprovalPrompt | None]:
        """`/deny [NUMBER] [TEXT]`: what is said of it, and the question if it was settled."""
        questions = self._answerable(tx, message)
        word, _, rest = argument.partition(" ")
        matches = [one for one in questions if str(one.number) == word.removeprefix("#")]
        if not questions:
            return t("There is no open question here that you can answer."), None
        if not matches and len(questions) > 1:
            numbers = ", ".join(str(one.number) for one in questions)
            return t(
                "Several questions are open: {numbers}. Send /deny NUMBER.", numbers=numbers
            ), None
        words = rest if matches else argument
        question = self._deny(tx, (matches or questions)[0], message, words, now)
        decided = verdict(question, names=False)
        return t("Question {n}: {decided}", n=question.number, decided=decided), question

    def _answer_server(
        self, tx: Transaction, question: ApprovalPrompt, message: InboundMessage, now: float
    ) -> ApprovalPrompt:
        if question.expires_at <= self.clock():
            return self._close(tx, question, "expired", None, now)
        question = _answered(question, ApprovalReply("once", message.content))
        return self._close(tx, question, "once", _name_of(message), now)

    def _answerable(self, tx: Transaction, message: InboundMessage) -> list[ApprovalPrompt]:
        """The open questions that were put where the message stands, to who wrote it."""
        if not self._access.is_owner(message):
            return []
        lane = message.route.lane
        return [
            one
            for one in approvals.open_questions(tx, lane)
            if one.route.lane == lane and one.principal == message.principal
        ]

    def _deny(
        self,
        tx: Transaction,
        question: ApprovalPrompt,
        message: InboundMessage,
        words: str,
        now: float,
    ) -> ApprovalPrompt:
        if question.expires_at <= self.clock():
            return self._close(tx, question, "expired", None, now)
        question = _answered(question, ApprovalReply("deny", words))
        return self._close(tx, question, "deny", _name_of(message), now)

    def withdraw(self, tx: Transaction, lane: str, now: float) -> list[ApprovalPrompt]:
        """Close the open questions of the lane's turn: it is to stop."""
        return [
            self._close(tx, question, "withdrawn", None, now)
            for question in approvals.open_questions(tx, lane)
            if question.lane == lane
        ]

    def notify_blocked(self, tx: Transaction, message: InboundMessage, now: float) -> bool:
        """Tell the first message behind an open question that it has to wait; False without one."""
        lane = message.session_key
        questions = approvals.open_questions(tx, lane)
        waits = bool(questions) and approvals.is_awaited(tx, lane)
        open_here = [q for q in questions if q.lane == lane or (waits and q.route.lane == lane)]
        for question in open_here[:1]:
            text = t(
                "⏸ Waiting for your answer to question {n} ({title}). Your message is "
                "queued; /stop withdraws the question."
                if question.route.lane == lane
                else "⏸ Waiting for the owner's answer to question {n} ({title}). Your "
                "message is queued; /stop withdraws the question.",
                n=question.number,
                title=escape_markdown(question.title),
            )
            parts = self._renderer.render(message.route, text)
            reply = OutgoingReply(f"q{question.number}.waits", message.route, parts, "notice")
            _put(tx, question, None, [reply], now)
        return bool(open_here)


def _put(
    tx: Transaction,
    question: ApprovalPrompt,
    turn: int | None,
    replies: list[OutgoingReply],
    now: float,
) -> None:
    """Queue what is told of a question, which may stand in another chat than its conversation."""
    taint = sessions.taint_of(tx, question.session)
    outbox.put(tx, turn, [replace(reply, taint=taint) for reply in replies], now)


def _answered(question: ApprovalPrompt, reply: ApprovalReply) -> ApprovalPrompt:
    """The question with what its answer says beside yes and no."""
    if question.request.server_question is not None:
        return replace(question, value=reply.words if reply.answer == "once" else "")
    words = reply.words.strip() if reply.answer == "deny" else ""
    if len(words) > _MOST_WORDS_CHARS:
        words = f"{words[:_MOST_WORDS_CHARS]}…"
    lasts = reply.answer in ("session", "always")
    scope: Scope = "call"
    if lasts and question.request.network:
        scope = "network"
    elif lasts and question.request.prefix is not None and reply.scope == "prefix":
        scope = "prefix"
    return replace(question, words=words, scope=scope)


def _name_of(message: InboundMessage) -> str:
    """Who answered, for people and for the audit log."""
    name = message.sender.name
    return f"{name} ({message.principal})" if name else message.principal


def _file_of(number: int) -> str:
    """The delivery of the file that stands above a question."""
    return f"q{number}.whole"


def _grant_hash(request: ApprovalRequest, context: ApprovalContext) -> str:
    """What a standing answer binds; where none is offered, something that comes once."""
    if AnswerOption("always") not in options_for(request):
        return secrets.token_hex()
    return fingerprint(request, context.root, diff=False)
