"""Multipart uploads of a run that was killed while it wrote. A store keeps their parts, and takes
money for them, until somebody gives them up; no listing of files shows them.

Asked of S3 alone: Azure and Google let theirs end after seven days by themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from pyiceberg.io import FileIO

from firnline_iceberg.storage.file_io import s3_bucket
from firnline_iceberg.storage.s3_client import S3Bucket, Upload

PAGES: Final = 10  # of a thousand uploads that begin like the names of one list
REMEDY: Final = (
    "give our keys s3:ListBucketMultipartUploads and s3:AbortMultipartUpload, or the bucket a "
    "lifecycle rule AbortIncompleteMultipartUpload"
)


@dataclass(frozen=True)
class Unfinished:
    """One upload, of the file that was to be at `path`."""

    path: str
    bucket: S3Bucket
    upload: Upload

    def give_up(self) -> None:
        """Abort the upload. Raises OSError; PermissionError if Firnline may not abort it."""
        self.bucket.give_up(self.upload)


def find_unfinished(io: FileIO, paths: Collection[str]) -> Iterator[Unfinished]:
    """Yield those of exactly these files: one request for all that lie in a bucket, by what their
    names have in common. Raises OSError; PermissionError where we may not ask."""
    of_bucket: dict[str, dict[str, str]] = defaultdict(dict)
    buckets: dict[str, S3Bucket] = {}
    for path in paths:
        if (place := s3_bucket(io, path)) is not None:
            bucket, key = place
            buckets[bucket.name] = bucket
            of_bucket[bucket.name][key] = path
    for name, by_key in of_bucket.items():
        for upload in buckets[name].unfinished_uploads(_common_prefix(by_key), PAGES):
            if upload.key in by_key:
                yield Unfinished(by_key[upload.key], buckets[name], upload)


def abort_uploads(io: FileIO, paths: Collection[str]) -> tuple[list[str], str]:
    """Abort the uploads of these files: return which ones had some, and why others may have, "" =
    none. Raises OSError if another try is worth it."""
    gone: list[str] = []
    try:
        for one in [*find_unfinished(io, paths)]:
            one.give_up()
            gone.append(one.path)
    except (
        PermissionError
    ) as error:  # nobody's next try is better: the files' list goes all the same
        return gone, f"{error}; {REMEDY}"
    return gone, ""


def _common_prefix(keys: Collection[str]) -> str:
    """Return the beginning that all of them have."""
    first, last = min(keys), max(keys)
    same = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first[:same] if same is not None else min(first, last, key=len)
