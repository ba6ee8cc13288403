"""The import contracts of pyproject.toml catch what they are there for."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter.api import read_configuration
from importlinter.contracts.acyclic_siblings import AcyclicSiblingsContract
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.independence import IndependenceContract
from importlinter.contracts.layers import LayersContract
from importlinter.domain.contract import Contract

ROOT = Path(__file__).parents[1]
CONFIGURATION = read_configuration(str(ROOT / "pyproject.toml"))
OPTIONS = CONFIGURATION["session_options"]
CONTRACTS = {one["name"]: one for one in CONFIGURATION["contracts_options"]}
TYPES: dict[str, type[Contract]] = {
    "acyclic_siblings": AcyclicSiblingsContract,
    "forbidden": ForbiddenContract,
    "independence": IndependenceContract,
    "layers": LayersContract,
}
PLANTED = [  # beginning of a contract's name, importer, imported
    ("No packages", "firnline_iceberg.storage.paths", "firnline_iceberg.table.locations"),
    ("No packages", "firnline_worker.plan.slices", "firnline_worker.plan.planning"),
    ("Members", "firnline_worker.handlers", "firnline_planner.handlers.dispatch"),
    ("Members", "firnline_adapters.service", "firnline_gateway.handlers"),
    ("Members", "firnline_committer.pump", "firnline_standalone.engine"),
    ("Members", "firnline_domain.identity", "firnline_adapters.service"),
    ("Members", "firnline_deletes.apply", "firnline_domain.identity"),
    ("Only standalone", "firnline_demo.run", "firnline_worker.handlers"),
    ("Only standalone", "firnline_cli.shared.fleet", "firnline_committer.pump"),
    ("Standalone", "firnline_standalone.engine", "firnline_planner.handlers.dispatch"),
    ("The domain and", "firnline_domain.identity", "firnline_schemas.codec"),
    ("The domain is pure", "firnline_domain.clocks", "time"),
    ("Deletes are", "firnline_deletes.apply", "pyspark"),
    ("Only the planner", "firnline_worker.handlers", "faust"),
    ("Kafka's client", "firnline_iceberg.catalogs", "confluent_kafka"),
    ("Redis' client", "firnline_planner.meters", "redis"),
    ("Domain", "firnline_domain.counters.state.work", "firnline_domain.policy.fleet.holds"),
    ("Domain", "firnline_domain.records.events", "firnline_domain.policy.fleet.holds"),
    ("Domain: commits", "firnline_domain.commits.schemas", "firnline_domain.settings.groups"),
    (
        "Domain: counters",
        "firnline_domain.counters.activity.reads",
        "firnline_domain.counters.fold",
    ),
    ("Domain: policy", "firnline_domain.policy.cost.dollars", "firnline_domain.policy.reasons"),
    ("Deletes", "firnline_deletes.columns.keys", "firnline_deletes.files.puffin"),
    ("Adapters", "firnline_adapters.config.tls", "firnline_adapters.kafka.client"),
    ("Iceberg", "firnline_iceberg.commit.rewrite", "firnline_iceberg.expiry.refs"),
    ("Gateway", "firnline_gateway.rest.routes", "firnline_gateway.outbox.outbox"),
    ("Listener", "firnline_listener.core.queue", "firnline_listener.sources.sweep"),
    ("Planner", "firnline_planner.state.effects", "firnline_planner.reconcile.table"),
    ("Planner: only", "firnline_planner.reconcile.table", "faust"),
    ("Worker", "firnline_worker.spark.session", "firnline_worker.table_actions.create_tags"),
    ("Committer", "firnline_committer.examine.outputs", "firnline_committer.commit.attempts"),
    ("Console", "firnline_console.views.tables", "firnline_console.http.api"),
    ("Local stack", "firnline_local.servers.kafka", "firnline_local.stack.state"),
    ("Command line", "firnline_cli.shared.fleet", "firnline_cli.commands.look.tables"),
]


@cache
def import_graph() -> grimp.ImportGraph:
    return grimp.build_graph(
        *OPTIONS["root_packages"], include_external_packages=True, cache_dir=None
    )


def named(beginning: str) -> dict[str, Any]:
    """The contract whose name is or begins so."""
    return CONTRACTS.get(beginning) or next(
        one for name, one in CONTRACTS.items() if name.startswith(beginning)
    )


def is_kept(contract: dict[str, Any], graph: grimp.ImportGraph) -> bool:
    options = {key: value for key, value in contract.items() if key not in ("name", "type")}
    made = TYPES[contract["type"]](contract["name"], OPTIONS, options)
    return made.check(graph, verbose=False).kept


@pytest.mark.parametrize(("beginning", "importer", "imported"), PLANTED)
def test_a_planted_import_breaks_its_contract(beginning: str, importer: str, imported: str) -> None:
    graph = copy.deepcopy(import_graph())
    assert importer in graph.modules
    assert imported in graph.modules or "." not in imported
    assert is_kept(named(beginning), graph)
    graph.add_import(importer=importer, imported=imported)
    assert not is_kept(named(beginning), graph)


def test_every_contract_has_a_planted_violation() -> None:
    tried = [named(beginning)["name"] for beginning, _, _ in PLANTED]
    assert set(tried) == set(CONTRACTS)


def test_every_member_is_under_contract() -> None:
    folders = [*ROOT.glob("*/src/firnline_*"), *ROOT.glob("*/*/src/firnline_*")]
    names = {path.name for path in folders if (path / "__init__.py").exists()}
    assert names == set(OPTIONS["root_packages"])
