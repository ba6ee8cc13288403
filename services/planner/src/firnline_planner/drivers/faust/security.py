"""librdkafka's properties in the words of aiokafka, which Faust talks to Kafka with.

| librdkafka | aiokafka |
| --- | --- |
| `security.protocol` | `security_protocol` |
| `sasl.mechanism(s)` PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 | `sasl_mechanism` |
| `sasl.username`, `sasl.password` | `sasl_plain_username`, `sasl_plain_password` |
| `ssl.ca.location`, `ssl.ca.pem` | the context's authorities |
| `ssl.certificate.location`, `ssl.key.location`, `ssl.key.password` | its own certificate |
| `ssl.endpoint.identification.algorithm`, `enable.ssl.certificate.verification` | its checks |

Anything else is refused: a property that only one of the two drivers obeys would be a surprise.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from faust.auth import SASLCredentials, SSLCredentials
from faust.types.auth import CredentialsT
from firnline_adapters.kafka.connection import KAFKA_CONFIG, KafkaConnection
from firnline_domain.errors import Misconfigured

KNOWN = frozenset(
    {
        *("security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username"),
        *("sasl.password", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location"),
        *("ssl.key.location", "ssl.key.password", "ssl.endpoint.identification.algorithm"),
        *("enable.ssl.certificate.verification",),
    }
)
PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
DEFAULT_MECHANISM = "GSSAPI"  # librdkafka's


def aiokafka_options(connection: KafkaConnection) -> dict[str, Any]:
    """Return the arguments of an aiokafka client. Raises Misconfigured, naming what this driver
    does not support."""
    properties = connection.properties
    if unknown := sorted(set(properties) - KNOWN):
        raise _unsupported_error(", ".join(unknown))
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    options: dict[str, Any] = {
        "bootstrap_servers": connection.servers,
        "security_protocol": protocol,
    }
    if protocol.endswith("SSL"):
        options["ssl_context"] = _ssl_context(properties)
    if protocol.startswith("SASL"):
        mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms")
        if mechanism not in PASSWORDS:
            raise _unsupported_error(f"sasl.mechanism={mechanism or DEFAULT_MECHANISM}")
        options |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": properties.get("sasl.username", ""),
            "sasl_plain_password": properties.get("sasl.password", ""),
        }
    return options


def faust_credentials(connection: KafkaConnection) -> CredentialsT | None:
    """Return the credentials in the form that Faust's app takes; None if the connection needs none.
    Raises Misconfigured."""
    options = aiokafka_options(connection)
    if "sasl_mechanism" in options:
        return SASLCredentials(
            mechanism=options["sasl_mechanism"],
            username=options["sasl_plain_username"],
            password=options["sasl_plain_password"],
            ssl_context=options.get("ssl_context"),
        )
    return SSLCredentials(options["ssl_context"]) if "ssl_context" in options else None


def _ssl_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(
            cafile=properties.get("ssl.ca.location"), cadata=properties.get("ssl.ca.pem")
        )
        if certificate := properties.get("ssl.certificate.location"):
            context.load_cert_chain(
                certificate,
                properties.get("ssl.key.location"),
                lambda: properties.get("ssl.key.password", ""),  # or it would ask the terminal
            )
    except OSError as error:
        raise Misconfigured(f"{KAFKA_CONFIG.variable}, ssl.*: {error}") from None
    if properties.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _unsupported_error(what: str) -> Misconfigured:
    return Misconfigured(
        f"FIRNLINE_PLANNER_DRIVER=faust cannot do {what}, which {KAFKA_CONFIG.variable} asks for: "
        "take the driver `kafka`, or SASL PLAIN or SCRAM or a certificate without further "
        "properties"
    )
