"""The console's API over a read model in Redis."""

from __future__ import annotations

from typing import Any

from aiohttp.test_utils import TestClient, TestServer
from firnline_console.http.api import Api
from firnline_console.read_model.port import Built

from tests.kit.console_model import TestReadModel

NOW = 1_795_270_005_000  # of its clock, in milliseconds


class Site:
    """The API, its model, and whether the topics are followed."""

    def __init__(self, redis: str) -> None:
        self.model = TestReadModel(redis)
        self.model.begin_generation(Built("g", 1), replace=False)
        self.following = True
        api = Api(self.model, lambda: NOW, lambda: self.following)
        self.client = TestClient(TestServer(api.create_application()))

    def tell(self, *facts: Any) -> None:
        self.model.apply("g", facts)

    async def get(self, path: str) -> Any:
        answer = await self.client.get(path)
        assert answer.status == 200, await answer.text()
        return await answer.json()
