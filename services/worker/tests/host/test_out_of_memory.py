"""What the masters say of an executor that ran out of memory, in the words of Spark 4.1."""

from __future__ import annotations

import pytest
from firnline_domain.policy.fleet.worker_memory import MemoryKind
from firnline_worker.host.out_of_memory import exhausted_memory, is_out_of_memory

YARN = "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: "


@pytest.mark.parametrize(
    ("text", "code", "kind"),
    [
        (YARN + "Container from a bad node: c_1 on host: h. Exit status: 137.", "137", "overhead"),
        (
            YARN + "Container killed by YARN for exceeding physical memory limits. 5.5 GB of 5 GB "
            "physical memory used. Consider boosting spark.executor.memoryOverhead.",
            "exceeding",
            "overhead",
        ),
        (YARN + "Container killed on request. Exit code is 137", "137", "overhead"),
        (
            "The executor with id 1 exited with exit code 137(SIGKILL, possible container OOM).",
            "137",
            "overhead",
        ),
        ("The executor with id 1 exited with exit code 52(JVM OOM).", "52", "heap"),
        ("Command exited with code 137", "137", "overhead"),
        ("Command exited with code 52", "52", "heap"),
    ],
)
def test_a_lost_executor_was_out_of_memory(text: str, code: str, kind: str) -> None:
    error = RuntimeError(text)
    assert is_out_of_memory(error)
    assert exhausted_memory(error) is MemoryKind(kind)
    assert not is_out_of_memory(RuntimeError(text.replace(code, "1")))


def test_another_number_that_begins_alike_is_no_exit_of_memory() -> None:
    assert not is_out_of_memory(RuntimeError("The executor with id 1 exited with exit code 521"))
