"""Which table is on which page: everything between a page's two markers comes from the code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.tools.reference import (
    alerts,
    codes,
    commands,
    http_api,
    properties,
    recommendations,
    records,
    sources,
    statuses,
)
from tests.tools.reference.services import metrics, series, settings

FOLDER = Path(__file__).parents[3] / "docs/reference"
BLOCK = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
BLOCKS: dict[str, Callable[[], str]] = {
    "settings": settings,
    "metrics": metrics,
    "series": series,
    "alerts": alerts.list_alerts,
    "commands": commands.list_commands,
    "common-options": commands.list_common_options,
    "options": commands.list_options,
    "topics": records.list_topics,
    "services": records.list_services,
    "records": records.list_records,
    "properties": properties.list_common,
    "advanced": properties.list_advanced,
    "checked": properties.list_checked,
    "recommendations": recommendations.list_rules,
    "endpoints": http_api.list_endpoints,
    "databases": sources.list_databases,
    **statuses.BLOCKS,
    **codes.BLOCKS,
}


def generated(page: str) -> str:
    """Return the page with its tables as the code has them now."""
    return BLOCK.sub(lambda block: block[1] + BLOCKS[block[2]]() + block[3], page)
