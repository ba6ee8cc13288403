"""Endpoints of the console."""

from __future__ import annotations

import inspect
from typing import Any

from aiohttp import web
from firnline_console.http.api import Api
from firnline_console.http.query_parameters import BadParameter, Parameter

from tests.tools.reference.markdown import cell, table


def list_endpoints() -> str:
    """Return the table of endpoints with their query parameters."""
    model: Any = None
    application = Api(model, lambda: 0, lambda: True).create_application()
    return table(
        "path | parameters | answer",
        (_row(route) for route in application.router.routes() if route.method == "GET"),
    )


def _row(route: web.AbstractRoute) -> str:
    known = inspect.getclosurevars(route.handler).nonlocals
    path = route.resource.canonical if route.resource else ""
    parameters = "; ".join(map(_parameter, known["declared"].values())) or "-"
    return f"`{path}` | {parameters} | {cell(inspect.getdoc(known['handler']) or '')}"


def _parameter(parameter: Parameter) -> str:
    """Return a parameter with the values that it takes, as its own refusal names them."""
    try:
        parameter.read("\0")
    except BadParameter as error:
        values = str(error)
    else:
        values = "a text"
    default = "" if parameter.default in (None, "") else f", default `{parameter.default}`"
    return f"`{parameter.name}`: {cell(values)}{default}"
