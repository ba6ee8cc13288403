"""Pages of a listing on S3, and all of them below a prefix, from several places at once.

Botocore takes 53 ms of CPU to read a page of a thousand objects, this 1 ms. A page names the next,
so a million objects are a thousand requests one after another: the keys are cut where folders
begin, and each range is listed by itself.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Final, Protocol
from urllib.parse import unquote_plus
from xml.etree import ElementTree

import numpy as np

from firnline_iceberg.storage.stored_files import StoredFiles, Times

RANGES: Final = 8  # that are listed at once
MAX_CUT: Final = 16  # folders that are looked into to see where others begin
FOLDER_PAGES: Final = 4  # of each; 4,000 partitions
_KEY = re.compile(r"<Key>([^<]*)</Key>")
_SIZE = re.compile(r"<Size>([0-9]+)</Size>")
_TIME = re.compile(r"<LastModified>([^<]*)</LastModified>")
_TOKEN = re.compile(r"<NextContinuationToken>([^<]*)</NextContinuationToken>")


class NotAPage(ValueError):
    """The answer is no page of a listing."""


class NotOrdered(OSError):
    """The store does not list keys in their order, so no listing can begin at a key."""


@dataclass(frozen=True)
class ListPage:
    """A page of a listing. `folders`: keys up to a slash, where it was asked for by folder.
    `token`: of the next page; '': there is none."""

    objects: StoredFiles
    folders: list[str] = field(default_factory=list)
    token: str = ""


class AskPage(Protocol):
    """`s3_client.Bucket.page`."""

    def __call__(
        self, prefix: str, after: str = "", token: str = "", by_folder: bool = False
    ) -> ListPage:
        """Request a page of a listing. Raises OSError."""


def read_pages(client: Any) -> None:
    """Parse this botocore client's answers to `list_objects_v2` to a `ListPage`. The client is good
    for no other call: botocore's search for an error in an answer with status 200, which takes as
    long as reading the page, is replaced for this call only."""
    from botocore import handlers

    if (look := getattr(handlers, "_handle_200_error", None)) is not None:
        client.meta.events.unregister("before-parse.s3.*", look)
    client.meta.events.register("before-parse.s3.ListObjectsV2", _reject_error_page)


def _reject_error_page(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_more: Any
) -> None:
    """Turn an error, or half a page, that comes with 200 into one of the server's: it is asked
    again."""
    if response_dict["status_code"] != 200:
        return
    body = response_dict["body"]
    if (page := plain_page(body)) is None:
        try:
            root = ElementTree.fromstring(body)
        except ElementTree.ParseError:
            response_dict["status_code"] = 500
            return
        space, _, kind = root.tag.rpartition("}")
        if kind != "ListBucketResult":
            response_dict["status_code"] = 500
            return
        page = page_of(root, f"{space}}}" if space else "")
    customized_response_dict["Page"] = page
    response_dict["body"] = b"<ListBucketResult/>"


def plain_page(body: bytes) -> ListPage | None:
    """Parse a page in the form of all known stores, in 1 ms: each object has a key, a size and a
    time, as plain text, and nothing else has these names. None: it has another form, or is
    incomplete."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    if not text.rstrip().endswith("</ListBucketResult>") or "<CommonPrefixes>" in text:
        return None
    if "!" in text and "<!" in text:  # a comment, or text that is not read as it stands
        return None
    count = text.count("<Contents>")
    keys, sizes, times = (one.findall(text) for one in (_KEY, _SIZE, _TIME))
    if not len(keys) == len(sizes) == len(times) == count:
        return None
    if "&" in (joined := "".join(keys)):
        if "&#" in joined:  # of which HTML and XML differ
            return None
        keys = [html.unescape(one) for one in keys]
    if "<EncodingType>url</EncodingType>" in text:
        keys = [unquote_plus(one) for one in keys]
    try:
        objects = StoredFiles(keys, [*map(int, sizes)], _parse_times(times))
    except ValueError:
        return None
    token = _TOKEN.search(text)
    return ListPage(objects, [], html.unescape(token[1]) if token else "")


