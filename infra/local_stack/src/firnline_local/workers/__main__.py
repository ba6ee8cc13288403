"""Set number and memory of the workers on Kubernetes until SIGTERM: `python -m
firnline_local.workers DEPLOYMENT...`, in a pod that may get and patch these Deployments and their
scale."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial

from firnline_adapters import clock
from firnline_adapters.kafka.worker_directives import KafkaDirectives
from firnline_adapters.observability.health import say_ready
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.signing import signer_of
from firnline_adapters.service import ServiceSettings, run_service
from firnline_domain.errors import RetryLater
from firnline_domain.policy.fleet.lanes import Lane
from firnline_domain.policy.fleet.worker_memory import Steps

from firnline_local.workers.demand import read_wanted
from firnline_local.workers.keeper import WorkerKeeper
from firnline_local.workers.kubernetes import ApiServer, WorkerDeployment

LOOK_S = 5.0


def main() -> None:
    """Run until SIGTERM. Exit with code 2 if a Deployment is not one of the chart."""
    with run_service("scaler", ServiceSettings) as (settings, log):
        server = ApiServer.of_pod()
        keepers: dict[str, WorkerKeeper] = {}
        say_ready(log, deployments=",".join(sys.argv[1:]))
        while True:
            run_keepers(
                sys.argv[1:],
                keepers,
                lambda name: make_keeper(WorkerDeployment(server, name), settings, log),
                log,
            )
            time.sleep(LOOK_S)


def run_keepers(
    names: Iterable[str],
    keepers: dict[str, WorkerKeeper],
    make: Callable[[str], WorkerKeeper],
    log: Log,
) -> None:
    """Run what is due for each Deployment. Make its keeper first if that has not been possible
    yet. What cannot be done now is logged and tried at the next call."""
    for name in names:
        try:
            if name not in keepers:
                keepers[name] = make(name)
            keepers[name].run_due_actions()
        except RetryLater as later:
            log.warning("tried_later", deployment=name, why=later)


def make_keeper(workers: WorkerDeployment, settings: ServiceSettings, log: Log) -> WorkerKeeper:
    """Return the keeper of a Deployment. Only workers of the heavy queue have directives. Raises
    RetryLater."""
    directives = None
    if Lane.HEAVY in workers.lanes:
        directives = KafkaDirectives(settings.broker, workers.group, signer_of(settings))
    drain_s = workers.limits.drain_s if workers.limits else 0
    console = os.environ.get("FIRNLINE_CONSOLE_URI", "")
    return WorkerKeeper(
        workers,
        workers.limits,
        partial(read_wanted, console, workers.group, workers.lanes, workers.cores, drain_s),
        partial(_requested_steps, directives),
        lambda what, detail: log.info(what, deployment=workers.name, detail=detail),
    )


def _requested_steps(directives: KafkaDirectives | None) -> Steps | None:
    return directives.requested_steps(clock.now_ms()) if directives is not None else None


if __name__ == "__main__":
    main()
