"""The publication and the replication slot of a source, by SQL on its own connection."""

from __future__ import annotations

from typing import Any

from firnline_domain.errors import RetryLater
from psycopg2 import errors, sql

from firnline_listener.sources.pointers import POINTERS

FAILOVER_SLOTS = 170_000  # the first version that carries a slot over to its standby
_PUBLISHED = "SELECT 1 FROM pg_publication WHERE pubname = %s"
# A published table without a primary key refuses every update: such a table is never chosen.
_TABLES = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = %s AND c.relkind IN ('r', 'p') AND c.relreplident <> 'n'
AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
AND %s <@ (SELECT array_agg(a.attname::text) FROM pg_attribute a WHERE a.attrelid = c.oid)
"""
_SLOT = "SELECT wal_status = 'lost' FROM pg_replication_slots WHERE slot_name = %s"
_HELD = """
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) FROM pg_replication_slots
WHERE slot_name = %s
"""


def ensure_publication(cursor: Any, name: str) -> None:
    """Make the publication if there is none, of all tables that a catalog keeps its pointers in.
    Raises RetryLater with the statement, if the user may not."""
    cursor.execute(_PUBLISHED, (name,))
    if cursor.fetchone():
        return
    found = list[tuple[str, str]]()
    for one in POINTERS:
        cursor.execute(_TABLES, (one.relation, list(one.columns)))
        found += cursor.fetchall()
    if not found:
        names = ", ".join(one.relation for one in POINTERS)
        raise RetryLater(f"the database has no table of a known catalog ({names})")
    tables = sql.SQL(", ").join(sql.Identifier(*one) for one in found)
    statement = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(sql.Identifier(name), tables)
    try:
        cursor.execute(statement)
    except errors.InsufficientPrivilege:
        text = statement.as_string(cursor)
        raise RetryLater(f"no publication {name}: execute as the tables' owner: {text}") from None


def ensure_slot(cursor: Any, name: str) -> str:
    """Make the slot if there is none, or if the server has given it up. Return why it was made;
    '' if it was there."""
    cursor.execute(_SLOT, (name,))
    lost = cursor.fetchone()
    if lost == (False,):
        return ""
    if lost:
        drop_slot(cursor, name)
    failover = ", false, false, true" if cursor.connection.server_version >= FAILOVER_SLOTS else ""
    call = f"SELECT pg_create_logical_replication_slot(%s, 'pgoutput'{failover})"
    cursor.execute(call, (name,))
    return "lost" if lost else "missing"


def drop_slot(cursor: Any, name: str) -> None:
    cursor.execute("SELECT pg_drop_replication_slot(%s)", (name,))


def is_unlimited(cursor: Any) -> bool:
    """Return whether a slot that is not read may fill the server's disk."""
    cursor.execute("SHOW max_slot_wal_keep_size")
    return bool(cursor.fetchone() == ("-1",))


def read_held_bytes(cursor: Any, name: str) -> float:
    """Return how much of the log the server keeps for the slot."""
    cursor.execute(_HELD, (name,))
    found = cursor.fetchone()
    return float(found[0] or 0) if found else 0.0