def page_of(root: ElementTree.Element, space: str) -> ListPage:
    """Parse a page of a listing from XML. `space`: of the names, in braces. Raises NotAPage."""
    coded = root.findtext(f"{space}EncodingType") == "url"

    def decode_key(key: str) -> str:
        return unquote_plus(key) if coded else key

    try:
        found = [
            {one.tag: one.text or "" for one in each} for each in root.iter(f"{space}Contents")
        ]
        keys = [decode_key(one[f"{space}Key"]) for one in found]
        sizes = [int(one[f"{space}Size"]) for one in found]
        times = _parse_times([one[f"{space}LastModified"] for one in found])
    except (KeyError, ValueError) as error:
        raise NotAPage(f"an object without {error}") from error
    prefixes = root.iter(f"{space}CommonPrefixes")
    folders = [decode_key(one.findtext(f"{space}Prefix") or "") for one in prefixes]
    token = root.findtext(f"{space}NextContinuationToken") or ""
    return ListPage(StoredFiles(keys, sizes, times), folders, token)


def _parse_times(texts: Sequence[str]) -> Times:
    """Parse times in UTC; 0.1 us each, one after another 5 us. Raises ValueError."""
    plain = "\n".join(texts).replace("Z", "").split("\n") if texts else []
    found = np.array(plain, dtype="datetime64[ms]")
    if len(found) != len(texts) or np.isnat(found).any():
        raise ValueError("a time")
    return found.astype(np.int64)


def all_below(ask: AskPage, prefix: str, skipped: str = "") -> Iterator[StoredFiles]:
    """Yield pages of all objects whose keys begin with `prefix`, in no order. `skipped`: a folder
    below it that is left out, its key with the slash; some of its objects may still be yielded.

    A small table is one request; of a large one up to `RANGES` plus `MAX_CUT` x `FOLDER_PAGES`
    requests more than it has pages. Raises OSError, NotOrdered."""
    first = ask(prefix)
    yield first.objects
    if not first.token:
        return
    begin = _last_key(first.objects, "")
    cuts = _choose_cuts(ask, prefix, begin, skipped)
    ranges = [
        _list_range(ask, prefix, after, until, skipped)
        for after, until in zip([begin, *cuts], [*cuts, ""], strict=True)
    ]
    yield from _at_once(ranges)


def listed_in_turn(ask: AskPage, prefix: str) -> Iterator[StoredFiles]:
    """Yield the same pages one after another, from a store that keeps no order."""
    token, more = "", True
    while more:
        page = ask(prefix, token=token)
        yield page.objects
        token, more = page.token, bool(page.token)


def _choose_cuts(ask: AskPage, prefix: str, begin: str, skipped: str) -> list[str]:
    """Return keys behind `begin` at which ranges with about as many folders start."""
    top = _list_folders(ask, prefix)
    deeper = (
        [] if len(top) > MAX_CUT else [_list_folders(ask, one) for one in top if one != skipped]
    )
    marks = {*top, *(one for some in deeper for one in some)}
    known = sorted(one for one in marks if one > begin)
    if len(known) < RANGES:
        return known
    return [known[len(known) * number // RANGES] for number in range(1, RANGES)]


def _list_folders(ask: AskPage, prefix: str) -> list[str]:
    found, token = [], ""
    for _ in range(FOLDER_PAGES):
        page = ask(prefix, token=token, by_folder=True)
        found += page.folders
        if not (token := page.token):
            break
    return found


def _list_range(
    ask: AskPage, prefix: str, after: str, until: str, skipped: str
) -> Iterator[StoredFiles]:
    """Yield what is behind `after` and before `until`; '': to the end."""
    token = ""
    while True:
        page = ask(prefix, after, token)
        last = _last_key(page.objects, after)
        if until and last >= until:
            yield page.objects.take_first(bisect_left(page.objects.places, until))
            return
        yield page.objects
        if not page.token:
            return
        after, token = last, page.token
        if skipped and last.startswith(skipped):
            after, token = f"{skipped[:-1]}0", ""  # the character behind the slash
            if until and after >= until:
                return


def _last_key(objects: StoredFiles, after: str) -> str:
    """Return the last key. Raises NotOrdered if one does not come behind the one before."""
    keys = objects.places
    if not keys:
        return after
    if keys[0] <= after or not all(one < behind for one, behind in pairwise(keys)):
        raise NotOrdered(f"{keys[0]} ... {keys[-1]} are listed after {after}")
    return keys[-1]


def _at_once(ranges: Sequence[Iterator[StoredFiles]]) -> Iterator[StoredFiles]:
    """Yield pages of all ranges in parallel. At most one page of each range is requested in
    advance: memory is bounded."""
    with ThreadPoolExecutor(len(ranges)) as pool:

        def next_of(one: Iterator[StoredFiles]) -> Callable[[], StoredFiles | None]:
            return pool.submit(partial(next, one, None)).result

        waiting = deque((one, next_of(one)) for one in ranges)
        while waiting:
            one, told = waiting.popleft()
            if (page := told()) is not None:
                waiting.append((one, next_of(one)))
                yield page
