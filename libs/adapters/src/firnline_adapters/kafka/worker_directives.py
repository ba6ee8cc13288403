"""Read the planner's directives for its workers from `worker-directives`."""

from __future__ import annotations

from typing import Any

from firnline_domain.policy.fleet.lanes import Lane
from firnline_domain.policy.fleet.worker_memory import TOPIC, Steps, requested_steps
from firnline_domain.records.orders import SizeWorkers
from firnline_domain.settings.groups import DEFAULT

from firnline_adapters.kafka.connection import Kafka
from firnline_adapters.kafka.topic_reader import FullTopicReader
from firnline_adapters.records.signing import RecordSigner


class KafkaDirectives:
    """The newest word of every bucket, as the compacted topic has it."""

    def __init__(
        self, kafka: Kafka, group: str = DEFAULT, signer: RecordSigner | None = None
    ) -> None:
        """Read the directives for one group. Return when all that are on the topic are taken in.
        Raises RetryLater."""
        self._group = group
        self._newest: dict[str, SizeWorkers] = {}  # by lane, bucket and group
        self._topic = FullTopicReader(kafka, TOPIC, self._take_record, signer)

    def _take_record(self, key: str, record: Any | None, partition: int) -> None:
        if isinstance(record, SizeWorkers):
            self._newest[f"{record.lane}/{record.bucket}/{record.group}"] = record

    def requested_steps(self, now_ms: int) -> Steps:
        """Return the steps of memory that the heavy queue's workers of the group should get beyond
        their own: enough for every bucket that has requested some in the last three days.
        Directives that the broker does not send in time count from the next call on."""
        self._topic.catch_up()
        return requested_steps(self._newest.values(), self._group, Lane.HEAVY, now_ms)

    def close(self) -> None:
        """Leave the broker."""
        self._topic.close()
