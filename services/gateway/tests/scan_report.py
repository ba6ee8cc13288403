"""A report of a scan as a reader sends it."""

from __future__ import annotations

import json
from typing import Any


def report(files: Any = 3, kind: str = "scan-report", **more: Any) -> dict[str, Any]:
    """As Iceberg 1.12 writes it (`ScanReportParser`), shortened."""
    return {
        "report-type": kind,
        "table-name": "lake.a.b.t",
        "snapshot-id": 2**62 + 1,
        "filter": {"type": "eq", "term": "day", "value": "2026-01-01"},
        "schema-id": 0,
        "projected-field-ids": [1, 2],
        "projected-field-names": ["id", "day"],
        "metrics": {
            "total-planning-duration": {
                "count": 1, "time-unit": "nanoseconds", "total-duration": 2_000_000,
            },
            "result-data-files": {"unit": "count", "value": files},
        },
        "metadata": {"engine-name": "spark"},
        **more,
    }  # fmt: skip


def encoded(files: Any = 3, **more: Any) -> bytes:
    return json.dumps(report(files, **more)).encode()
