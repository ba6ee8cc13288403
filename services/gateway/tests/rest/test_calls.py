from __future__ import annotations

import pytest
from firnline_gateway.rest.routes import (
    CallKind,
    CatalogRoute,
    config_base,
    levels_of,
    route_of,
    table_path,
)


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("POST", "/v1/namespaces/a/tables/t", CatalogRoute(CallKind.COMMIT, "/v1", "a", "t")),
        (
            "POST",
            "/v1/w/namespaces/a%1Fb/tables/t",
            CatalogRoute(CallKind.COMMIT, "/v1/w", "a%1Fb", "t"),
        ),
        (
            "POST",
            "/v1/projects/p/catalogs/c/namespaces/a/tables",
            CatalogRoute(CallKind.CREATE, "/v1/projects/p/catalogs/c", "a"),
        ),
        ("POST", "/iceberg/v1/main%7Cw/namespaces/a/register",
         CatalogRoute(CallKind.REGISTER, "/iceberg/v1/main%7Cw", "a")),
        ("DELETE", "/v1/namespaces/a/tables/t?purgeRequested=true",
         CatalogRoute(CallKind.DROP, "/v1", "a", "t")),
        ("POST", "/v1/namespaces/a/tables/t/unregister",
         CatalogRoute(CallKind.UNREGISTER, "/v1", "a", "t")),
        ("POST", "/v1/p/tables/rename", CatalogRoute(CallKind.RENAME, "/v1/p")),
        ("POST", "/v1/transactions/commit", CatalogRoute(CallKind.TRANSACTION, "/v1")),
    ],
)  # fmt: skip
def test_table_changing_calls_are_found(method: str, path: str, route: CatalogRoute) -> None:
    assert route_of(method, path) == route


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/namespaces/a/tables/t"),
        ("HEAD", "/v1/namespaces/a/tables/t"),
        ("POST", "/v1/namespaces/a/tables/t/metrics"),
        ("POST", "/v1/namespaces/a/tables/t/plan"),
        ("POST", "/v1/namespaces/a/views/t"),
        ("POST", "/v1/views/rename"),
        ("POST", "/v1/namespaces/a/properties"),
        ("DELETE", "/v1/namespaces/a"),
        ("POST", "/v1/oauth/tokens"),
    ],
)
def test_all_other_calls_only_pass_through(method: str, path: str) -> None:
    assert route_of(method, path) is None


@pytest.mark.parametrize(
    ("segment", "separator", "levels"),
    [
        ("a", "%1F", ("a",)),
        ("a%1Fb%1fc", "%1F", ("a", "b", "c")),
        ("a%1Fb", "%2E", ("a", "b")),  # every server still takes the spec's
        ("a%2Eb", "%2E", ("a", "b")),  # Java
        ("a.b", "%2E", ("a", "b")),  # PyIceberg 0.12
        ("a.b", "%1F", ("a.b",)),
        ("caf%C3%A9%20x%1Fy%2Fz", "%1F", ("café x", "y/z")),
        ("one+two", "%1F", ("one two",)),  # Java's URLEncoder
        ("one%2Btwo", "%1F", ("one+two",)),
    ],
)
def test_namespace_levels(segment: str, separator: str, levels: tuple[str, ...]) -> None:
    assert levels_of(segment, separator) == levels


@pytest.mark.parametrize("separator", ["%1F", "%2E"])
def test_a_path_made_from_names_names_them_again(separator: str) -> None:
    levels = ("a b", "c/d", "é")
    path = table_path("/v1/p", levels, "t/1", separator)
    route = route_of("POST", path)
    assert route is not None
    assert levels_of(route.namespace or "", separator) == levels
    assert route.table == "t%2F1"


@pytest.mark.parametrize(
    ("method", "path", "base"),
    [
        ("GET", "/v1/config", ""),
        ("GET", "/v1/config?warehouse=w", ""),
        ("GET", "/iceberg/v1/config", "/iceberg"),
        ("GET", "/v1/configs", None),
        ("POST", "/v1/config", None),
    ],
)
def test_the_config_call_is_found(method: str, path: str, base: str | None) -> None:
    assert config_base(method, path) == base
