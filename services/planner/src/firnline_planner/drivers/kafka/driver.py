"""Drives the buckets with confluent-kafka: a batch of records, one transaction, the next batch.

State, orders and offsets of a batch become visible together or not at all, so a planner that is
killed anywhere repeats nothing and loses nothing. Time is no record here: what a moment came to is
committed like everything else, and is never read again (timer-write hazard, H16 is Faust's).
"""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from confluent_kafka import Consumer, KafkaError, Message
from firnline_adapters import clock
from firnline_adapters.kafka.assignments import KafkaAssignments
from firnline_adapters.kafka.consumer_lag import ConsumerLag, Done
from firnline_adapters.kafka.poison_records import MemoryMarks, StartMarks, read_headers
from firnline_adapters.observability import metrics
from firnline_adapters.observability.health import say_ready
from firnline_adapters.observability.logs import Log

from firnline_planner import meters
from firnline_planner.bucket.inputs import Input, InputReader, split_chunks
from firnline_planner.drivers.kafka.local_store import DamagedStore
from firnline_planner.drivers.kafka.owned_buckets import Membership, OwnedBucket, OwnedBuckets
from firnline_planner.drivers.kafka.transactions import NotCommitted, Send, StepBatch, Transactions
from firnline_planner.state.effects import Effects

BATCH_RECORDS = 1_000
# To publish a state costs what a record costs. A round has room for as many of both, so that
# publications wait where records do; but never for long: so many are made in any round.
MIN_PUBLICATIONS = 64
MAX_PUBLICATIONS = (
    192  # 0.1 s of CPU: an order waits for the publications of two rounds at the most
)
# What a batch makes lives until its commit, and has no cycles: collected after every 700 objects,
# Python's default, it took one thirtieth of the planner's CPU.
YOUNG_OBJECTS = 50_000
WAIT_S = 0.05  # for a batch to fill; part of the time from a commit to its order


