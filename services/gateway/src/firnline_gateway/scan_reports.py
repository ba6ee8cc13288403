"""What readers tell the catalog of their scans (REST spec, `ReportMetricsRequest`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from firnline_domain.values import Value

from firnline_gateway.room import Share
from firnline_gateway.scan_filters import columns_of

MOST_BYTES = 1 << 20  # of a body that is looked into; a filter with many values is as long as these
MOST_FILES = 10**9  # of one scan: more is no number of files


class UnreadableReport(ValueError):
    """No report, or none as the REST spec has it; the catalog must judge it."""


class Scan(Value):
    """One scan: how many data files it reads, and the columns that its filter leaves files out
    by."""

    data_files: int
    filtered_by: frozenset[str] = frozenset()


class _Count(msgspec.Struct):
    value: Annotated[int, msgspec.Meta(ge=0, le=MOST_FILES)]


class _Metrics(msgspec.Struct, rename="kebab"):
    result_data_files: _Count | None = None


class _Report(msgspec.Struct, rename="kebab"):
    report_type: str
    metrics: _Metrics
    filter: msgspec.Raw = msgspec.Raw()


_read = msgspec.json.Decoder(_Report).decode  # what is not named here is passed over: 1 MB in 1 ms


def scan_of(body: bytes) -> Scan | None:
    """The scan that is reported; None for a report of something else. Raises UnreadableReport."""
    try:
        report = _read(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableReport(str(error)) from error
    if report.report_type != "scan-report":
        return None
    if report.metrics.result_data_files is None:
        raise UnreadableReport("a scan-report without result-data-files")
    return Scan(report.metrics.result_data_files.value, columns_of(report.filter))


class Copy:
    """What went by of a body, up to `MOST_BYTES`."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._pieces = bytearray()
        self._whole = False

    async def of(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same pieces, at the same time."""
        fits = True
        async for piece in stream:
            fits = fits and len(self._pieces) + len(piece) <= MOST_BYTES
            fits = fits and self._share.grow(len(piece))
            if fits:
                self._pieces += piece
            yield piece
        self._whole = fits

    @property
    def body(self) -> bytes | None:
        """All of it; None if it was too long or broke off."""
        return bytes(self._pieces) if self._whole else None
