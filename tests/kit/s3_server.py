"""An S3 server that checks credentials: versitygw, whose keys can be made and taken away.

Built once from the Go module proxy into the cache of artifacts, and held to its checksum. Real
files below a directory; a bucket is a folder.
"""

from __future__ import annotations

import json
import secrets
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from firnline_local.processes.command import Command
from firnline_local.processes.ports import LOOPBACK, free_port, is_open
from firnline_local.processes.process import run_process

from tests.kit.go_programs import go_program

MODULE = "github.com/versity/versitygw"
VERSION = "v1.8.0"
CHECKSUM = "h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc="
REGION = "us-east-1"
AGAIN_S = 1.0  # until keys are taken away once more from a server that did not answer
BUCKET = "lake"


@dataclass(frozen=True)
class Keys:
    """Of one user."""

    access: str
    secret: str = field(repr=False)

    def properties(self) -> dict[str, str]:
        """As a catalog hands them out."""
        return {"s3.access-key-id": self.access, "s3.secret-access-key": self.secret}


@dataclass
class S3Server:
    """A running server. `root` may do everything; `new_keys` are of users."""

    endpoint: str
    root: Keys
    folder: Path
    bucket: str = BUCKET
    alive: dict[str, threading.Timer | None] = field(default_factory=dict)
    shown: str = ""  # the address that clients are told; else the end point

    @property
    def properties(self) -> dict[str, str]:
        """Where it is, in Iceberg's words; without keys."""
        return {
            "s3.endpoint": self.shown or self.endpoint,
            "s3.path-style-access": "true",
            "client.region": REGION,
        }

    def new_keys(self, lifetime_s: float | None = None) -> Keys:
        """Of a new user, which is taken away after `lifetime_s`."""
        keys = Keys(f"AK{secrets.token_hex(9).upper()}", f"cAnAry{secrets.token_urlsafe(30)}")
        body = f"<Account><Access>{keys.access}</Access><Secret>{keys.secret}</Secret>"
        self._call("PATCH", "/create-user", f"{body}<Role>user</Role></Account>".encode())
        self.alive[keys.access] = (
            None if lifetime_s is None else self._ends(keys.access, lifetime_s)
        )
        return keys

    def _ends(self, access: str, after_s: float) -> threading.Timer:
        timer = threading.Timer(after_s, self._time_is_over, (access,))
        timer.daemon = True
        timer.start()
        return timer

    def _time_is_over(self, access: str) -> None:
        try:
            self.drop(access)
        except OSError:  # the server is away for a moment
            self.alive[access] = self._ends(access, AGAIN_S)

    def drop(self, access: str) -> None:
        """These keys end now."""
        self.alive.pop(access, None)
        self._call("PATCH", f"/delete-user?access={access}", b"")

    def drop_all(self) -> None:
        """All that were handed out end now."""
        for access, timer in list(self.alive.items()):
            if timer is not None:
                timer.cancel()
            self.drop(access)

    def allow(self, *actions: str) -> None:
        """To whoever has a key, in the bucket; nothing else."""
        places = [f"arn:aws:s3:::{self.bucket}", f"arn:aws:s3:::{self.bucket}/*"]
        rule = {"Effect": "Allow", "Principal": "*", "Action": [*actions], "Resource": places}
        body = json.dumps({"Version": "2012-10-17", "Statement": [rule]}).encode()
        self._call("PUT", f"/{self.bucket}?policy", body)

    def close(self) -> None:
        """Keys that are alive stay so."""
        for timer in self.alive.values():
            if timer is not None:
                timer.cancel()

    def put(self, key: str, body: bytes) -> None:
        """An object, by root."""
        self._call("PUT", f"/{self.bucket}/{key}", body)

    def uploads(self) -> list[str]:
        """Multipart uploads that were begun and neither ended nor given up."""
        text = self._call("GET", f"/{self.bucket}?uploads", b"").decode()
        return [part.partition("</Key>")[0] for part in text.split("<Key>")[1:]]

    def _call(self, method: str, path: str, body: bytes) -> bytes:
        url = self.endpoint + path
        request = AWSRequest(method=method, url=url, data=body)
        credentials = Credentials(self.root.access, self.root.secret)
        S3SigV4Auth(credentials, "s3", REGION).add_auth(request)
        headers = dict(request.headers)
        call = urllib.request.Request(url, body or None, headers, method=method)
        try:
            with urllib.request.urlopen(call, timeout=30) as answer:
                found: bytes = answer.read()
                return found
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.code} {error.read()[:300]!r}") from None


_WITHOUT_KEY = ("ListObjectsV2", "DeleteObjects")


class Calls:
    """What the server was asked, by operation."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def of(self, key: str) -> Counter[str]:
        """About keys that begin so, and of listings."""
        lines = (line.split(" ") for line in self.log.read_text().splitlines())
        asked = ((one[7].removeprefix("s3_"), one[9]) for one in lines if len(one) > 20)
        return Counter(verb for verb, uri in asked if key in uri or verb in _WITHOUT_KEY)


def binary() -> Path:
    """The server's program. Raises NoGo where it is neither there nor can be built."""
    return go_program(f"{MODULE}/cmd/versitygw", VERSION, CHECKSUM)


def command(
    folder: Path, port: int, root: Keys, host: str = LOOPBACK, more: Sequence[str] = ()
) -> Command:
    """A server whose buckets are the folders of `folder`/data. Keys that end are refused at once:
    it keeps none in memory. `more`: flags."""
    data, users = folder / "data", folder / "users"
    flags = ("--port", f"{host}:{port}", "--iam-dir", str(users), "--iam-cache-disable", *more)

    def prepare() -> None:
        (data / BUCKET).mkdir(parents=True, exist_ok=True)
        users.mkdir(exist_ok=True)

    return Command(
        name="s3",
        argv=(str(binary()), *flags, "--quiet", "posix", str(data)),
        cwd=folder,
        env={"ROOT_ACCESS_KEY": root.access, "ROOT_SECRET_KEY": root.secret},
        ready=lambda: is_open(port, host=host),
        prepare=prepare,
    )


def new_root() -> Keys:
    """Of a server that is to be."""
    return Keys(f"ROOT{secrets.token_hex(8).upper()}", secrets.token_urlsafe(30))


@contextmanager
def s3_server(
    folder: Path, port: int | None = None, host: str = LOOPBACK, more: Sequence[str] = ()
) -> Iterator[S3Server]:
    """A server with one bucket, into which whoever has a key may write. `host`: the address that it
    listens on, in a network of the test's own. `more`: flags."""
    port = port or free_port()
    root = new_root()
    with run_process(command(folder, port, root, host, more), folder / "s3.log"):
        made = S3Server(f"http://{host}:{port}", root, folder / "data")
        made.allow("s3:*")
        yield made
        made.close()
