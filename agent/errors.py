"""Everything Kore raises on purpose.

    KoreError
    ├── ConfigError            a setting is wrong: names the place, what was found, the fix
    ├── ProviderError          the model could not answer
    │   ├── RateLimited        429; `retry_after_s` when the server said it
    │   ├── TimedOut           no connection, or a stream that fell silent
    │   ├── Unavailable        5xx, refused or reset connections, cut streams
    │   ├── ContextTooLong     the request does not fit the model's window
    │   ├── BadReply           the server answered what no client could read
    │   └── Rejected           4xx: model name or request refused; a retry will not help
    │       ├── KeyRefused     401, 402, 403: the key, its account or its credit
    │       ├── NoTools        the model cannot be given tools the way it was asked
    │       ├── NoThinking     the model does not think, or not when it is asked to
    │       ├── BadImage       a picture is too large or broken
    │       ├── BadThoughts    earlier thoughts are not taken back as they are sent
    │       ├── NoImages       the model sees no pictures
    │       ├── WrongLimitName the limit of a reply's tokens has another name there
    │       ├── NotFound       the server has no such model, or no such address
    │       ├── NeedsResponses the model takes tools by the Responses API only
    │       └── NoEncryptedReasoning  the model has no encrypted reasoning to give
    ├── BadOutput              the answer does not have the shape that was asked for
    ├── GuardrailTripped       the program's own check found something wrong
    │   ├── InputGuardrailTripped   with what was said to the agent
    │   └── OutputGuardrailTripped  with its answer
    ├── LimitReached           the next model call would go beyond a configured limit
    ├── ToolError              the model reads it as the tool's result
    ├── PolicyDenied           a rule or a person said no; the model reads it too
    └── ArchiveRefused         a zip or tar is broken, unsafe or too large; nothing was unpacked

Foreign exceptions are mapped to these once, at the edge, with `from exc`.
Every error carries a short stable `code` that people can look up in docs/errors.md.
"""

import errno
import logging
from collections.abc import Iterator, Mapping
from typing import TypeGuard

from agent.i18n import t

log = logging.getLogger(__name__)


class KoreError(Exception):
    """Base of all of Kore's own errors; `str(error)` is one sentence for a person.

    With `fields`, `message` and `hint` are entries of the catalogue, and the error is translated
    where it is shown: for code that does not know whom it serves.

    `public` takes the place of a text that names services, accounts or files of the owner, where
    other people read along; None for a text that everybody may read.
    """

    code = "error"
    public: str | None = None

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        fields: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message.format(**fields) if fields else message)
        self._message = message
        self._fields = fields
        self._hint = hint

    def __str__(self) -> str:
        if self._fields is None:
            return super().__str__()
        return t(self._message, **self._fields)

    def text_for(self, *, is_owner: bool) -> str:
        """Return the text as a conversation may read it: `public`, unless the owner alone reads
        along. The log then has the rest."""
        if is_owner or self.public is None:
            return str(self)
        log.warning("withheld: %s (%s)", self, self.code)
        return self.public

    @property
    def hint(self) -> str | None:
        """What the person can do about it."""
        if self._hint is None or self._fields is None:
            return self._hint
        return t(self._hint, **self._fields)

    @hint.setter
    def hint(self, hint: str | None) -> None:
        self._hint = hint


class ConfigError(KoreError):
    """A setting is wrong; the text names file, key, what was found and what is expected."""

    code = "config"
    public = "A setting of this Kore is wrong; its log tells the owner which."


class ProviderError(KoreError):
    """The model's side failed. `retryable` says whether the same request may work later.

    `status` is the HTTP status with which the server refused the request, if it did.
    """

    code = "provider"
    public = "A model service of this Kore failed; its log tells the owner why."
    retryable = False
    status: int | None = None


