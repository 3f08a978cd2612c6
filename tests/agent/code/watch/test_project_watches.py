"""Watches on real files, with each kind of source."""

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.code.watch import project_watch
from agent.code.watch.changes import MAX_PATHS, ChangeBatch, ChangeSet
from agent.code.watch.folder_filter import FolderFilter
from agent.code.watch.inotify_source import InotifySource, is_on_network, network_mounts
from agent.code.watch.native_source import NativeSource
from agent.code.watch.poll_source import PollSource
from agent.code.watch.project_watch import MakeSource, open_source
from agent.code.watch.project_watches import ChangeSubscription, ProjectWatches
from agent.code.watch.source import WatchLimits, WatchSource, WatchUnavailable

SOURCES: dict[str, MakeSource] = {
    "inotify": InotifySource,
    "poll": PollSource,
    "native": NativeSource,
}


class Followed:
    """A watched root and the batches received so far."""

    def __init__(self, root: Path, subscription: ChangeSubscription) -> None:
        self.root = root
        self.batches: list[ChangeBatch] = []
        self._stream = aiter(subscription)

    async def next(self) -> ChangeBatch:
        self.batches.append(await anext(self._stream))
        return self.batches[-1]

    async def until(self, is_true: Callable[[], object]) -> None:
        while not is_true():
            await self.next()

    def kind(self, name: str) -> str | None:
        """Return the last reported kind of change of a file."""
        kinds = [
            change.kind
            for batch in self.batches
            for change in batch.changes
            if change.path == self.root / name
        ]
        return kinds[-1] if kinds else None

    @property
    def missed(self) -> int:
        """The number of incomplete batches."""
        return sum(not batch.is_complete for batch in self.batches)

    def names(self) -> set[str]:
        return {
            str(change.path.relative_to(self.root))
            for batch in self.batches
            for change in batch.changes
        }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = (tmp_path / "project").resolve()
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "a.py").write_text("a")
    (root / ".gitignore").write_text("build/\n*.log\n")
    (root / "build").mkdir()
    (root / ".git").mkdir()
    return root


@pytest.fixture
def limits() -> WatchLimits:
    return WatchLimits(poll_s=0.02)


@pytest.fixture
def make_source() -> MakeSource:
    return InotifySource


@pytest.fixture
def watches(limits: WatchLimits, make_source: MakeSource) -> Iterator[ProjectWatches]:
    watches = ProjectWatches(limits, make_source)
    yield watches
    watches.close()


@pytest.fixture
async def followed(root: Path, watches: ProjectWatches) -> AsyncIterator[Followed]:
    with watches.follow(root) as subscription:
        await subscription.wait_begun()
        yield Followed(root, subscription)


class TestEverySource:
    @pytest.fixture(params=SOURCES)
    def make_source(self, request: pytest.FixtureRequest) -> MakeSource:
        return SOURCES[request.param]

    async def test_creation_change_and_deletion_are_reported(self, followed: Followed) -> None:
        root = followed.root
        (root / "src/b.py").write_text("b")
        await followed.until(lambda: followed.kind("src/b.py") == "created")
        (root / "src/a.py").write_text("longer")
        await followed.until(lambda: followed.kind("src/a.py") == "changed")
        (root / "src/b.py").unlink()
        await followed.until(lambda: followed.kind("src/b.py") == "deleted")
        assert followed.names() == {"src/a.py", "src/b.py"}

    async def test_renamed_file_is_deleted_and_created(self, followed: Followed) -> None:
        (followed.root / "src/a.py").rename(followed.root / "src/deep/c.py")
        await followed.until(lambda: followed.kind("src/deep/c.py") == "created")
        await followed.until(lambda: followed.kind("src/a.py") == "deleted")

    async def test_files_in_new_folders_are_reported(self, followed: Followed) -> None:
        folder = followed.root / "new/one/two"
        folder.mkdir(parents=True)
        (folder / "x.py").write_text("x")
        await followed.until(lambda: followed.kind("new/one/two/x.py") == "created")
        (folder / "y.py").write_text("y")
        await followed.until(lambda: followed.kind("new/one/two/y.py") == "created")

    async def test_ignored_files_are_not_reported(self, followed: Followed) -> None:
        root = followed.root
        for name in ("build/x.o", "src/a.log", ".git/index", "src/last.py"):
            (root / name).write_text("x")
        await followed.until(lambda: followed.kind("src/last.py"))
        assert followed.names() == {"src/last.py"}

    async def test_changed_ignore_file_takes_effect(
        self, followed: Followed, make_source: MakeSource
    ) -> None:
        root = followed.root
        (root / ".gitignore").write_text("*.tmp\n")
        await followed.until(lambda: followed.kind(".gitignore"))
        if make_source is InotifySource:
            # Linux reports an incomplete batch.
            await followed.until(lambda: followed.missed)
        (root / "build/x.o").write_text("x")
        await followed.until(lambda: followed.kind("build/x.o"))
        (root / "a.tmp").write_text("x")
        (root / "a.log").write_text("x")
        await followed.until(lambda: followed.kind("a.log"))
        assert followed.kind("a.tmp") is None

    async def test_recreated_root_is_watched_again(self, followed: Followed) -> None:
        shutil.rmtree(followed.root)
        await followed.until(lambda: followed.missed == 1)
        followed.root.mkdir()
        await followed.until(lambda: followed.missed == 2)
        (followed.root / "x").write_text("x")
        await followed.until(lambda: followed.kind("x"))


