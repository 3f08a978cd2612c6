"""Hypothesis strategies for valid and arbitrary messages and conversations."""

import json

from hypothesis import strategies as st

from agent.types import (
    Context,
    Image,
    Message,
    Part,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    ToolCallMarker,
)

# Surrogates included, because models and platforms do send halves of emoji.
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)
PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, ANY_TEXT),
    st.builds(Context, ANY_TEXT),
    st.builds(Thinking, ANY_TEXT, st.none() | ANY_TEXT),
    st.builds(RedactedThinking, ANY_TEXT),
    st.builds(ToolCallMarker, ANY_TEXT),
    st.builds(Image, st.sampled_from(["image/png", "image/jpeg"]), st.binary(max_size=40)),
)
TOOL_CALLS = st.builds(
    ToolCall,
    ANY_TEXT,
    ANY_TEXT,
    st.none() | st.dictionaries(ANY_TEXT, JSON, max_size=3),
    ANY_TEXT,
)
ANY_MESSAGE = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.lists(PARTS, max_size=3).map(tuple),
    st.lists(TOOL_CALLS, max_size=2).map(tuple),
    st.none() | ANY_TEXT,
    st.booleans(),
)

# Few ids, so that collisions are frequent.
_IDS = st.sampled_from(["", "a", "b", "c"])
_MIXED = st.builds(
    Message,
    st.sampled_from(["user", "assistant", "assistant", "tool", "tool"]),
    st.just((Text("x"),)),
    st.lists(st.builds(ToolCall, _IDS, st.just("t"), st.just({}), st.just("{}")), max_size=3).map(
        tuple
    ),
    st.none() | _IDS,
)
ANY_CONVERSATION = st.lists(_MIXED, max_size=12)


@st.composite
def rounds(draw: st.DrawFn, *, most: int = 6, longest: int = 1500) -> list[Message]:
    """Return a valid conversation: user messages, each with replies, some with calls."""
    sizes = st.integers(0, longest)
    letters = st.sampled_from(["a", "word ", "ä", "漢", "🙂", "\ud83d"])

    def text() -> str:
        return draw(letters) * draw(sizes)

    messages: list[Message] = []
    for _ in range(draw(st.integers(1, most))):
        messages.append(Message("user", (Text(text()), Context("[noon]"))))
        for _ in range(draw(st.integers(0, 3))):
            ids = [f"c{n}" for n in range(draw(st.integers(0, 3)))]
            raw = json.dumps({"x": "y" * draw(st.integers(0, 20))})
            planned = tuple(ToolCall(id_, "tool", json.loads(raw), raw) for id_ in ids)
            messages.append(Message("assistant", (Text(text()),), planned))
            messages += [Message("tool", (Text(text()),), (), id_) for id_ in ids]
    return messages
