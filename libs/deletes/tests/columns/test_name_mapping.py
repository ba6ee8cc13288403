from __future__ import annotations

import pytest
from firnline_deletes.columns.name_mapping import parse_mapping

FIELD = '{"field-id": 1, "names": ["a"]}'


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "null", "5", "{}", "[5]", "[[]]", "[null]", '["a"]', "[" * 100_000),
        *('[{"field-id": 1}]', '[{"field-id": 1, "names": "ab"}]', '[{"names": [5]}]'),
        *(f'[{{"field-id": {one}, "names": ["a"]}}]' for one in ("true", "1.0", "-1", "1e400")),
        *(f'[{{"field-id": {one}, "names": ["a"]}}]' for one in ('"1"', "2147483648", "9" * 5_000)),
        *(f'[{{"names": ["a"], "fields": {one}}}]' for one in ("5", "[[]]", '{"a": 1}')),
        f"[{FIELD}, {FIELD}]",
        '[{"names": ["a"], "fields": ' * 2_000,
    ],
)
def test_what_java_takes_for_no_mapping_is_none(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  of any message
        parse_mapping(text)


def test_a_name_may_be_said_twice_of_one_field() -> None:
    found = parse_mapping('[{"names": ["a", "a", "b"], "fields": [], "field-id": 7}]')
    assert {name: one.id for name, one in found.items()} == {"a": 7, "b": 7}