class TestInotify:
    async def test_burst_arrives_in_one_batch(self, followed: Followed) -> None:
        for number in range(5_000):
            (followed.root / f"src/{number}.py").write_text("x")
        await followed.until(lambda: len(followed.names()) == 5_000)
        # The first changes may be delivered before the burst is recognized.
        assert len([batch for batch in followed.batches if len(batch.changes) > 1]) <= 2
        assert all(batch.is_complete for batch in followed.batches)

    async def test_short_lived_file_is_not_reported(self, followed: Followed) -> None:
        (followed.root / "passing").write_text("x")
        (followed.root / "passing").unlink()
        (followed.root / "staying").write_text("x")
        await followed.until(lambda: followed.kind("staying"))
        assert followed.kind("passing") is None

    async def test_file_saved_by_renaming_is_reported_once(self, followed: Followed) -> None:
        (followed.root / "src/.a.py.swp").write_text("new")
        (followed.root / "src/.a.py.swp").rename(followed.root / "src/a.py")
        await followed.until(lambda: followed.kind("src/a.py"))
        assert followed.names() == {"src/a.py"}

    async def test_renamed_folder_is_watched_under_its_new_name(self, followed: Followed) -> None:
        (followed.root / "src").rename(followed.root / "lib")
        await followed.until(lambda: followed.kind("lib/a.py") == "created")
        assert followed.kind("src") == "deleted"
        (followed.root / "lib/deep/b.py").write_text("b")
        await followed.until(lambda: followed.kind("lib/deep/b.py"))
        assert "src/deep/b.py" not in followed.names()

    async def test_dropped_events_make_a_batch_incomplete(
        self, followed: Followed, watches: ProjectWatches
    ) -> None:
        queue_size = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        blocked, released = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def block(batch: ChangeBatch | None) -> None:
            if batch is not None:
                loop.call_soon_threadsafe(blocked.set)
                released.wait()

        root = followed.root
        watch = watches.watch(root)
        assert watch is not None
        assert watch.listen(block)
        (root / "first").write_text("x")
        await blocked.wait()
        for number in range(queue_size):
            # Alternate files, because the kernel merges identical consecutive events.
            (root / ("a" if number % 2 else "b")).write_text(str(number))
        (root / "made/below").mkdir(parents=True)
        released.set()
        watch.leave(block)
        while followed.kind("made/below/x") is None:
            await followed.next()
            if not followed.batches[-1].is_complete:
                (root / "made/below/x").write_text("x")

    async def test_unreadable_folder_is_skipped(self, root: Path, watches: ProjectWatches) -> None:
        (root / "closed").mkdir(mode=0)
        with watches.follow(root) as subscription:
            await subscription.wait_begun()
            followed = Followed(root, subscription)
            (root / "src/x").write_text("x")
            await followed.until(lambda: followed.kind("src/x"))
        (root / "closed").chmod(0o700)

    async def test_links_are_not_followed(
        self, root: Path, tmp_path: Path, watches: ProjectWatches
    ) -> None:
        (outside := tmp_path / "outside").mkdir()
        (root / "link").symlink_to(outside)
        with watches.follow(root) as subscription:
            await subscription.wait_begun()
            followed = Followed(root, subscription)
            (outside / "x").write_text("x")
            (root / "y").write_text("y")
            await followed.until(lambda: followed.kind("y"))
        assert followed.names() == {"y"}


