"""Spellings of one path: those that are passed on mean the same to everybody."""

from __future__ import annotations

from posixpath import normpath
from urllib.parse import unquote

import pytest
from firnline_gateway.rest.routes import (
    CallKind,
    OutsideCatalog,
    check_target,
    config_base,
    route_of,
)
from hypothesis import example, given
from hypothesis import strategies as st

TABLE = "/v1/namespaces/n/tables/t"


@pytest.mark.parametrize(
    "target",
    [
        "/../other-app/v1/namespaces/n/tables/t",
        "/v1/../../other-app",
        "/v1/%2e%2e/x",
        "/v1/.%2E/x",
        "/v1/%252e%252e/x",
        "/v1/%25252e%25252e/x",
        "/v1/..%2fother/x",
        "/v1/..%5cother/x",
        "/v1/x%2F..%2Fy",
        "/v1/..;/x",
        "/v1/..%3bx/y",
        "/v1/./x",
        "/v1/x/..",
        "/v1/%c0%ae%c0%ae/x",  # a dot, too long for UTF-8
        "/v1\\..\\x",
        "\\\\evil.example/v1/x",
        "http://evil.example/v1/x",
        "HTTP://127.0.0.1/v1/x",
        "evil.example:443",
        "@evil.example/v1/x",
        "*",
        "",
        TABLE + "#x",
        TABLE + ";a=b",
        TABLE + "\t",
        TABLE + "?x=\r\nHost: evil",
        TABLE + "%00",
        TABLE + "%",
        TABLE + "%u002e",
        TABLE + "%ff",
        TABLE + "\udcff",
        TABLE + "?\udcff",
        "/v1/%" + "25" * 9 + "2e",
    ],
)
def test_what_could_lead_away_or_be_read_in_two_ways_is_refused(target: str) -> None:
    with pytest.raises(OutsideCatalog):
        check_target(target)


@pytest.mark.parametrize(
    "target",
    [
        TABLE,
        "//evil.example/v1/x",  # a path below the base, whatever it looks like
        "/v1/namespaces/a%1Fb%2Ec/tables/t%2F1",
        "/v1/namespaces/a.b/tables/..x",
        "/v1/namespaces/caf%C3%A9/tables/t%20x%3Bx%23%5C",
        "/v1/namespaces/café/tables/100%25",
        "/v1/config?warehouse=s3://b/../x;y\\z",
        "/v1/main%7Cw/namespaces/n/tables/$t@x",
    ],
)
def test_names_of_all_kinds_pass(target: str) -> None:
    check_target(target)


ODD = st.sampled_from(
    ["..", ".", "%2e", "%2E%2e", "%252e", "%2f", "%5c", "/", "//", "v1", "namespaces", "n", ";",
     "\\", "%", "%25", "t", "?", "#", "@", ":", "%c0%ae", "x", "%3b", "é", "\udcff"]
)  # fmt: skip


@given(st.lists(ODD, max_size=12).map(lambda parts: "/" + "".join(parts)))
@example("/%2e%2e%2f")
def test_what_passes_stays_below_the_base_however_often_it_is_read(target: str) -> None:
    try:
        check_target(target)
    except OutsideCatalog:
        return
    path = target.partition("?")[0]
    for _ in range(8):
        below = normpath("/base/x" + path.replace("\\", "/"))
        assert below == "/base/x" or below.startswith("/base/x/")
        path = unquote(path)


@pytest.mark.parametrize(
    "path",
    [
        TABLE + "/",
        TABLE + "//",
        "//v1/namespaces/n/tables/t",
        "/v1//namespaces/n/tables/t",
        "/v1/namespaces/n/tables//t",
        "/v1/namespaces/n/%74ables/t",
        "/v1/%6Eamespaces/n/tables/t",
        "/%761/namespaces/n/tables/t",
        "/v1/%256Eamespaces/n/tables/t",
        "/v1/namespaces/n/Tables/t",
        "/V1/Namespaces/n/TABLES/t",
        "/v1/namespaces/n/tables%2Ft",
        "/v1/namespaces%2fn/tables/t",
        TABLE + "?x=1",
        TABLE + "/?",
    ],
)
def test_a_commit_is_found_however_it_is_spelt(path: str) -> None:
    check_target(path)
    route = route_of("POST", path)
    assert route is not None
    assert (route.kind, route.path) == (CallKind.COMMIT, TABLE)


def test_names_keep_their_spelling() -> None:
    route = route_of("POST", "/v1/Namespaces/Tables/tables/V1/")
    assert route is not None
    assert (route.namespace, route.table) == ("Tables", "V1")


@pytest.mark.parametrize(
    ("method", "path", "namespace", "table"),
    [
        ("PUT", TABLE, "n", "t"),
        ("PATCH", TABLE + "/", "n", "t"),
        ("POST", TABLE + "/undrop", "n", "t"),
        ("POST", "/v9/namespaces/n/tables/t", "n", "t"),
        ("POST", "/v1/namespaces/n/batch", "n", None),
        ("POST", "/v1/p/transactions", None, None),
        ("POST", "/v1/p/tables/swap", None, None),
    ],
)
def test_what_may_change_a_table_in_ways_that_we_do_not_know_is_looked_after(
    method: str, path: str, namespace: str | None, table: str | None
) -> None:
    route = route_of(method, path)
    assert route is not None
    assert (route.kind, route.namespace, route.table) == (CallKind.OTHER, namespace, table)


@pytest.mark.parametrize("path", ["/v1/config/", "//v1/config", "/v1/%63onfig", "/V1/Config"])
def test_the_config_is_found_however_it_is_spelt(path: str) -> None:
    """Else the client is led past us by the catalog's own URI."""
    assert config_base("GET", path) == ""
