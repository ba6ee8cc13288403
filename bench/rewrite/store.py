"""A local S3 server that counts: who asked for what, and how many bytes of it.

As much of the protocol as PyArrow and Iceberg's S3FileIO use; signatures are not looked at.
Objects are files: `s3://bucket/key` lies in `root/bucket/key`.
"""

from __future__ import annotations

import hashlib
import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from firnline_local.processes.ports import LOOPBACK

REGION = "us-east-1"
BUCKET = "bench"


def client_properties(uri: str) -> dict[str, str]:
    """Of a catalog whose FileIO is PyIceberg's or Iceberg's own."""
    return {
        "s3.endpoint": uri,
        "s3.access-key-id": "bench",
        "s3.secret-access-key": "bench-secret",
        "s3.path-style-access": "true",
        "s3.region": REGION,
        "client.region": REGION,
    }


@dataclass(frozen=True)
class Request:
    """One call. `first` and `last` are the bytes served, None where there were none."""

    verb: str  # GET, HEAD, PUT, LIST, DELETE; a multipart's calls are PUTs
    key: str
    bytes: int
    first: int | None = None
    last: int | None = None
    size: int = 0  # of the object


@dataclass
class Store:
    """A running server and what it was asked."""

    root: Path
    uri: str = ""
    requests: list[Request] = field(default_factory=list)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, request: Request) -> None:
        with self.lock:
            self.requests.append(request)

    def taken(self) -> list[Request]:
        """All requests since the last call."""
        with self.lock:
            found, self.requests = self.requests, []
            return found


@contextmanager
def serving(root: Path) -> Iterator[Store]:
    """Serve `root` on loopback as long as the block runs."""
    store = Store(root)
    server = _Server((LOOPBACK, 0), type("Bound", (_Handler,), {"store": store}))
    store.uri = f"http://{LOOPBACK}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that ends is no error of ours."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    store: Store
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    @property
    def key(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/")

    @property
    def query(self) -> dict[str, str]:
        found = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        return {name: values[0] for name, values in found.items()}

    @property
    def file(self) -> Path:
        return self.store.root / self.key

    def do_HEAD(self) -> None:
        size = self.file.stat().st_size if self.file.is_file() else 0
        self.store.note(Request("HEAD", self.key, 0, size=size))
        if not self.file.exists():
            return self._answer(404)
        return self._answer(200, length=size)

    def do_GET(self) -> None:
        if "list-type" in self.query:
            return self._list()
        if not self.file.is_file():
            self.store.note(Request("GET", self.key, 0))
            return self._answer(404, _error("NoSuchKey"))
        size = self.file.stat().st_size
        first, last = self._range(size)
        with self.file.open("rb") as file:
            file.seek(first)
            body = file.read(last - first + 1)
        self.store.note(Request("GET", self.key, len(body), first, last, size))
        whole = "Range" not in self.headers
        return self._answer(
            200 if whole else 206, body, {"Content-Range": f"bytes {first}-{last}/{size}"}
        )

    def _range(self, size: int) -> tuple[int, int]:
        text = self.headers.get("Range", "bytes=0-").removeprefix("bytes=")
        first, _, last = text.partition("-")
        if not first:
            return max(0, size - int(last)), size - 1
        return int(first), min(int(last), size - 1) if last else size - 1

    def _list(self) -> None:
        self.store.note(Request("LIST", self.key, 0))
        prefix = self.file / self.query.get("prefix", "")
        found = int(prefix.exists())
        text = f"<ListBucketResult><KeyCount>{found}</KeyCount><IsTruncated>false</IsTruncated>"
        self._answer(200, f"{text}</ListBucketResult>".encode())

    def do_PUT(self) -> None:
        body = self._body()
        self.store.note(Request("PUT", self.key, len(body)))
        if "partNumber" in self.query:
            with self.store.lock:
                self.store.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = body
        else:
            self._write(body)
        self._answer(200, headers={"ETag": _etag(body)})

    def do_POST(self) -> None:
        body = self._body()
        if "delete" in self.query:
            self.store.note(Request("DELETE", self.key, 0))
            return self._answer(200, b"<DeleteResult/>")
        self.store.note(Request("PUT", self.key, 0))
        if "uploads" in self.query:
            return self._begin()
        with self.store.lock:
            parts = self.store.uploads.pop(self.query["uploadId"])
        self._write(b"".join(parts[number] for number in sorted(parts)))
        text = f"<CompleteMultipartUploadResult><ETag>{_etag(body)}</ETag>"
        return self._answer(200, f"{text}</CompleteMultipartUploadResult>".encode())

    def _begin(self) -> None:
        name = hashlib.md5(f"{self.key}{len(self.store.requests)}".encode()).hexdigest()
        with self.store.lock:
            self.store.uploads[name] = {}
        text = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId>"
        self._answer(200, f"{text}</InitiateMultipartUploadResult>".encode())

    def do_DELETE(self) -> None:
        self.store.note(Request("DELETE", self.key, 0))
        self.file.unlink(missing_ok=True)
        self._answer(204)

    def _write(self, body: bytes) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_bytes(body)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(_unchunked(self.rfile))
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "x-amz-decoded-content-length" in self.headers:
            return b"".join(_unchunked(io.BytesIO(body)))
        return body

    def _answer(
        self,
        status: int,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        length: int | None = None,
    ) -> None:
        self.send_response(status)
        given = {"ETag": '"0"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", **(headers or {})}
        for name, value in given.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)


def _unchunked(stream: io.BufferedIOBase) -> Iterator[bytes]:
    """The data of a `chunked` or `aws-chunked` body; what trails it (checksums) is left out."""
    while size := int(stream.readline().partition(b";")[0], 16):
        yield stream.read(size)
        stream.readline()
    while stream.readline().strip():
        pass


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


def _error(code: str) -> bytes:
    return f"<Error><Code>{code}</Code></Error>".encode()
