"""What a committer says to a gateway about a table's readers: one HTTP header, three words.

A statement that has read a table before our commit and commits after it fails where it names files
that we replaced. Kept waiting until our commit has ended, it reads the table that we leave.
"""

from __future__ import annotations

HEADER = "Firnline-Latch"
BEGIN = "begin"  # with the read that a commit is made from: others' reads wait
HOLD = "hold"  # with such a read, after lost races: others' commits wait, a moment at most
PASS = "pass"  # with every other call of a committer: it never waits for itself
END = "end"  # nothing is sent after all; a commit that is answered says so by itself
