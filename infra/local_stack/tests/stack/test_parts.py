"""Which parts there are, their ports, and when a service counts as ready."""

from __future__ import annotations

import socket
from itertools import chain
from pathlib import Path

import pytest
from firnline_adapters.policy_file import read_policies
from firnline_local.__main__ import settings_of
from firnline_local.stack.parts import (
    ALL,
    STAGES,
    Addresses,
    ReadyLine,
    UnknownPart,
    addresses_of,
    choose_parts,
    command_of,
    parts_with,
    pick_ports,
    port_names,
)
from firnline_local.stack.state import PartRecord, StackRecord, StateDir


def test_every_part_is_in_exactly_one_stage() -> None:
    assert sorted(chain(*STAGES)) == sorted(ALL)


def test_a_choice_is_put_into_starting_order() -> None:
    assert choose_parts(("gateway", "kafka")) == ("kafka", "gateway")
    assert choose_parts(None) == tuple(part for part in ALL if part not in ("listener", "postgres"))


def test_writers_of_a_stack_without_a_gateway_use_the_catalog(tmp_path: Path) -> None:
    parts, ports = parts_with("sweep"), pick_ports({})
    assert ("listener" in parts, "gateway" in parts) == (True, False)
    direct = addresses_of(StackRecord(ports=ports, parts=dict.fromkeys(parts, PartRecord())))
    assert direct.writers == direct.catalog
    command = command_of("committer", StateDir.from_path(tmp_path), direct)
    assert command.env["FIRNLINE_CATALOG_URI"] == direct.catalog
    assert Addresses(ports).writers == Addresses(ports).gateway


def test_a_catalog_on_postgres_is_followed_by_the_listener(tmp_path: Path) -> None:
    state, ports = StateDir.from_path(tmp_path), pick_ports({})
    where = Addresses(ports, parts_with("postgres"))
    commands = {one: command_of(one, state, where) for one in ("catalog", "listener", "enricher")}
    url = f"@127.0.0.1:{ports['postgres']}/postgres"
    assert commands["listener"].env["FIRNLINE_SOURCE__POSTGRES__URL"].endswith(url)
    assert "postgresql-" in commands["catalog"].argv[commands["catalog"].argv.index("-cp") + 1]
    assert "FIRNLINE_SOURCE__POSTGRES__URL" not in commands["enricher"].env
    alone = command_of("listener", state, Addresses(ports, parts_with("sweep")))
    assert "FIRNLINE_SOURCE__POSTGRES__URL" not in alone.env


def test_an_unknown_part_is_named() -> None:
    with pytest.raises(UnknownPart, match="no such part: zookeeper; parts: postgres"):
        choose_parts(("kafka", "zookeeper"))


def test_every_name_gets_a_port_of_its_own() -> None:
    ports = pick_ports({})
    assert set(ports) == set(port_names())
    assert len(set(ports.values())) == len(ports)


def test_ports_of_last_time_are_kept_unless_someone_took_them() -> None:
    first = pick_ports({})
    with socket.create_server(("127.0.0.1", first["redis"])):
        second = pick_ports(first)
    changed = {name for name in first if first[name] != second[name]}
    assert changed == {"redis"}


def test_a_service_is_ready_when_its_present_life_says_so(tmp_path: Path) -> None:
    log = tmp_path / "planner.log"
    log.write_text("2026-01-01 INFO planner action=ready\n")
    line = ReadyLine(log)
    line.skip_earlier_lines()
    assert not line.is_logged()
    with log.open("a") as file:
        file.write("2026-01-01 INFO planner action=ready\n")
    assert line.is_logged()


def test_settings_of_one_part_go_over_those_of_the_stack(tmp_path: Path) -> None:
    where = Addresses(pick_ports({}))
    settings = settings_of('{"redis": {"A": "1", "B": "x=y"}}')
    state = StateDir.from_path(tmp_path)
    given = command_of("redis", state, where, settings).env
    assert (given["A"], given["B"]) == ("1", "x=y")
    assert "A" not in command_of("catalog", state, where, settings).env
    with pytest.raises(UnknownPart):
        settings_of('{"zookeeper": {"A": "1"}}')


def test_the_planner_of_a_stack_has_its_own_file_of_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRNLINE_CONFIG", "/etc/of/another/fleet.toml")
    state, where = StateDir.from_path(tmp_path), Addresses(pick_ports({}))
    state.make_config()
    assert command_of("worker", state, where).env["FIRNLINE_CONFIG"] == ""
    path = Path(command_of("planner", state, where).env["FIRNLINE_CONFIG"])
    assert read_policies(str(path)).problems == ()
    example = path.read_text().replace("# [[", "[[").replace("# match", "match")
    path.write_text(example.replace('# "firn', '"firn'))
    assert len(read_policies(str(path)).policies.policies) == 1
    state.make_config()  # the next start leaves it as it is
    assert len(read_policies(str(path)).policies.policies) == 1
