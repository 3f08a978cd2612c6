"""Optional parts of a model request, and the search for refused parts."""

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from agent.errors import (
    BadImage,
    ContextTooLong,
    KeyRefused,
    NoImages,
    NotFound,
    NoThinking,
    NoTools,
    ProviderError,
    Rejected,
    Unavailable,
    WrongLimitName,
)
from agent.providers.base import (
    NO_UNKNOWN_FIELDS,
    PLAIN_FUNCTIONS,
    RENAMED_LIMIT,
    REPLAYED_THOUGHTS,
    ModelRequest,
)
from agent.providers.effort import without_effort
from agent.types import Image, RedactedThinking, Thinking

# Parts that are not single body fields; other parts are named after their field.
PICTURES = "pictures"
NEWEST_PICTURES = "newest pictures"
THOUGHTS = "thoughts"
THINKING = "thinking"
TOOLS = "tools"
PICTURE_PARTS = frozenset({PICTURES, NEWEST_PICTURES})
# Parts that are sent in another form instead of left out.
VARIANTS = frozenset({REPLAYED_THOUGHTS, RENAMED_LIMIT, PLAIN_FUNCTIONS, NO_UNKNOWN_FIELDS})

# Maximum number of further requests after a refusal.
MAX_TRIALS = 8
# Time after which uncertain omissions and acquittals expire.
_UNCERTAINTY_TTL_S = 3600.0
_MAX_ACQUITTALS = 1000
# A rough estimate that needs no tokenizer.
_CHARS_PER_TOKEN = 4

# Causes that a smaller request would not fix: the key, the account, the address, the load.
_OTHER_CAUSES = frozenset({401, 402, 403, 404, 407, 408, 409, 425, 429})
_SERVER_ERRORS = frozenset({500, 501})

_FIELD_NAME = re.compile(r"[a-z][a-z_]+")
# Words of refusals that hint at a part. They only decide the order of trials.
_HINTS = (
    (PICTURE_PARTS, re.compile(r"image|picture|vision|multi-?modal|图片|图像|多模态", re.I)),
    (frozenset({TOOLS}), re.compile(r"\btools?\b|function.?call|工具|函数", re.IGNORECASE)),
    (frozenset({THINKING}), re.compile(r"thinking|reasoning|思考|推理", re.IGNORECASE)),
)
_HINT_TYPES = (
    ((NoImages, BadImage), PICTURE_PARTS),
    ((NoTools,), frozenset({TOOLS})),
    ((NoThinking,), frozenset({THINKING})),
    ((WrongLimitName,), frozenset({RENAMED_LIMIT})),
)
# Ids, times and counts, which differ between two refusals for the same cause.
_VARYING = re.compile(r"[0-9a-f-]*\d[0-9a-f-]*", re.IGNORECASE)


@runtime_checkable
class HasOptionalFields(Protocol):
    """Provider that can leave fields out of its request body (`ModelRequest.adaptations`)."""

    def optional_fields(self, request: ModelRequest) -> set[str]:
        """Return the names of the body's fields that the API does not require."""


