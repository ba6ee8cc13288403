"""Files of this machine, reached without following a link: neither one in the middle of a path nor
the file itself. Each folder is opened in the one before it, so a link that comes meanwhile is not
followed either. Whoever may write below a table's location could make one to a neighbour's files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class LinkOnPath(OSError):
    """A path goes through a link, or ends at one."""


def link_on(path: str) -> str | None:
    """Return the first part of an absolute path that is a link; None: there is none. Parts that
    are not there are no links."""
    parts = [one for one in path.split("/") if one]
    for number in range(1, len(parts) + 1):
        part = "/" + "/".join(parts[:number])
        try:
            mode = os.lstat(part).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(mode):
            return part
    return None


@contextmanager
def open_folder(path: str, flags: int = _STEP, make: bool = False) -> Iterator[int]:
    """Open a folder by its absolute path. `make`: also make those that are not there. Raises
    LinkOnPath, OSError."""
    held = os.open("/", _STEP)
    try:
        for number, name in enumerate(parts := [one for one in path.split("/") if one], 1):
            if make:
                _make_folder(name, held)
            try:
                below = os.open(name, flags if number == len(parts) else _STEP, dir_fd=held)
            except OSError as error:
                if (link := link_on(path)) is not None:
                    text = f"{path}: {link} is a link, which is not followed: remove the link"
                    raise LinkOnPath(text) from error
                raise
            os.close(held)
            held = below
        yield held
    finally:
        os.close(held)


def _make_folder(name: str, within: int) -> None:
    try:
        os.mkdir(name, dir_fd=within)
    except FileExistsError:
        return


def remove_file(path: str) -> bool:
    """Remove a file of this host. Return False if it was not there. Raises LinkOnPath, OSError."""
    folder, _, name = path.rpartition("/")
    try:
        with open_folder(folder) as held:
            _refuse_other_kinds(path, name, held)
            os.unlink(name, dir_fd=held)
    except FileNotFoundError:
        return False
    return True


def move_file(path: str, to: str) -> bool:
    """Move a file of this host, and make the target's folder. Return False if it was not there.
    Raises LinkOnPath, OSError."""
    folder, _, name = path.rpartition("/")
    to_folder, _, to_name = to.rpartition("/")
    try:
        with open_folder(folder) as source:
            _refuse_other_kinds(path, name, source)
            with open_folder(to_folder, make=True) as target:
                os.rename(name, to_name, src_dir_fd=source, dst_dir_fd=target)
    except FileNotFoundError:
        return False  # a writer has cleared it up itself
    return True


def _refuse_other_kinds(path: str, name: str, within: int) -> None:
    if not stat.S_ISREG(os.stat(name, dir_fd=within, follow_symlinks=False).st_mode):
        raise LinkOnPath(f"{path} is a link, or no file: it stays")


FoundFiles = list[tuple[str, os.stat_result]]


def list_folders(root: str, links: list[str]) -> Iterator[FoundFiles]:
    """List all files below a folder, a folder at a time, by their paths below it; nothing if it
    is not there. Adds the paths of links to `links`. Raises LinkOnPath, OSError."""
    folders = [""]
    while folders:
        below = folders.pop()
        files: FoundFiles = []
        try:
            with open_folder(f"{root}/{below}", _READ) as held, os.scandir(held) as entries:
                for one in entries:
                    place = f"{below}/{one.name}" if below else one.name
                    if one.is_symlink():
                        links.append(place)
                    elif one.is_dir(follow_symlinks=False):
                        folders.append(place)
                    elif one.is_file(follow_symlinks=False):
                        files.append((place, one.stat(follow_symlinks=False)))
        except FileNotFoundError:
            continue  # removed meanwhile
        yield files
