"""What a process says has no secrets: its log, its dead letters, its events."""

from __future__ import annotations

import subprocess
import sys

from firnline_adapters.in_memory import MemoryBroker, MemoryPublisher
from firnline_domain.records.events import DeadLettered

SAYS = """
import logging, threading
from firnline_adapters.observability.logs import start_logging
log = start_logging("test")
secret = "s3cr3t-word"
log.info("starting", redis=f"redis://u:{secret}@h", why=f"Bearer {secret}")
logging.getLogger("py4j.java_gateway").warning("password=%s", secret)
try:
    raise ValueError(f"http://u:{secret}@h is away")
except ValueError as error:
    log.error("failed", error, token=secret)
def thread():
    raise RuntimeError(f"secret={secret}")
one = threading.Thread(target=thread); one.start(); one.join()
raise RuntimeError(f"redis://:{secret}@h")
"""


def test_no_line_of_a_log_has_a_secret_not_even_the_last() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SAYS], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "s3cr3t" not in ended.stderr + ended.stdout
    assert "redis://***@h" in ended.stderr
    assert ended.stderr.count("Traceback") == 3
    assert ended.stderr.count("action=uncaught") == 2


def test_words_of_a_record_have_no_secret() -> None:
    broker = MemoryBroker()
    letter = DeadLettered("t", 0, 1, b"k", b"v", "bad", "at redis://u:s3cr3t@h", "worker", 5)
    MemoryPublisher(broker).publish("dead-letters", "k", letter)
    (found,) = broker.records("dead-letters")
    assert found.message == "at redis://***@h"
    assert found.value == b"v"
