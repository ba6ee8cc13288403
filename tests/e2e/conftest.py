"""Leaves out what only `make test-lake` runs."""

from __future__ import annotations

import os

collect_ignore = [] if "FIRNLINE_TEST_LAKE" in os.environ else ["test_lake_secrets.py"]
