"""A console to ask: `site`."""

from __future__ import annotations

from tests.kit.console_model import console_redis as console_redis
from tests.kit.console_site import site as site
