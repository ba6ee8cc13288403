"""Tables as the REST catalog knows them, with all their snapshots."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

import requests
from firnline_domain.errors import (
    CatalogRefused,
    CatalogUnreachable,
    FirnlineError,
    LoginRefused,
    RetryLater,
    TaskRefused,
)
from firnline_domain.identity import TableName, canonical_prefix
from firnline_domain.records.results import (
    FORMAT_VERSION_4,
    METADATA_UNREADABLE,
    NEWEST_VERSION,
)
from firnline_domain.settings.in_force import with_namespace
from firnline_domain.settings.policies import replace_policies
from pyiceberg.catalog.rest import (
    SNAPSHOT_LOADING_MODE,
    Capability,
    Endpoints,
    RestCatalog,
    TableResponse,
)
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.catalog.rest.scan_planning import StorageCredential
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    UnauthorizedError,
)
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.typedef import Identifier
from requests.adapters import HTTPAdapter

import firnline_iceberg.table.nanoseconds  # noqa: F401  teaches PyIceberg
from firnline_iceberg.connection.auth import RequestsAuth, identity_of
from firnline_iceberg.connection.call_metrics import count_call, note_date
from firnline_iceberg.connection.connection import Catalog, CatalogConnection, connection_of
from firnline_iceberg.connection.prefix import OtherPrefix
from firnline_iceberg.connection.properties import ARCHIVES, DELEGATION, EXTERNAL, UNREADABLE
from firnline_iceberg.metadata.entry_cache import FileCache
from firnline_iceberg.storage.file_io import make_file_io
from firnline_iceberg.storage.vended_credentials import (
    Credentials,
    VendedCredentials,
    credentials_of,
)
from firnline_iceberg.table.loaded_table import LoadedTable, TableGone
from firnline_iceberg.table.metadata_json import Metadata

Pace = Callable[[], None]
Unlisted = dict[str, str]  # namespaces that could not be listed, dotted ("all"), and why
ALL_SNAPSHOTS = "all"  # `snapshot-loading-mode`; the other one is `refs`
REFS_ONLY = "refs"
_OF_IDENTITY = frozenset({"auth", "credential", "token", "rest.sigv4-enabled"})
_DELEGATION = DELEGATION.removeprefix("header.")
_NEWER = re.compile(r"Input tag '(\d{1,4})' found using 'format_version'")
_FAULT_CHARS = 300  # PyIceberg repeats what it was given
NO_HEADS: Mapping[str, int | None] = {}
CATALOG_TIMEOUT_S = 30.0  # PyIceberg sets none: a hung catalog would hold a service for ever


class StoredMetadata(NamedTuple):
    """A table's metadata as the catalog sends it. `etag`: its version, "" if the catalog has none.
    `size_bytes`: of the whole answer."""

    location: str
    metadata: Metadata
    etag: str
    size_bytes: int


def _spend_nothing() -> None:
    """Pace no call."""


class Tables:
    """Loads tables through an Iceberg REST catalog; connects at the first `load`. Each thread
    has a client, and so a session, of its own: those of `requests` are not made for several."""

    def __init__(self, catalog: Catalog, cache: FileCache | None = None, **properties: str) -> None:
        """Connect lazily, with one client per thread. `cache`: for callers that read the same table
        repeatedly."""
        self._cache = cache
        self.pace: Pace = _spend_nothing  # called before each request, which it may delay
        self._connection, self._properties = connection_of(catalog), properties
        self._clients = threading.local()

    @property
    def _catalog(self) -> RestCatalog:
        return self._client

    @property
    def _client(self) -> _Catalog:
        if not hasattr(self._clients, "catalog"):
            self._clients.catalog = _Catalog(self._connection, self._properties, self.pace)
        found: _Catalog = self._clients.catalog
        return found

    @property
    def prefix(self) -> str:
        """Return the prefix of the catalog's paths, as the server gave it. Raises RetryLater."""
        try:
            return canonical_prefix(self._catalog.properties.get("prefix", ""))
        except (RESTError, requests.RequestException) as error:
            raise catalog_error(self._connection, error, "") from error

    @property
    def catalog_path(self) -> str:
        """`TableName.catalog_path` of all tables here. Raises RetryLater."""
        return self._table_name("", (), "").catalog_path

    def _table_name(self, uuid: str, namespace: tuple[str, ...], name: str) -> TableName:
        return TableName(uuid, namespace, name, self._connection.name, self.prefix)

    @property
    def address(self) -> tuple[str, str]:
        """The catalog's URI and prefix: where one name is one table. Raises RetryLater."""
        return self._connection.uri, self.prefix

    @property
    def archives(self) -> str:
        """`firnline.archives` of the connection."""
        return self._connection.properties.get(ARCHIVES, "")

    @property
    def external_files(self) -> str:
        """`firnline.external-files` of the connection."""
        return self._connection.properties.get(EXTERNAL, "")

    @property
    def unreadable_tables(self) -> str:
        """`firnline.unreadable-tables` of the connection."""
        return self._connection.properties.get(UNREADABLE, "")

    @property
    def client(self) -> RestCatalog:
        """PyIceberg's own, of this thread, for what is not done here; asks the catalog for its
        configuration."""
        return self._catalog

    def for_table(self, table: TableName) -> Tables:
        """Return the client of the catalog and the prefix that a table is in."""
        return self

    def known_catalogs(self, table: TableName) -> Sequence[Tables]:
        """Return all configured catalogs, with the one of a table."""
        return (self,)

    def load(self, table: TableName) -> LoadedTable:
        """Load the table.

        Raises TableGone (also if the name now belongs to another uuid), RetryLater, OtherPrefix,
        and TaskRefused if PyIceberg cannot read its metadata."""
        found = self._load_table(table)
        if str(found.metadata.table_uuid) != table.uuid:
            raise TableGone(table, f"is now {found.metadata.table_uuid}")
        return to_loaded_table(table, found, self._cache)

    def load_named(self, namespace: tuple[str, ...], name: str) -> LoadedTable:
        """Load the table that has this name now. Raises TableGone, RetryLater."""
        asked = self._table_name("", namespace, name)
        found = self._load_table(asked)
        uuid = str(found.metadata.table_uuid)
        identity = TableName(uuid, namespace, name, asked.catalog, asked.prefix)
        return to_loaded_table(identity, found, self._cache)

    def metadata_json(self, name: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
        """Return the path of the metadata file of `namespace.name`, and the metadata in the
        catalog's answer: also for a table that PyIceberg cannot read. Requests no keys to its
        storage. Raises TableGone, RetryLater, and ValueError for an invalid answer."""
        found = self.read_metadata(name)
        assert found is not None  # no version was named
        return found.location, found.metadata

    def read_metadata(
        self, name: tuple[str, ...], snapshots: str = ALL_SNAPSHOTS, etag: str = ""
    ) -> StoredMetadata | None:
        """Return the metadata of `namespace.name` in the catalog's answer; None if its version is
        still `etag`. `snapshots`: ALL_SNAPSHOTS, or REFS_ONLY where the catalog can leave out the
        others. Raises what `metadata_json` does."""
        try:
            return self._client.read_metadata(name, snapshots, etag)
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            raise TableGone(self._table_name("", name[:-1], name[-1])) from error
        except (RESTError, requests.RequestException) as error:
            raise catalog_error(self._connection, error, ".".join(name)) from error

    def commit_changes(
        self,
        table: TableName,
        updates: tuple[TableUpdate, ...],
        heads: Mapping[str, int | None] = NO_HEADS,
        *requirements: TableRequirement,
    ) -> bool:
        """Send changes of a table's metadata, once. `heads`: the snapshot at which each of these
        refs has to be, None = there has to be no such ref. Return False if one is elsewhere, if
        another requirement does not hold, or if the table has another uuid. The table is not loaded
        first: refs that are made meanwhile are not known (lost-tag hazard, H25). Raises TableGone,
        OtherPrefix, and RetryLater: perhaps the changes are made."""
        self._refuse_other_prefix(table)
        levels = (*table.namespace, table.name)
        named: Any = SimpleNamespace(name=lambda: levels, config={})  # what `commit_table` reads
        required = (
            AssertTableUUID(uuid=UUID(table.uuid)),
            *(
                AssertRefSnapshotId.model_validate({"ref": ref, "snapshot-id": head})
                for ref, head in heads.items()
            ),
            *requirements,
        )
        try:
            self._catalog.commit_table(named, required, updates)
        except CommitFailedException:
            return False
        except (RESTError, requests.RequestException) as error:
            answer = getattr(error.__cause__, "response", None)
            if answer is not None and answer.status_code == 404:
                raise TableGone(table) from error
            raise catalog_error(self._connection, error, table.dotted_name) from error
        return True

    def namespace_properties(self, table: TableName) -> dict[str, str]:
        """Return the properties of the table's own level of namespaces; {} if the catalog has none,
        or shows none: not every catalog has them, nor lets every client read them. Raises
        RetryLater."""
        try:
            return dict(self._catalog.load_namespace_properties(table.namespace))
        except (NoSuchNamespaceError, ForbiddenError, BadRequestError, NotImplementedError):
            return {}
        except (RESTError, requests.RequestException) as error:
            raise catalog_error(self._connection, error, ".".join(table.namespace)) from error

    def table_names(
        self, below: tuple[str, ...] = (), unlisted: Unlisted | None = None
    ) -> Iterator[tuple[str, ...]]:
        """Yield the tables of a namespace and of those below it, as namespace levels and name; () =
        of all. `unlisted` gets the namespaces that cannot be listed; None = the first one raises
        RetryLater. Raises TaskRefused without such a namespace."""
        try:
            yield from self._names_below(below, unlisted)
        except NoSuchNamespaceError as error:
            raise TaskRefused("namespace_gone", f"no namespace {'.'.join(below)}") from error
        except (RESTError, requests.RequestException) as error:
            raise catalog_error(self._connection, error, ".".join(below)) from error

    def list_namespace(
        self, namespace: tuple[str, ...]
    ) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
        """Return the tables of one namespace, and the namespaces right below it; both empty if
        it is gone. Raises RetryLater: also where we may not list it."""
        try:
            tables = self._catalog.list_tables(namespace) if namespace else []
            return list(tables), list(self._catalog.list_namespaces(namespace))
        except NoSuchNamespaceError:
            return [], []
        except (RESTError, requests.RequestException) as error:
            raise CatalogUnreachable(f"catalog: {error}") from error

    def _names_below(
        self, namespace: tuple[str, ...], unlisted: Unlisted | None
    ) -> Iterator[tuple[str, ...]]:
        if namespace:
            yield from self._list_parts(self._catalog.list_tables, namespace, unlisted)
        for below in self._list_parts(self._catalog.list_namespaces, namespace, unlisted):
            with suppress(NoSuchNamespaceError):  # dropped since it was listed
                yield from self._names_below(below, unlisted)

    def _list_parts(
        self,
        list_in: Callable[[tuple[str, ...]], list[tuple[str, ...]]],
        namespace: tuple[str, ...],
        unlisted: Unlisted | None,
    ) -> list[tuple[str, ...]]:
        try:
            return list_in(namespace)
        except (RESTError, requests.RequestException) as error:
            if unlisted is None:
                raise
            name = ".".join(namespace)
            unlisted[name or "all"] = str(catalog_error(self._connection, error, name))
            return []

    def _refuse_other_prefix(self, table: TableName) -> None:
        if table.prefix != (prefix := self.prefix):
            raise OtherPrefix(self._connection.name, table.prefix, prefix)

    def _load_table(self, table: TableName) -> Table:
        self._refuse_other_prefix(table)
        try:
            found: Table = self._catalog.load_table((*table.namespace, table.name))
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            raise TableGone(table) from error
        except (RESTError, requests.RequestException) as error:
            raise catalog_error(self._connection, error, table.dotted_name) from error
        except FirnlineError:
            raise
        except Exception as error:  # of PyIceberg, at metadata that are no metadata, whatever it is
            raise unreadable_metadata(table.dotted_name, error) from error
        return found


def unreadable_metadata(table: str, error: Exception) -> TaskRefused:
    """Return why PyIceberg cannot read a table's metadata: their format version, or the first fault
    that it has found, in one line."""
    if found := _NEWER.search(str(error)):
        version = int(found[1])
        if version == NEWEST_VERSION + 1:
            text = (
                f"{table} is of format version 4, which Firnline does not read, and is left alone"
            )
            return TaskRefused(FORMAT_VERSION_4, f"{text} ({FORMAT_VERSION_4})")
        text = f"{table} says format version {version}; Firnline reads 1 to {NEWEST_VERSION}"
        return TaskRefused(METADATA_UNREADABLE, text)
    lines = " ".join(str(error).split())[:_FAULT_CHARS]
    text = f"{table}: its metadata cannot be read: {type(error).__name__}: {lines}"
    return TaskRefused(METADATA_UNREADABLE, text)


def catalog_error(connection: CatalogConnection, error: Exception, what: str) -> RetryLater:
    """Return the error of a catalog's answer. `what`: the table or namespace that was asked for,
    dotted; "" for all."""
    name = connection.name
    if isinstance(error, UnauthorizedError | AuthorizationExpiredError):
        return LoginRefused(f"catalog {name} does not take who we are (401): {error}", name)
    if isinstance(error, ForbiddenError):
        text = f"catalog {name} does not let us have {what or 'its tables'} (403): {error}"
        return CatalogRefused(text, what or name)
    return CatalogUnreachable(f"catalog {name}: {error}")


def refuse_remote_signing(settings: Mapping[str, Any], table: str) -> None:
    """Refuse a catalog that signs each request to S3 itself. Raises TaskRefused."""
    asked = str(settings.get("s3.remote-signing-enabled", "")).lower() == "true"
    if (asked or settings.get("s3.signer")) and "s3.access-key-id" not in settings:
        raise TaskRefused(
            "remote_signing",
            f"{table}: its catalog signs each request to S3 itself, which Firnline does not do; "
            "have it hand out credentials (vended-credentials), or give static ones",
        )


def settings_of(
    tables: Tables, table: LoadedTable, policies: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the settings of a table and of its namespace now, and these of policies. Raises
    RetryLater."""
    own = with_namespace(table.properties, tables.namespace_properties(table.identity))
    return replace_policies(own, policies)


def to_loaded_table(table: TableName, found: Table, cache: FileCache | None = None) -> LoadedTable:
    """Convert a PyIceberg table of any catalog."""
    return LoadedTable(table, found.metadata, found.io, found.metadata_location, cache)


class _Catalog(RestCatalog):
    def __init__(
        self,
        connection: CatalogConnection,
        properties: Mapping[str, str],
        pace: Pace = _spend_nothing,
    ) -> None:
        self._connection, self._properties, self._pace = connection, dict(properties), pace
        self._auth = RequestsAuth(identity_of(connection))
        super().__init__(connection.name, **{**connection.pyiceberg_properties(), **properties})

    def _fetch_config(self) -> None:
        """Fetch the configuration, with a new token if the catalog refuses the old one. Its
        `overrides` replace the client's properties, except SNAPSHOT_LOADING_MODE: hidden snapshots,
        which no ref points at, would hide reachable files."""
        wanted = self.properties.get(SNAPSHOT_LOADING_MODE, ALL_SNAPSHOTS)
        try:
            super()._fetch_config()
        except UnauthorizedError:
            if not self._auth.renew():
                raise
            super()._fetch_config()
        self.properties[SNAPSHOT_LOADING_MODE] = wanted

    def _response_to_table(
        self, identifier_tuple: Identifier, table_response: TableResponse
    ) -> Table:
        """Build the table with a FileIO of `storage`: in PyIceberg the table's properties choose
        the class."""
        place = table_response.metadata_location or table_response.metadata.location
        settings = {**self.properties, **table_response.config}
        refuse_remote_signing(settings, ".".join(identifier_tuple))
        found = _to_credentials(table_response.config, table_response.storage_credentials)
        vended = None
        if found:
            connection, properties = self._connection, self._properties
            vended = VendedCredentials(
                connection, properties, identifier_tuple, found, fresh_credentials
            )
        return Table(
            identifier=identifier_tuple,
            metadata=table_response.metadata,
            metadata_location=place,
            io=make_file_io(settings, place, vended),
            catalog=self,
            config=table_response.config,
        )

    def fresh_credentials(self, identifier: Identifier) -> Credentials:
        """Request new credentials for a table: by their endpoint, if the catalog has one, else by a
        load of the table without use of its metadata."""
        has_endpoint = Capability.V1_LOAD_CREDENTIALS in self._supported_endpoints
        what = Endpoints.load_credentials if has_endpoint else Endpoints.load_table
        path = self.url(what, prefixed=True, **self._split_identifier_for_path(identifier))
        body = self._get_json(path, {} if has_endpoint else {"snapshots": REFS_ONLY})
        given = [StorageCredential(**one) for one in body.get("storage-credentials") or ()]
        return _to_credentials(body.get("config") or {}, given)

    def read_metadata(
        self, identifier: Identifier, snapshots: str, etag: str
    ) -> StoredMetadata | None:
        """Return a table's metadata; None if their version is `etag`. Raises ValueError for an
        invalid answer, and what PyIceberg raises."""
        name = self._split_identifier_for_path(identifier)
        path = self.url(Endpoints.load_table, prefixed=True, **name)
        headers = {_DELEGATION: None, **({"If-None-Match": etag} if etag else {})}
        answer = self._get(path, {"snapshots": snapshots}, headers)
        if answer.status_code == 304:
            return None
        try:
            body = answer.json()
        except (requests.JSONDecodeError, RecursionError) as error:  # of this table alone
            raise ValueError(f"the catalog's answer cannot be parsed: {error}") from None
        metadata = body.get("metadata") if isinstance(body, dict) else None
        if not isinstance(metadata, dict):
            raise ValueError("the catalog's answer has no metadata")
        location, version = body.get("metadata-location"), answer.headers.get("ETag")
        return StoredMetadata(str(location or ""), metadata, version or "", len(answer.content))

    def _get_json(self, path: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        body: dict[str, Any] = self._get(path, parameters).json()
        return body

    def _get(
        self,
        path: str,
        parameters: Mapping[str, str],
        headers: Any = None,  # a name with None: not that of the session either
    ) -> requests.Response:
        answer = self._session.get(path, params=parameters, headers=headers)
        if answer.status_code == 401 and self._auth.renew():
            answer = self._session.get(path, params=parameters, headers=headers)
        try:
            answer.raise_for_status()
        except requests.HTTPError as error:
            _handle_non_200_response(error, {404: NoSuchTableError})
        return answer

    def _create_session(self) -> requests.Session:
        """Create a session with the shared identity: PyIceberg requests a token for each client,
        twice, and never before it expires."""
        whole = self.properties
        self.properties = {name: whole[name] for name in whole if name not in _OF_IDENTITY}
        session = super()._create_session()
        self.properties = whole
        session.auth = self._auth
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Calls(self._connection.name, session.verify, self._pace))
        return session

    def _refresh_token(self) -> None:
        """Renew the token. PyIceberg calls this after an answer with 401, before its one other
        try."""
        self._auth.renew()


def _to_credentials(config: Mapping[str, str], given: Sequence[StorageCredential]) -> Credentials:
    return credentials_of(config, [(one.prefix, one.config) for one in given], time.time())


class _ThreadClients(threading.local):
    """A thread's clients for fresh keys, by `CatalogConnection.place`."""

    def __init__(self) -> None:
        self.by_place: dict[tuple[str, str, str], _Catalog] = {}


_asking = _ThreadClients()


def fresh_credentials(
    connection: CatalogConnection, properties: Mapping[str, str], identifier: Identifier
) -> Credentials:
    """Request new keys to the storage of a table; each thread has a client, so that no table waits
    for another one's keys. Raises RetryLater, TableGone."""
    place = connection.place
    try:
        if place not in _asking.by_place:
            _asking.by_place[place] = _Catalog(connection, properties)
        return _asking.by_place[place].fresh_credentials(identifier)
    except NoSuchTableError as error:
        raise TableGone(TableName("", identifier[:-1], identifier[-1])) from error
    except (RESTError, requests.RequestException, ValueError) as error:
        raise catalog_error(connection, error, ".".join(identifier)) from error


class _Calls(HTTPAdapter):
    """Each has an end, is paced, and is counted."""

    def __init__(self, catalog: str, verify: Any, pace: Pace) -> None:
        super().__init__()
        self._catalog, self._verify, self._pace = catalog, verify, pace

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        if isinstance(self._verify, str):  # REQUESTS_CA_BUNDLE would win over what is configured
            kwargs["verify"] = self._verify
        kwargs["timeout"] = kwargs.get("timeout") or CATALOG_TIMEOUT_S
        self._pace()
        began_s, status = time.monotonic(), None
        try:
            answer = super().send(request, *args, **kwargs)
            status = answer.status_code
            note_date(self._catalog, answer.headers)
        finally:
            elapsed_s = time.monotonic() - began_s
            count_call(self._catalog, str(request.method), elapsed_s, status)
        return answer
