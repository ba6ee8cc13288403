"""Write down which snapshots an expiry takes out of a table, before it does: what a worker that
dies has not cleaned up is cleaned up by the next expiry of the table.

One file a table, beside its metadata files. Whoever can write there can put one of his own, so it
is signed, and names snapshots' lists alone: what goes is decided from the table
(`file_cleanup`)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from firnline_domain.records.signing import Keyring, SignatureRefused

from firnline_iceberg.expiry.file_cleanup import ExpiredLists
from firnline_iceberg.outputs.signed_file import sign_body, verify_body
from firnline_iceberg.outputs.write_ahead_list import UNSIGNED
from firnline_iceberg.removal.removal import remove_journal
from firnline_iceberg.storage.paths import PREFIX
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.locations import metadata_folders

MAX_BYTES = 64_000_000  # 5,000 snapshots are 1 MB


@dataclass(frozen=True)
class ExpiryJournal:
    """An expiry that was begun."""

    table_key: str
    snapshot_ids: tuple[int, ...]
    lists: tuple[str, ...]
    statistics: tuple[str, ...] = ()

    @property
    def named_lists(self) -> ExpiredLists:
        return ExpiredLists(self.lists, self.statistics)


def journal_path(table: LoadedTable) -> str:
    """Return the path of the journal of an expiry that was begun on the table."""
    name, key = table.identity.uuid, table.identity.key
    if key != name:  # branches of one table lie in one folder
        name = f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    return f"{metadata_folders(table)[0]}/{PREFIX}{name}.expiry"


def write_journal(
    table: LoadedTable, journal: ExpiryJournal, at_ms: int, keys: Keyring = UNSIGNED
) -> None:
    """Replace the journal before it. Raises OSError."""
    path = journal_path(table)
    with table.io.new_output(path).create(overwrite=True) as sink:
        sink.write(sign_body(keys, path, json.dumps(asdict(journal)).encode(), at_ms))


def read_journal(table: LoadedTable, keys: Keyring = UNSIGNED) -> ExpiryJournal | None:
    """Read the journal. None if there is none, or none that the deployment has written for this
    table: nothing follows from it, and the next expiry writes over it. Raises OSError."""
    path = journal_path(table)
    try:
        with table.io.new_input(path).open() as source:
            content = source.read(MAX_BYTES + 1)
        body = json.loads(verify_body(keys, path, content))
        found = ExpiryJournal(
            str(body["table_key"]),
            tuple(int(one) for one in body["snapshot_ids"]),
            tuple(str(one) for one in body["lists"]),
            tuple(str(one) for one in body["statistics"]),
        )
    except (FileNotFoundError, SignatureRefused, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if found.table_key == table.identity.key else None


def end_journal(table: LoadedTable) -> None:
    """Remove the journal after all files that it names. Raises OSError."""
    remove_journal(table, journal_path(table))
