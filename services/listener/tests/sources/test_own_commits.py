"""What services report rings for what they committed, and is read once."""

from __future__ import annotations

from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_listener.sources.own_commits import EVENTS, GROUP, OwnCommits

from tests.examples import make

SILENT, COMMITTED = make("rewrite_skipped/nothing_to_do"), make("rewrite_committed/native")


def test_events_without_a_commit_are_not_read_again() -> None:
    broker = MemoryBroker(homes=1)
    publisher = MemoryPublisher(broker)

    def read_to() -> int:
        return broker.committed.get((GROUP, EVENTS, 0), 0)

    source = OwnCommits(MemoryInbox(broker, GROUP, [EVENTS]))
    for record in (SILENT, SILENT, COMMITTED, SILENT):
        publisher.publish(EVENTS, record.table.key, record)
    [bell] = source.poll(0)
    assert (bell.name, read_to()) == (COMMITTED.table.name, 2)
    source.settle(bell.position)
    assert read_to() == 4
