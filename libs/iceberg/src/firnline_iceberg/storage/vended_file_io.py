"""Files of a table whose keys end while they are read or written.

Keys that last for minutes open Arrow's own files. With shorter ones, a file that the storage
refuses in the middle is opened again with new keys and read on; and what is written goes to a local
file first, and to the storage in one go: an upload cannot change its keys.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from typing import IO, Any, TypeVar

from cachetools import FIFOCache
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from firnline_iceberg.storage.arrow_file_io import LakeFileIO
from firnline_iceberg.storage.errors import is_denied
from firnline_iceberg.storage.vended_credentials import Credential, VendedCredentials

T = TypeVar("T")
COPY_BYTES = 8 << 20
TRIES = 3
KEPT = 4  # file systems of a table: one of each of the last keys


class VendedFileIO(LakeFileIO):
    """A PyArrowFileIO whose keys are those of the moment and of the location."""

    def __init__(
        self, properties: dict[str, Any], vended: VendedCredentials, location: str | None = None
    ) -> None:
        super().__init__(properties, location)
        self.vended, self._location = vended, location
        self._made = FIFOCache[int, tuple[Credential | None, PyArrowFileIO]](KEPT)
        self._making = threading.Lock()

    def new_input(self, location: str) -> Any:
        return VendedFile(self, location)

    def new_output(self, location: str) -> Any:
        return VendedFile(self, location)

    def delete(self, location: Any) -> None:
        text = location if isinstance(location, str) else location.location
        self.try_with_keys(text, lambda arrow: arrow.delete(text))

    def try_with_keys(self, location: str, act: Callable[[PyArrowFileIO], T]) -> T:
        """Call `act` with the current keys, and again with others where those are refused."""
        credential = self.vended.credential_for(location)
        for left in reversed(range(TRIES)):
            try:
                return act(self.arrow_io(credential))
            except OSError as error:
                if not is_denied(error) or not left:
                    raise
                newer = self.vended.credential_for(location, refused=credential)
                if newer is credential:
                    raise
                credential = newer
        raise AssertionError

    def arrow_io(self, credential: Credential | None) -> PyArrowFileIO:
        """Return Arrow's FileIO with these keys."""
        with self._making:
            kept = self._made.get(id(credential))
            if kept is None:
                config = {} if credential is None else dict(credential.config)
                kept = credential, LakeFileIO({**self.properties, **config}, self._location)
                self._made[id(credential)] = kept
            return kept[1]


class VendedFile(InputFile, OutputFile):
    """One file."""

    def __init__(self, owner: VendedFileIO, location: str) -> None:
        super().__init__(location=location)
        self._owner = owner

    def __len__(self) -> int:
        return self._try_with_keys(len)

    def exists(self) -> bool:
        return self._try_with_keys(lambda file: file.exists())

    def open(self, seekable: bool = True) -> Any:
        opened = self._try_with_keys(lambda file: file.open(seekable))
        return opened if self._has_lasting_keys() else CarefulInput(self._try_with_keys, opened)

    def create(self, overwrite: bool = False) -> Any:
        if not overwrite and self.exists():
            raise FileExistsError(f"Cannot create file, already exists: {self.location}")
        self._owner.vended.credential_for(self.location)
        if self._has_lasting_keys():
            return self._try_with_keys(lambda file: file.create(overwrite=True))
        return StagedOutput(self._try_with_keys)

    def to_input_file(self) -> Any:
        return self

    def _has_lasting_keys(self) -> bool:
        """Return True if the current keys last until a file that is opened now is read or written
        to its end, or if the file needs none."""
        credential = self._owner.vended.credential_for(self.location)
        return credential is None or credential.is_lasting(time.time())

    def _try_with_keys(self, act: Callable[[PyArrowFile], T]) -> T:
        return self._owner.try_with_keys(
            self.location, lambda arrow: act(arrow.new_input(self.location))
        )


With = Callable[[Callable[[PyArrowFile], Any]], Any]


class CarefulInput(io.RawIOBase):
    """Reads on where it was, with other keys, when the storage refuses the ones it has."""

    def __init__(self, with_file: With, opened: Any) -> None:
        self._with_file, self._file = with_file, opened
        self._size = opened.size()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        return int(self._size)

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def read(self, size: int | None = -1) -> bytes:
        at = self._file.tell()
        wanted = None if size is None or size < 0 else size
        try:
            found: bytes = self._file.read(wanted)
        except OSError as error:
            if not is_denied(error):
                raise
            found = self._with_file(lambda file: self._read_again(file, at, wanted))
        return found

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def _read_again(self, file: PyArrowFile, at: int, wanted: int | None) -> bytes:
        self._file = file.open()
        self._file.seek(at)
        found: bytes = self._file.read(wanted)
        return found

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class StagedOutput(io.RawIOBase):
    """Written to a local file; at its end to the storage, as often as keys end meanwhile."""

    def __init__(self, with_file: With) -> None:
        self._with_file = with_file
        self._staged: IO[bytes] = tempfile.TemporaryFile(prefix="firnline-")  # noqa: SIM115  closed with this

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._staged.tell()

    def write(self, data: Any) -> int:
        return self._staged.write(data)

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._with_file(self._upload_file)
        finally:
            self._staged.close()
            super().close()

    def discard(self) -> None:
        """Store nothing of it."""
        self._staged.close()
        super().close()

    def __exit__(self, kind: Any, *about: Any) -> None:
        self.discard() if kind is not None else self.close()

    def __del__(self) -> None:
        """Discard the output if it was not closed."""
        if not self._staged.closed:
            self.discard()

    def _upload_file(self, file: PyArrowFile) -> None:
        self._staged.seek(0)
        with file.create(overwrite=True) as sink:
            shutil.copyfileobj(self._staged, sink, COPY_BYTES)