class KafkaDriver:
    """Owns the buckets of the partitions that its consumer is given, and works them off."""

    def __init__(
        self,
        consumer: Consumer,
        transactions: Transactions,
        buckets: OwnedBuckets,
        reader: InputReader,
        tick_s: float,
        log: Log,
        stop: Callable[[str], NoReturn],
        assignments: KafkaAssignments,
        lag: ConsumerLag,
        starts: StartMarks | None = None,
    ) -> None:
        """Connect the parts of the driver. `starts`: None = a record that ends the process is not
        detected."""
        self._consumer = consumer
        self._transactions = transactions
        self._buckets = buckets
        self._reader = reader
        self._tick_s = tick_s
        self._log = log
        self._stop = stop
        self._assignments = assignments
        self._lag = lag
        self._starts = starts or StartMarks(MemoryMarks())
        self._membership = Membership(consumer, buckets, self._starts)
        self._ticked_s = 0.0
        self._behind: set[int] = set()  # buckets with more due than they have reconciled
        self._ending = False
        self.rounds = 0  # for the watchdog

    def run(self) -> None:
        """Serve until `end`. Raises KafkaException if the broker stays unreachable."""
        gc.set_threshold(YOUNG_OBJECTS)
        self._membership.join()
        try:
            with metrics.measure_at_scrape("consumer_lag_records", self._lag.measure):
                while not self._ending:
                    self._run_round()
        except DamagedStore as error:
            # The next life removes it; what was handled and not committed comes again.
            self._log.error("stopped", error, why="the state on disk is damaged")
            self._stop("damaged_state")
        finally:
            self._consumer.close()
            self._assignments.close()
            self._buckets.close(list(self._buckets))

    def end(self) -> None:
        """Stop after the batch at hand."""
        self._ending = True

    def _run_round(self) -> None:
        self._assignments.catch_up()
        # The first partitions come within this call, and may have to be begun carefully.
        alone = self._starts.is_careful or not self._buckets.buckets
        messages = self._consumer.consume(1 if alone else BATCH_RECORDS, WAIT_S)
        ours, batch = (
            [self._with_deaths(_to_input(one)) for one in messages if self._is_of_own_bucket(one)],
            StepBatch(),
        )
        meters.count_read(one.topic for one in ours)
        effects = [one for chunk in split_chunks(ours) for one in self._handle_chunk(chunk, batch)]
        effects += self._pass_time(
            batch, room_for_publications(len(messages), len(self._buckets.buckets))
        )
        if effects:
            self._commit(batch, effects)
        for one in ours:
            self._starts.end_record((one.topic, one.partition), one.offset)
        if not messages:
            self._starts.relax_if_idle()
        self.rounds += 1

    def _with_deaths(self, came: Input) -> Input:
        deaths = self._starts.begin_record((came.topic, came.partition), came.offset)
        return came._replace(deaths=deaths) if deaths else came

    def _is_of_own_bucket(self, message: Message) -> bool:
        """Return True if the message is of a partition that is assigned to this planner. The error
        that came in place of a message is logged."""
        if error := message.error():
            self._log_poll_error(error)
            return False
        return message.partition() in self._buckets

    def _log_poll_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            self._log.error("stopped", why="planners of the other driver run here: stop them first")
            self._stop("other_driver")
        self._log.warning("poll_error", why=error.str())

    def _handle_chunk(self, inputs: list[Input], batch: StepBatch) -> Iterator[Effects]:
        records = [self._reader.decode_input(one) for one in inputs]
        of_partition = defaultdict[int, list[Any]](list)
        for one, record in zip(inputs, records, strict=True):
            of_partition[one.partition].append(record)
        for partition, chunk in of_partition.items():
            self._buckets[partition].read_ahead(chunk)
        for one, record in zip(inputs, records, strict=True):
            bucket = self._buckets[one.partition].bucket
            effects = self._reader.handle_input(one, record, bucket, clock.now_ms())
            yield self._collect_outputs(effects, one.partition, batch)

    def _positions(self) -> Done:
        """Return the position of each assigned partition. The records before it were committed in
        the previous round."""
        at = self._consumer.position(self._consumer.assignment())
        return {(one.topic, one.partition): one.offset if one.offset >= 0 else None for one in at}

    def _pass_time(self, batch: StepBatch, publications: int) -> Iterable[Effects]:
        """Pass time in every bucket once a tick, and at once in those that had more due than one
        tick takes. `publications`: of table states, in one bucket."""
        now_s = time.monotonic()
        ticked = now_s - self._ticked_s >= self._tick_s
        if ticked:
            self._lag.update(self._positions)
            self._ticked_s = now_s
            self._report()
        for partition in [one for one in self._buckets if ticked or one in self._behind]:
            now_ms, bucket = clock.now_ms(), self._buckets[partition].bucket
            bucket.max_publications = publications
            effects = self._reader.pass_time(partition, bucket, now_ms)
            (self._behind.add if bucket.is_behind else self._behind.discard)(partition)
            yield self._collect_outputs(effects, partition, batch)

    def _report(self) -> None:
        meters.set_gauges(self._buckets.buckets)
        if self._membership.is_new:
            say_ready(self._log, buckets=len(self._buckets.buckets))
            self._membership.is_new = False

    def _collect_outputs(self, effects: Effects, partition: int, batch: StepBatch) -> Effects:
        owned, homes = self._buckets[partition], self._assignments.board.homes
        for output in effects.outputs:
            topic, name, value, place = output.encode_for_send(partition, homes, clock.now_ms())
            key = name.encode()
            headers = self._reader.signer.sign_headers(topic, place, key, value, output.trace)
            batch.sends.append(Send(topic, place, key, value, headers))
            batch.senders.add(partition)
        owned.bucket.commit()
        return effects

    def _commit(self, batch: StepBatch, effects: list[Effects]) -> None:
        for partition in self._buckets:
            self._collect_changes(partition, self._buckets[partition], batch)
        if not batch.offsets:
            return
        try:
            positions = self._transactions.commit(batch)
        except NotCommitted as error:
            self._handle_not_committed(error)
            return
        for partition in self._buckets:
            self._buckets.write_changes(
                partition, batch.changes.get(partition), positions.get(partition)
            )
        meters.count_steps(effects)

    def _collect_changes(self, partition: int, owned: OwnedBucket, batch: StepBatch) -> None:
        """Add a bucket's changes to the batch, with the offsets, also if only time has passed: the
        next owner of the partition waits for pending offsets, and so for this transaction to
        end."""
        changes = owned.buffer.changes
        if changes or partition in batch.senders:
            batch.changes[partition] = changes
            for topic in self._buckets.input_topics(partition):
                batch.offsets[topic, partition] = owned.bucket.next_offset(topic)

    def _handle_not_committed(self, error: NotCommitted) -> None:
        if error.fatal:
            self._log.error("stopped", error, why="the producer was fenced or is broken")
            self._stop("transaction_failed")
        self._log.warning("not_committed", why=error, buckets=len(self._buckets.buckets))
        self._buckets.reopen()
        self._membership.read_again()


def _to_input(message: Message) -> Input:
    place = (message.topic(), message.partition(), message.offset())
    return Input(*place, message.key(), message.value(), read_headers(message))


def room_for_publications(records: int, buckets: int) -> int:
    """Return how many table states each bucket may publish in a round with that many records."""
    room = min(max(BATCH_RECORDS - records, MIN_PUBLICATIONS), MAX_PUBLICATIONS)
    return room // max(buckets, 1) or 1
