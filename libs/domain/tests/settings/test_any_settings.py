"""Whatever people write into properties: nothing fails, and what is shown is what holds."""

from __future__ import annotations

import random

import pytest
from firnline_domain.advice.finding import Known
from firnline_domain.advice.rules import RULES, advise
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.size_spread import PartitionSpread
from firnline_domain.counters.state.work import Table
from firnline_domain.identity import TableName
from firnline_domain.policy.cost_model import cost_model
from firnline_domain.settings.in_force import property_text, settings_in_force
from firnline_domain.settings.thresholds import (
    NAMESPACE,
    PROPERTIES,
    Thresholds,
    resolve_thresholds,
)

NOW_MS = 1_795_000_000_000
NAMES = (
    *PROPERTIES,
    "firnline.",
    "firnline.rewrite.hold-off-ms",
    "firnline.rewrite.max-span-ms",
    "firnline.windows",
    "write.format.default",
    "write.parquet.compression-codec",
)
TEXTS = (
    "", " ", "0", "1", "-1", "7", "1e3", "1.5", "inf", "nan", "-inf", "9" * 400, "true", "FALSE ",
    "maybe", "٣", "½", "12h", "720 min", "1 fortnight", "Mon 22:00-06:00", "00:00-24:00",
    "Mon-Fri 08:00-18:00 Europe/Berlin", "2026-01-01T00:00Z/2026-01-02T00:00Z", "24:00-25:00",
    "2027-12-24T00:00Z/2027-12-27T00:00Z", "22:00-22:00", ";", "\x00", "%s {} \\", "orc", "gzip",
)  # fmt: skip


def written(seed: int) -> dict[str, str]:
    chance = random.Random(seed)
    names = chance.sample(NAMES, chance.randint(0, 12))
    return {chance.choice(("", NAMESPACE)) + name: chance.choice(TEXTS) for name in names}


@pytest.mark.parametrize("seed", range(400))
def test_nothing_fails_and_what_is_shown_is_what_holds(seed: int) -> None:
    settings, fleet = written(seed), Thresholds(min_fragments=3, window="Mon 22:00-06:00")
    limits = resolve_thresholds(settings, fleet)
    found = settings_in_force(settings, fleet)
    assert found.keys() == PROPERTIES.keys()
    for name, known in PROPERTIES.items():
        assert found[name].value == property_text(getattr(limits, known.field))
    table = Table(
        TableCounters(TableName("u", ("db",), "t"), "main", known=True, settings=settings)
    )
    after = advise(
        Known(
            table, limits, cost_model(limits), NOW_MS, PartitionSpread(limits.target_bytes), fleet
        )
    )
    assert set(after.given) <= set(RULES)
    assert all(one.finding and one.remedy for one in after.changed)
