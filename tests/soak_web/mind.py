"""Replies of the fake model, selected by the last message's first word.

Every answer contains the number that the message has in brackets.
"""

from collections.abc import Mapping
from typing import Any

from tests.fakes.model_mind import person_text
from tests.fakes.model_script import Call, ReplyScript

_PARAGRAPH = """\
## Part {n}

A **paragraph** with `code`, [a link](https://example.org) and some more words, 中文也有。

```python
def part_{n}(x):
    return [x, "{n}"]
```

| left | right |
|---|---|
| {n} | two |

- one
- two

"""


def answer(body: Mapping[str, Any]) -> ReplyScript:
    last = max(n for n, result in enumerate(body["messages"]) if result["role"] == "user")
    text = person_text(body["messages"][last]).strip()
    kind, number = text.split()[0], text[text.rfind("[") :]
    has_result = any(message["role"] == "tool" for message in body["messages"][last:])
    end = f"That was {number}"
    if kind == "long":
        text = "".join(_PARAGRAPH.format(n=n) for n in range(12)) + end
        return ReplyScript(text=text, pieces=200, chunk_delay_s=0.005)
    if kind == "slow":
        return ReplyScript(text="word " * 600 + end, pieces=600, chunk_delay_s=0.05)
    if kind == "think":
        return ReplyScript(text=end, reasoning="I think of it. " * 40)
    if kind == "run" and not has_result:
        call = Call("exec", {"command": f"touch '{number}' && seq 200"}, f"call-{number}")
        return ReplyScript(text="I try it.", tool_calls=(call,))
    return ReplyScript(text=end)
