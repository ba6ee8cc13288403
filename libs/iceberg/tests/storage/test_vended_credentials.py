"""Which keys open which place, and when others are asked for."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from firnline_adapters.config.redaction import redact
from firnline_domain.errors import CatalogUnreachable, TaskRefused
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.storage.errors import is_denied
from firnline_iceberg.storage.file_io import TableStorage, make_file_io
from firnline_iceberg.storage.vended_credentials import (
    LONG_S,
    Ask,
    Credential,
    Credentials,
    VendedCredentials,
    best_credential,
    credentials_of,
)
from firnline_iceberg.storage.vended_file_io import VendedFileIO
from firnline_iceberg.table.catalog_client import fresh_credentials, refuse_remote_signing

LAKE = CatalogConnection("lake", {"uri": "http://g"})


def keys(name: str, ends_in_s: float | None = None, prefix: str = "s3://b/t") -> Credential:
    config = {"s3.access-key-id": name, "s3.secret-access-key": f"cAnAry-{name}"}
    now = time.time()
    if ends_in_s is not None:
        config["s3.session-token-expires-at-ms"] = str(int((now + ends_in_s) * 1000))
    return Credential(prefix, config, now)


@pytest.fixture
def vended(request: pytest.FixtureRequest) -> Callable[..., VendedCredentials]:
    """Of a table of this test's own."""

    def made(*first: Credential, ask: Ask = fresh_credentials) -> VendedCredentials:
        return VendedCredentials(LAKE, {}, ("db", request.node.name), first, ask)

    return made


def test_the_longest_prefix_wins_whatever_the_spelling() -> None:
    found: Credentials = (
        keys("all", prefix="s3://"),
        keys("t"),
        keys("deep", prefix="s3a://b/t/x"),
    )
    named = {
        place: best_credential(found, place)
        for place in ("s3a://b/t/f", "s3n://b/t/x/f", "s3://c/f")
    }
    assert [one.config["s3.access-key-id"] for one in named.values() if one] == ["t", "deep", "all"]
    assert best_credential((keys("t"),), "s3://other/f") is None


def test_storage_credentials_come_before_config_and_are_secret() -> None:
    config = {"s3.access-key-id": "c", "s3.secret-access-key": "config-cAnAry"}
    (plain,) = credentials_of(config, [], 0.0)
    assert plain.prefix == ""
    (given,) = credentials_of(config, [("s3://b", {"s3.access-key-id": "g"})], 0.0)
    assert given.config == {"s3.access-key-id": "g"}
    assert credentials_of({"s3.endpoint": "x"}, [], 0.0) == ()
    assert redact("it was config-cAnAry") == "it was ***"
    assert "cAnAry" not in repr(plain)


@pytest.mark.parametrize(
    ("life_s", "left_s", "due"),
    [(60, 40, False), (60, 29, True), (3600, 700, False), (3600, 599, True), (3600, -1, True)],
)
def test_keys_are_due_before_they_end(life_s: float, left_s: float, due: bool) -> None:
    now = 1_000_000.0
    ends = {"s3.session-token-expires-at-ms": str((now + left_s) * 1000)}
    one = Credential("", ends, now + left_s - life_s)
    assert one.is_due(now) is due
    assert one.is_lasting(now) is (left_s >= LONG_S)


def test_threads_ask_once_between_them(vended: Callable[..., VendedCredentials]) -> None:
    asked = []

    def ask(*about: object) -> Credentials:
        asked.append(about)
        time.sleep(0.05)
        return (keys("new", 3600),)

    old = vended(keys("old", -1), ask=ask)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: old.credential_for("s3://b/t/f"), range(16)))
    assert {one.config["s3.access-key-id"] for one in found if one} == {"new"}
    assert len(asked) == 1


def test_keys_that_are_refused_are_replaced_but_not_young_ones(
    vended: Callable[..., VendedCredentials],
) -> None:
    old = Credential("", keys("old").config, time.time() - 5)
    answers = iter([(keys("new", prefix=""),)])  # asked once more it raises StopIteration
    ours = vended(old, ask=lambda *_: next(answers))
    first = ours.credential_for("s3://b/t")
    assert first is not None
    new = ours.credential_for("s3://b/t", first)
    assert new is not None
    assert new.config["s3.access-key-id"] == "new"
    assert ours.credential_for("s3://b/t", new) is new