class RateLimited(ProviderError):
    """The vendor asks to slow down."""

    code = "rate-limited"
    retryable = True

    def __init__(
        self, message: str, *, retry_after_s: float | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class TimedOut(ProviderError):
    """Nothing came within the deadline."""

    code = "timed-out"
    retryable = True


class Unavailable(ProviderError):
    """The server is down, refused, reset, or cut its stream short."""

    code = "unavailable"
    retryable = True


class ContextTooLong(ProviderError):
    """The conversation does not fit the model's window; the loop trims and asks again.

    `by_size`: the server refused the bytes of the request, which pictures may account for.
    """

    code = "context-too-long"
    by_size = False


class BadReply(ProviderError):
    """The reply broke the wire format."""

    code = "bad-reply"
    retryable = True


class Rejected(ProviderError):
    """The vendor refused the request itself: unknown model, bad parameter."""

    code = "rejected"


class NoTools(Rejected):
    """The model has no tools of its own; it can still be told of them in words."""


class NoThinking(Rejected):
    """The model refuses to be asked for its thoughts; it can be asked without."""


class WrongLimitName(Rejected):
    """The server knows `max_tokens` or `max_completion_tokens`, and was sent the other."""


class NotFound(Rejected):
    """The server has no model of this name, or nothing at this address."""


class NeedsResponses(Rejected):
    """The model reasons, and then takes tools by the Responses API only."""


class NoEncryptedReasoning(Rejected):
    """The model was asked for its reasoning in encrypted form and has none."""


class BadImage(Rejected):
    """One of the pictures is too large for the vendor, or none that it can read."""


class BadThoughts(Rejected):
    """The vendor does not take back the conversation's earlier thoughts as they were sent.

    `missing`: not for what they hold, but because some are not there.
    """

    def __init__(self, message: str, *, hint: str | None = None, missing: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.missing = missing


class KeyRefused(Rejected):
    """The vendor did not accept the key, or its account may not or cannot pay.

    `every_model`: no other model of the vendor will answer to this key either.
    """

    code = "key-refused"

    def __init__(self, message: str, *, hint: str | None = None, every_model: bool = True) -> None:
        super().__init__(message, hint=hint)
        self.every_model = every_model


class NoImages(Rejected):
    """The model sees no pictures; it can be asked without."""


class BadOutput(KoreError):
    """The model's answer does not have the shape that `output_type` asks for."""

    code = "bad-output"


class GuardrailTripped(KoreError):
    """A check of the program, by its name `guardrail`, found the `reason` to stop."""

    code = "guardrail"

    def __init__(
        self, message: str, *, guardrail: str = "", reason: str = "", hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.guardrail = guardrail
        self.reason = reason


class InputGuardrailTripped(GuardrailTripped):
    """What was said to the agent did not pass; nothing of it is kept."""

    code = "input-guardrail"


class OutputGuardrailTripped(GuardrailTripped):
    """The agent's answer did not pass; it is not kept."""

    code = "output-guardrail"


class LimitReached(KoreError):
    """A limit on tokens or money: the text says which one, how much, and when it ends."""

    code = "limit"


class ToolError(KoreError):
    """A tool could not do what was asked; its text is written for the model to mend its call.

    `untrusted` says that the text quotes strangers' words.
    """

    code = "tool"
    untrusted = False


class PolicyDenied(KoreError):
    """The policy or a person refused a tool call; the text says why."""

    code = "denied"


class ArchiveRefused(KoreError):
    """An archive is broken, unsafe or too large; nothing of it was unpacked."""

    code = "archive"


def of_code(code: str, message: str, hint: str | None = None) -> KoreError:
    """The error that has this code, made again from what was written of it."""
    error_type = next((cls for cls in _tree(KoreError) if cls.code == code), KoreError)
    error = error_type(message)
    error.hint = hint
    return error


def _tree(cls: type[KoreError]) -> Iterator[type[KoreError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _tree(child)


def is_disk_full(error: BaseException) -> TypeGuard[OSError]:
    """Return whether a write failed for lack of room: no space, no inode, or a used-up quota."""
    # A file system without free inodes reports ENOSPC, a quota of inodes EDQUOT.
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def is_disk_unwritable(error: BaseException) -> TypeGuard[OSError]:
    """Return whether a write failed because the disk is full or its file system read-only, so
    that it is no bug in the program."""
    is_read_only = isinstance(error, OSError) and error.errno == errno.EROFS
    return is_read_only or is_disk_full(error)
