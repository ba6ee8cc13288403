"""Faults that met nothing."""

from __future__ import annotations


class Missed(Exception):
    """There was nothing to strike at that moment: the fault does not count."""


class Skipped(Missed):
    """This machine does not have what the fault needs; the message says what."""
