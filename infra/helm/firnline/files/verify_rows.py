"""Write a table through the gateway in small commits, wait for its rewrite, and verify its rows."""

from __future__ import annotations

import os
import sys
import time

import pyarrow as pa
from firnline_adapters.config.config_file import with_config
from firnline_adapters.config.settings import from_environment
from firnline_domain.commits.load_header import MARK
from firnline_enricher.settings import EnricherSettings
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

COMMITS, ROWS = 12, 100
NAMESPACE, TIMEOUT_S = sys.argv[1], float(sys.argv[2])


def open_catalog() -> RestCatalog:
    """Open the first catalog as a writer, without the mark that Firnline's own calls have."""
    settings = from_environment(EnricherSettings, with_config(os.environ))
    connection = next(iter(settings.connections.values()))
    properties = connection.pyiceberg_properties()
    return RestCatalog(
        connection.name, **{name: properties[name] for name in properties if name not in MARK}
    )


def append_rows(table: Table, ids: range) -> None:
    """Append rows in one commit; again if another commit was faster."""
    rows = pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {one}" for one in ids]})
    while True:
        try:
            table.append(rows)
            return
        except CommitFailedException:
            table.refresh()


def wait_for_rewrite(table: Table) -> int:
    """Return the number of data files after a rewrite. Exit if there is none in time."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        files = len(list(table.refresh().scan().plan_files()))
        if files < COMMITS:
            return files
        time.sleep(1)
    sys.exit(f"{COMMITS} files of {NAMESPACE} were not rewritten within {TIMEOUT_S:.0f} s")


def main() -> None:
    """Exit with a message if a row differs."""
    catalog = open_catalog()
    catalog.create_namespace_if_not_exists(NAMESPACE)
    name = f"{NAMESPACE}.rows_{time.time_ns()}"
    table = catalog.create_table(name, pa.schema([("id", pa.int64()), ("text", pa.string())]))
    table.transaction().set_properties({"firnline.shadow": "false"}).commit_transaction()
    try:
        for number in range(COMMITS):
            append_rows(table, range(number * ROWS, (number + 1) * ROWS))
        files = wait_for_rewrite(table)
        found = table.scan().to_arrow().sort_by("id").to_pydict()
        expected = range(COMMITS * ROWS)
        if found != {"id": [*expected], "text": [f"row {one}" for one in expected]}:
            sys.exit(f"{name}: {len(found['id'])} rows differ from the {COMMITS * ROWS} written")
        print(f"{name}: {COMMITS} files became {files}, {COMMITS * ROWS} rows verified")
    finally:
        catalog.drop_table(name)


main()
