"""Delete sets larger than memory: cut into parts by index value, built one at a time.

Each part is a set of its own; a row is dead if it is dead in any. The parts of a set that does
not fit are also *probed* one at a time (`masks.premasked`), so that neither making nor using it
holds more than one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firnline_deletes.building import Keys, build, fold, read
from firnline_deletes.delete_set import of_keys
from firnline_deletes.files import Open, SequencedFile
from firnline_deletes.hashing import index_values
from firnline_deletes.keys import KeyField, canonical
from firnline_deletes.packing import unpacked

_CODE = "code"
_READ_ROWS = 1 << 17  # rows in memory while they are dealt out
_FOLD_ROWS = 1 << 19
_LOW = np.uint64(0xFFFF)  # the low bits choose the part, the high ones the slot in it


def build_parts(
    files: Sequence[SequencedFile],
    keys: Sequence[KeyField],
    open_file: Open,
    folder: Path,
    parts: int,
) -> list[Path]:
    """Write the set of these delete files to `folder`, as so many parts; their paths.

    The delete files are read once. Raises as `building.build`.
    """
    paths = [folder / f"{number}.arrow" for number in range(parts)]
    if parts == 1:
        build(files, keys, open_file).write(paths[0])
        return paths
    keys = canonical(keys)
    sequences = tuple(sorted({file.sequence_number for file in files}))
    spilled = [folder / f"{number}.spill" for number in range(parts)]
    _deal(read(files, keys, sequences, open_file, _READ_ROWS), keys, spilled)
    for path, spill in zip(paths, spilled, strict=True):
        found = fold(_spilled(spill), keys, _FOLD_ROWS)
        of_keys(keys, found.columns, found.codes, sequences if len(found) else ()).write(path)
        spill.unlink()
    return paths


def _deal(batches: Iterator[Keys], keys: tuple[KeyField, ...], spilled: Sequence[Path]) -> None:
    fields = [
        pa.field(str(key.id), unpacked(pa.array([], key.type), key.type).type) for key in keys
    ]
    schema = pa.schema([*fields, pa.field(_CODE, pa.int32())])
    with ExitStack() as open_files:
        writers = [
            open_files.enter_context(pa.ipc.new_stream(_sink(open_files, path), schema))
            for path in spilled
        ]
        for keys_read in batches:
            columns = [
                unpacked(column, key.type)
                for column, key in zip(keys_read.columns, keys, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays([*columns, pa.array(keys_read.codes)], schema=schema)
            for number, rows in enumerate(_dealt(keys_read, len(writers))):
                writers[number].write_batch(batch.take(pa.array(rows)))


def _sink(open_files: ExitStack, path: Path) -> pa.NativeFile:
    return open_files.enter_context(pa.OSFile(str(path), "wb"))


def _dealt(batch: Keys, parts: int) -> list[npt.NDArray[np.intp]]:
    """Rows of each part. Equal keys have equal index values, so they meet in one part."""
    chosen = ((index_values(batch.columns) & _LOW) * np.uint64(parts)) >> np.uint64(16)
    order = np.argsort(chosen, kind="stable")
    return np.split(order, np.searchsorted(chosen[order], np.arange(1, parts)))


def _spilled(path: Path) -> Iterator[Keys]:
    with pa.OSFile(str(path), "rb") as source, pa.ipc.open_stream(source) as reader:
        for batch in reader:
            yield Keys(tuple(batch.columns[:-1]), batch.column(_CODE).to_numpy())
