"""The lakes that a run can be on, by the name that `CONFIG=` has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from firnline_chaos.catalog_proxy import Journal
from firnline_chaos.lake import SecuredLake
from firnline_chaos.nessie_lake import nessie_lake
from firnline_chaos.reference_lake import reference_lake

LAKES: dict[str, Callable[[Path, Journal], AbstractContextManager[SecuredLake]]] = {
    "reference": reference_lake,
    "nessie": nessie_lake,
}
