"""Every number of a property has one form and a range; what is outside is unset and advised."""

from __future__ import annotations

import pytest
from firnline_domain.base.numbers import parse_number
from firnline_domain.records.parts.summaries import number_in
from firnline_domain.records.parts.tallies import (
    DEFAULT_TARGET_BYTES,
    TARGET_BYTES,
    target_bytes_of,
)
from firnline_domain.settings.in_force import settings_in_force, unreadable_values, with_namespace
from firnline_domain.settings.parquet import (
    OF_COMMITS,
    PARQUET,
    PARQUET_COLUMNS,
    Choice,
    readable_properties,
    unusable_properties,
)
from firnline_domain.settings.thresholds import (
    PROPERTIES,
    RANGES,
    WORKERS,
    Thresholds,
    resolve_thresholds,
)

DEFAULTS = Thresholds()
NUMBERS = {
    name: one.field
    for name, one in PROPERTIES.items()
    if Thresholds.__annotations__[one.field].partition(" ")[0] in ("int", "float")
}
COLUMNS = {f"{start}c": found for start, found in PARQUET_COLUMNS.items()}
OF_FILES = {**PARQUET, **COLUMNS}
CHOICES = {name: one for name, one in OF_FILES.items() if isinstance(one, Choice)}
EVERY = {
    **{name: RANGES[field] for name, field in NUMBERS.items()},
    **WORKERS,
    **{name: one for name, one in OF_FILES.items() if not isinstance(one, Choice)},
}
NONE = (
    "", "-1", "+1", "1_000", "0x10", "١٢", "²", "NaN", "nan", "inf", "-inf", "Infinity", "1e999",
    "1.5.2", "ten", "9" * 19, "9" * 5_000, "1 000", "1,000", "true", "\u00a05", "1\x00", "--1",
    "1e",
)  # fmt: skip


def test_every_number_of_a_property_has_a_range() -> None:
    """A new setting without one fails here."""
    assert set(RANGES) == set(NUMBERS.values())
    assert all(one.low < one.high for one in EVERY.values())
    for name, field in NUMBERS.items():
        default = getattr(DEFAULTS, field)
        assert default is None or RANGES[field].low <= default <= RANGES[field].high, name


def texts_outside(name: str) -> list[str]:
    wanted = EVERY[name]
    found = [*NONE, f"{int(wanted.high) + 1}"]
    found += [f"{int(wanted.low) - 1}"] if wanted.low >= 1 else []
    return found + (["0.5", "1e3", "8.0"] if wanted.whole else [])


@pytest.mark.parametrize("name", sorted(EVERY))
def test_what_is_no_number_or_makes_no_sense_is_unset_and_told(name: str) -> None:
    for text in texts_outside(name):
        [said] = unreadable_values({name: text})
        assert said == f"{name}={text} cannot be read and counts as unset: write a " + (
            EVERY[name].allowed_text
        )
        assert readable_properties({name: text, "other": "1"}).get("other") == "1"
        if name in NUMBERS:
            assert resolve_thresholds({name: text}) == DEFAULTS
            assert settings_in_force({name: text})[name].problem
            of_namespace = with_namespace({}, {name: text})
            assert resolve_thresholds(of_namespace) == DEFAULTS


@pytest.mark.parametrize("name", sorted(EVERY))
def test_the_bounds_themselves_are_read(name: str) -> None:
    wanted = EVERY[name]
    for value in (wanted.low, wanted.high):
        text = str(int(value)) if wanted.whole else repr(value)
        assert [*unreadable_values({name: f" {text}\t"})] == []
        if name in NUMBERS:
            assert getattr(resolve_thresholds({name: f" {text}\t"}), NUMBERS[name]) == value


@pytest.mark.parametrize("name", sorted(CHOICES))
def test_a_word_is_one_of_a_few_or_is_unset_and_told(name: str) -> None:
    for text in (*NONE, "truе", " true", "falsch", "x" * 5_000):  # the third letter is Cyrillic
        if CHOICES[name].parse(text) is None:
            [said] = unreadable_values({name: text})
            assert said.startswith(
                f"{name}={text} cannot be read and counts as unset: write a word"
            )
            assert name not in readable_properties({name: text})
    for word in CHOICES[name].words_allowed:
        assert [*unreadable_values({name: word}), *unreadable_values({name: word.upper()})] == []
        assert readable_properties({name: word}) == {name: word}


@pytest.mark.parametrize("name", sorted(OF_COMMITS))
def test_what_java_throws_at_is_told(name: str) -> None:
    for text in ("", "x", "1.5", "9" * 19, "9" * 5_000, "1e3", "1_000", "²"):
        said = [*unusable_properties({name: text})]
        assert [*unreadable_values({name: text})] == said
        if OF_COMMITS[name].parse(text) is None:
            assert said[0].startswith(f"{name}={text} cannot be read by Iceberg's Java library")
    good = {"num": ("-1", "0", "+5", "2147483647"), "min": ("100",), "com": ("GZIP",)}
    for text in good.get(name.rpartition(".")[2][:3], ()):
        assert [*unusable_properties({name: text})] == []


@pytest.mark.parametrize("text", NONE)
def test_one_parser_for_all(text: str) -> None:
    assert parse_number(text) is None
    assert parse_number(text, is_whole=False) is None
    assert number_in({"total-records": text}, "total-records") == 0
    assert target_bytes_of({TARGET_BYTES: text}) == DEFAULT_TARGET_BYTES


def test_what_a_number_is() -> None:
    assert [parse_number(text) for text in ("0", " 007 ", "9" * 18)] == [0, 7, int("9" * 18)]
    reals = ("0.5", "1e-3", "2E+2", "7")
    assert [parse_number(text, is_whole=False) for text in reals] == [0.5, 0.001, 200.0, 7.0]
