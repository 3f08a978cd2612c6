"""Approvals inside the caller's transaction: request, answer, expiry and withdrawal."""

import math
import secrets
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from agent.approvals import ApprovalRequest, ServerQuestion
from agent.errors import KoreError
from agent.events import ApprovalAsked
from agent.i18n import mark_for_translation, t, use_locale
from agent.records import frozen
from agent.security.policy.base import (
    ASK_FOLDER,
    NEVER_REMEMBERED,
    SERVER_QUESTION,
    Answered,
    AnswerOption,
    options_for,
)
from agent.types import ToolCall
from gateway.access.control import AccessControl
from gateway.core.approval import (
    ApprovalPrompt,
    ApprovalReply,
    State,
    fingerprint,
    network_fingerprints,
    new_nonce,
    prefix_fingerprints,
    read_press,
    recipient_fingerprint,
    title_of,
    verdict,
)
from gateway.core.markdown import escape_markdown
from gateway.core.messages import CONSOLE, InboundMessage, OutboundPart, Route
from gateway.core.question_view import approval_event, read_choice, words_of
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.user_language import UserLanguages
from gateway.runtime.clock import SteadyClock
from gateway.store.port import Transaction
from gateway.store.repositories.access import approvals
from gateway.store.repositories.access.approvals import ApprovalKey
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import chats, outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply

# Stands for the person's name when Kore itself decided.
_UNSEEN = mark_for_translation("Kore (the file with the full text could not be sent)")

_MAX_WORDS_CHARS = 4_000
# Time that a server waits for an answer; meanwhile, its turn waits for the call.
_SERVER_TIMEOUT_S = 900.0


@frozen
class ApprovalContext:
    """Turn that asks: its number, message and session, and the base folder of relative paths."""

    turn: int
    message: InboundMessage
    session: str
    root: Path


@frozen
class ButtonOutcome:
    """Result of a pressed button: a sentence for the person, and the approval if it was closed.

    With `removes_buttons`, the message loses its buttons.
    """

    message: InboundMessage
    sentence: str
    closed_approval: ApprovalPrompt | None = None
    removes_buttons: bool = False


