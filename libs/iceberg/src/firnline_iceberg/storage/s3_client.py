"""Amazon's client, for what Arrow's file system has no way to ask of a store: all of a small object
in one request (its `open_input_file` takes no size and asks for it first), the uploads that nobody
has finished, a listing page by page, the deletion of a thousand objects in one request (its own
also writes a mark for the folder of each), and copies of parts of an object. What it cannot do is
left to Arrow's, or undone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
from cachetools import LRUCache
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from firnline_iceberg.storage.paths import resolve_folder
from firnline_iceberg.storage.s3_listing import ListPage, NotAPage, read_pages

SCHEME = "s3"  # as `paths` spells `s3a` and `s3n`
# Who asks, and by what way, is told to Arrow alone: a role is assumed for 15 minutes at a time.
_OF_ARROW = ("s3.role-arn", "client.role-arn", "s3.proxy-uri", "s3.anonymous")
_NAMES = {  # as PyIceberg reads them, the first that is given
    "endpoint_url": ("s3.endpoint",),
    "region_name": ("s3.region", "client.region"),
    "aws_access_key_id": ("s3.access-key-id", "client.access-key-id"),
    "aws_secret_access_key": ("s3.secret-access-key", "client.secret-access-key"),
    "aws_session_token": ("s3.session-token", "client.session-token"),
}
_KEPT = 32  # clients of a process; keys that the catalog hands out make new ones
_CONNECT_S, _READ_S = 5.0, 60.0
_making = threading.Lock()
_clients: LRUCache[tuple[tuple[str, str], ...], _Client] = LRUCache(_KEPT)


ATTEMPTS = 10  # of calls that nobody else makes again; as `arrow_file_io.PatientRetries`
DELETED = 1_000  # objects by one request
MAX_KEPT = (
    100  # objects that a store may refuse to remove, each for its reason; then it is asked no more
)
# What `CopyObject` takes along, and an upload has to be told.
_CARRIED = (
    "CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", "ContentType",
    "Metadata",
)  # fmt: skip


@dataclass
class _Client:
    """`answers` is False from the first time that it did not reach the store. `given`: what a
    client is made of, keys included."""

    given: Mapping[str, Any] = field(repr=False)
    answers: bool = True

    @cached_property
    def s3(self) -> Any:
        return _make_boto_client(self.given, {"total_max_attempts": 1})

    @cached_property
    def patient_client(self) -> Any:
        """Return the client that asks a busy store again, ever more rarely."""
        return _make_boto_client(self.given, {"mode": "standard", "total_max_attempts": ATTEMPTS})

    @cached_property
    def list_client(self) -> Any:
        """Return the client for listings, as patient."""
        made = _make_boto_client(self.given, {"mode": "standard", "total_max_attempts": ATTEMPTS})
        read_pages(made)
        return made


@dataclass(frozen=True)
class Upload:
    """Begun and not finished. `key`: in the bucket."""

    key: str
    id: str


@dataclass(frozen=True)
class StoredObject:
    """`etag`: of this version. `told`: its metadata, as an upload is told of them."""

    key: str
    bytes: int
    etag: str
    told: Mapping[str, Any]


class NotRemoved(OSError):
    """Objects that the store refuses to remove, also one by one, and why; all others are gone."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        key, why = next(iter(keys.items()))
        super().__init__(f"{len(keys):,} objects were not removed, {key}: {why}")
        self.keys = dict(keys)