def test_a_clock_that_was_set_back_since_keeps_no_dead_keys(
    vended: Callable[..., VendedCredentials],
) -> None:
    hour_s = 3600
    ended = Credential("", keys("ended", -1).config, time.time() + hour_s)
    assert ended.is_due(time.time())
    assert not Credential("", keys("k", 20).config, time.time() + hour_s).is_due(time.time())
    unsaid = Credential("", keys("unsaid").config, time.time() + hour_s)
    one = vended(unsaid, ask=lambda *_: (keys("new"),))
    found = one.credential_for("s3://b/t/f", unsaid)
    assert found is not None
    assert found.config["s3.access-key-id"] == "new"


def test_while_keys_last_a_catalog_may_be_away(vended: Callable[..., VendedCredentials]) -> None:
    def away(*_: object) -> Credentials:
        raise CatalogUnreachable("away")

    due = Credential("", {**keys("k", 5).config}, time.time() - 60)
    assert vended(due, ask=away).credential_for("s3://b/t") is due
    ended = VendedCredentials(LAKE, {}, ("db", "ended"), (keys("k", -5),), away)
    with pytest.raises(CatalogUnreachable):
        ended.credential_for("s3://b/t/f")


def test_newer_keys_of_a_load_serve_who_was_given_older_ones(
    vended: Callable[..., VendedCredentials],
) -> None:
    older, newer = vended(keys("older", 3600)), vended(keys("newer", 3600))
    for one in (older, newer, older):
        found = one.credential_for("s3://b/t/f")
    assert found is not None
    assert found.config["s3.access-key-id"] == "newer"


def test_what_travels_to_executors_is_of_the_storage_alone() -> None:
    given = {"s3.endpoint": "http://s3", "credential": "a:cAnAry", "token": "cAnAry", "uri": "x"}
    io = make_file_io({**given, "header.Authorization": "cAnAry", "client.region": "r"}, "s3://b/t")
    retries = {"s3.retry-strategy-impl": "firnline_iceberg.storage.arrow_file_io.PatientRetries"}
    assert io.properties == {"s3.endpoint": "http://s3", "client.region": "r", **retries}
    storage = TableStorage.from_io(io, "s3://b/t")
    assert b"cAnAry" not in pickle.dumps(storage)
    vended = VendedCredentials(LAKE, {}, ("db", "t"), (keys("k", 60),), fresh_credentials)
    again: TableStorage = pickle.loads(pickle.dumps(TableStorage({}, "s3://b/t", vended)))
    made = again.make_io()
    assert isinstance(made, VendedFileIO)
    assert made.vended.first[0].config["s3.access-key-id"] == "k"
    assert "cAnAry" not in repr(again)


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("AWS Error ACCESS_DENIED during HeadObject operation: No response body.", True),
        ("AWS Error UNKNOWN (HTTP status 403) during UploadPart operation", True),
        ("AWS Error UNKNOWN (HTTP status 503) during GetObject operation: SlowDown", False),
        ("AWS Error NETWORK_CONNECTION during HeadObject operation", False),
        ("When reading key 'a/401/b': AWS Error INTERNAL_FAILURE", False),
    ],
)
def test_a_refusal_of_the_storage_is_told_from_its_absence(text: str, denied: bool) -> None:
    assert is_denied(OSError(text)) is denied


@pytest.mark.parametrize("given", [{"s3.remote-signing-enabled": "true"}, {"s3.signer": "X"}])
def test_a_catalog_that_signs_each_request_is_refused_clearly(given: dict[str, str]) -> None:
    with pytest.raises(TaskRefused, match="vended-credentials") as caught:
        refuse_remote_signing(given, "db.t")
    assert caught.value.reason == "remote_signing"
    refuse_remote_signing({**given, "s3.access-key-id": "ours"}, "db.t")
