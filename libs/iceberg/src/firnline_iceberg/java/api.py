"""Iceberg's Java objects from Python: works on any py4j `jvm`, ours (`jvm`) or a Spark session's.

Java class names of Iceberg stand only here, in `loops` and in `commit.java_commits`.
"""

from __future__ import annotations

import json
from typing import Any

from firnline_domain.identity import PREFIX_HEADER, TableName, canonical_prefix
from firnline_domain.records.results import DeleteKind

from firnline_iceberg.connection.connection import Catalog, CatalogConnection, connection_of
from firnline_iceberg.connection.prefix import OtherPrefix
from firnline_iceberg.java.tls import use_tls
from firnline_iceberg.metadata.entries import DeleteFileEntry, FileEntry

_CONTENT = {
    DeleteKind.EQUALITY: "equality-deletes",
    DeleteKind.POSITION: "position-deletes",
    DeleteKind.DELETION_VECTOR: "position-deletes",
}


def rest_catalog(jvm: Any, catalog: Catalog, **properties: str) -> Any:
    """Create a Java `RESTCatalog`, which requests the server's configuration at once. Its scans are
    not reported: planners count reports as reads by other engines. Raises OtherPrefix."""
    connection, given = connection_of(catalog), jvm.java.util.HashMap()
    use_tls(jvm, connection)
    for key, value in {**connection.java_properties(), **properties}.items():
        given.put(key, value)
    configuration = jvm.org.apache.hadoop.conf.Configuration()
    made = jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog(
        connection.name, given, configuration
    )
    refuse_other_prefix(connection, made)
    return made


def refuse_other_prefix(connection: CatalogConnection, made: Any) -> None:
    """Refuse a Java catalog at another prefix than the one it was created for (`at_prefix`). Raises
    OtherPrefix. One that was created for none has the prefix of its server: see `prefix_of`."""
    wanted = connection.properties.get(f"header.{PREFIX_HEADER}")
    if wanted is not None and (found := prefix_of(made)) != wanted:
        raise OtherPrefix(connection.name, wanted, found)


def prefix_of(made: Any) -> str:
    """Return the prefix of a Java `RESTCatalog`."""
    return canonical_prefix(made.properties().get("prefix") or "")


def load_table(jvm: Any, catalog: Any, table: TableName) -> Any:
    """Load a Java `Table`."""
    text = json.dumps({"namespace": table.namespace, "name": table.name})
    return catalog.loadTable(jvm.org.apache.iceberg.catalog.TableIdentifierParser.fromJson(text))


def count_manifests(jvm: Any, catalog: Any, table: TableName) -> int:
    """Count the manifests of a table's newest snapshot, by Java and its FileIO; 0 if it has
    none."""
    found = load_table(jvm, catalog, table)
    snapshot = found.currentSnapshot()
    return 0 if snapshot is None else int(snapshot.allManifests(found.io()).size())


def content_file(jvm: Any, table: Any, text: str) -> Any:
    """Parse a Java `DataFile` or `DeleteFile` of a Java `Table` from its `ContentFileParser`
    JSON."""
    iceberg = jvm.org.apache.iceberg
    node = iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper().readTree(text)
    return iceberg.ContentFileParser.fromJson(node, table.specs())


def content_file_json(jvm: Any, table: Any, file: Any) -> str:
    """Return the `ContentFileParser` JSON of a Java `DataFile` or `DeleteFile`."""
    spec = table.specs().get(file.specId())
    return str(jvm.org.apache.iceberg.ContentFileParser.toJson(file, spec))


def removal_json(entry: FileEntry, partition_fields: int) -> str:
    """Return what Java needs of a live file in order to remove it: a manifest filter compares the
    path, and of a DV its offset, and prunes by partition; statistics come from the manifest.
    `partition_fields`: of the file's spec, void ones included."""
    partition = json.loads(entry.partition) or [None] * partition_fields
    body: dict[str, Any] = {
        "spec-id": entry.spec_id,
        "content": "data",
        "file-path": entry.path,
        "file-format": entry.format.lower(),
        "partition": partition,
        "file-size-in-bytes": entry.bytes,
        "record-count": entry.records,
    }
    if isinstance(entry, DeleteFileEntry):
        body["content"] = _CONTENT[entry.kind]
        if entry.equality_ids:
            body["equality-ids"] = list(entry.equality_ids)
        if entry.kind is DeleteKind.DELETION_VECTOR:
            body["referenced-data-file"] = entry.referenced_data_file
            body["content-offset"] = entry.content_offset
            body["content-size-in-bytes"] = entry.content_size
    return json.dumps(body)
