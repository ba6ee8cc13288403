"""The only module that builds clients and starts the loop and the server."""

from __future__ import annotations

import asyncio
import signal
import threading
import uuid

import redis
from aiohttp import web
from firnline_adapters.clock import now_ms
from firnline_adapters.config.tls import server_context, url_scheme
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.kafka.poison_records import KafkaMarks, StartMarks
from firnline_adapters.observability.health import HEALTH, say_ready
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.signing import signer_of
from firnline_adapters.redis.client import redis_client
from firnline_domain.ports import Inbox
from firnline_domain.settings.groups import group_names, parse_groups
from redis.backoff import NoBackoff
from redis.retry import Retry

from firnline_console.follower import Follower
from firnline_console.handlers import topics_read
from firnline_console.http.api import Api
from firnline_console.read_model.gauges import Gauges
from firnline_console.read_model.port import Built, ReadModel
from firnline_console.read_model.redis import RedisReadModel
from firnline_console.settings import ConsoleSettings
from firnline_console.views.dead_letters import GROUP

REDIS_TIMEOUT_S = 2.0  # the page waits 8 s: it hears from us who is silent
CLOSE_S = 1.0  # open event streams are cut then


def texts_client(url: str) -> redis.Redis:
    """Return a client that decodes responses as text and fails after a short timeout; the callers
    decide about retries. Raises Misconfigured."""
    return redis_client(
        url,
        decode_responses=True,
        socket_timeout=REDIS_TIMEOUT_S,
        socket_connect_timeout=REDIS_TIMEOUT_S,
        # A connection that was cut is tried once more, a Redis that is silent is not.
        retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
    )


def create_follower(settings: ConsoleSettings, model: ReadModel, log: Log) -> Follower:
    """Return a follower of every topic over Kafka."""
    # It reads topics from their beginning, and nobody acts on what it shows.
    signer = signer_of(settings).without_expiry()
    publisher = KafkaPublisher(settings.broker, settings.buckets, "console", signer=signer)
    topics = topics_read(parse_groups(settings.groups))

    def open_inbox(group: str) -> Inbox:
        starts = StartMarks(KafkaMarks(settings.broker, group))
        return KafkaInbox(
            *(settings.broker, group, topics, publisher, log),
            starts=starts,
            lag_group=GROUP.removesuffix("-"),  # a group for each rebuild: series without end
        )

    def next_generation() -> Built:
        return Built(uuid.uuid4().hex[:12], now_ms())

    return Follower(model, open_inbox, next_generation, log)


async def serve(settings: ConsoleSettings, log: Log) -> None:
    """Serve until SIGTERM or SIGINT. Raises the error that ended the loop before."""
    client = texts_client(settings.redis)
    HEALTH.add_requirement("redis", client.ping)
    model = RedisReadModel(client)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    halt = threading.Event()
    run = create_follower(settings, model, log).run
    following = asyncio.create_task(asyncio.to_thread(run, halt, settings.rebuild))
    following.add_done_callback(lambda _: stop.set())
    groups = parse_groups(settings.groups)
    api = Api(model, now_ms, lambda: not following.done(), groups)
    fleet = Gauges(model, [*group_names(groups)])
    totals = asyncio.create_task(fleet.keep_set(now_ms))
    runner = web.AppRunner(api.create_application(), access_log=None, shutdown_timeout=CLOSE_S)
    await runner.setup()
    try:
        tls = server_context(settings.tls_certificate, settings.tls_key)
        await web.TCPSite(runner, *settings.listen_address, ssl_context=tls).start()
        say_ready(log, uri=f"{url_scheme(tls)}://{settings.listen_address}")
        await stop.wait()
    finally:
        halt.set()
        totals.cancel()
        await runner.cleanup()
        await following
        log.info("stopped")