@dataclass(frozen=True)
class S3Bucket:
    """A bucket as the FileIO of a table reaches it."""

    name: str
    _client: _Client

    def fetch_small(self, key: str, most: int) -> pa.Buffer | None:
        """Return all of an object of up to `most` bytes. None: it is larger, or the request failed;
        then Arrow's way reports why, and is patient with a busy store."""
        from botocore.exceptions import BotoCoreError, ClientError

        if not self._client.answers:
            return None
        try:
            asked = {"Bucket": self.name, "Key": key, "Range": f"bytes=0-{most - 1}"}
            answer = self._client.s3.get_object(**asked)
            with answer["Body"] as body:
                if answer["ContentLength"] > most:  # the store knows no ranges
                    return None
                found = body.read()
        except ClientError:
            return None
        except (BotoCoreError, OSError):
            self._client.answers = False
            return None
        whole = int(str(answer.get("ContentRange", len(found))).rpartition("/")[2])
        return pa.py_buffer(found) if len(found) == whole else None

    def list_page(
        self, prefix: str, after: str = "", token: str = "", by_folder: bool = False
    ) -> ListPage:
        """List up to a thousand objects whose keys begin with `prefix`, those behind the key
        `after`, or those after the page that gave the `token`. `by_folder`: only the folders of
        deeper ones. Raises the errors of `unfinished_uploads`, after `ATTEMPTS` tries."""
        asked = {"Bucket": self.name, "Prefix": prefix}
        asked |= {"ContinuationToken": token} if token else {"StartAfter": after} if after else {}
        asked |= {"Delimiter": "/"} if by_folder else {}
        try:
            found: ListPage = _call_s3(self._client.list_client.list_objects_v2, asked)["Page"]
        except NotAPage as error:
            raise OSError(f"{self.name} answered a listing with {error}") from error
        return found

    def delete_objects(self, keys: Sequence[str]) -> None:
        """Delete objects, also absent ones, a thousand a request, or one if the store has no bulk
        request. Raises the errors of `unfinished_uploads`, after `ATTEMPTS` tries; some are deleted
        then. Raises NotRemoved if only some, up to `MAX_KEPT`, remain."""
        kept = dict[str, str]()
        for at in range(0, len(keys), DELETED):
            some = keys[at : at + DELETED]
            try:
                kept |= self._remove_at_once(some)
            except OSError:
                for key in some:
                    self._remove_one(key)
            if len(kept) > MAX_KEPT:
                raise OSError(str(NotRemoved(kept)))
        if kept:
            raise NotRemoved(kept)

    def _remove_at_once(self, keys: Sequence[str]) -> dict[str, str]:
        """Remove keys in one request; return why some were not."""
        named = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        answer = _call_s3(
            self._client.patient_client.delete_objects, {"Bucket": self.name, "Delete": named}
        )
        found = dict[str, str]()
        for one in answer.get("Errors", ()):
            try:
                self._remove_one(one["Key"])
            except OSError as error:
                found[one["Key"]] = str(error)
                if len(found) > MAX_KEPT:
                    break
        return found

    def _remove_one(self, key: str) -> None:
        _call_s3(self._client.patient_client.delete_object, {"Bucket": self.name, "Key": key})

    def unfinished_uploads(self, prefix: str, pages: int) -> Iterator[Upload]:
        """Yield the uploads of keys that begin with `prefix`; a thousand a page. Raises OSError,
        and PermissionError if Firnline may not list them, or the store has no such request."""
        given = {"Bucket": self.name, "Prefix": prefix}
        for _ in range(pages):
            answer = _call_s3(self._client.s3.list_multipart_uploads, given)
            for one in answer.get("Uploads", ()):
                yield Upload(one["Key"], one["UploadId"])
            if not answer.get("IsTruncated"):
                return
            given["KeyMarker"] = answer["NextKeyMarker"]
            given["UploadIdMarker"] = answer["NextUploadIdMarker"]

    def give_up(self, upload: Upload) -> None:
        """Abort an upload and remove its parts. Raises the errors of `unfinished_uploads`, but not
        for an upload that has ended since."""
        asked = {"Bucket": self.name, "Key": upload.key, "UploadId": upload.id}
        _call_s3(self._client.s3.abort_multipart_upload, asked)

    def head_object(self, key: str) -> StoredObject | None:
        """Return an object's facts; None: it is not there. Raises as `unfinished`, after
        `ATTEMPTS` tries, as all below."""
        try:
            found = _call_s3(
                self._client.patient_client.head_object, {"Bucket": self.name, "Key": key}
            )
        except FileNotFoundError:
            return None
        told = {name: found[name] for name in _CARRIED if found.get(name)}
        return StoredObject(key, found["ContentLength"], found["ETag"], told)

    def begin_upload(self, key: str, like: StoredObject) -> Upload:
        """Begin an upload with the metadata of another object."""
        asked = {"Bucket": self.name, "Key": key, **like.told}
        return Upload(
            key, _call_s3(self._client.patient_client.create_multipart_upload, asked)["UploadId"]
        )

    def copy_part(
        self, source: StoredObject, upload: Upload, number: int, at: int, until: int
    ) -> str:
        """Copy the bytes of `source` from `at` and before `until` as part `number` (from 1). Return
        its tag. Raises OSError, also if the object was overwritten since."""
        asked = {
            "Bucket": self.name,
            "Key": upload.key,
            "UploadId": upload.id,
            "PartNumber": number,
            "CopySource": {"Bucket": self.name, "Key": source.key},
            "CopySourceIfMatch": source.etag,
            "CopySourceRange": f"bytes={at}-{until - 1}",
        }
        answer = _call_s3(self._client.patient_client.upload_part_copy, asked)
        if "CopyPartResult" not in answer:
            raise OSError(f"the upload of {upload.key} was given up meanwhile")
        tag: str = answer["CopyPartResult"]["ETag"]
        return tag

    def finish_upload(self, upload: Upload, tags: Sequence[str]) -> None:
        """Finish an upload of all parts in their order. That it has ended is no error: an answer
        may have been lost, so look at the object."""
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
        asked = {
            "Bucket": self.name,
            "Key": upload.key,
            "UploadId": upload.id,
            "MultipartUpload": {"Parts": parts},
        }
        _call_s3(self._client.patient_client.complete_multipart_upload, asked)


