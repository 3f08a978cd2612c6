"""Changes of a directory tree since its last description: added, removed and grown files."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.agent import Agent
from agent.context.project.context import ProjectContext
from agent.context.project.directory_tree import (
    FolderTree,
    TreeLimits,
    tree,
    tree_changes,
    tree_entries,
)
from agent.context.project.session_projects import find_repeats
from agent.providers.scripted import ScriptedProvider
from agent.run.history import MemoryHistory
from agent.settings import AgentSettings
from agent.types import Context, Message

NAMES = st.sampled_from(["a.py", "b.py", "c (1 kB).md", "d"])
FOLDERS = st.sampled_from(["", "src", "src/deep", "docs"])
PATHS = st.builds(lambda folder, name: f"{folder}/{name}".lstrip("/"), FOLDERS, NAMES)
FILES = st.dictionaries(PATHS, st.integers(0, 5), max_size=12)


def make(root: Path, files: dict[str, int]) -> None:
    for name, size in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)


def tree_with(files: dict[str, int], shape: TreeLimits) -> FolderTree:
    with TemporaryDirectory() as folder:
        make(Path(folder), files)
        return tree(Path(folder), shape, 5_000)


def apply(before: FolderTree, changes: list[str]) -> dict[str, str]:
    """Return the entries that follow from the first description and the changes."""
    entries = tree_entries(before.text)
    for line in changes:
        kind, path = line[0], line[2:]
        if kind == "-":
            is_gone = path.endswith("/")
            entries = {
                result: size
                for result, size in entries.items()
                if result != path and not (is_gone and result.startswith(path))
            }
        else:
            entries |= tree_entries(path) if "/" not in path else {_plain(path): _size(path)}
    return entries


def _plain(path: str) -> str:
    return path if path.endswith("/") else path[: path.rindex(" (")]


def _size(path: str) -> str:
    return "" if path.endswith("/") else path[path.rindex(" (") :]


@settings(deadline=None, max_examples=60)
@given(FILES, FILES)
def test_changes_applied_to_the_old_tree_give_the_new_tree(
    one: dict[str, int], other: dict[str, int]
) -> None:
    before, after = tree_with(one, TreeLimits()), tree_with(other, TreeLimits())
    changes = tree_changes(before, after)
    assert changes is not None
    assert apply(before, changes) == tree_entries(after.text)


@settings(deadline=None, max_examples=60)
@given(FILES, FILES)
def test_changes_of_a_partly_shown_folder_are_true(
    one: dict[str, int], other: dict[str, int]
) -> None:
    shape = TreeLimits(per_folder=2)
    changes = tree_changes(tree_with(one, shape), tree_with(other, shape))
    assert changes is not None
    paths = [(line[0], line[2:]) for line in changes if "... (" not in line and "..." not in line]
    for kind, path in paths:
        name = path if path.endswith("/") or kind == "-" else _plain(path)
        was, is_there = (
            any(file == name or (name.endswith("/") and file.startswith(name)) for file in files)
            for files in (one, other)
        )
        assert (was, is_there) == {"-": (True, False), "+": (False, True), "~": (True, True)}[kind]


def test_tree_truncated_elsewhere_is_shown_completely() -> None:
    assert tree_changes(FolderTree("a", 3), FolderTree("a", 2)) is None
    assert tree_changes(FolderTree("a", 0), FolderTree("a", 0)) is None


def test_second_report_lists_only_changes(tmp_path: Path) -> None:
    make(tmp_path, {f"src/file_{n}.py": 3 for n in range(20)})
    project = ProjectContext(tmp_path)
    assert project.news() is not None
    make(tmp_path, {"src/file_7.py": 5, "new.md": 2})
    (tmp_path / "src" / "file_9.py").unlink()
    news = project.news()
    assert news is not None
    assert news.text.splitlines() == [
        f"[What has changed in the folder {tmp_path} (+ new, - gone, ~ other size):]",
        "- src/file_9.py",
        "+ new.md (2 B)",
        "~ src/file_7.py (5 B)",
    ]
    make(tmp_path, {f"many/{n}": 1 for n in range(40)})
    news = project.news()
    assert news is not None
    assert "as it is now" in news.text
    project.forget()
    assert (news := project.news()) is not None
    assert "as it is now" in news.text


def test_only_the_latest_report_on_a_folder_counts_as_repeated(tmp_path: Path) -> None:
    make(tmp_path, {f"src/file_{n}.py": 3 for n in range(20)})
    project = ProjectContext(tmp_path)
    messages: list[Message] = []
    for name in ("new.md", None, "new.md"):
        (tmp_path / "new.md").unlink(missing_ok=True)
        if name:
            make(tmp_path, {name: 2})
        news = project.news()
        assert news is not None
        assert find_repeats(news.parts, messages) == set()
        messages.append(Message("user", tuple(map(Context, news.parts))))
        assert find_repeats(news.parts, messages) == set(news.parts)
    # A new client describes the whole folder again, because the earlier description is outdated.
    make(tmp_path, {"src/file_1.py": 9})
    whole = ProjectContext(tmp_path).news()
    assert whole is not None
    assert find_repeats(whole.parts, messages) == set()


async def test_library_turn_reports_tree_changes(tmp_path: Path) -> None:
    make(tmp_path, {f"src/file_{n}.py": 3 for n in range(20)})
    model = ScriptedProvider(["one", "two", "three", "four"])
    history = MemoryHistory()
    settings = AgentSettings(project=True)
    agent = Agent(model, workspace=tmp_path, history=history, settings=settings)

    async def contexts(said: str) -> list[str]:
        await agent.run(said, session="s")
        content = model.requests[-1].messages[-1].content
        return [part.text for part in content if isinstance(part, Context) and "/" in part.text]

    assert "as it is now" in (await contexts("hi"))[0]
    make(tmp_path, {"new.md": 2})
    assert (await contexts("and"))[0].endswith("+ new.md (2 B)")
    (tmp_path / "new.md").unlink()
    assert (await contexts("and"))[0].endswith("- new.md")
    make(tmp_path, {"new.md": 2})
    assert (await contexts("and"))[0].endswith("+ new.md (2 B)")
