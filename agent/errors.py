"""Exceptions of Kore.

    KoreError
    ├── ConfigError            wrong setting; names the place, the actual value and the fix
    ├── ProviderError          the model did not answer
    │   ├── RateLimited        429; `retry_after_s` if the server sent it
    │   ├── TimedOut           no connection, or a silent stream
    │   ├── Unavailable        5xx, rejected or reset connection, cut stream
    │   ├── ContextTooLong     the request does not fit the model's window
    │   ├── BadReply           the server's answer is unreadable
    │   └── Rejected           4xx: model name or request rejected; a retry will not help
    │       ├── KeyRefused     401, 402, 403: the key, its account or its credit
    │       ├── NoTools        the model does not accept native tools
    │       ├── NoThinking     the model does not think, or rejects the request to
    │       ├── BadImage       a picture is too large or broken
    │       ├── BadThoughts    earlier thoughts are rejected as they were sent
    │       ├── NoImages       the model does not accept pictures
    │       ├── WrongLimitName the server has another name for the limit of reply tokens
    │       ├── NotFound       the server has no such model, or no such address
    │       ├── NeedsResponses the model accepts tools through the Responses API only
    │       └── NoEncryptedReasoning  the model has no encrypted reasoning
    ├── BadOutput              the answer does not have the requested shape
    ├── GuardrailTripped       a check of the program found a problem
    │   ├── InputGuardrailTripped   for the input to the agent
    │   └── OutputGuardrailTripped  for the agent's answer
    ├── LimitReached           the next model call would exceed a configured limit
    ├── ToolError              the model reads it as the tool's result
    ├── PolicyDenied           a rule or a person denied the call; the model reads it too
    └── ArchiveRefused         a zip or tar is broken, unsafe or too large; nothing was unpacked

Foreign exceptions are mapped to these once, at the edge, with `from exc`.
Every error carries a short stable `code` that people can look up in docs/errors.md.
"""

import errno
from collections.abc import Iterator, Mapping
from typing import TypeGuard

from agent.i18n import t


class KoreError(Exception):
    """Base of Kore's own errors; `str(error)` is one sentence for a person.

    With `fields`, `message` and `hint` are entries of the catalogue, and the error is translated
    when it is shown: for code that does not know the reader. `public` replaces a text that names
    services, accounts or files of the owner, if other people can read it; None for a text that
    everyone may read.
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

    @property
    def hint(self) -> str | None:
        """Advice for the person."""
        if self._hint is None or self._fields is None:
            return self._hint
        return t(self._hint, **self._fields)

    @hint.setter
    def hint(self, hint: str | None) -> None:
        self._hint = hint


class EditorRefused(KoreError):
    """The person's editor answered that it did not save a file."""


class ConfigError(KoreError):
    """Wrong setting; the text names file, key, actual and expected value."""

    code = "config"
    public = "A setting of this Kore is wrong; its log tells the owner which."


class ProviderError(KoreError):
    """Failure on the model's side. `retryable`: the same request may succeed later.

    `status` is the HTTP status of a rejection by the server, if there was one.
    """

    code = "provider"
    public = "A model service of this Kore failed; its log tells the owner why."
    retryable = False
    status: int | None = None


class RateLimited(ProviderError):
    """The vendor's rate limit is exceeded."""

    code = "rate-limited"
    retryable = True

    def __init__(
        self, message: str, *, retry_after_s: float | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class TimedOut(ProviderError):
    """Nothing arrived within the timeout."""

    code = "timed-out"
    retryable = True


class Unavailable(ProviderError):
    """The server is down, rejected or reset the connection, or cut its stream short."""

    code = "unavailable"
    retryable = True


class ContextTooLong(ProviderError):
    """The conversation does not fit the model's window; the loop trims it and retries.

    `by_size`: the server rejected the size of the request in bytes, possibly because of pictures.
    """

    code = "context-too-long"
    by_size = False


class BadReply(ProviderError):
    """The reply violates the wire format."""

    code = "bad-reply"
    retryable = True


class Rejected(ProviderError):
    """The vendor rejected the request itself: unknown model, bad parameter."""

    code = "rejected"


class NoTools(Rejected):
    """The model has no native tools; they can still be described in text."""


class NoThinking(Rejected):
    """The model rejects a request for thoughts; it works without one."""


class WrongLimitName(Rejected):
    """The server expects `max_completion_tokens` instead of `max_tokens`, or vice versa."""


class NotFound(Rejected):
    """The server has no model of this name, or nothing at this address."""


class NeedsResponses(Rejected):
    """The model reasons, and therefore accepts tools only through the Responses API."""


class NoEncryptedReasoning(Rejected):
    """The model was asked for encrypted reasoning and has none."""


class BadImage(Rejected):
    """A picture is too large for the vendor or unreadable."""


class BadThoughts(Rejected):
    """The vendor rejects the conversation's earlier thoughts as they were sent.

    `missing`: some of them are missing.
    """

    def __init__(self, message: str, *, hint: str | None = None, missing: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.missing = missing


class KeyRefused(Rejected):
    """The vendor rejected the key, or its account may not or cannot pay.

    `every_model`: no other model of the vendor will accept this key either.
    """

    code = "key-refused"

    def __init__(self, message: str, *, hint: str | None = None, every_model: bool = True) -> None:
        super().__init__(message, hint=hint)
        self.every_model = every_model


class NoImages(Rejected):
    """The model does not accept pictures; it works without them."""


class BadOutput(KoreError):
    """The model's answer does not have the shape that `output_type` requires."""

    code = "bad-output"


class GuardrailTripped(KoreError):
    """The program's check `guardrail` stopped the turn for the `reason`."""

    code = "guardrail"

    def __init__(
        self, message: str, *, guardrail: str = "", reason: str = "", hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.guardrail = guardrail
        self.reason = reason


class InputGuardrailTripped(GuardrailTripped):
    """The input to the agent did not pass and is not stored."""

    code = "input-guardrail"


class OutputGuardrailTripped(GuardrailTripped):
    """The agent's answer did not pass and is not stored."""

    code = "output-guardrail"


class LimitReached(KoreError):
    """A limit on tokens or money was reached; the text names the limit and its end."""

    code = "limit"


class ToolError(KoreError):
    """A tool failed; the text helps the model to correct its call.

    `untrusted`: the text quotes strangers' words.
    """

    code = "tool"
    untrusted = False


class PolicyDenied(KoreError):
    """The policy or a person denied a tool call; the text gives the reason."""

    code = "denied"


class ArchiveRefused(KoreError):
    """An archive is broken, unsafe or too large; nothing was unpacked."""

    code = "archive"


def of_code(code: str, message: str, hint: str | None = None) -> KoreError:
    """Return the error with this code, restored from its stored text."""
    error_type = next((cls for cls in _tree(KoreError) if cls.code == code), KoreError)
    error = error_type(message)
    error.hint = hint
    return error


def _tree(cls: type[KoreError]) -> Iterator[type[KoreError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _tree(child)


def is_disk_full(error: BaseException) -> TypeGuard[OSError]:
    """Return whether a write failed because the disk has no space or inodes, or a quota is
    exhausted.
    """
    # A file system without free inodes reports ENOSPC, a quota of inodes EDQUOT.
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def is_disk_unwritable(error: BaseException) -> TypeGuard[OSError]:
    """Return whether a write failed because the disk is full or its file system read-only.

    Such a failure is not a bug in the program.
    """
    is_read_only = isinstance(error, OSError) and error.errno == errno.EROFS
    return is_read_only or is_disk_full(error)
