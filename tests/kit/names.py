"""The table of tests to which it does not matter which table it is."""

from __future__ import annotations

from firnline_domain.identity import TableName

TABLE = TableName("u1", ("db",), "t")
