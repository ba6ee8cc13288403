"""What Faust's client is told, and what it is not."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme
from firnline_adapters.kafka.connection import KafkaConnection
from firnline_domain.errors import Misconfigured
from firnline_planner.drivers.faust.security import aiokafka_options, faust_credentials


def test_nothing_is_asked_of_a_broker_that_asks_for_nothing() -> None:
    connection = KafkaConnection("b:9092")
    assert aiokafka_options(connection) == {
        "bootstrap_servers": "b:9092",
        "security_protocol": "PLAINTEXT",
    }
    assert faust_credentials(connection) is None


def test_a_password_over_tls(tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
    properties = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "p",
        "ssl.ca.location": str(tmp_path / "ca.pem"),
    }
    found = aiokafka_options(KafkaConnection("b:1", properties))
    context = found.pop("ssl_context")
    assert found == {
        "bootstrap_servers": "b:1",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    }
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1
    open_ = {**properties, "enable.ssl.certificate.verification": "false"}
    context = aiokafka_options(KafkaConnection("b:1", open_))["ssl_context"]
    assert context.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism=GSSAPI"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            "sasl.mechanism=OAUTHBEARER",
        ),
        ({"security.protocol": "SSL", "ssl.key.pem": "k"}, "ssl.key.pem"),
        ({"socket.timeout.ms": "5"}, "socket.timeout.ms"),
    ],
)
def test_what_it_cannot_do_is_refused_by_name(properties: dict[str, str], named: str) -> None:
    with pytest.raises(
        Misconfigured, match=f"faust cannot do {named}, which FIRNLINE_KAFKA_CONFIG"
    ):
        aiokafka_options(KafkaConnection("b:1", properties))


def test_a_certificate_that_cannot_be_read_is_said() -> None:
    wrong = {"security.protocol": "SSL", "ssl.ca.location": "/not/there"}
    with pytest.raises(Misconfigured, match="FIRNLINE_KAFKA_CONFIG, ssl"):
        aiokafka_options(KafkaConnection("b:1", wrong))
