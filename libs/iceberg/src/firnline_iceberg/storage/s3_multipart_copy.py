"""Copies within an S3 store of what one `CopyObject` may not copy: an upload whose parts are ranges
of the object. Each part is asked for with the keys of its moment, so keys may end meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Final

from firnline_iceberg.storage.s3_client import S3Bucket

MAX_COPY: Final = 5 << 30  # bytes of one CopyObject, by S3
PART_BYTES: Final = 256 << 20  # a few seconds of the store's
MAX_PARTS: Final = 10_000  # of an upload, by S3
BucketOfNow = Callable[[], tuple[S3Bucket, str]]  # and what keys begin with


def copy_in_parts(
    pool: ThreadPoolExecutor,
    bucket_of_now: BucketOfNow,
    place: str,
    to: str,
    part_bytes: int = PART_BYTES,
) -> bool:
    """Copy with the metadata of the object, without its tags. Parts of `part_bytes`, or larger ones
    where those would be too many. False: it is not there any more. Raises OSError, also if the
    object is written again meanwhile; then the upload is given up."""
    bucket, root = bucket_of_now()
    source = bucket.head_object(f"{root}{place}")
    if source is None:
        return False
    upload = bucket.begin_upload(f"{root}{to}", source)
    each = max(part_bytes, -(-source.bytes // MAX_PARTS))

    def copy_range(at: int) -> str:
        until = min(at + each, source.bytes)
        return bucket_of_now()[0].copy_part(source, upload, at // each + 1, at, until)

    parts = [pool.submit(copy_range, at) for at in range(0, source.bytes, each)]
    try:
        bucket_of_now()[0].finish_upload(upload, [one.result() for one in parts])
        copy = bucket_of_now()[0].head_object(upload.key)
        if copy is None or copy.bytes != source.bytes:
            raise OSError(f"{upload.key} is not a copy of {place}, which stays")
    except BaseException:
        _stop_parts(parts)
        with suppress(OSError):  # a lifecycle rule, or the next sweep of a person
            bucket_of_now()[0].give_up(upload)
        raise
    return True


def _stop_parts(parts: list[Future[str]]) -> None:
    """Wait until none is on its way any more, so that none comes behind the end of the upload."""
    for one in parts:
        one.cancel()
    wait(parts)
