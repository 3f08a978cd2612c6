"""S3 server that follows AWS's documentation, with objects in memory.

It recomputes signatures of version 4 and compares bodies with their digests.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

import hashlib
import hmac
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "kore-files"
ACCESS_KEY = "AKTESTKEY00000000001"
SECRET_KEY = "a-secret-of-the-test-that-nobody-may-see"
_PAGE = 3


class S3Server:
    """Server with `objects` by key: bytes, and the time of the upload (Unix time).

    `refusals` is the number of upcoming requests answered with 503, `requests` the requests so far.
    """

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, float]] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.refusals = 0
        self.requests: list[str] = []
        self.connections: list[socket.socket] = []
        self.lock = threading.Lock()
        self.port = 0
        self._http: ThreadingHTTPServer | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        return f"s3://{BUCKET}/some/prefix?endpoint={self.endpoint}&region=eu-test-1"

    @property
    def environ(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}

    def start(self) -> None:
        """Start or, after `stop`, restart the server at the same address."""
        server = self

        class Handler(_Handler):
            s3 = server

        self._http = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Stop the server and close open connections."""
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.connections.clear()


@contextmanager
def s3_server() -> Iterator[S3Server]:
    server = S3Server()
    server.start()
    try:
        yield server
    finally:
        server.stop()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    s3: S3Server

    def setup(self) -> None:
        super().setup()
        self.s3.connections.append(self.connection)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_PUT(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def do_HEAD(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        with self.s3.lock:
            self.s3.requests.append(f"{self.command} {self.path}")
            if self.s3.refusals:
                self.s3.refusals -= 1
                self._error(503, "SlowDown")
            elif problem := self._bad_signature(parts.path, parts.query, body):
                self._error(403, problem)
            elif bucket != BUCKET:
                self._error(404, "NoSuchBucket")
            elif not key or key == "/":
                self._list(query)
            elif "uploads" in query or "uploadId" in query:
                self._multipart(key, query, body)
            else:
                self._object(key, body)

    def _object(self, key: str, body: bytes) -> None:
        objects = self.s3.objects
        if self.command == "PUT":
            objects[key] = body, time.time()
            self._answer(200, headers={"ETag": _tag(body)})
        elif self.command == "DELETE":
            objects.pop(key, None)
            self._answer(204)
        elif key not in objects:
            self._error(404, "NoSuchKey")
        else:
            data, put_at = objects[key]
            facts = {"ETag": _tag(data), "Last-Modified": formatdate(put_at, usegmt=True)}
            self._answer(200, data, facts)

    def _multipart(self, key: str, query: dict[str, str], body: bytes) -> None:
        uploads = self.s3.uploads
        if "uploads" in query:
            upload = str(len(uploads) + 1)
            uploads[upload] = {}
            self._xml(
                "InitiateMultipartUploadResult",
                f"<Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key><UploadId>{upload}</UploadId>",
            )
            return
        pieces = uploads.get(query["uploadId"])
        if pieces is None:
            self._error(404, "NoSuchUpload")
        elif self.command == "PUT":
            pieces[int(query["partNumber"])] = body
            self._answer(200, headers={"ETag": _tag(body)})
        elif self.command == "DELETE":
            del uploads[query["uploadId"]]
            self._answer(204)
        else:
            data = b"".join(piece for _, piece in sorted(pieces.items()))
            self.s3.objects[key] = data, time.time()
            del uploads[query["uploadId"]]
            self._xml(
                "CompleteMultipartUploadResult",
                f"<Location>x</Location><Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key>"
                f"<ETag>{escape(_tag(data))}</ETag>",
            )

    def _list(self, query: dict[str, str]) -> None:
        prefix, after = query.get("prefix", ""), query.get("continuation-token", "")
        keys = sorted(key for key in self.s3.objects if key.startswith(prefix) and key > after)
        page, rest = keys[:_PAGE], keys[_PAGE:]
        text = f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix>"
        text += f"<KeyCount>{len(page)}</KeyCount><MaxKeys>{_PAGE}</MaxKeys>"
        text += f"<IsTruncated>{'true' if rest else 'false'}</IsTruncated>"
        if rest:
            text += f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>"
        for key in page:
            data, put_at = self.s3.objects[key]
            day = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(put_at))
            text += (
                f"<Contents><Key>{escape(key)}</Key><LastModified>{day}</LastModified>"
                f"<ETag>{escape(_tag(data))}</ETag><Size>{len(data)}</Size>"
                "<StorageClass>STANDARD</StorageClass></Contents>"
            )
        self._xml("ListBucketResult", text)

    def _bad_signature(self, path: str, query: str, body: bytes) -> str | None:
        """Return the error code for an invalid signature."""
        kind, _, rest = (self.headers.get("Authorization") or "").partition(" ")
        if kind != "AWS4-HMAC-SHA256":
            return "AccessDenied"
        fields = dict(part.strip().split("=", 1) for part in rest.split(","))
        key_id, day, region, service, end = fields["Credential"].split("/")
        if (key_id, service, end) != (ACCESS_KEY, "s3", "aws4_request"):
            return "InvalidAccessKeyId"
        digest = self.headers["x-amz-content-sha256"]
        if digest not in ("UNSIGNED-PAYLOAD", hashlib.sha256(body).hexdigest()):
            return "XAmzContentSHA256Mismatch"
        signed = fields["SignedHeaders"].split(";")
        if not {"host", "x-amz-content-sha256", "x-amz-date"} <= set(signed):
            return "AccessDenied"
        pairs = sorted(parse_qsl(query, keep_blank_values=True))
        canonical = "\n".join(
            [
                *(self.command, path),
                "&".join(f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in pairs),
                *(f"{name}:{' '.join((self.headers[name] or '').split())}" for name in signed),
                *("", fields["SignedHeaders"], digest),
            ]
        )
        scope = f"{day}/{region}/s3/aws4_request"
        stamp = self.headers["x-amz-date"]
        text = (
            f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        )
        key = f"AWS4{SECRET_KEY}".encode()
        for part in (day, region, "s3", "aws4_request", text):
            key = hmac.digest(key, part.encode(), "sha256")
        is_same = hmac.compare_digest(key.hex(), fields["Signature"])
        return None if is_same and stamp.startswith(day) else "SignatureDoesNotMatch"

    def _xml(self, name: str, text: str, status: int = 200) -> None:
        head = '<?xml version="1.0" encoding="UTF-8"?>'
        space = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"' if status == 200 else ""
        body = f"{head}<{name}{space}>{text}</{name}>".encode()
        self._answer(status, body, {"Content-Type": "application/xml"})

    def _error(self, status: int, code: str) -> None:
        # AWS repeats the key and the signed string.
        key = f"<AWSAccessKeyId>{ACCESS_KEY}</AWSAccessKeyId>" if status == 403 else ""
        self._xml("Error", f"<Code>{code}</Code><Message>no</Message>{key}", status)

    def _answer(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'
