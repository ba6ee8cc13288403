"""`firnline demo --config` on a lake whose catalog asks for a token and alone hands out keys to the
store, both of which end: nothing that opens it is in anything that is written, shown or listed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from firnline_local.stack.parts import CAPTURE, SERVICES, Addresses, parts_with
from firnline_local.stack.stack import run_stack
from firnline_local.stack.state import StateDir

from tests.kit.lake_catalog import CREDENTIAL, LakeCatalog, Rules, lake_catalog
from tests.kit.s3_server import s3_server
from tests.kit.serve_nessie import toml_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900), pytest.mark.long]
SECONDS = "30"
TOKEN_S, KEYS_S = 15.0, 20.0
PAGES = ("fleet", "tables", "tasks", "workers", "events", "dead-letters", "advice")
LOOK_S = 0.3


@dataclass
class Seen:
    """What anybody on the host can see while it runs: command lines, and the console's pages."""

    state: StateDir
    lines: set[str] = field(default_factory=set)
    pages: dict[str, set[bytes]] = field(default_factory=dict)

    def look(self) -> None:
        for process in psutil.process_iter():
            try:
                self.lines.add(" ".join(process.cmdline()))
            except psutil.Error:
                continue  # it has just ended
        console = (
            Addresses(self.state.read_record().ports).console if self.state.is_running() else ""
        )
        for page in ("", *(f"api/{one}" for one in PAGES)) if console else ():
            try:
                with urllib.request.urlopen(f"{console}/{page}", timeout=5) as answer:
                    self.pages.setdefault(page, set()).add(answer.read())
            except OSError:
                continue  # not up yet, or not any more


@dataclass(frozen=True)
class Played:
    state: StateDir
    lake: LakeCatalog
    seen: Seen
    said: str

    @property
    def secrets(self) -> set[bytes]:
        """All that were given while it ran."""
        words = {CREDENTIAL.partition(":")[2], *self.lake.rules.tokens}
        return {one.encode() for one in words | {keys.secret for keys in self.lake.handed_out}}

    def sings(self, text: bytes) -> bool:
        return any(one in text for one in self.secrets)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("canaries")
    rules = Rules(token_s=TOKEN_S, keys_s=KEYS_S, shares_keys=True)
    with (
        s3_server(folder / "store") as store,
        lake_catalog(folder / "catalog", rules, store) as lake,
    ):
        config = toml_of(folder, lake.uri, {"credential": CREDENTIAL})
        state = StateDir.from_path(folder / "demo")
        words = [sys.executable, "-m", "firnline_cli", "demo", "--json", "--seconds", SECONDS]
        more = ["--state", str(state.root), "--config", str(config)]
        done, seen = threading.Event(), Seen(state)

        def look_on() -> None:
            while not done.wait(LOOK_S):
                seen.look()

        onlooker = threading.Thread(target=look_on)
        onlooker.start()
        try:
            ran = subprocess.run([*words, *more], capture_output=True, text=True, timeout=800)
        finally:
            done.set()
            onlooker.join()
        assert ran.returncode == 0, ran.stderr[-6000:]
        yield Played(state, lake, seen, ran.stdout + ran.stderr)


def test_there_was_something_to_keep(played: Played) -> None:
    """Tokens and keys were renewed on the way, and files rewritten by them."""
    assert "rows verified" in played.said
    assert len(played.lake.rules.tokens) > 2
    assert len(played.lake.handed_out) > 2


def test_not_in_what_the_demo_says(played: Played) -> None:
    assert not played.sings(played.said.encode())


def test_not_in_process_lists(played: Played) -> None:
    assert any("SparkSubmit" in line for line in played.seen.lines)
    assert [line for line in played.seen.lines if played.sings(line.encode())] == []


def test_not_on_pages_of_the_console(played: Played) -> None:
    assert played.seen.pages.keys() >= {"", "api/fleet", "api/tables", "api/events"}
    found = [page for page, texts in played.seen.pages.items() if any(map(played.sings, texts))]
    assert found == []


def test_not_in_logs_and_files(played: Played) -> None:
    """Outbox, planner's state, broker, Redis, Spark's folders."""
    files = [path for path in played.state.root.rglob("*") if path.is_file()]
    services = set(SERVICES) & set(parts_with(CAPTURE))
    assert {path.stem for path in files if path.suffix == ".log"} >= services
    assert [path for path in files if played.sings(path.read_bytes())] == []


def test_not_in_topics(played: Played) -> None:
    """Which are compressed on the broker's disk."""
    with run_stack(played.state.root, only=("kafka",)) as stack:
        consumer = Consumer({"bootstrap.servers": stack.kafka, "group.id": uuid.uuid4().hex,
                             "enable.partition.eof": True})  # fmt: skip
        topics = consumer.list_topics(timeout=30).topics
        places = [TopicPartition(name, number, OFFSET_BEGINNING)
                  for name, topic in topics.items() for number in topic.partitions]  # fmt: skip
        consumer.assign(places)
        unread, read = {(one.topic, one.partition) for one in places}, 0
        deadline = time.monotonic() + 240
        while unread:
            assert time.monotonic() < deadline, unread
            for message in consumer.consume(500, 1.0):
                if message.error():
                    unread.discard((message.topic(), message.partition()))  # said at each end
                    continue
                read += 1
                whole = repr((message.key(), message.value(), message.headers()))
                assert not played.sings(whole.encode()), message.topic()
        consumer.close()
    assert read > 100
