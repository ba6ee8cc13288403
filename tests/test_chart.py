"""The Helm chart fits the code: settings, ports, probes, consumer groups, alerts.

`make test-chart` has it rendered and checked by Kubernetes' API server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from firnline_adapters.config.config_file import read_config
from firnline_adapters.config.settings import READERS, all_settings
from firnline_adapters.observability.health import ServiceHealth, wsgi_application
from firnline_cli.__main__ import main
from firnline_committer import bootstrap as committer
from firnline_console.http.api import WORKERS_ASKED
from firnline_console.settings import ConsoleSettings
from firnline_console.views.capacity import WorkerCapacity
from firnline_console.views.workers import workers_json
from firnline_domain.policy.fleet.lanes import Lane
from firnline_domain.version import VERSION
from firnline_enricher import bootstrap as enricher
from firnline_gateway.bootstrap import DRAIN_S, LAST_FLUSH_S
from firnline_gateway.settings import GatewaySettings
from firnline_listener.settings import ListenerSettings

from tests.tools.reference.alerts import RULES

CHART = Path(__file__).parents[1] / "infra/helm/firnline"
TEMPLATES = "\n".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
KINDS = {"string": str, "boolean": bool, "integer": int, "object": dict, "array": list}
OPTIONAL = {"secret", "env", "podSpec", "podAnnotations", "serviceAccountAnnotations"}


def read_definition(name: str) -> Any:
    found = re.search(rf'define "{name}" -}}}}\n(.*?){{{{- end }}}}', TEMPLATES, re.DOTALL)
    assert found
    return yaml.safe_load(found[1])


SERVICES: dict[str, dict[str, Any]] = read_definition("firnline.services")


def test_versions_are_those_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_every_service_has_a_workload_that_exists() -> None:
    assert {*SERVICES} == {*READERS} - {"firnline"}
    assert [name for name in SERVICES if not find_spec(f"firnline_{name}.__main__")] == []
    commands = re.findall(r"args: \[firnline_cli, ([a-z-]+)(.*)\]", TEMPLATES)
    assert {name for name, _ in commands} == {"topics", "demo"}
    for name, arguments in commands:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        options = {option for one in command.params for option in one.opts}
        assert {*re.findall(r"--[a-z-]+", arguments)} <= options


def test_variables_are_settings_and_those_that_are_required_are_set() -> None:
    known = {one.variable for one in all_settings()}
    named = set(re.findall(r"FIRNLINE_[A-Z_]*[A-Z]", TEMPLATES))
    assert named - known == set()
    required = {one.variable for one in all_settings() if one.is_required}
    assert required - named == {"FIRNLINE_ICEBERG_JAR"}  # the image sets it


def test_ports_are_those_that_services_have_by_default() -> None:
    ports = {name: one["port"] for name, one in SERVICES.items() if "port" in one}
    assert ports == {
        "gateway": GatewaySettings.listen_address.port,
        "listener": ListenerSettings.listen_address.port,
        "console": ConsoleSettings.listen_address.port,
    }


def test_a_gateway_has_time_to_finish_its_calls() -> None:
    [leave_s] = re.findall(r'command: \[sleep, "(\d+)"\]', TEMPLATES)
    assert SERVICES["gateway"]["graceSeconds"] > int(leave_s) + DRAIN_S + LAST_FLUSH_S
    [grace_s] = re.findall(r'"FIRNLINE_GRACE_SECONDS" (\d+)', TEMPLATES)
    assert SERVICES["worker"]["graceSeconds"] > int(grace_s)


def test_probes_ask_for_pages_that_exist() -> None:
    pages = set(re.findall(r"httpGet: \{path: (\S+), port: metrics\}", TEMPLATES))
    statuses = dict[str, str]()
    for page in pages:
        answer = wsgi_application(ServiceHealth())
        answer({"PATH_INFO": page}, lambda status, _, page=page: statuses.update({page: status}))
    assert statuses == {"/healthz": "200 OK", "/readyz": "503 Service Unavailable"}


def test_scalers_name_consumer_groups_topics_and_numbers_that_exist() -> None:
    [line] = re.findall(r"\$topics := dict (.*) }}", TEMPLATES)
    read = {name: re.findall(r'"([^"]+)"', topics)
            for name, topics in re.findall(r'"(\w+)" \(list ([^)]*)\)', line)}  # fmt: skip
    assert read == {enricher.GROUP: [*enricher.TOPICS], committer.GROUP: [*committer.TOPICS]}
    answer = workers_json([], WorkerCapacity(), ["etl"], now_ms=0)
    lanes = SCHEMA["$defs"]["worker"]["properties"]["lanes"]["items"]["enum"]
    assert lanes == [*Lane]
    for demand in (answer, answer["groups"]["etl"]):
        assert [demand[lane]["wanted"] for lane in (*lanes, "both")] == [0, 0, 0]
    [path] = re.findall(r"valueLocation: (.*)", TEMPLATES)
    assert path.startswith("{{ with $service.group }}groups.{{ . }}.{{ end }}{{ ternary ")
    assert re.findall(r'"(\w+)"', path) == ["both"]
    assert path.endswith(".wanted")
    [query] = re.findall(r"/api/workers\?(.+)", TEMPLATES)
    assert re.findall(r"(\w+)=", query) == [one.name for one in WORKERS_ASKED if one.name != "max"]


def test_some_worker_takes_each_queue() -> None:
    assert {lane for one in VALUES["workers"].values() for lane in one["lanes"]} == {*Lane}


def test_alerts_and_boards_are_those_of_the_project() -> None:
    linked = {path.name: path.resolve() for path in (CHART / "files").iterdir()}
    assert linked == {"alerts.yaml": RULES, "boards": RULES.parent / "boards"}
    assert 'Files.Get "files/alerts.yaml"' in TEMPLATES
    assert 'Files.Glob "files/boards/*.json"' in TEMPLATES


def test_the_trial_names_servers_that_it_starts() -> None:
    trial = CHART.parent / "trial"
    file = read_config(str(trial / "firnline.toml"))
    assert file is not None
    texts = (*file.catalogs["lake"].values(), *file.kafka.values(), *file.redis.values())
    named = {found for text in texts for found in re.findall(r"([a-z0-9-]+:\d+)", text)}
    servers = [*yaml.safe_load_all((trial / "servers.yaml").read_text())]
    started = {f"{one['metadata']['name']}:{port['port']}"
               for one in servers if one["kind"] == "Service"
               for port in one["spec"]["ports"]}  # fmt: skip
    assert named == {*started, f"firnline-gateway:{SERVICES['gateway']['port']}"}


def find_faults(value: Any, schema: dict[str, Any], where: str) -> Iterator[str]:
    """Yield what of the values the schema does not describe, and what it describes that the values
    leave out."""
    if reference := schema.get("$ref"):
        schema = SCHEMA["$defs"][reference.removeprefix("#/$defs/")]
    if choice := schema.get("anyOf"):
        schema = SCHEMA["$defs"][choice[0]["$ref"].removeprefix("#/$defs/")]
    kinds = schema.get("type", [])
    if kinds and not any(
        value is None if kind == "null" else isinstance(value, KINDS.get(kind, int))
        for kind in ([kinds] if isinstance(kinds, str) else kinds)
    ):
        yield f"{where}: not {kinds}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: not one of {schema['enum']}"
    if isinstance(value, dict):
        properties, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        yield from (f"{where}.{name}: no value" for name in properties.keys() - value - OPTIONAL)
        for name, inner in value.items():
            if name not in properties and more is False:
                yield f"{where}.{name}: not in the schema"
            rule = properties.get(name, more)
            yield from find_faults(inner, rule if isinstance(rule, dict) else {}, f"{where}.{name}")


def test_the_schema_describes_all_values_and_no_others() -> None:
    assert [*find_faults(VALUES, SCHEMA, "values")] == []


@pytest.mark.parametrize(
    "change",
    [{"bukets": 8}, {"buckets": "8"}, {"gateway": {**VALUES["gateway"], "persistence": {}}}],
)
def test_values_that_the_schema_does_not_describe_are_seen(change: dict[str, Any]) -> None:
    assert [*find_faults(VALUES | change, SCHEMA, "values")]


def test_values_are_used_by_templates() -> None:
    """So that none is left when its template goes."""
    objects = {name: rule["properties"] for name, rule in SCHEMA["properties"].items()
               if "properties" in rule}  # fmt: skip
    named = {*VALUES, *(name for properties in objects.values() for name in properties)}
    used = set(re.findall(r"\.(\w+)", TEMPLATES))
    assert named - used - {*SERVICES} == set()
