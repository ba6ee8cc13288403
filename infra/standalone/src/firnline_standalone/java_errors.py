"""Two JVMs in one process: Spark's, and the committer's small one.

PySpark makes py4j look every Java error up in Spark's JVM, those of the small JVM too. There the
same number is another object: a commit that was refused would be told as whatever that is.
"""

from __future__ import annotations

from typing import Any

from firnline_iceberg.java.jvm import IcebergJvm
from py4j import java_gateway, protocol


def keep_apart(iceberg: IcebergJvm) -> None:
    """To be called once Spark's session is there, which puts its own handler in place."""
    sparks = java_gateway.get_return_value

    def get_return_value(answer: str, client: Any, *rest: Any, **named: Any) -> Any:
        look_up = protocol.get_return_value if iceberg.is_reached_by(client) else sparks
        return look_up(answer, client, *rest, **named)

    java_gateway.get_return_value = get_return_value
