"""Find the record at which a process died: the next life puts it aside after three deaths.

Some records end a process without an exception: memory, a crash in native code. The marks are kept
where the fleet already is, as the metadata of offsets that a group of their own commits (decision
0023): no disk, no record, and nothing per record while nobody has died."""

from __future__ import annotations

import time
import uuid
import weakref
from collections.abc import Callable, Collection, Mapping
from operator import methodcaller
from typing import NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from firnline_domain.errors import PoisonousRecord
from firnline_domain.ports import Place

from firnline_adapters.kafka.connection import QUIET, Kafka, client_config
from firnline_adapters.kafka.questions import ask_broker
from firnline_adapters.observability.logs import Log
from firnline_adapters.observability.traces import Headers

MAX_DEATHS = 3  # at one record
CAREFUL_RECORDS = 2_000  # one at a time, after a death: more than any service holds at once
ALIVE_S = 15.0  # a record that is at work for so long does not hold back the next one
QUIET_S = 10.0  # without a record; the first one comes seconds after a start
ASK_S = 10.0
NOTHING = -1  # no record was begun
_LOG = Log("start_marks")
_ask_headers = methodcaller("headers")


class StartMark(NamedTuple):
    """Mark of one partition. `life`: of the process that has it, "" = none. `begun`: offset of the
    record that it has begun alone. `suspect`: of the one that `deaths` processes had begun."""

    life: str = ""
    begun: int = NOTHING
    suspect: int = NOTHING
    deaths: int = 0

    def to_text(self) -> str:
        """Return the text that is stored for the mark."""
        return f"v1 {self.life or '-'} {self.begun} {self.suspect} {self.deaths}"

    def after_death(self) -> StartMark:
        """Return the mark for the next life of the process: the record that was begun is now the
        suspect."""
        if self.begun == NOTHING:
            return self
        died = self.deaths + 1 if self.begun == self.suspect else 1
        return StartMark(self.life, NOTHING, self.begun, died)


def parse_mark(text: str | None) -> StartMark:
    """Parse a mark; an empty one if the text is none."""
    try:
        version, life, *numbers = (text or "").split(" ")
        begun, suspect, deaths = map(int, numbers)
    except ValueError:
        return StartMark()
    return StartMark(life.strip("-"), begun, suspect, deaths) if version == "v1" else StartMark()


class MarkStore(Protocol):
    """Store of marks between lives."""

    def read(self, places: Collection[Place]) -> Mapping[Place, StartMark]:
        """Read the marks of these partitions; partitions without one are left out."""

    def write(self, marks: Mapping[Place, StartMark]) -> None:
        """Store marks; they are kept when it returns."""


class KafkaMarks:
    """Marks in the committed offsets of the group `<group>-starts`, which has no members."""

    def __init__(self, kafka: Kafka, group: str) -> None:
        own = {"group.id": f"{group}-starts", "enable.auto.commit": False, **QUIET}
        self._consumer = Consumer(client_config(kafka, own))
        weakref.finalize(self, self._consumer.close)

    def read(self, places: Collection[Place]) -> Mapping[Place, StartMark]:
        """Read marks (`MarkStore.read`). Raises KafkaException."""
        wanted = [TopicPartition(*place) for place in places]
        found = ask_broker(lambda: self._read_committed(wanted), ASK_S)
        return {(one.topic, one.partition): parse_mark(one.metadata) for one in found}

    def _read_committed(self, wanted: list[TopicPartition]) -> list[TopicPartition]:
        found: list[TopicPartition] = self._consumer.committed(wanted, timeout=ASK_S)
        for one in found:
            if one.error is not None:
                raise KafkaException(one.error)
        return found

    def write(self, marks: Mapping[Place, StartMark]) -> None:
        """Store marks (`MarkStore.write`). Raises KafkaException."""
        offsets = [
            TopicPartition(topic, partition, max(mark.begun, 0), metadata=mark.to_text())
            for (topic, partition), mark in marks.items()
        ]
        ask_broker(lambda: self._consumer.commit(offsets=offsets, asynchronous=False), ASK_S)


class MemoryMarks:
    """Its twin."""

    def __init__(self) -> None:
        self.marks: dict[Place, StartMark] = {}

    def read(self, places: Collection[Place]) -> Mapping[Place, StartMark]:
        return {place: self.marks[place] for place in places if place in self.marks}

    def write(self, marks: Mapping[Place, StartMark]) -> None:
        self.marks.update(marks)


