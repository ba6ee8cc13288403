"""Which records are signed, for how long orders count, and how keys are given."""

from __future__ import annotations

from pathlib import Path

import pytest
from firnline_adapters.config.redaction import redact
from firnline_adapters.records.signing import MAX_AGE_H, RecordSigner, signer_at, unsigned_topics
from firnline_domain.errors import Misconfigured
from firnline_domain.records.signing import Keyring, SignatureRefused, SigningKey
from firnline_schemas.topics import TopicSignature, all_topics, topics_with

HOUR_MS = 3_600_000
NAMES = [topic.name for topic in all_topics()]
OLD, NEW = "11" * 32, "22" * 32


def believed(topic: str, age_h: float, max_age_h: float = 168) -> bool:
    keys = Keyring((SigningKey("k", b"k" * 32),))
    then = RecordSigner(keys, None, lambda: 0)
    now = RecordSigner(keys, int(max_age_h * HOUR_MS), lambda: int(age_h * HOUR_MS))
    headers = then.sign_headers(topic, 1, b"key", b"value")
    try:
        now.verify_record(topic, 1, b"key", b"value", headers)
    except SignatureRefused as refused:
        return refused.reason != "stale"
    return True


@pytest.mark.parametrize("topic", [*NAMES, "rewrite-tasks.etl", "rewrite-tasks-heavy.etl"])
def test_all_that_is_believed_is_signed(topic: str) -> None:
    signer = RecordSigner(Keyring((SigningKey("k", b"k" * 32),)))
    for value in (b"v", None):
        version, *signature = signer.sign_headers(topic, 0, b"k", value)
        assert version == ("firnline-version", b"0.1.0")
        assert bool(signature) == (topic not in unsigned_topics())
    if topic not in unsigned_topics():
        with pytest.raises(SignatureRefused):
            signer.verify_record(topic, 0, b"k", b"v", None)
        with pytest.raises(SignatureRefused):  # a tombstone is not an empty value
            signer.verify_record(topic, 0, b"k", None, signer.sign_headers(topic, 0, b"k", b""))


def test_what_is_ordered_and_what_people_alone_read() -> None:
    assert topics_with(TopicSignature.EXPIRES) >= {
        "rewrite-tasks", "rewrite-tasks-heavy", "table-tasks", "compare-tasks", "task-results",
        "resync-requests", "operator-orders",
    }  # fmt: skip
    assert unsigned_topics() == {"advice", "dead-letters", "schemas"}


def test_orders_and_results_count_for_a_week_and_facts_for_ever() -> None:
    assert MAX_AGE_H == 168
    for topic in (
        *(topics_with(TopicSignature.EXPIRES) - {"operator-orders"}),
        "rewrite-tasks.etl",
    ):
        assert believed(topic, 167)
        assert not believed(topic, 169)
        assert not believed(topic, 3, max_age_h=2)
    for topic in ("file-changes", "maintenance-events", "table-commits", "bucket-assignments"):
        assert believed(topic, 24 * 365)
    assert believed("operator-orders", 24 * 30, max_age_h=1)  # a pause holds as long as it is kept
    assert not believed("operator-orders", 24 * 32)


def test_who_only_shows_reads_all_that_is_kept() -> None:
    keys = Keyring((SigningKey("k", b"k" * 32),))
    headers = RecordSigner(keys, None, lambda: 0).sign_headers("task-results", 0, b"k", b"v")
    late = RecordSigner(keys, HOUR_MS, lambda: 9 * HOUR_MS)
    late.without_expiry().verify_record("task-results", 0, b"k", b"v", headers)
    with pytest.raises(SignatureRefused):
        late.verify_record("task-results", 0, b"k", b"v", headers)


def test_keys_change_while_everything_runs(tmp_path: Path) -> None:
    """The new key comes behind the old one everywhere, then before it, then the old goes."""
    file = tmp_path / "keys"
    file.write_text(f"old:{OLD}\n\nnew:{NEW}\n")
    both = signer_at({"FIRNLINE_SIGNING_KEYS": str(file)})
    swapped = signer_at({"FIRNLINE_SIGNING_KEYS": f"new:{NEW}, old:{OLD}"})
    new = signer_at({"FIRNLINE_SIGNING_KEYS": f"new:{NEW}"})
    record = ("task-results", 0, b"k", b"v")
    for first, second in ((both, swapped), (swapped, both), (swapped, new), (new, swapped)):
        second.verify_record(*record, first.sign_headers(*record))
    with pytest.raises(SignatureRefused) as refused:
        new.verify_record(*record, both.sign_headers(*record))
    assert refused.value.reason == "unknown_key"


def test_a_forgotten_key_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(Misconfigured, match="FIRNLINE_SIGNING_KEYS") as caught:
        signer_at({})
    assert "openssl rand -hex 32" in str(caught.value)
    assert not signer_at({"FIRNLINE_SIGNING_KEYS": "off"}).keys.is_signing


@pytest.mark.parametrize(
    "wrong",
    [
        {"FIRNLINE_SIGNING_KEYS": "/nowhere/keys"},
        {"FIRNLINE_SIGNING_KEYS": ","},
        {"FIRNLINE_SIGNING_KEYS": "abc"},
        {"FIRNLINE_SIGNING_KEYS": "k:s3cr3t-no-hex"},
        {"FIRNLINE_SIGNING_KEYS": f"k:{'ab' * 31}"},
        {"FIRNLINE_SIGNING_KEYS": f"k:{OLD},k:{NEW}"},
        {"FIRNLINE_SIGNING_KEYS": OLD},
        {"FIRNLINE_SIGNING_KEYS": "no"},
    ],
)
def test_a_wrong_setting_is_an_error_that_quotes_no_key(wrong: dict[str, str]) -> None:
    with pytest.raises(Misconfigured) as caught:
        signer_at(wrong)
    assert not any(secret in str(caught.value) for secret in ("s3cr3t", "abab", "1111", "2222"))


def test_a_key_is_masked_wherever_it_is_quoted() -> None:
    signer_at({"FIRNLINE_SIGNING_KEYS": f"k:{'0f1e2d3c' * 8}"})
    assert "0f1e2d3c" not in redact(f"got {'0f1e2d3c' * 8}")
