"""The loop that follows the topics, from one generation of the view to the next."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from firnline_adapters.observability.logs import Log
from firnline_domain.errors import RetryLater
from firnline_domain.ports import Inbox

from firnline_console.handlers import on_deliveries
from firnline_console.read_model.port import Built, ReadModel, ViewLost
from firnline_console.views.dead_letters import GROUP

POLL_S = 0.5
RETRY_S = 1.0


class Follower:
    """The loop that folds every topic into the read model until it is stopped. A generation has its
    own consumer group, which begins at the topics' beginning. A new generation begins on a
    requested rebuild, and when the store has lost its data."""

    def __init__(
        self,
        model: ReadModel,
        open_inbox: Callable[[str], Inbox],
        next_generation: Callable[[], Built],
        log: Log,
    ) -> None:
        self._model = model
        self._open_inbox = open_inbox
        self._next_generation = next_generation
        self._log = log

    def run(self, stop: Event, rebuild: bool = False) -> None:
        """Follow the topics until `stop` is set; wait and retry when Kafka or Redis fails."""
        while not stop.is_set():
            try:
                built = self._begin_generation(rebuild)
                rebuild = False
                self._follow_topics(built, stop)
            except ViewLost:
                self._log.warning("view_lost", then="rebuild")
            except RetryLater as error:
                self._log.warning("waiting", why=error)
                stop.wait(RETRY_S)

    def _begin_generation(self, rebuild: bool) -> Built:
        """Begin a generation of the read model; resume the present one unless `rebuild`."""
        new = self._next_generation()
        built = self._model.begin_generation(new, replace=rebuild)
        action = "rebuild" if built == new else "resume"
        self._log.info(action, generation=built.generation)
        return built

    def _follow_topics(self, built: Built, stop: Event) -> None:
        inbox = self._open_inbox(GROUP + built.generation)
        try:
            while not stop.is_set():
                deliveries = inbox.poll(POLL_S)
                if not deliveries and self._model.current_generation() != built:
                    raise ViewLost(built.generation)
                on_deliveries(self._model, built.generation, inbox, deliveries, self._log)
        except (ViewLost, RetryLater):
            inbox.close()
            raise
        except BaseException:
            inbox.close(died=True)
            raise
        inbox.close()
