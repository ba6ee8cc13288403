"""An engine's end of the pipe: one JSON line per question, one per answer."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

Question = dict[str, Any]
Act = Callable[[Question], dict[str, Any]]


def serve(start: Callable[[Question], Act]) -> None:
    """`start` makes, from the settings (the only argument), what answers questions. Ends with
    stdin. Whatever else writes to stdout (a JVM, a library) goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    act = _tried(start, json.loads(sys.argv[1]), answers)
    if act is None:
        return
    for line in sys.stdin:
        answer = _tried(act, json.loads(line), answers)
        if answer is not None:
            print(json.dumps(answer), file=answers)


def _tried(call: Callable[[Question], Any], question: Question, answers: Any) -> Any:
    """None where it failed: the error is the answer then."""
    try:
        found = call(question)
    except BaseException as error:
        traceback.print_exc()
        print(json.dumps({"error": f"{type(error).__name__}: {error}"[:4000]}), file=answers)
        return None
    if callable(found):
        print(json.dumps({}), file=answers)
    return found
