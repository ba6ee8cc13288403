"""`firnline adopt --from-amoro`: Amoro's table properties as statements that set Firnline's."""

from __future__ import annotations

import pytest
from firnline_cli.adoption.amoro import CONVERSIONS, NEVER_MS, alter_table, convert_properties
from firnline_domain.settings.thresholds import PROPERTIES, resolve_thresholds

COUNT = "self-optimizing.minor.trigger.file-count"
AGE = "self-optimizing.minor.trigger.interval"
KEEP = "snapshot.keep.duration"
MAX_AGE = "history.expire.max-snapshot-age-ms"


@pytest.mark.parametrize(
    ("properties", "converted"),
    [
        ({"self-optimizing.enabled": "false"}, {"firnline.enabled": "false"}),
        (
            {COUNT: "20"},
            {"firnline.rewrite.min-fragments": "20", "firnline.rewrite.min-equality-deletes": "20"},
        ),
        (
            {COUNT: "20", "firnline.rewrite.min-fragments": "2"},
            {"firnline.rewrite.min-equality-deletes": "20"},
        ),
        ({AGE: "60000"}, {"firnline.rewrite.max-age-ms": "60000"}),
        ({AGE: "-1"}, {"firnline.rewrite.max-age-ms": str(NEVER_MS)}),
        (
            {"self-optimizing.full.trigger.interval": "-1"},
            {"firnline.rewrite.full-interval-ms": "0"},
        ),
        ({"table-expire.enabled": "false"}, {"gc.enabled": "false"}),
        ({"snapshot.keep.min-count": "12"}, {"history.expire.min-snapshots-to-keep": "12"}),
        ({KEEP: "720min"}, {MAX_AGE: "43200000"}),
        ({KEEP: "720"}, {MAX_AGE: "43200000"}),
        ({KEEP: " 7 Days"}, {MAX_AGE: "604800000"}),
        ({"self-optimizing.group": "etl"}, {"firnline.group": "etl"}),
        ({"owner": "shop"}, {}),
    ],
)
def test_properties_are_converted(properties: dict[str, str], converted: dict[str, str]) -> None:
    assert convert_properties(properties) == (converted, [])
    assert converted.keys() <= PROPERTIES.keys()
    resolve_thresholds(converted)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("self-optimizing.quota", "0.5"),
        ("self-optimizing.enable", "true"),
        *((KEEP, text) for text in ("1 fortnight", "1.5h", "-7 d", "9" * 16 + "d", "1e3d", "٣d")),
        *((AGE, text) for text in ("-x", "-", "-1e9", "--1", "")),
        (COUNT, "a dozen"),
        ("self-optimizing.group", "x'); DROP TABLE t; --"),
    ],
)
def test_other_names_and_values_are_reported(name: str, text: str) -> None:
    assert convert_properties({name: text}) == ({}, [name])


def test_every_conversion_is_to_a_property_of_firnline() -> None:
    targets = {target for names, _ in CONVERSIONS.values() for target in names}
    assert targets <= PROPERTIES.keys()


def test_a_name_is_quoted() -> None:
    assert alter_table(("shop", "a`b"), {"firnline.group": "etl"}) == (
        "ALTER TABLE `shop`.`a``b` SET TBLPROPERTIES ('firnline.group' = 'etl');"
    )
