"""What a service has counted, as Prometheus would read it."""

from __future__ import annotations

from prometheus_client import REGISTRY


def counted(name: str, **labels: str) -> float:
    """The value of a counter in this process; 0 where it has not been counted."""
    return REGISTRY.get_sample_value(f"firnline_{name}_total", labels) or 0.0
