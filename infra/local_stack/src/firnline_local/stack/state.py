"""The files of a stack in its state directory.

stack.json the record below, replaced whole at each change events.jsonl one line per start, ready,
crash, restart, stop lock held (flock) as long as a supervisor lives; the kernel lets go when it
dies held/NAME this part shall be stopped for now signing-keys the fleet's keys, made at the first
start firnline.toml its policies, empty at the first start logs/NAME.log, NAME/ output and data of
each part"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from firnline_adapters.records.signing import VARIABLE, RecordSigner, signer_at

EXAMPLE = """\
# Properties for the tables of this stack by their names, in force some seconds after a change.
# Check them first: firnline settings --check firnline.toml
#
# [[policies]]
# match = "**.events_*"
# "firnline.retain.hours" = 48
"""
Life = Literal["waiting", "starting", "ready", "crashed", "held", "leaving", "stopped"]
Phase = Literal["starting", "ready", "stopping", "stopped"]


@dataclass(frozen=True)
class PartRecord:
    """The current state of one part."""

    life: Life = "waiting"
    pid: int | None = None
    address: str = ""
    restarts: int = 0
    ready_s: float | None = None
    """Seconds from its last start to ready."""
    log: str = ""


@dataclass(frozen=True)
class StackRecord:
    """The content of stack.json."""

    phase: Phase = "stopped"
    pid: int | None = None
    """Of the supervisor."""
    ready_s: float | None = None
    """Seconds from the start of the command to every part ready."""
    ports: dict[str, int] = field(default_factory=dict)
    parts: dict[str, PartRecord] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """An event of a part, or of the stack as a whole (part '')."""

    part: str
    what: str
    detail: str = ""

    def as_line(self) -> str:
        return " ".join(word for word in (self.part or "stack", self.what, self.detail) if word)


class AlreadyRunning(RuntimeError):
    """Another supervisor holds this state directory."""


@dataclass(frozen=True)
class StateDir:
    """Paths and files of one stack. `root` is absolute and free of symbolic links."""

    root: Path

    @classmethod
    def from_path(cls, path: Path) -> StateDir:
        return cls(path.expanduser().resolve())

    def log_path(self, part: str) -> Path:
        return self.root / "logs" / f"{part}.log"

    def data_path(self, part: str) -> Path:
        return self.root / part

    @property
    def signing_keys(self) -> Path:
        """Return the path of the keys of this stack, which only its user can read."""
        return self.root / "signing-keys"

    def make_signing_keys(self) -> None:
        """Make the signing keys if there are none yet: signatures stay valid over restarts."""
        try:
            made = os.open(self.signing_keys, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return
        with os.fdopen(made, "w") as file:
            file.write(f"{secrets.token_hex(4)}:{secrets.token_hex(32)}\n")

    def signing_environment(self) -> dict[str, str]:
        """Return the environment with the keys, for this stack's processes; {} if their environment
        names keys."""
        return {} if os.environ.get(VARIABLE) else {VARIABLE: str(self.signing_keys)}

    def signer(self) -> RecordSigner:
        """Return the signer for processes outside this stack. Raises Misconfigured."""
        return signer_at({**os.environ, **self.signing_environment()})

    @property
    def config(self) -> Path:
        """Return the path of the file with the policies of this stack."""
        return self.root / "firnline.toml"

    def make_config(self) -> None:
        """Make the file with an example in comments if there is none yet."""
        with suppress(FileExistsError), self.config.open("x") as file:
            file.write(EXAMPLE)

    def held_path(self, part: str) -> Path:
        return self.root / "held" / part

    def read_record(self) -> StackRecord:
        """Read the last record written; an empty one if there is none that we understand."""
        try:
            raw = json.loads((self.root / "stack.json").read_text())
            parts = {name: PartRecord(**part) for name, part in raw.pop("parts").items()}
            return StackRecord(**raw, parts=parts)
        except (FileNotFoundError, KeyError, TypeError, ValueError):
            return StackRecord()  # never up, or written by another version: ports are picked anew

    def write_record(self, record: StackRecord) -> None:
        """Replace the record; readers see the old one or the new one."""
        self.root.mkdir(parents=True, exist_ok=True)
        draft = self.root / "stack.json.part"
        draft.write_text(json.dumps(asdict(record), indent=1))
        draft.replace(self.root / "stack.json")

    def append_event(self, event: Event) -> None:
        """Add a line to events.jsonl."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        with (self.root / "events.jsonl").open("a") as file:
            file.write(json.dumps({"at": at, **asdict(event)}) + "\n")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the directory during the block. Raises AlreadyRunning."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AlreadyRunning(f"a stack is running in {self.root}") from None
            yield

    def is_running(self) -> bool:
        """Return whether a supervisor lives."""
        if not (self.root / "lock").exists():
            return False
        try:
            with self.lock():
                return False
        except AlreadyRunning:
            return True
