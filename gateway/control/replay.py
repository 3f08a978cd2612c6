"""Messages about replays that are impossible."""

from agent.errors import KoreError
from agent.i18n import t
from gateway.store.errors import ReplayRefused


def replay_error(seq: int, refused: ReplayRefused) -> KoreError:
    match refused.reason:
        case "unknown":
            return KoreError(t("there is no message {seq} to replay", seq=seq))
        case "denied":
            return KoreError(t("message {seq} is from a user without access", seq=seq))
        case "one-shot":
            return KoreError(
                t(
                    "message {seq} came from a one-shot run that no longer waits for an answer",
                    seq=seq,
                )
            )
        case "at-work":
            return KoreError(t("message {seq} is being answered right now", seq=seq))
        case "subagent-at-work":
            return KoreError(
                t("a sub-agent is still working on message {seq}", seq=seq),
                hint=t("in its chat, /tasks shows it and /stop stops it"),
            )
        case "subagent-task":
            question = refused.request_seq
            hint = (
                t(
                    "start it again from its conversation, or answer the message again: "
                    "`kore replay {question}`",
                    question=question,
                )
                if question
                else t("start it again from its conversation")
            )
            return KoreError(
                t(
                    "message {seq} is the task of a sub-agent ({name}), and nobody would get "
                    "its result",
                    seq=seq,
                    name=refused.subagent,
                ),
                hint=hint,
            )