@dataclass(slots=True)
class ModelMemory:
    """Refusals by a server for one model; `parts` are left out of every request.

    `sees`: the model has answered a request with pictures. `refused_pictures` counts refused
    requests with pictures before that, `server_errors` consecutive server errors. `ends_at` maps an
    omitted part to the time at which it is tried again.
    """

    parts: set[str] = field(default_factory=set)
    sees: bool = False
    refused_pictures: int = 0
    server_errors: int = 0
    has_native_calls: bool = False
    is_text_calls_noticed: bool = False
    ends_at: dict[str, float] = field(default_factory=dict)
    # End times of acquittals, by the fingerprint of the refusal and the acquitted part.
    _acquitted: dict[tuple[str, str], float] = field(default_factory=dict)

    def omit(self, parts: Iterable[str], now: float, *, in_doubt: bool) -> None:
        """Leave the parts out from now on; parts `in_doubt` are tried again after an hour."""
        for part in parts:
            self.parts.add(part)
            if in_doubt:
                self.ends_at[part] = now + _UNCERTAINTY_TTL_S

    def forget_doubts(self, now: float) -> None:
        """Stop omitting the parts whose omission has expired."""
        for part in [part for part, ends_at in self.ends_at.items() if ends_at <= now]:
            del self.ends_at[part]
            self.parts.discard(part)

    def acquit(self, refusal: ProviderError, parts: Iterable[str], now: float) -> None:
        """Record that leaving out these parts did not prevent the refusal."""
        if len(self._acquitted) > _MAX_ACQUITTALS:
            self._acquitted.clear()
        for part in parts:
            self._acquitted[_fingerprint(refusal), part] = now + _UNCERTAINTY_TTL_S

    def suspects(self, refusal: ProviderError, group: frozenset[str], now: float) -> frozenset[str]:
        """Return the parts of a group that may be the cause of the refusal."""
        fingerprint = _fingerprint(refusal)
        # Pictures are never acquitted: another picture may be refused in the same words.
        return frozenset(
            part
            for part in group
            if part in PICTURE_PARTS or self._acquitted.get((fingerprint, part), 0.0) <= now
        )


@dataclass(slots=True)
class ServerMemory:
    """Refusals by a server: by model, and hashes of refused thoughts and pictures."""

    models: dict[str, ModelMemory] = field(default_factory=dict)
    refused_parts: set[int] = field(default_factory=set)

    def of(self, model: str) -> ModelMemory:
        memory = self.models.get(model)
        if memory is None:
            memory = self.models[model] = ModelMemory()
        return memory


def is_searchable(refusal: ProviderError) -> bool:
    """Return whether the request may pass without some of its optional parts."""
    match refusal:
        case ContextTooLong():
            return refusal.by_size
        case KeyRefused() | NotFound():
            return False
        case NoImages() | BadImage() | NoTools() | NoThinking() | WrongLimitName():
            return True
    return is_unexplained(refusal)


def limit_field(request: ModelRequest, provider: object) -> frozenset[str]:
    """Return the field for the limit of reply tokens if that alone may exceed the window.

    Servers report such a limit and a long conversation in the same words.
    """
    if request.max_tokens is None or not isinstance(provider, HasOptionalFields):
        return frozenset()
    text = len(request.system) + sum(len(message.text) for message in request.messages)
    if text / _CHARS_PER_TOKEN > request.max_tokens:
        return frozenset()
    without = provider.optional_fields(replace(request, max_tokens=None)) | VARIANTS
    return frozenset(provider.optional_fields(request) - without)


def is_by_tokens(refusal: ProviderError) -> bool:
    """Return whether the conversation, or the limit of its reply, has too many tokens."""
    return isinstance(refusal, ContextTooLong) and not refusal.by_size


def try_without(
    parts: frozenset[str], refusal: ProviderError
) -> Generator[frozenset[str], ProviderError, ProviderError]:
    """Yield the parts as the only trial, in the form of `search_parts`."""
    yield parts
    return refusal


def is_server_error(refusal: ProviderError) -> bool:
    return isinstance(refusal, Unavailable) and refusal.status in _SERVER_ERRORS


def is_unexplained(refusal: ProviderError) -> bool:
    """Return whether any part may be the cause."""
    if isinstance(refusal, ContextTooLong) or is_server_error(refusal):
        return True
    status = refusal.status or 0
    return isinstance(refusal, Rejected) and 400 <= status < 500 and status not in _OTHER_CAUSES


