"""The row map of a result, and what it means where it, or a delete file, cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from firnline_deletes import row_map
from firnline_deletes.refusals import Refused
from firnline_deletes.row_map import RowMap
from firnline_domain.commits.conflicts import Conflict
from firnline_domain.errors import RetryLater
from firnline_domain.values import replace
from firnline_iceberg.avro import MetadataFileGone
from firnline_iceberg.heads import Pinned
from pyiceberg.io import FileIO

from firnline_committer.kept_marks import marks_of

T = TypeVar("T")


class RowMapGone(Exception):
    """The result's row map is not there any more."""


def rows_of(at: Pinned, path: str | None) -> RowMap:
    """A row map. Raises RowMapGone, ValueError, Refused, OSError."""
    if path is None:
        raise RowMapGone("the result names none")
    read = partial(row_map.read, place=path)
    return marks_of(at.table).row_map(path, lambda: read(_whole(at.table.io, path)))


def _whole(io: FileIO, path: str) -> bytes:
    try:
        with io.new_input(path).open() as source:
            return bytes(source.read())
    except FileNotFoundError as error:
        raise RowMapGone(path) from error


def made(make: Callable[[], T | Conflict], otherwise: Conflict) -> T | Conflict:
    """What `make` gives, or `otherwise` with the reason why it cannot.

    Raises RetryLater where the storage does not answer, MetadataFileGone where a delete file of
    the head is not there.
    """
    try:
        return make()
    except (RowMapGone, ValueError, Refused) as error:
        return replace(otherwise, detail=f"{otherwise.detail}: {error}"[:1000])
    except FileNotFoundError as error:  # expired under our eyes: look at the table again
        raise MetadataFileGone(str(error)) from error
    except OSError as error:
        raise RetryLater(f"storage: {error}") from error
