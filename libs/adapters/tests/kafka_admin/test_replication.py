"""How often topics' records are kept, on clusters of any size."""

from __future__ import annotations

import pytest
from firnline_adapters.kafka_admin.replication import Replication, choose_replication
from firnline_domain.errors import Misconfigured


@pytest.mark.parametrize(
    ("brokers", "asked", "found"),
    [(1, None, (1, 1)), (2, None, (2, 1)), (3, None, (3, 2)), (9, None, (3, 2)), (5, 4, (4, 3))],
)
def test_three_where_there_are_three(
    brokers: int, asked: int | None, found: tuple[int, int]
) -> None:
    made = choose_replication(brokers, asked, None)
    assert (made.replicas, made.min_in_sync) == found
    assert bool(made.remark) == (made.replicas < 3)


def test_less_than_three_is_said_with_its_cause() -> None:
    assert "the cluster has 2 brokers" in choose_replication(2, None, None).remark
    assert "FIRNLINE_REPLICAS is set" in choose_replication(3, 1, None).remark
    assert choose_replication(3, 3, 1) == Replication(3, 1)


@pytest.mark.parametrize(("replicas", "least"), [(4, None), (0, None), (3, 4), (3, 0)])
def test_what_the_cluster_cannot_do_is_refused(replicas: int, least: int | None) -> None:
    with pytest.raises(Misconfigured, match="FIRNLINE_"):
        choose_replication(3, replicas, least)
