"""Define how a committer asks a gateway to hold one table: one HTTP header, five words.

A statement that has read a table before our commit and commits after it fails where it names files
that we replaced. Kept waiting until our commit has ended, it reads the table that we leave."""

from __future__ import annotations

HEADER = "Firnline-Hold"
HOLD_READS = "reads"  # with the read that a commit is made from: others' reads wait
HOLD_NEXT_READS = "next-reads"  # with a read: others' reads wait as soon as a writer has committed
HOLD_COMMITS = "commits"  # with such a read, after lost races: others' commits wait for a moment
PASS = "pass"  # with every other call of a committer: it never waits for itself
RELEASE = "release"  # nothing is sent after all; a commit that is answered says so by itself