class ApprovalService:
    """Service that requests and closes approvals.

    `ApprovalCoordinator` publishes them after the transaction. `clock`, which never jumps, times
    requests and expiries; without `expires_s`, approvals wait until they are answered.
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
            prefixes=prefix_fingerprints(request, context.root),
            recipient=recipient_fingerprint(request),
            network=network_fingerprints(request, context.root),
            folder_hash=_folder_hash(request, context),
        )
        decision = approvals.find_decision(tx, key)
        if decision is not None:
            if isinstance(decision, ApprovalPrompt):
                approvals.wait(tx, context.turn)
            return decision
        if approvals.is_stopping(tx, context.turn):
            return Answered("deny", "not asked: the turn is being stopped")
        route, principal = self._where(tx, context.message)
        clean = self._renderer.clean
        asked_at = self.clock()
        approval = ApprovalPrompt(
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
        approval = approvals.open_approval(tx, key, approval)
        _put(tx, approval, context.turn, self._render_prompt(approval, context.message), now)
        return approval

    def trust_in_recipient(
        self, tx: Transaction, context: ApprovalContext, request: ApprovalRequest
    ) -> Answered | None:
        """Return the standing answer about the recipient of a call, without asking a person."""
        asker = context.message.principal
        return approvals.standing_trust(tx, asker, context.session, recipient_fingerprint(request))

    def ask_for_server(
        self,
        tx: Transaction,
        context: ApprovalContext,
        call: ToolCall,
        question: tuple[str, ServerQuestion],
        now: float,
    ) -> ApprovalPrompt | None:
        """Send a server's question under this nonce; return None if the turn is being stopped."""
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
            expires_at=asked_at + min(self.expires_s or _SERVER_TIMEOUT_S, _SERVER_TIMEOUT_S),
            root=str(context.root),
        )
        prompt = approvals.open_server_question(tx, context.turn, call.id, prompt)
        _put(tx, prompt, context.turn, self._render_prompt(prompt, context.message), now)
        return prompt

    def withdraw_for_server(
        self, tx: Transaction, nonce: str, words: str, now: float
    ) -> list[ApprovalPrompt]:
        """Withdraw a server's question whose call has ended."""
        approval = approvals.find(tx, nonce)
        if approval is None or approval.state != "open":
            return []
        return [self._close(tx, replace(approval, words=words), "withdrawn", None, now)]

    def withdraw_orphans(
        self, tx: Transaction, awaited: Collection[str], now: float
    ) -> list[ApprovalPrompt]:
        """Withdraw questions of servers that ended with an earlier process.

        No call waits for their answers, and other calls must not get them. This process waits for
        the questions in `awaited`.
        """
        closed = []
        for approval in approvals.open_server_questions(tx):
            if approval.nonce not in awaited:
                with use_locale(self._languages.of_person(approval.principal)):
                    words = t("I was restarted, and the server no longer waits for the answer")
                    closed += self.withdraw_for_server(tx, approval.nonce, words, now)
                    self._report_withdrawal(tx, approval, words, now)
        return closed

    def _report_withdrawal(
        self, tx: Transaction, approval: ApprovalPrompt, words: str, now: float
    ) -> None:
        """Report a withdrawal at the console, where no message shows it."""
        if approval.route.channel != CONSOLE or approval.request.server_question is None:
            return
        text = t(
            "⏹ What the MCP server {name} asked is withdrawn: {words}.",
            name=escape_markdown(approval.request.server_question.server),
            words=words,
        )
        parts = self._renderer.render(approval.route, text)
        reply = OutgoingReply(f"q{approval.number}.withdrawn", approval.route, parts, "notice")
        _put(tx, approval, None, [reply], now)

    def _where(
        self, tx: Transaction, message: InboundMessage, *, alone: bool = False
    ) -> tuple[Route, str]:
        """Return the chat to ask in (with `alone`, a chat without other readers) and the person who
        may answer."""
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
        self, approval: ApprovalPrompt, message: InboundMessage
    ) -> list[OutgoingReply]:
        """Return the question's messages, and a note to the turn's chat if they go elsewhere."""
        replies = []
        channel = self._renderer.can_ask(approval.route)
        elsewhere = approval.route.lane != message.route.lane
        if channel is not None:
            reply_to = None if elsewhere or message.private else message.message_id
            name = f"q{approval.number}"
            with use_locale(self._languages.of_person(approval.principal)):
                part = channel.render_approval(approval)
                file = channel.render_details(approval)
                if file is not None:
                    caption = t("🔐 Question {n} in full", n=approval.number)
                    above = [OutboundPart(caption, files=(file,))]
                    file_name = _file_of(approval.number)
                    replies.append(OutgoingReply(file_name, approval.route, above, "notice"))
            replies.append(OutgoingReply(name, approval.route, [part], "approval", reply_to))
        if elsewhere:
            parts = [OutboundPart(t("⏸ This needs the owner's approval. I've asked for it."))]
            replies.append(
                OutgoingReply(f"q{approval.number}.told", message.route, parts, "notice")
            )
        return replies

    def event(self, approval: ApprovalPrompt, expires_s: float | None) -> ApprovalAsked:
        """Return the event for screens, in the language of the person who is asked."""
        with use_locale(self._languages.of_person(approval.principal)):
            return approval_event(approval, expires_s)

    def answer(
        self, tx: Transaction, nonce: str, reply: ApprovalReply, by: str, now: float
    ) -> list[ApprovalPrompt]:
        approval = approvals.find(tx, nonce)
        if approval is None or approval.state != "open":
            return []
        if approval.expires_at <= self.clock():
            return [self._close(tx, approval, "expired", None, now)]
        return [self._close(tx, _answered(approval, reply), reply.answer, by, now)]

    def expire(self, tx: Transaction, now: float) -> list[ApprovalPrompt]:
        expired = approvals.expired(tx, self.clock())
        return [self._close(tx, approval, "expired", None, now) for approval in expired]

    def deny_unseen(self, tx: Transaction, delivery_id: str, now: float) -> list[ApprovalPrompt]:
        """Deny the approval whose file could not be sent, because it was not fully visible."""
        closed = []
        for approval in approvals.open_questions(tx):
            if delivery_id != _file_of(approval.number):
                continue
            closed.append(self._close(tx, approval, "deny", t(_UNSEEN), now))
            with use_locale(self._languages.of_person(approval.principal)):
                text = t(
                    "⛔ Question {n} ({title}) is denied: the file with the full text "
                    "could not be sent here.",
                    n=approval.number,
                    title=escape_markdown(approval.title),
                )
                parts = self._renderer.render(approval.route, text)
            reply = OutgoingReply(f"q{approval.number}.unseen", approval.route, parts, "notice")
            _put(tx, approval, None, [reply], now)
        return closed

    def _close(
        self,
        tx: Transaction,
        approval: ApprovalPrompt,
        state: State,
        by: str | None,
        now: float,
    ) -> ApprovalPrompt:
        """Store the decision; update the message to show it without buttons."""
        if state in ("session", "always"):
            option = AnswerOption(state, approval.scope)
            state = state if option in options_for(approval.request) else "once"
        # The answer to a server is never stored.
        closed = approvals.close_approval(tx, replace(approval, value=""), state, by, now)
        name = f"q{approval.number}"
        channel = self._renderer.can_ask(approval.route)
        if channel is not None and not outbox.drop_unsent(tx, name, "decided"):
            with use_locale(self._languages.of_person(approval.principal)):
                part = channel.render_approval(approval, verdict(closed))
            reply = OutgoingReply(f"{name}.done", approval.route, [part], "approval", edits=name)
            _put(tx, approval, None, [reply], now)
        return replace(closed, value=approval.value)

    def press(self, tx: Transaction, message: InboundMessage, now: float) -> ButtonOutcome:
        """Carry out a pressed button, or return the reason for refusing it."""
        choice = read_choice(message.content)
        press = read_press(message.content)
        nonce = choice[0] if choice else press[0] if press else ""
        approval = approvals.find(tx, nonce) if nonce else None
        if approval is None:
            return ButtonOutcome(message, t("This button no longer works."))
        route = (message.channel, message.account, message.chat_id)
        if route != (approval.route.channel, approval.route.account, approval.route.chat_id):
            return ButtonOutcome(message, t("This question belongs to another chat."))
        if message.principal != approval.principal or not self._access.is_owner(message):
            return ButtonOutcome(message, t("Only the owner may answer this question."))
        if approval.state != "open":
            decided = verdict(approval)
            return ButtonOutcome(message, t("Too late: {decided}.", decided=decided))
        if approval.expires_at <= self.clock():
            closed = self._close(tx, approval, "expired", None, now)
            late = t("Too late: the question has expired and counts as denied.")
            return ButtonOutcome(message, late, closed)
        reply = ApprovalReply("deny")
        if choice is not None and approval.request.server_question is not None:
            reply = ApprovalReply("once", words_of(approval.request.server_question, choice[1]))
        elif press is not None:
            reply = ApprovalReply(press[1], scope=press[2])
        approval = _answered(approval, reply)
        closed = self._close(tx, approval, reply.answer, _name_of(message), now)
        sentence = t("{decided}.", decided=verdict(closed, names=False))
        return ButtonOutcome(message, sentence, closed)

    def settle_by_reply(
        self, tx: Transaction, message: InboundMessage, now: float
    ) -> ApprovalPrompt | None:
        """Deny the approval that a message replies to, with its text for the model; a reply to a
        server's question is the answer. Returns the approval; None for any other message."""
        own_files = any(not media.quoted for media in message.media)
        if message.quoted_id is None or message.forwarded or message.edited or own_files:
            return None
        number = outbox.question_below(tx, message.route.lane, message.quoted_id)
        mine = [approval for approval in self._answerable(tx, message) if approval.number == number]
        if mine and mine[0].request.server_question is not None:
            return self._answer_server(tx, mine[0], message, now)
        return self._deny(tx, mine[0], message, message.content, now) if mine else None

    def deny_by_command(
        self, tx: Transaction, message: InboundMessage, argument: str, now: float
    ) -> tuple[str, ApprovalPrompt | None]:
        """Carry out `/deny [NUMBER] [TEXT]`; returns a sentence, and the approval if closed."""
        open_approvals = self._answerable(tx, message)
        word, _, rest = argument.partition(" ")
        matches = [
            approval
            for approval in open_approvals
            if str(approval.number) == word.removeprefix("#")
        ]
        if not open_approvals:
            return t("There is no open question here that you can answer."), None
        if not matches and len(open_approvals) > 1:
            numbers = ", ".join(str(approval.number) for approval in open_approvals)
            return t(
                "Several questions are open: {numbers}. Send /deny NUMBER.", numbers=numbers
            ), None
        words = rest if matches else argument
        approval = self._deny(tx, (matches or open_approvals)[0], message, words, now)
        decided = verdict(approval, names=False)
        return t("Question {n}: {decided}", n=approval.number, decided=decided), approval

    def _answer_server(
        self, tx: Transaction, approval: ApprovalPrompt, message: InboundMessage, now: float
    ) -> ApprovalPrompt:
        if approval.expires_at <= self.clock():
            return self._close(tx, approval, "expired", None, now)
        approval = _answered(approval, ApprovalReply("once", message.content))
        return self._close(tx, approval, "once", _name_of(message), now)

    def _answerable(self, tx: Transaction, message: InboundMessage) -> list[ApprovalPrompt]:
        """Return the open approvals in the message's chat that its sender may answer."""
        if not self._access.is_owner(message):
            return []
        lane = message.route.lane
        return [
            approval
            for approval in approvals.open_questions(tx, lane)
            if approval.route.lane == lane and approval.principal == message.principal
        ]

    def _deny(
        self,
        tx: Transaction,
        approval: ApprovalPrompt,
        message: InboundMessage,
        words: str,
        now: float,
    ) -> ApprovalPrompt:
        if approval.expires_at <= self.clock():
            return self._close(tx, approval, "expired", None, now)
        approval = _answered(approval, ApprovalReply("deny", words))
        return self._close(tx, approval, "deny", _name_of(message), now)

    def withdraw(self, tx: Transaction, lane: str, now: float) -> list[ApprovalPrompt]:
        """Withdraw the open approvals of the lane's turn, which is being stopped."""
        return [
            self._close(tx, approval, "withdrawn", None, now)
            for approval in approvals.open_questions(tx, lane)
            if approval.lane == lane
        ]

    def notify_blocked(self, tx: Transaction, message: InboundMessage, now: float) -> bool:
        """Notify the chat that its message waits for an open approval; return False if there is
        none.
        """
        lane = message.session_key
        open_approvals = approvals.open_questions(tx, lane)
        waits = bool(open_approvals) and approvals.is_awaited(tx, lane)
        open_here = [
            q for q in open_approvals if q.lane == lane or (waits and q.route.lane == lane)
        ]
        for approval in open_here[:1]:
            text = t(
                "⏸ Waiting for your answer to question {n} ({title}). Your message is "
                "queued; /stop withdraws the question."
                if approval.route.lane == lane
                else "⏸ Waiting for the owner's answer to question {n} ({title}). Your "
                "message is queued; /stop withdraws the question.",
                n=approval.number,
                title=escape_markdown(approval.title),
            )
            parts = self._renderer.render(message.route, text)
            reply = OutgoingReply(f"q{approval.number}.waits", message.route, parts, "notice")
            _put(tx, approval, None, [reply], now)
        return bool(open_here)


