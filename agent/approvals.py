"""Approvals: questions to a person, with their presentation and possible answers.

`ApprovalRequest` is the only record of a question. The tool runner creates it from a call's plan;
it is stored, sent to screens and bound to the answer unchanged. `QuestionView` is its presentation.
"""

from collections.abc import Mapping
from dataclasses import field, fields
from pathlib import Path
from typing import Any, Literal

from agent.records import frozen

# Allow once, for this session or from now on (exactly these arguments in this folder), or deny.
Answer = Literal["once", "session", "always", "deny"]
ANSWERS: tuple[Answer, ...] = ("once", "session", "always", "deny")
# Scope of a permanent answer: exactly this call, its commands with any arguments, the hosts or the
# folder that it requests, or private data for its recipient.
Scope = Literal["call", "prefix", "network", "recipient", "folder"]


@frozen
class CommandPrefix:
    """First words of a command that may be allowed with any arguments.

    `contents` is a hash of the scripts that they run, None if there are none.
    """

    words: tuple[str, ...]
    contents: str | None = None

    def __str__(self) -> str:
        return f"{' '.join(self.words)} *"


@frozen
class Recipient:
    """MCP server that receives the arguments of a call; `identity` is a hash of its program or
    address."""

    server: str
    identity: str


@frozen
class FolderAccess:
    """Folder or file outside the workspace, by its real path, that calls may read.

    With `is_writable` they may change it, too.
    """

    path: Path
    is_writable: bool = False

    def covers(self, other: "FolderAccess") -> bool:
        """Return whether this access includes the other."""
        return other.path.is_relative_to(self.path) and (self.is_writable or not other.is_writable)


@frozen
class ServerQuestion:
    """Question of the MCP server `server` during a call.

    `choices` are the possible answers, unless the person writes the answer (`takes_text`).
    `otherwise` is the label of an empty answer; without it an empty answer is impossible.
    `is_secret`: the server asks for something that looks like a password. `url` is a page for the
    person to open.
    """

    server: str
    text: str
    choices: tuple[str, ...] = ()
    takes_text: bool = False
    otherwise: str = ""
    is_secret: bool = False
    url: str = ""


@frozen
class VisibleEffects:
    """Effects of a call for a person to judge: the part of a plan that a question contains.

    `diff` (with 3 lines of context), `command` or `sends` shows exactly what the call does.
    `folder` is the working folder of a command, `contents` a hash of the scripts that it runs (None
    if there are none), `confinement` a description of its confinement; an answer is bound to these.
    `unbound` names a program that may run files to which no answer is bound, so that no answer
    about exactly this call is permanent. `prefixes` are the parts of the command that may be
    allowed with any arguments; with `network`, a permanent answer covers these hosts but not the
    command. `home_settings` names files of earlier commands that may influence the command; their
    contents are part of `confinement`. `recipient` receives what the call sends. With
    `folder_access`, a permanent answer covers this access for every call.
    """

    command: str | None = field(default=None, kw_only=True)
    folder: Path | None = field(default=None, kw_only=True)
    sends: str | None = field(default=None, kw_only=True)
    diff: str | None = field(default=None, kw_only=True)
    contents: str | None = field(default=None, kw_only=True)
    unbound: str | None = field(default=None, kw_only=True)
    confinement: str | None = field(default=None, kw_only=True)
    prefixes: tuple[CommandPrefix, ...] = field(default=(), kw_only=True)
    network: tuple[str, ...] = field(default=(), kw_only=True)
    home_settings: tuple[str, ...] = field(default=(), kw_only=True)
    recipient: Recipient | None = field(default=None, kw_only=True)
    folder_access: FolderAccess | None = field(default=None, kw_only=True)


@frozen
class ApprovalRequest(VisibleEffects):
    """Question to a person about a call.

    `call_id` names the call within its turn. With `server_question`, there is nothing to allow: an
    MCP server asks and receives the text of the answer.
    """

    tool: str
    arguments: Mapping[str, Any]
    reason: str
    call_id: str = ""
    rule: str = ""
    server_question: ServerQuestion | None = None

    @property
    def prefix_names(self) -> str:
        return ", ".join(dict.fromkeys(map(str, self.prefixes)))

    @classmethod
    def about(cls, effects: VisibleEffects, **facts: Any) -> "ApprovalRequest":
        """Return the question about a call with these effects; `facts` are the other fields."""
        visible = {part.name: getattr(effects, part.name) for part in fields(VisibleEffects)}
        return cls(**visible, **facts)


@frozen
class QuestionLine:
    """Line of a question, without characters that a screen would not show.

    Kinds: code that would run or text that would leave, a detail of the call, a line of a diff, the
    reason to ask, a note of Kore, or text of an MCP server.
    """

    kind: Literal["code", "detail", "diff", "reason", "note", "quote"]
    text: str


@frozen
class QuestionOption:
    """Possible answer: its `label` describes what it grants, `key` selects it.

    `words` are the answer to an MCP server. With `takes_words`, the person writes them: to the
    model with a denial, otherwise to the MCP server.
    """

    key: str
    label: str
    answer: Answer
    scope: Scope = "call"
    words: str = ""
    takes_words: bool = False


@frozen
class QuestionView:
    """Complete question for every screen: the title, the lines, the answers."""

    title: str = ""
    lines: tuple[QuestionLine, ...] = ()
    options: tuple[QuestionOption, ...] = ()
