"""The worker's size while a stack runs: asked for on the planner's topic, told in the events."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from firnline_adapters.directives import KafkaDirectives
from firnline_adapters.signing import RecordSigner
from firnline_domain.errors import Misconfigured, RetryLater
from firnline_domain.policy.memory_tuning import Steps
from firnline_domain.settings.groups import group_name

from firnline_local.sizing import Size, most_bytes, size
from firnline_local.state import Event
from firnline_local.supervised import Announce

WORKER = "worker"
GROUP_VARIABLE = "FIRNLINE_RESOURCE_GROUP"  # the worker's own; unset: the default group
LOOK_S = 1.0


class WorkerSize:
    """Listens once it was told where. Without an answer the worker keeps the size that it has."""

    def __init__(self, given: Mapping[str, str], announce: Announce) -> None:
        """`given`: settings of the worker's that go over our environment."""
        self._given = {**os.environ, **given}
        self._announce = announce
        self._directives: KafkaDirectives | None = None
        self._base: Size | None = None
        self._size: Size | None = None
        self._looked = 0.0

    def listen(self, bootstrap: str, signer: RecordSigner) -> None:
        """Take the size that holds from the topic; it is there then."""
        try:
            if not most_bytes():
                return
            self._base = self._size = size(self._given, Steps(), most_bytes())
            group = group_name(GROUP_VARIABLE, self._given.get(GROUP_VARIABLE, ""))
            self._directives = KafkaDirectives(bootstrap, group, signer)
            self._resize(self._directives)
        except (RetryLater, Misconfigured, ValueError) as error:  # of a broker, or of a setting
            self.close()
            self._announce(Event(WORKER, "size-kept", str(error)))

    def changed(self) -> bool:
        """True if the worker is to have another size than when this was asked last."""
        if self._directives is None or time.monotonic() - self._looked < LOOK_S:
            return False
        self._looked = time.monotonic()
        return self._resize(self._directives)

    def _resize(self, directives: KafkaDirectives) -> bool:
        wished = directives.requested_steps(int(time.time() * 1000))
        after = size(self._given, wished, most_bytes())
        if after == self._size:
            return False
        before, self._size = self.settings, after
        self._announce(Event(WORKER, "sized", str(after)))
        return self.settings != before  # it may wish for more and get no more

    @property
    def settings(self) -> Mapping[str, str]:
        """What goes over the worker's own."""
        if self._size is None or self._base is None:
            return {}
        return self._size.settings if self._size.settings != self._base.settings else {}

    def close(self) -> None:
        """Listen no more."""
        if self._directives is not None:
            self._directives.close()
            self._directives = None