class TestAllWatches:
    async def test_subscribers_share_one_watch(self, root: Path, watches: ProjectWatches) -> None:
        with watches.follow(root) as first:
            await first.wait_begun()
            watch = watches.watch(root)
            with watches.follow(root) as second:
                await second.wait_begun()
                assert watches.watch(root) is watch
                (root / "x").write_text("x")
                for subscription in (first, second):
                    followed = Followed(root, subscription)
                    await followed.until(lambda followed=followed: followed.kind("x"))
            assert watch is not None
            assert not watch.is_idle
        assert watch.is_idle

    async def test_watch_without_subscribers_ends(self, root: Path) -> None:
        watches = ProjectWatches(WatchLimits(linger_s=0))
        with watches.follow(root) as subscription:
            await subscription.wait_begun()
            watch = watches.watch(root)
        assert watch is not None
        await asyncio.to_thread(watch.join)
        assert watches.watched() == {}
        # The next subscriber gets a new watch.
        with watches.follow(root) as subscription:
            await subscription.wait_begun()
            assert watches.watch(root) is not watch
        watches.close()

    async def test_idle_watch_makes_room_for_another_root(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        first, second, third = (tmp_path / name for name in ("one", "two", "three"))
        for root in (first, second, third):
            root.mkdir()
        watches = ProjectWatches(WatchLimits(roots=2))
        with watches.follow(first):
            with watches.follow(second), watches.follow(third) as rejected:
                await rejected.wait_begun()
                assert "2 other folders are" in caplog.text
            with watches.follow(third) as accepted:
                await accepted.wait_begun()
                assert watches.watched().keys() == {first, third}
        watches.close()

    async def test_folder_limit_keeps_the_top_folders(
        self, root: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        watches = ProjectWatches(WatchLimits(folders=2), InotifySource)
        with watches.follow(root) as subscription:
            await subscription.wait_begun()
            assert watches.watched() == {root: 2}
            followed = Followed(root, subscription)
            (root / "src/deep/x").write_text("x")
            (root / "src/y").write_text("y")
            await followed.until(lambda: followed.kind("src/y"))
            assert followed.names() == {"src/y"}
        watches.close()
        assert caplog.text.count("only the top 2 are watched") == 1

    async def test_unavailable_source_logs_one_sentence(
        self, root: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        def refuse(root: Path, limits: WatchLimits) -> WatchSource:
            raise WatchUnavailable("cannot watch")

        watches = ProjectWatches(make_source=refuse)
        with watches.follow(root) as subscription:
            await subscription.wait_begun()
        assert caplog.text.count("cannot watch") == 1
        assert watches.watched() == {}


class TestPolling:
    @pytest.fixture
    def make_source(self) -> MakeSource:
        return PollSource

    async def test_polling_respects_the_folder_limit(self, root: Path) -> None:
        watches = ProjectWatches(WatchLimits(poll_s=0.02, poll_folders=2), PollSource)
        with watches.follow(root) as subscription:
            await subscription.wait_begun()
            assert watches.watched() == {root: 2}
            followed = Followed(root, subscription)
            (root / "src/deep/x").write_text("x")
            (root / "src/y").write_text("y")
            await followed.until(lambda: followed.kind("src/y"))
            assert followed.names() == {"src/y"}
        watches.close()

    async def test_network_file_system_is_polled(
        self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (table := tmp_path / "mountinfo").write_text(f"1 0 0:1 / {root} rw - nfs4 server:/ rw\n")
        monkeypatch.setattr(project_watch, "is_on_network", lambda path: is_on_network(path, table))
        assert isinstance(open_source(root, WatchLimits()), PollSource)
        assert isinstance(open_source(tmp_path, WatchLimits()), InotifySource)


def test_network_mounts_inside_a_project_are_skipped(root: Path) -> None:
    folder_filter = FolderFilter(root, [str(root / "src/deep")])
    assert folder_filter.list("src").folders == []
    assert folder_filter.hides("src/deep", is_folder=True)


MOUNTS = """\
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw
36 22 0:32 / /home/ann/with\\040space rw - nfs4 server:/x rw
37 22 0:33 / /mnt/ssh rw - fuse.sshfs ann@host:/ rw
38 37 0:34 / /mnt/ssh/local rw - tmpfs tmpfs rw
"""


def test_network_file_systems_are_recognized_by_type(tmp_path: Path) -> None:
    (table := tmp_path / "mountinfo").write_text(MOUNTS)
    assert network_mounts(table) == ["/home/ann/with space", "/mnt/ssh"]
    assert is_on_network(Path("/home/ann/with space/project"), table)
    assert not is_on_network(Path("/mnt/ssh/local/x"), table)
    assert not is_on_network(Path("/home/ann"), table)
    assert not is_on_network(Path("/mnt/ssh"), tmp_path / "nothing")


KINDS = st.sampled_from(["write", "delete"])


@given(
    st.lists(st.tuples(st.sampled_from("ab"), KINDS), max_size=12), st.sets(st.sampled_from("ab"))
)
def test_merged_changes_reproduce_the_final_state(
    steps: list[tuple[str, str]], before: set[str]
) -> None:
    existing, changes = set(before), ChangeSet(Path("/x"))
    for name, step in steps:
        if step == "write":
            changes.add(name, "changed" if name in existing else "new")
            existing.add(name)
        elif name in existing:
            changes.add(name, "deleted")
            existing.remove(name)
    kinds = {str(change.path): change.kind for change in changes.take().changes}
    after = set(before)
    for name, kind in kinds.items():
        assert (name in before) == (kind != "created")
        (after.discard if kind == "deleted" else after.add)(name)
    assert after == existing


def test_too_many_changes_make_a_batch_incomplete() -> None:
    changes = ChangeSet(Path("/x"))
    for number in range(MAX_PATHS + 5):
        changes.add(f"/x/{number}", "created")
    batch = changes.take()
    assert (len(batch.changes), batch.is_complete) == (MAX_PATHS, False)
    assert not changes
