"""From a properties file to a client's configuration, without a broker."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme
from firnline_adapters.config.redaction import redact
from firnline_adapters.kafka.connection import (
    OWNED,
    KafkaConnection,
    client_config,
    connection_here,
    reader_group,
    with_file,
)
from firnline_domain.errors import Misconfigured

SASL = """\
# how our clients come in
security.protocol = SASL_SSL
sasl.mechanism=SCRAM-SHA-512

sasl.username=firnline-worker
sasl.password=${KAFKA_PASSWORD}
"""


def written(folder: Path, text: str) -> str:
    path = folder / "kafka.properties"
    path.write_text(text)
    return str(path)


def test_a_file_is_read_with_its_references(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("-----BEGIN\nx=y\n")
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca=1.pem")
    text = f"{SASL}ssl.ca.location={tmp_path / 'ca=1.pem'}\nclient.rack=file:{tmp_path / 'ca'}\n"
    found = with_file("b:9092", written(tmp_path, text), {"KAFKA_PASSWORD": "a=b-cAnAry#1"})
    assert found == KafkaConnection(
        "b:9092",
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "firnline-worker",
            "sasl.password": "a=b-cAnAry#1",
            "ssl.ca.location": str(tmp_path / "ca=1.pem"),
            "client.rack": "-----BEGIN\nx=y",
        },
    )
    for shown in (str(found), repr(found), redact("the broker said a=b-cAnAry#1")):
        assert "cAnAry" not in shown
    assert "sasl.password=***" in str(found)


def test_without_a_file_there_are_no_properties() -> None:
    assert connection_here("b:9092", {}) == KafkaConnection("b:9092")
    assert client_config("b:9092") == {"bootstrap.servers": "b:9092"}


def test_what_firnline_decides_comes_beside_it(tmp_path: Path) -> None:
    found = with_file("b:9092", written(tmp_path, "security.protocol=SSL\n"), {})
    own = {"group.id": reader_group(), "enable.auto.commit": False}
    assert client_config(found, own) == {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SSL",
        **own,
    }


def test_a_client_decides_nothing_that_a_file_could_override() -> None:
    with pytest.raises(AssertionError, match=r"not declared as owned: \['retries'\]"):
        client_config("b:9092", {"retries": 1})


@pytest.mark.parametrize("name", sorted(OWNED - {"bootstrap.servers", "metadata.broker.list"}))
def test_none_of_what_firnline_decides_is_overridden(tmp_path: Path, name: str) -> None:
    with pytest.raises(Misconfigured, match=rf"kafka\.properties: {name}: Firnline decides"):
        with_file("b:9092", written(tmp_path, f"{name}=1\n"), {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bootstrap.servers=b:1", "bootstrap.servers: set FIRNLINE_KAFKA instead"),
        ("sasl.password", "line 1: 'sasl.password' has no value: write name=value"),
        ("a.b=1\na.b=2", "line 2: 'a.b' is there twice"),
        ("hunter2-cAnAry", "line 1: a property has no value"),
        (
            "sasl.password=${NOT_THERE}",
            r"sasl.password \(environment variable NOT_THERE is not set",
        ),
        ("sasl.password=file:/not/there", r"sasl.password \(cannot read the file: .*No such file"),
        ("security.protocal=SSL", 'No such configuration property: "security.protocal"'),
        ("security.protocol=TLS", 'Invalid value "TLS" for configuration property'),
        ("sasl.jaas.config=x", "that is a property of Java clients"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Misconfigured, match=said) as why:
        with_file("b:9092", written(tmp_path, text), {})
    assert "cAnAry" not in str(why.value)


def test_a_file_that_is_not_there_is_said() -> None:
    with pytest.raises(Misconfigured, match=r"FIRNLINE_KAFKA_CONFIG=/not/there: .*No such file"):
        connection_here("b:9092", {"FIRNLINE_KAFKA_CONFIG": "/not/there"})
