"""Payloads by the name that a source's property `payload` has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from firnline_listener.payloads import aws, commits, kafka_connect, lakekeeper, polaris
from firnline_listener.port import Doorbell

Parse = Callable[[Mapping[str, str], bytes, str, str], list[Doorbell]]
"""Takes headers with names in lower case, the body, the catalog that the events are of, and the
product's name of it ("": all events are of that catalog). Returns [] for events that change no
table. Raises ValueError for a payload that is none of its product."""

PAYLOADS: Mapping[str, Parse] = {
    "commits": commits.parse,
    "glue": aws.parse_glue,
    "kafka-connect": kafka_connect.parse,
    "lakekeeper": lakekeeper.parse,
    "polaris": polaris.parse,
    "s3": aws.parse_objects,
}
