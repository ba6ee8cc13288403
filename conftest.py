"""Property tests have no deadline and no limit for finding examples: a machine that is slow for a
moment fails none of them."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.kit.groups", "tests.kit.long_run"]
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
