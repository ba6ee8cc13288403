"""What was read once is not read again, within the budget."""

from __future__ import annotations

import pytest
from firnline_iceberg.metadata.entry_cache import FileCache


def reads(cache: FileCache, key: str, count: int) -> bool:
    """Whether the entries had to be read."""
    asked: list[str] = []

    def read() -> list[int]:
        asked.append(key)
        return list(range(count))

    assert list(cache.get_or_read(key, read)) == list(range(count))
    return bool(asked)


def test_the_second_time_nothing_is_read() -> None:
    cache = FileCache()
    assert [reads(cache, key, 3) for key in "abab"] == [True, True, False, False]


def test_the_least_recently_used_goes_first() -> None:
    cache = FileCache(most_entries=10)
    assert [reads(cache, key, 4) for key in "ab"] == [True, True]  # 5 each, with their own place
    assert not reads(cache, "a", 4)
    assert reads(cache, "c", 4)  # b has to go
    assert [reads(cache, key, 4) for key in "ac"] == [False, False]
    assert reads(cache, "b", 4)


def test_what_is_larger_than_the_budget_is_read_each_time() -> None:
    cache = FileCache(most_entries=10)
    assert [reads(cache, "a", 20) for _ in range(2)] == [True, True]


def test_an_error_is_not_kept() -> None:
    cache = FileCache()

    def broken() -> list[int]:
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        cache.get_or_read("a", broken)
    assert reads(cache, "a", 1)
