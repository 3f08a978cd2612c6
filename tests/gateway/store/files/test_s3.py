"""S3 bucket: rejected keys, an unavailable or busy server, and addresses."""

import logging
import socket
from io import BytesIO
from pathlib import Path

import pytest

from gateway.core.addresses import BucketAddress, parse_file_address
from gateway.store.files.file_store import FileStore, SharedFiles
from gateway.store.files.opening import open_shared_files
from gateway.store.files.port import FileStoreUnavailable
from gateway.store.files.s3 import RetryLimits, S3Objects
from tests.fakes.s3 import ACCESS_KEY, SECRET_KEY, S3Server


def impatient(server: S3Server, address: str | None = None) -> FileStore:
    place = parse_file_address(address or server.address)
    assert isinstance(place, BucketAddress)
    return SharedFiles(S3Objects(place, RetryLimits(retries=1, total_s=2.0))).outgoing


def test_rejected_keys_are_reported_without_their_value(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-" + SECRET_KEY)
    caplog.set_level(logging.DEBUG)
    store = impatient(s3)
    for call in (
        lambda: store.put(b"content"),
        lambda: store.exists("0" * 64),
        lambda: store.fetch("0" * 64, BytesIO(), 10),
        lambda: store.put(b"x" * 9 * 2**20),
        lambda: list(store.list()),
    ):
        with pytest.raises(FileStoreUnavailable, match="access keys were refused") as caught:
            call()
        assert "AWS_SECRET_ACCESS_KEY" in (caught.value.hint or "")
        text = str(caught.value) + caplog.text + repr(caught.value.__cause__)
        assert ACCESS_KEY not in text
        assert SECRET_KEY not in text
    assert s3.objects == {}


def test_busy_server_is_retried(s3: S3Server) -> None:
    store = open_shared_files(s3.address, None).outgoing
    s3.refusals = 2
    digest = store.put(b"content")
    s3.refusals = 2
    target = BytesIO()
    store.fetch(digest, target, 100)
    assert target.getvalue() == b"content"
    assert sum(request.startswith("PUT") for request in s3.requests) == 1


def test_unavailable_server_is_reported_and_used_once_it_is_back(s3: S3Server) -> None:
    store = impatient(s3)
    digest = store.put(b"content")
    s3.stop()
    with pytest.raises(FileStoreUnavailable, match="connection") as caught:
        store.exists(digest)
    assert "network" in (caught.value.hint or "")
    s3.start()
    assert store.exists(digest)


@pytest.mark.timeout(30)
def test_silent_server_times_out(s3: S3Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        where = BucketAddress("kore-files", "", endpoint, "eu-1")
        objects = S3Objects(where, RetryLimits(retries=0, total_s=1.0, silence_s=0.5))
        store = SharedFiles(objects).outgoing
        for call in (lambda: store.exists("0" * 64), lambda: store.put(b"content")):
            with pytest.raises(FileStoreUnavailable, match=r"in time|no connection"):
                call()


def test_missing_bucket_is_reported(s3: S3Server) -> None:
    store = impatient(s3, s3.address.replace("kore-files", "another-bucket"))
    with pytest.raises(FileStoreUnavailable, match="there is no bucket"):
        store.put(b"content")
    with pytest.raises(FileStoreUnavailable, match="there is no bucket"):
        store.fetch("0" * 64, BytesIO(), 10)


def test_large_file_is_sent_in_parts(s3: S3Server) -> None:
    store = impatient(s3)
    data = bytes(range(256)) * 80_000
    digest = store.put(data)
    assert sum("partNumber" in request for request in s3.requests) == 3
    target = BytesIO()
    store.fetch(digest, target, len(data))
    assert target.getvalue() == data
    assert s3.uploads == {}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/srv/shared", Path("/srv/shared")),
        ("s3://bucket", BucketAddress("bucket")),
        ("s3://bucket/", BucketAddress("bucket")),
        ("s3://my.bucket/a/b_c", BucketAddress("my.bucket", "a/b_c/")),
        (
            "s3://bucket/a?endpoint=https://s3.example.org:9000&region=eu-1",
            BucketAddress("bucket", "a/", "https://s3.example.org:9000", "eu-1"),
        ),
    ],
)
def test_addresses(text: str, place: Path | BucketAddress) -> None:
    assert parse_file_address(text) == place


@pytest.mark.parametrize(
    "text",
    [
        *("", "/", "//", "shared", "~/shared", "/srv/../etc", "file:///srv", "http://host/bucket"),
        *(
            "s3://",
            "s3://B",
            "s3:///x",
            "s3://key:secret@bucket",
            "s3://bucket:1",
            "s3://bucket/../x",
        ),
        *("s3://bucket/a//b", "s3://bucket/.a", "s3://bucket?key=x", "s3://bucket?endpoint=host"),
        *("s3://bucket?endpoint=https://k:s@host", "s3://bucket?region=a/b", "s3://bucket#x"),
        "s3://bucket?endpoint",
    ],
)
def test_invalid_file_address_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(not|bad query|Invalid)"):
        parse_file_address(text)