def search_parts(
    refusal: ProviderError, groups: Sequence[frozenset[str]], memory: ModelMemory, now: float
) -> Generator[frozenset[str], ProviderError, ProviderError]:
    """Yield the parts that the next request leaves out; receive the refusal of that request.

    Groups are left out in turn: first the parts that the refusal names, finally all groups. A group
    stays out if the refusal changes without it. Returns the refusal to raise if nothing helped.
    """
    if isinstance(refusal, ContextTooLong):
        groups = [group for group in groups if group <= PICTURE_PARTS]
    remaining, causes = list(groups), frozenset[str]()
    innocent: list[frozenset[str]] = []
    trials = 0
    while remaining and trials < MAX_TRIALS - 1:
        group = _take_named(refusal, remaining)
        if not group:
            if not is_unexplained(refusal):
                return refusal
            group = remaining.pop(0)
        group = memory.suspects(refusal, group, now)
        if not group:
            continue
        trials += 1
        answer = yield causes | group
        if _fingerprint(answer) == _fingerprint(refusal):
            memory.acquit(refusal, group, now)
            innocent.append(group)
        else:
            refusal = answer
            causes |= group
    if len(innocent) > 1:
        yield causes.union(*innocent)
    return refusal


def _take_named(refusal: ProviderError, groups: list[frozenset[str]]) -> frozenset[str]:
    """Remove and return the parts that the refusal names; pictures one group at a time."""
    parts = frozenset[str]().union(*groups)
    words = str(refusal)
    hinted = next((hint for kinds, hint in _HINT_TYPES if isinstance(refusal, kinds)), None)
    if hinted is None:
        hinted = parts.intersection(_FIELD_NAME.findall(words)) or next(
            (
                hint
                for hint, pattern in _HINTS
                if not hint.isdisjoint(parts) and pattern.search(words)
            ),
            frozenset[str](),
        )
    hinted &= parts
    if isinstance(refusal, NoImages):
        hinted |= PICTURE_PARTS & parts
    elif not hinted.isdisjoint(PICTURE_PARTS):
        hinted = next(group for group in groups if not group.isdisjoint(PICTURE_PARTS))
    groups[:] = [rest for group in groups if (rest := group - hinted)]
    return hinted


def _fingerprint(refusal: ProviderError) -> str:
    return f"{type(refusal).__name__} {refusal.status} {_VARYING.sub('', str(refusal))}"


def optional_groups(
    request: ModelRequest, provider: object, *, may_omit_tools: bool
) -> list[frozenset[str]]:
    """Return the optional parts of a request in the order in which they are tried.

    Pictures come first, as the most frequent cause. The others follow by increasing cost: fields
    that Kore adds, the person's settings, earlier thoughts, thinking, native tools.
    """
    return list(filter(None, _groups(request, provider, may_omit_tools=may_omit_tools)))


def _groups(
    request: ModelRequest, provider: object, *, may_omit_tools: bool
) -> Iterator[frozenset[str]]:
    pictured = sum(
        any(isinstance(p, Image) for p in message.content) for message in request.messages
    )
    if pictured > 1:
        yield frozenset({NEWEST_PICTURES})
    if pictured:
        yield frozenset({PICTURES})
    has_thoughts = any(isinstance(p, Thinking | RedactedThinking) for p in _parts(request))
    thinks = without_effort(request.options) != request.options
    if isinstance(provider, HasOptionalFields):
        quiet = replace(request, options=without_effort(request.options), tools=())
        bare = replace(quiet, options={}, temperature=None, max_tokens=None)
        fields = provider.optional_fields(replace(quiet, tools=request.tools)) - {TOOLS}
        own = provider.optional_fields(bare)
        variants = fields & VARIANTS
        yield frozenset(variants & {NO_UNKNOWN_FIELDS})
        yield frozenset(fields & own - VARIANTS)
        yield frozenset(variants & {RENAMED_LIMIT})
        yield frozenset(variants & {PLAIN_FUNCTIONS})
        yield frozenset(fields - own - VARIANTS)
        if has_thoughts:
            yield frozenset(variants & {REPLAYED_THOUGHTS})
    if has_thoughts:
        yield frozenset({THOUGHTS})
    if thinks:
        yield frozenset({THINKING})
    if request.tools and may_omit_tools:
        yield frozenset({TOOLS})


def _parts(request: ModelRequest) -> Iterator[object]:
    return (part for message in request.messages for part in message.content)
