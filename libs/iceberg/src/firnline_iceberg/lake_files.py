"""Arrow's files of a lake, where PyIceberg's way to them falls short."""

from __future__ import annotations

from pyiceberg.io.pyarrow import PyArrowFileIO


class LakeFileIO(PyArrowFileIO):
    """PyIceberg's, for every scheme: for `abfss://` it would take another library first."""