class StartMarks:
    """Marks of the partitions that a process has. After a life that did not end in order its
    records are begun one at a time, each marked before, so that the next death has one cause. A
    store that does not answer is a warning and no more: a guard must not stop what it guards."""

    def __init__(self, store: MarkStore, now: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._now = now
        self._life = uuid.uuid4().hex[:12]
        self._marks: dict[Place, StartMark] = {}
        self._careful: dict[Place, int] = {}  # records still to be begun alone
        self._begun: tuple[Place, int, float] | None = None
        self._last = now()  # something came

    def take_over(self, places: Collection[Place]) -> None:
        """Read the start marks of partitions that are now assigned to this process, and write them
        with its own life. Begin records one at a time in those that a process had when it died."""
        self._last = self._now()
        if not places:
            return
        try:
            found = self._store.read(places)
        except KafkaException as error:
            _LOG.warning("marks_not_read", why=error)
            return  # nor written: what they say is not to be forgotten
        orphaned = list[Place]()
        for place in places:
            mark = found.get(place, StartMark())
            if mark.life not in ("", self._life):
                mark = mark.after_death()
                self._careful[place] = CAREFUL_RECORDS
                orphaned.append(place)
            self._marks[place] = mark._replace(life=self._life, begun=NOTHING)
        if orphaned:
            topics = ",".join(sorted({topic for topic, _ in orphaned}))
            why = "the process that had them died: records are begun one at a time"
            _LOG.warning("careful", topics=topics, partitions=len(orphaned), why=why)
        self._write_marks(places)

    def give_back(self, places: Collection[Place]) -> None:
        """Release partitions in order: to another process, or at our own end."""
        mine = [place for place in places if place in self._marks]
        for place in mine:
            self._marks[place] = StartMark()
        self._write_marks(mine)
        self.forget_partitions(mine)

    def forget_partitions(self, places: Collection[Place]) -> None:
        """Forget partitions that another process has already."""
        for place in places:
            self._marks.pop(place, None)
            self._careful.pop(place, None)
            if self._begun is not None and self._begun[0] == place:
                self._begun = None

    @property
    def is_careful(self) -> bool:
        """Return True if records are to be begun one at a time."""
        return bool(self._careful)

    @property
    def is_waiting(self) -> bool:
        """Return True if one was begun alone that is not done, and may still kill the process."""
        return self._begun is not None and self._now() - self._begun[2] < ALIVE_S

    def begin_record(self, place: Place, offset: int) -> int:
        """Mark a record, before any of it is decoded, if records are begun one at a time. Return
        how many processes have died at it."""
        mark = self._marks.get(place)
        if not self._careful or mark is None:
            return 0
        self._last = self._now()
        changed = {place} | {one for one, kept in self._marks.items() if kept.begun != NOTHING}
        for one in changed:
            self._marks[one] = self._marks[one]._replace(begun=NOTHING)
        self._marks[place] = mark._replace(begun=offset)
        self._begun = place, offset, self._now()
        self._write_marks(changed)
        return mark.deaths if mark.suspect == offset else 0

    def end_record(self, place: Place, offset: int) -> None:
        """Note that the record is done, and the process lives."""
        mark = self._marks.get(place)
        if mark is None or place not in self._careful:
            return
        if mark.suspect == offset:
            self._marks[place] = mark._replace(suspect=NOTHING, deaths=0)
        if self._begun is not None and self._begun[:2] == (place, offset):
            self._begun = None
        self._careful[place] -= 1
        if self._careful[place] <= 0:
            del self._careful[place]

    def relax_if_idle(self) -> None:
        """Note that nothing was there to be read. After a while the cause of the deaths is past, or
        has not come again."""
        if self._begun is None and self._careful and self._now() - self._last > QUIET_S:
            self._careful.clear()
            self._marks = dict.fromkeys(self._marks, StartMark(self._life))
            self._write_marks(self._marks)

    def _write_marks(self, places: Collection[Place]) -> None:
        if not places:  # the client takes an empty list for an error
            return
        try:
            self._store.write({place: self._marks[place] for place in places})
        except KafkaException as error:
            _LOG.warning("marks_not_written", why=error)


def read_headers(message: Message) -> Headers:
    """Return a message's headers; none if a name is no UTF-8: the client raises, and what it would
    return the next time ends the process. `message.headers()` would raise no more once Python 3.11
    has specialized the call, which then leaves out the check of what C code returned."""
    try:
        return _ask_headers(message) or []
    except Exception:  # SystemError of C code
        message.set_headers([])
        return []


def died_at(deaths: int) -> PoisonousRecord | None:
    """Return the error of a record at which MAX_DEATHS processes have died, else None."""
    if deaths < MAX_DEATHS:
        return None
    text = f"{deaths} processes died while they dealt with this record alone: see their last lines"
    return PoisonousRecord("ended_the_process", text)
