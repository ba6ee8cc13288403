"""What a list names is read once, as long as the memory lasts, and is what the list says."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import pytest
from firnline_iceberg.expiry import manifest_cache
from firnline_iceberg.expiry.file_cleanup import named_by_snapshots, remove_unneeded
from firnline_iceberg.expiry.manifest_cache import LIST_BYTES, MANIFEST_BYTES, ManifestCache
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.metadata.manifest_digest import Hashes
from firnline_iceberg.table.external_files import ExternalFiles
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.retained_names import content_names, manifest_paths

from libs.iceberg.tests.expiry.test_file_cleanup import Site


@dataclass
class Stored:
    """Lists of tables, by their paths; and what was read of them."""

    lists: dict[str, list[str]] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)

    def __call__(
        self, table: LoadedTable, paths: Iterable[str], skip_gone: bool = False
    ) -> Iterator[list[str]]:
        for path in paths:
            self.read.append(path)
            yield list(self.lists[path])

    def told(self, known: ManifestCache, table: LoadedTable) -> bool:
        """Whether all are told of as they are."""
        told = known.manifests(table, self.lists)
        return dict(zip(self.lists, told, strict=True)) == self.lists


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Stored:
    made = Stored()
    monkeypatch.setattr(manifest_cache, "manifest_paths", made)
    return made


@pytest.fixture
def table(tmp_path: Path) -> LoadedTable:
    site = Site(tmp_path)
    site.append()
    return site.table()


def history(lists: int) -> dict[str, list[str]]:
    """Some manifests more with each list, and some less; in any order, one of them twice."""
    chance, alive, made = random.Random(1), list[str](), {}
    for number in range(lists):
        alive = [*alive, f"s3://b/m-{number}.avro"]
        if number % 7 == 6:
            chance.shuffle(alive)
            alive = alive[6:]
        made[f"s3://b/snap-{number}.avro"] = [*alive, alive[0]] if alive else []
    return made


def test_each_list_is_read_once_and_told_of_as_it_is(stored: Stored, table: LoadedTable) -> None:
    known, stored.lists = ManifestCache(), history(150)
    assert stored.told(known, table)
    assert stored.told(known, table)
    assert stored.read == list(stored.lists)


def test_a_list_that_is_gone_is_not_remembered_as_empty(table: LoadedTable) -> None:
    known, real = ManifestCache(), table.snapshots[0].manifest_list
    gone = real.replace("snap-", "gone-")
    [nothing, some] = known.manifests(table, [gone, real], skip_gone=True)
    assert (nothing, len(some)) == ([], 1)
    with pytest.raises(MetadataFileGone):
        list(known.manifests(table, [real, gone]))


def test_lists_that_follow_one_another_take_little(stored: Stored, table: LoadedTable) -> None:
    """A hundred manifests each, of which one is new."""
    known = ManifestCache()
    stored.lists = {
        f"snap-{number}": [f"m-{one}" for one in range(number, number + 100)]
        for number in range(1_000)
    }
    list(known.manifests(table, stored.lists))
    assert known.bytes < 1_000 * (LIST_BYTES + MANIFEST_BYTES + 50) + 100 * MANIFEST_BYTES


def test_what_the_table_does_not_retain_is_forgotten(stored: Stored, table: LoadedTable) -> None:
    known, every = ManifestCache(), history(100)
    stored.lists = every
    assert stored.told(known, table)
    full, kept = known.bytes, list(every)[-20:]
    known.keep(table, set(kept))
    assert known.bytes < full / 3
    stored.lists = {path: every[path] for path in kept}
    assert stored.told(known, table)
    assert len(stored.read) == 100
    stored.lists = every
    list(known.manifests(table, [next(iter(every))]))
    assert len(stored.read) == 101


def test_little_is_remembered(stored: Stored, table: LoadedTable) -> None:
    known, stored.lists = ManifestCache(max_bytes=20_000), history(200)
    for _ in range(2):
        assert stored.told(known, table)
        assert 0 <= known.bytes <= 20_000
    known.keep(table, ())
    assert known.bytes == 0


def test_threads_do_not_mix_up_lists(stored: Stored, table: LoadedTable) -> None:
    known, stored.lists = ManifestCache(max_bytes=60_000), history(150)
    wrong: list[str] = []

    def ask(seed: int) -> None:
        paths = list(stored.lists)
        random.Random(seed).shuffle(paths)
        for path, told in zip(paths, known.manifests(table, paths), strict=True):
            if told != stored.lists[path]:
                wrong.append(path)
            if path.endswith("7.avro"):
                known.keep(table, set(paths[: len(paths) // 3]))

    threads = [Thread(target=ask, args=(seed,)) for seed in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong
    assert known.bytes <= 60_000


@pytest.mark.parametrize("seed", range(4))
def test_an_expiry_reads_each_file_once_and_the_next_one_the_new_ones(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And removes exactly what is not needed: memory of an earlier expiry changes nothing."""
    site, known, looked = Site(tmp_path, seed), ManifestCache(), ExternalFiles()
    names, read, opened = ManifestCache(), list[str](), list[str]()

    def reading(
        table: LoadedTable, paths: Iterable[str], skip_gone: bool = False
    ) -> Iterator[list[str]]:
        asked = list(paths)
        read.extend(asked)
        return manifest_paths(table, asked, skip_gone)

    def opening(table: LoadedTable, path: str, live_alone: bool) -> Hashes:
        opened.append(path)
        return content_names(table, path, live_alone)

    monkeypatch.setattr(manifest_cache, "manifest_paths", reading)
    monkeypatch.setattr(manifest_cache, "content_names", opening)
    site.append()
    listed = site.needed()
    for number in range(30):
        site.random.choice([site.append, site.append, site.delete, site.refer])()
        listed |= site.needed()
        if number % 6 == 5:
            before = site.table()
            assert looked.find_first(before, known.manifests) is None
            gone = site.expire()
            after, stored = site.table(), site.stored()
            expired = named_by_snapshots(before, gone)
            cleaned = remove_unneeded(after, expired, None, known.manifests, names.file_names)
            known.keep(after, {one.manifest_list for one in after.snapshots})
            assert cleaned.files == len(stored - site.stored())
            assert site.stored() & listed == site.needed()
    assert len(read) == len(set(read)) >= 10
    assert len(opened) == len(set(opened)) >= 10


def test_what_is_taken_out_counts_for_who_asks_for_all(tmp_path: Path) -> None:
    """Both kinds of answers are remembered beside each other."""
    site, names = Site(tmp_path), ManifestCache()
    site.append()
    site.made.delete("id < 2")
    table = site.table()
    [[taken_out]] = manifest_paths(table, [table.snapshots[-1].manifest_list])
    for _ in range(2):
        assert len(names.file_names(table, taken_out, True)) == 0
        assert len(names.file_names(table, taken_out, False)) == 1
