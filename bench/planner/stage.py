"""A broker, and one planner process on it: started, sampled, stopped or killed."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from firnline_adapters.kafka.client import MAX_MESSAGE_BYTES, Header
from firnline_adapters.records.record_sizes import COMPRESSION
from firnline_adapters.records.signing import signer_here
from firnline_domain.identity import bucket_of
from firnline_local.processes.command import Command
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import Process, run_process
from firnline_local.servers import kafka
from firnline_local.stack.parts import ReadyLine
from firnline_local.topics.topics import make_topics

BUCKETS = 8
TOPIC = "file-changes"
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
START_S = 1_200.0  # a cold start of Faust with a million tables
LOOK_S = 0.1
IDLE_S = 3.0  # without work for so long, it has caught up
IDLE_CPU_S = 0.6  # of these: its ticks
os.environ.setdefault("FIRNLINE_SIGNING_KEYS", f"bench:{'be' * 32}")  # of planners, too


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Kafka with all topics, in a fresh folder."""
    port = free_port()
    command = kafka.command(folder / "kafka", port, free_port(frozenset({port})))
    with run_process(command, folder / "kafka.log"):
        make_topics(kafka.bootstrap_servers(port), BUCKETS)
        yield kafka.bootstrap_servers(port)


@dataclass(frozen=True)
class Sample:
    """A moment in the life of a process; `done` is the sum of the offsets that it committed."""

    at_s: float
    cpu_s: float
    done: int


@dataclass(frozen=True)
class Stage:
    """One application of the planner: its group, its state, its topics' names."""

    kafka: str
    folder: Path
    driver: str
    tables: int
    app: str = field(default_factory=lambda: f"bench-{uuid.uuid4().hex[:8]}")

    @property
    def log(self) -> Path:
        """What the planner says."""
        return self.folder / self.app / "planner.log"

    @contextmanager
    def planner(self) -> Iterator[Process]:
        """A planner that is ready."""
        line = ReadyLine(self.log)
        command = Command(
            name="planner",
            argv=(sys.executable, "-m", "firnline_planner"),
            cwd=self.log.parent,
            env={
                "FIRNLINE_KAFKA": self.kafka,
                "FIRNLINE_STATE_DIR": str(self.log.parent / "state"),
                "FIRNLINE_PLANNER_APP": self.app,
                "FIRNLINE_PLANNER_DRIVER": self.driver,
                "FIRNLINE_BUCKETS": str(BUCKETS),
            },
            ready=line.is_logged,
            prepare=line.skip_earlier_lines,
        )
        with run_process(command, self.log, timeout_s=START_S) as process:
            yield process

    def committed(self) -> int:
        """Sum of the group's offsets of `file-changes`."""
        consumer = Consumer({"bootstrap.servers": self.kafka, "group.id": self.app})
        try:
            places = [TopicPartition(TOPIC, one) for one in range(BUCKETS)]
            found = consumer.committed(places, timeout=30)
            return sum(max(one.offset, 0) for one in found)
        finally:
            consumer.close()

    def skip(self) -> None:
        """Begin behind all that is on the topic now."""
        consumer = Consumer({"bootstrap.servers": self.kafka, "group.id": self.app})
        consumer.commit(
            offsets=[TopicPartition(TOPIC, *one) for one in ends(self.kafka).items()],
            asynchronous=False,
        )
        consumer.close()

    def samples(self, process: Process, until: int, every_s: float = LOOK_S) -> list[Sample]:
        """Moments until so much is committed. Raises RuntimeError where the planner dies."""
        return samples(Followed(self.kafka, self.app, TOPIC), process, until, every_s)


@dataclass(frozen=True)
class Followed:
    """A group's progress on a topic."""

    kafka: str
    group: str
    topic: str


def samples(of: Followed, process: Process, until: int, every_s: float = LOOK_S) -> list[Sample]:
    """Moments of a process until its group has committed so much. Raises RuntimeError where it
    dies."""
    consumer = Consumer({"bootstrap.servers": of.kafka, "group.id": of.group})
    places = [TopicPartition(of.topic, one) for one in range(BUCKETS)]
    found: list[Sample] = []
    while not found or found[-1].done < until:
        assure_alive(process)
        offsets = consumer.committed(places, timeout=30)
        done = sum(max(one.offset, 0) for one in offsets)
        found.append(Sample(time.monotonic(), cpu_s(process), done))
        time.sleep(every_s)
    consumer.close()
    return found


def assure_alive(process: Process) -> None:
    """Raises RuntimeError where a process has ended."""
    if process.exit_code() is not None:
        raise RuntimeError(f"it has ended\n{process.log_tail()}")


def await_idle(process: Process) -> None:
    """Return when it has caught up. Raises RuntimeError where it ends."""
    while True:
        assure_alive(process)
        before = cpu_s(process)
        time.sleep(IDLE_S)
        if cpu_s(process) - before < IDLE_CPU_S:
            return


def ends(bootstrap: str, topic: str = TOPIC) -> dict[int, int]:
    """The end of each of its partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = {TopicPartition(topic, one): OffsetSpec.latest() for one in range(BUCKETS)}
    found = admin.list_offsets(wanted)
    return {place.partition: one.result().offset for place, one in found.items()}


def producer(bootstrap: str) -> Producer:
    """For events by the hundred thousand."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            **COMPRESSION,
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "queue.buffering.max.messages": 200_000,
        }
    )


def send(to: Producer, topic: str, key: bytes, value: bytes, partition: int) -> None:
    """Produce, waiting where the queue is full."""
    headers = list[Header](signer_here().sign_headers(topic, partition, key, value))
    while True:
        try:
            to.produce(topic, value, key, partition=partition, headers=headers)
            return
        except BufferError:
            to.poll(0.2)


def publish(bootstrap: str, messages: Iterator[tuple[str, bytes]]) -> int:
    """Put events on `file-changes`; how many."""
    to, count = producer(bootstrap), 0
    for count, (uuid_, value) in enumerate(messages, 1):
        send(to, TOPIC, uuid_.encode(), value, bucket_of(uuid_, BUCKETS))
        if count % 1_000 == 0:
            to.poll(0)
    to.flush()
    return count


def cpu_s(process: Process) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def memory_bytes(process: Process) -> dict[str, int]:
    """Resident now and at its most."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    sizes = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Vm")}
    return {"rss": int(sizes["VmRSS"]) * 1024, "peak": int(sizes["VmHWM"]) * 1024}


def folder_bytes(folder: Path) -> int:
    """Of all files under it."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
