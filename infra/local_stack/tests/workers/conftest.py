"""A console to ask: `site`; and an API server of Kubernetes."""

from __future__ import annotations

from tests.kit.console_model import console_redis as console_redis
from tests.kit.console_site import site as site
from tests.kit.kubernetes_server import kubernetes as kubernetes
from tests.kit.kubernetes_server import kubernetes_api as kubernetes_api
