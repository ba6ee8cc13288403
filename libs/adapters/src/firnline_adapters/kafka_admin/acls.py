"""List what each service may do in Kafka, and no more: from the topics' files."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from firnline_schemas.topics import Topic

from firnline_adapters.kafka.connection import READER_GROUPS

SERVICES = (
    *("gateway", "listener", "enricher", "planner", "worker", "committer", "console", "cli"),
    *("scaler", "local"),
)
LITERAL, PREFIXED = "literal", "prefixed"
# Read by `adopt` and `move`; `bucket-assignments` is for the embedded stack's status.
CLI_READS = ("operator-orders", "maintenance-events", "table-states", "resync-requests")


@dataclass(frozen=True, order=True)
class Acl:
    """One right of one service. `kind`: topic, group, transactional-id or cluster."""

    service: str
    kind: str
    name: str
    pattern: str
    operations: tuple[str, ...]

    def tool_command(self, principal: str, bootstrap: str, config: str) -> str:
        """Return the command of Kafka's own tool; to run it again does no harm."""
        resource = "--cluster" if self.kind == "cluster" else f"--{self.kind} '{self.name}'"
        pattern = "" if self.kind == "cluster" else f" --resource-pattern-type {self.pattern}"
        operations = " ".join(f"--operation {one}" for one in self.operations)
        return (
            f"kafka-acls.sh --bootstrap-server {bootstrap} --command-config {config} --add"
            f" --allow-principal '{principal}' {operations} {resource}{pattern}"
        )


def all_acls(topics: Collection[Topic], app: str = "planner") -> list[Acl]:
    """Return the ACLs of all services. `topics`: those of resource groups among them. `app`: the
    planners'."""
    found: set[Acl] = set()
    for one in topics:
        for service in SERVICES:
            if operations := _operations_on(one, service):
                found.add(Acl(service, "topic", one.name, LITERAL, operations))
    for service in SERVICES:
        found |= {Acl(service, *rest) for rest in _other_rights(service, app)}
    return sorted(found)


def _operations_on(one: Topic, service: str) -> tuple[str, ...]:
    """Return Kafka's operations that a service needs on a topic; `local` is the stack that creates
    and changes topics."""
    found: list[str] = []
    if service == "local":  # makes, widens and describes all
        found += ["Alter", "AlterConfigs", "Create", "Describe", "DescribeConfigs"]
    if service in one.read_by or (service == "cli" and one.name in CLI_READS):
        found.append("Read")
    if service in one.written_by:
        found.append("Write")
    return tuple(found)


def _other_rights(service: str, app: str) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Yield the rights on groups, transactional ids and the planner's changelog: (kind, name,
    pattern, operations)."""
    yield "group", READER_GROUPS, PREFIXED, ("Read",)
    if service in ("listener", "enricher", "committer"):
        yield "group", service, LITERAL, ("Read",)
        yield "group", f"{service}-starts", LITERAL, ("Read",)
    if service == "worker":  # and one of each resource group
        yield "group", service, PREFIXED, ("Read",)
    if service == "console":
        yield "group", "firnline-console-", PREFIXED, ("Read",)
    if service == "cli":
        yield "group", "enricher", LITERAL, ("Describe",)  # how far it has come
    if service == "planner":
        yield "group", app, LITERAL, ("Read",)
        yield "group", f"{app}-starts", LITERAL, ("Read",)
        yield "transactional-id", f"{app}-", PREFIXED, ("Describe", "Write")
        for changelog in (f"firnline-{app}-state", f"{app}-state-changelog"):  # of each driver
            rights = ("Alter", "Create", "Describe", "Read", "Write")
            yield "topic", changelog, LITERAL, rights
