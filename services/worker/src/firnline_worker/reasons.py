"""Every code that says why a table was not rewritten natively, each in a sentence.

`HANDED_OVER`: Iceberg's own action did it instead. `REFUSED`: nobody did; the task failed.
"""

from __future__ import annotations

from typing import Literal, get_args

from firnline_deletes.refusals import SENTENCES

Unfit = Literal[
    "format_version_1",
    "encrypted",
    "write_format",
    "avro_file",
    "orc_file",
    "type_unknown",
    "type_geometry",
    "type_geography",
    "unknown_transform",
    "float_partition",
    "name_mapping",
    "row_ids_unknown",
    "outside_locations",
]
"""What is seen in metadata, before any file is opened."""

_UNFIT: dict[Unfit, str] = {
    "format_version_1": "A v1 table has neither sequence numbers nor deletes.",
    "encrypted": "Arrow has no access to the table's key manager.",
    "write_format": "The table wants its data in another format than Parquet.",
    "avro_file": "A data or delete file is Avro.",
    "orc_file": "A data or delete file is ORC.",
    "type_unknown": "A member of a struct, list or map is of unknown type, which is not stored.",
    "type_geometry": "A geometry column; its bounds are of a kind of their own.",
    "type_geography": "A geography column; its bounds are of a kind of their own.",
    "unknown_transform": "A partition transform that PyIceberg does not know.",
    "float_partition": "A partition by a float: NaN has no JSON form, -0.0 no text of its own.",
    "name_mapping": "schema.name-mapping.default cannot be read.",
    "row_ids_unknown": SENTENCES["row_ids_unknown"],
    "outside_locations": "The table's location provider puts files outside the table's own "
    "locations, where nothing of Firnline's is committed or removed.",
}

HANDED_OVER: dict[str, str] = {
    str(code): sentence for code, sentence in (*SENTENCES.items(), *_UNFIT.items())
}

REFUSED: dict[str, str] = {
    "table_gone": "The table does not exist any more, or its name is another table's.",
    "ref_gone": "The table has no such branch or tag.",
    "snapshot_gone": "The snapshot was expired.",
    "snapshots_hidden": "The catalog did not tell of all snapshots that the table's metadata file "
    "has: nothing is expired.",
    "metadata_of_another": "The metadata file that the catalog names is another table's.",
    "metadata_file_gone": "A manifest was expired while it was read; worth another try.",
    "metadata_unreadable": "PyIceberg cannot read the table's metadata: variant columns, defaults "
    "of structs, lists and maps, format versions above 3. Or a manifest contradicts its own "
    "schema, as Iceberg 1.12.0 writes those of partitions by a fixed column.",
    "unsafe_property": "A property of the table would make Java load a class of its owner's choice "
    "(write.location-provider.impl; FIRNLINE_LOCATION_PROVIDERS allows one), or is a setting of "
    "Hadoop's (fs.*, dfs.*, hadoop.*, ipc.*, parquet.crypto.*, parquet.encryption.*), which "
    "Iceberg's writer would obey. Unset it.",
    "deadline_passed": "The planner has taken the partition back.",
    "already_committed": "The order came again after its commit.",
    "trigger_gone": "The snapshot that the order was made at is expired or rolled back: whether it "
    "was carried out cannot be told, and the planner decides anew.",
    "paused": "Somebody paused maintenance (`firnline pause`) while the order waited.",
    "duplicate_files": "A data or delete file is in the table twice. A rewrite removes files by "
    "path, and would lose the rows of the second entry, also in Iceberg's own action.",
    "rows_do_not_add_up": "Rows in, masked and out do not balance, or are not the manifests'.",
    "keys_do_not_add_up": "The checksums of the keys in, masked and out do not balance.",
}

assert set(_UNFIT) == set(get_args(Unfit))