def _put(
    tx: Transaction,
    approval: ApprovalPrompt,
    turn: int | None,
    replies: list[OutgoingReply],
    now: float,
) -> None:
    """Queue messages about an approval, which may go to a chat other than its conversation's."""
    taint = sessions.taint_of(tx, approval.session)
    outbox.put(tx, turn, [replace(reply, taint=taint) for reply in replies], now)


def _answered(approval: ApprovalPrompt, reply: ApprovalReply) -> ApprovalPrompt:
    """Return the approval with the words, scope and value of its answer."""
    if approval.request.server_question is not None:
        return replace(approval, value=reply.words if reply.answer == "once" else "")
    words = reply.words.strip() if reply.answer == "deny" else ""
    if len(words) > _MAX_WORDS_CHARS:
        words = f"{words[:_MAX_WORDS_CHARS]}…"
    offered = [
        option.scope
        for option in options_for(approval.request)
        if option.answer == reply.answer and reply.answer in ("session", "always")
    ]
    scope = reply.scope if reply.scope in offered else "call"
    # Questions with these scopes have no other permanent answer.
    if scope not in offered and offered and offered[0] in ("network", "recipient", "folder"):
        scope = offered[0]
    return replace(approval, words=words, scope=scope)


def _name_of(message: InboundMessage) -> str:
    """Return the name of the person who answered, for display and for the audit log."""
    name = message.sender.name
    return f"{name} ({message.principal})" if name else message.principal


def _file_of(number: int) -> str:
    """Return the delivery id of the file with the full text of an approval."""
    return f"q{number}.whole"


def _grant_hash(request: ApprovalRequest, context: ApprovalContext) -> str:
    """Return the hash that a standing answer is bound to; a unique value if none is offered."""
    if AnswerOption("always") not in options_for(request):
        return secrets.token_hex()
    return fingerprint(request, context.root, diff=False)


def _folder_hash(request: ApprovalRequest, context: ApprovalContext) -> str | None:
    """Return the hash of the question about the folder that this call needs or needed.

    Once the folder is allowed, another rule may ask about the same call, which the person has seen.
    """
    if request.rule in NEVER_REMEMBERED:
        return None
    return fingerprint(replace(request, rule=ASK_FOLDER), context.root, diff=True)