def bucket_of(
    io: FileIO, settings: Mapping[str, Any], location: str
) -> tuple[S3Bucket, str] | None:
    """Return the bucket and the key in it; None: not on S3, or reachable only by Arrow. `settings`:
    of the FileIO, with the current keys. Raises UnclearPath."""
    place = resolve_folder(location)
    if place.scheme != SCHEME or not isinstance(io, PyArrowFileIO):
        return None
    given = {name: str(one) for name, one in settings.items() if one not in (None, "")}
    if any(name in given for name in _OF_ARROW):
        return None
    client = _make_client(given)
    if client is None:
        return None
    return S3Bucket(place.authority, client), place.key


def _make_client(given: Mapping[str, str]) -> _Client | None:
    found = {
        name: next((given[one] for one in spelt if one in given), "")
        for name, spelt in _NAMES.items()
    }
    if not found["region_name"]:  # Arrow asks the bucket
        return None
    virtual = given.get("s3.force-virtual-addressing", "").lower() == "true"
    style = "virtual" if virtual else "path" if found["endpoint_url"] else "auto"
    connect = given.get("s3.connect-timeout", str(_CONNECT_S))
    read = given.get("s3.request-timeout", str(_READ_S))
    key = tuple(sorted({**found, "style": style, "connect": connect, "read": read}.items()))
    with _making:
        if key not in _clients:
            times = {"connect": float(connect), "read": float(read)}
            _clients[key] = _Client({**found, "style": style, **times})
        return _clients[key]


def _make_boto_client(given: Mapping[str, Any], retries: Mapping[str, Any]) -> Any:
    import boto3  # 0.3 s that tables elsewhere need not pay
    from botocore.config import Config

    config = Config(
        s3={"addressing_style": given["style"]},
        connect_timeout=given["connect"],
        read_timeout=given["read"],
        retries=retries,
        request_checksum_calculation="when_required",  # other stores know no more
        response_checksum_validation="when_required",
    )
    known = {name: given[name] for name in _NAMES if given[name]}
    return boto3.Session().client("s3", config=config, **known)


_GONE, _REFUSED = 404, frozenset({403, 405, 501})


def _call_s3(call: Any, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        found: Mapping[str, Any] = call(**asked)
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if error.response.get("Error", {}).get("Code") == "NoSuchUpload":
            return {}
        if status == _GONE:
            raise FileNotFoundError(str(error)) from error
        if status in _REFUSED:
            raise PermissionError(str(error)) from error
        raise OSError(str(error)) from error
    except BotoCoreError as error:
        raise OSError(str(error)) from error
    return found
