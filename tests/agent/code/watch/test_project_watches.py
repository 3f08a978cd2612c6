"""Changes of real files, as each kind of source tells of them."""

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.code.watch import project_watch
from agent.code.watch.changes import MOST_PATHS, ChangeBatch, ChangeSet
from agent.code.watch.folder_filter import FolderFilter
from agent.code.watch.inotify_source import InotifySource
from agent.code.watch.mounts import is_on_network, network_mounts
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
    """A root that is followed, and what was told of it so far."""

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
        """What was told of a file last."""
        told = [
            change.kind
            for batch in self.batches
            for change in batch.changes
            if change.path == self.root / name
        ]
        return told[-1] if told else None

    @property
    def missed(self) -> int:
        """How often it was told that there is more."""
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

    async def test_tells_what_was_created_changed_and_deleted(self, followed: Followed) -> None:
        root = followed.root
        (root / "src/b.py").write_text("b")
        await followed.until(lambda: followed.kind("src/b.py") == "created")
        (root / "src/a.py").write_text("longer")
        await followed.until(lambda: followed.kind("src/a.py") == "changed")
        (root / "src/b.py").unlink()
        await followed.until(lambda: followed.kind("src/b.py") == "deleted")
        assert followed.names() == {"src/a.py", "src/b.py"}

    async def test_a_file_that_is_renamed_is_deleted_and_created(self, followed: Followed) -> None:
        (followed.root / "src/a.py").rename(followed.root / "src/deep/c.py")
        await followed.until(lambda: followed.kind("src/deep/c.py") == "created")
        await followed.until(lambda: followed.kind("src/a.py") == "deleted")

    async def test_files_in_new_folders_are_found(self, followed: Followed) -> None:
        folder = followed.root / "new/one/two"
        folder.mkdir(parents=True)
        (folder / "x.py").write_text("x")
        await followed.until(lambda: followed.kind("new/one/two/x.py") == "created")
        (folder / "y.py").write_text("y")
        await followed.until(lambda: followed.kind("new/one/two/y.py") == "created")

    async def test_what_is_left_out_is_not_told(self, followed: Followed) -> None:
        root = followed.root
        for name in ("build/x.o", "src/a.log", ".git/index", "src/last.py"):
            (root / name).write_text("x")
        await followed.until(lambda: followed.kind("src/last.py"))
        assert followed.names() == {"src/last.py"}

    async def test_a_changed_ignore_file_counts(
        self, followed: Followed, make_source: MakeSource
    ) -> None:
        root = followed.root
        (root / ".gitignore").write_text("*.tmp\n")
        await followed.until(lambda: followed.kind(".gitignore"))
        if make_source is InotifySource:
            # It is told that there may be more than what was told.
            await followed.until(lambda: followed.missed)
        (root / "build/x.o").write_text("x")
        await followed.until(lambda: followed.kind("build/x.o"))
        (root / "a.tmp").write_text("x")
        (root / "a.log").write_text("x")
        await followed.until(lambda: followed.kind("a.log"))
        assert followed.kind("a.tmp") is None

    async def test_a_root_that_goes_and_comes_is_watched_again(
        self, followed: Followed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(project_watch, "_RETURN_S", 0.01)
        shutil.rmtree(followed.root)
        await followed.until(lambda: followed.missed == 1)
        followed.root.mkdir()
        await followed.until(lambda: followed.missed == 2)
        (followed.root / "x").write_text("x")
        await followed.until(lambda: followed.kind("x"))


class TestInotify:
    async def test_a_burst_is_one_batch(self, followed: Followed) -> None:
        for number in range(5_000):
            (followed.root / f"src/{number}.py").write_text("x")
        await followed.until(lambda: len(followed.names()) == 5_000)
        # The first few may be told before it is known that more follow.
        assert len([one for one in followed.batches if len(one.changes) > 1]) <= 2
        assert all(batch.is_complete for batch in followed.batches)

    async def test_a_file_that_is_made_and_gone_at_once_is_not_told(
        self, followed: Followed
    ) -> None:
        (followed.root / "passing").write_text("x")
        (followed.root / "passing").unlink()
        (followed.root / "staying").write_text("x")
        await followed.until(lambda: followed.kind("staying"))
        assert followed.kind("passing") is None

    async def test_a_file_saved_by_renaming_is_told_once(self, followed: Followed) -> None:
        (followed.root / "src/.a.py.swp").write_text("new")
        (followed.root / "src/.a.py.swp").rename(followed.root / "src/a.py")
        await followed.until(lambda: followed.kind("src/a.py"))
        assert followed.names() == {"src/a.py"}

    async def test_a_folder_that_is_renamed_is_watched_under_its_new_name(
        self, followed: Followed
    ) -> None:
        (followed.root / "src").rename(followed.root / "lib")
        await followed.until(lambda: followed.kind("lib/a.py") == "created")
        assert followed.kind("src") == "deleted"
        (followed.root / "lib/deep/b.py").write_text("b")
        await followed.until(lambda: followed.kind("lib/deep/b.py"))
        assert "src/deep/b.py" not in followed.names()

    async def test_what_the_kernel_drops_is_looked_for(
        self, followed: Followed, watches: ProjectWatches
    ) -> None:
        queue_size = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        held, released = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def hold(batch: ChangeBatch | None) -> None:
            if batch is not None:
                loop.call_soon_threadsafe(held.set)
                released.wait()

        root = followed.root
        watch = watches.watch(root)
        assert watch is not None
        assert watch.listen(hold)
        (root / "first").write_text("x")
        await held.wait()
        for number in range(queue_size):
            # Two in turn: the kernel joins neighbours.
            (root / ("a" if number % 2 else "b")).write_text(str(number))
        (root / "made/below").mkdir(parents=True)
        released.set()
        watch.leave(hold)
        while followed.kind("made/below/x") is None:
            await followed.next()
            if not followed.batches[-1].is_complete:
                (root / "made/below/x").write_text("x")

    async def test_a_folder_that_may_not_be_read_is_left_out(
        self, root: Path, watches: ProjectWatches
    ) -> None:
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
    async def test_a_root_is_watched_once_however_many_follow(
        self, root: Path, watches: ProjectWatches
    ) -> None:
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

    async def test_a_root_that_nobody_follows_is_left_after_a_while(self, root: Path) -> None:
        watches = ProjectWatches(WatchLimits(linger_s=0))
        with watches.follow(root) as subscription:
            await subscription.wait_begun()
            watch = watches.watch(root)
        assert watch is not None
        await asyncio.to_thread(watch.join)
        assert watches.watched() == {}
        # Who comes later has a new one.
        with watches.follow(root) as subscription:
            await subscription.wait_begun()
            assert watches.watch(root) is not watch
        watches.close()

    async def test_so_many_roots_are_watched_and_idle_ones_make_room(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        one, two, three = (tmp_path / name for name in ("one", "two", "three"))
        for each in (one, two, three):
            each.mkdir()
        watches = ProjectWatches(WatchLimits(roots=2))
        with watches.follow(one):
            with watches.follow(two), watches.follow(three) as refused:
                await refused.wait_begun()
                assert "2 other folders are" in caplog.text
            with watches.follow(three) as taken:
                await taken.wait_begun()
                assert watches.watched().keys() == {one, three}
        watches.close()

    async def test_only_the_top_folders_of_a_large_tree_are_watched(
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

    async def test_a_system_that_does_not_let_it_watch_is_one_sentence(
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

    async def test_only_so_many_folders_and_files_are_looked_at(self, root: Path) -> None:
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

    async def test_a_disk_of_another_computer_is_polled(
        self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (table := tmp_path / "mountinfo").write_text(f"1 0 0:1 / {root} rw - nfs4 server:/ rw\n")
        monkeypatch.setattr(project_watch, "is_on_network", lambda path: is_on_network(path, table))
        assert isinstance(open_source(root, WatchLimits()), PollSource)
        assert isinstance(open_source(tmp_path, WatchLimits()), InotifySource)


def test_disks_of_other_computers_within_a_project_are_not_entered(root: Path) -> None:
    folder_filter = FolderFilter(root, [str(root / "src/deep")])
    assert folder_filter.list("src").folders == []
    assert folder_filter.hides("src/deep", is_folder=True)


MOUNTS = """\
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw
36 22 0:32 / /home/ann/with\\040space rw - nfs4 server:/x rw
37 22 0:33 / /mnt/ssh rw - fuse.sshfs ann@host:/ rw
38 37 0:34 / /mnt/ssh/local rw - tmpfs tmpfs rw
"""


def test_disks_of_other_computers_are_known_by_their_types(tmp_path: Path) -> None:
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
def test_joined_changes_lead_from_the_state_before_to_the_one_after(
    steps: list[tuple[str, str]], before: set[str]
) -> None:
    there, changes = set(before), ChangeSet(Path("/x"))
    for name, step in steps:
        if step == "write":
            changes.add(name, "changed" if name in there else "new")
            there.add(name)
        elif name in there:
            changes.add(name, "deleted")
            there.remove(name)
    told = {str(change.path): change.kind for change in changes.take().changes}
    after = set(before)
    for name, kind in told.items():
        assert (name in before) == (kind != "created")
        (after.discard if kind == "deleted" else after.add)(name)
    assert after == there


def test_more_changes_than_are_held_are_said_to_be_missing() -> None:
    changes = ChangeSet(Path("/x"))
    for number in range(MOST_PATHS + 5):
        changes.add(f"/x/{number}", "created")
    batch = changes.take()
    assert (len(batch.changes), batch.is_complete) == (MOST_PATHS, False)
    assert not changes
