"""The version of every part: the distribution, records' headers and snapshots' summaries."""

VERSION = "0.1.0"
