"""Reading a cluster's API: lists page by page, with the pod's own token or one from the settings.
GET only."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlencode

from pydantic import SecretStr

from faultline.analysis.errors import BudgetExceeded, ConnectorError, SettingsError
from faultline.connectors.shared.http.http import HttpSession, ReadOnlyHttp
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.vendors.kubernetes.answers import KubernetesList, Named, Struct

T = TypeVar("T")

VENDOR = "kubernetes"
GROUPS = "/apis"
"""Where a server lists its groups: every authenticated user may ask (ClusterRole
system:discovery)."""
NO_SELECTION: Mapping[str, str] = MappingProxyType({})
PAGE, MOST_PAGES = 500, 6
"""kubectl asks for 500 at a time (kubernetes.io, "Retrieving large results sets in chunks")."""
GONE = 410
"""A page is asked for so late that the server has forgotten the list's version (same page)."""
UNAUTHORIZED, FORBIDDEN = 401, 403
POD_CA = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
LONGEST_TOKEN = 16_384
NAMES_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Asks for metadata without the object's content (kubernetes.io, "Receiving resources as Tables",
"Metadata-only")."""


@dataclass(frozen=True)
class ClusterCredentials:
    """What is sent with each request, and what its connection is made with."""

    headers: Mapping[str, str]
    verify: ssl.SSLContext | bool
    proxy: str | None = None
    """The only way to the server, where that is not the environment's to say."""


class ClusterLogin(Protocol):
    """The address of an API server, and the login for it."""

    @property
    def url(self) -> str:
        """Its address."""

    def credentials(self) -> ClusterCredentials:
        """As of now. Blocks. Raises SettingsError, ConnectorError."""


@dataclass(frozen=True)
class ClusterAccess:
    """A login by the keys of the settings: an address and a token."""

    url: str
    token: SecretStr | None
    token_file: Path
    ca_file: Path | None

    def credentials(self) -> ClusterCredentials:
        """As of now: the token of a pod is replaced every hour. Raises SettingsError."""
        if self.token is not None:
            token = self.token.get_secret_value()
        else:
            token = token_in(self.token_file, "kubernetes.token_file")
        return ClusterCredentials({"Authorization": f"Bearer {token}"}, self.trust())

    def trust(self) -> ssl.SSLContext | bool:
        """Whom to trust: the authority of the settings, else the pod's, else those of the
        system."""
        file = self.ca_file or (POD_CA if POD_CA.exists() else None)
        if file is None:
            return True
        try:
            return ssl.create_default_context(cafile=str(file))
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(
                "kubernetes.ca_file", f"cannot be used ({type(error).__name__})"
            ) from None


def token_in(path: Path, key: str) -> str:
    """The token that a file holds. Raises SettingsError naming the key."""
    try:
        with path.open(encoding="ascii") as file:
            token = file.read(LONGEST_TOKEN).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(key, f"cannot be read ({type(error).__name__})") from None
    # It becomes a header, where a line break would begin another one.
    if not token or not token.isprintable():
        raise SettingsError(key, "holds no token")
    return token


class Cluster:
    """A cluster's API server, with the credentials of this moment."""

    def __init__(self, access: ClusterLogin, limits: Limits) -> None:
        self._access = access
        self._limits = limits

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Reads]:
        """The reads of one collection. Raises SettingsError."""
        # This may read a file or run a command.
        credentials = await asyncio.to_thread(self._access.credentials)
        whole = self._http(credentials, {})
        names = self._http(credentials, {"Accept": NAMES_ONLY})
        # One deadline for both: they share the time of one collection.
        deadline = Deadline.within(self._limits)
        async with whole.open(deadline) as objects, names.open(deadline) as metadata:
            yield Reads(objects, metadata)

    def _http(self, credentials: ClusterCredentials, headers: Mapping[str, str]) -> ReadOnlyHttp:
        return ReadOnlyHttp(
            VENDOR,
            self._access.url,
            headers={**credentials.headers, **headers},
            limits=self._limits,
            verify=credentials.verify,
            proxy=credentials.proxy,
        )


@dataclass(frozen=True)
class Refusal:
    """Why something cannot be read."""

    status: int
    reason: str


@dataclass(frozen=True)
class ServedGroup:
    """A group of the API: the versions that the server has, and the one that it prefers."""

    versions: frozenset[str]
    preferred: str


class _GroupVersion(Struct):
    version: str = ""


class _ApiGroup(Struct):
    name: str = ""
    versions: list[_GroupVersion] | None = None
    preferred_version: _GroupVersion | None = None


class _ApiGroups(Struct):
    """metav1.APIGroupList."""

    groups: list[_ApiGroup]


class ObjectLists(Protocol):
    """Whatever can list a cluster's objects."""

    async def all(
        self,
        path: str,
        type: type[T],
        *,
        selection: Mapping[str, str] = NO_SELECTION,
        names_only: bool = False,
    ) -> tuple[list[T], str | None]:
        """The objects at `path`, and what of them was left out."""

    async def groups(self) -> dict[str, ServedGroup]:
        """The groups of the API that the server has, by name."""


class Reads:
    """Lists and logs of one collection, and which groups there are. Nothing else is ever asked, so
    that a role needs the verb `list`, and `get` for logs."""

    def __init__(self, objects: HttpSession, metadata: HttpSession) -> None:
        self._objects = objects
        self._metadata = metadata

    async def all(
        self,
        path: str,
        type: type[T],
        *,
        selection: Mapping[str, str] = NO_SELECTION,
        names_only: bool = False,
    ) -> tuple[list[T], str | None]:
        """The objects at `path`, and what of them was left out. Raises ConnectorError,
        BudgetExceeded."""
        session = self._metadata if names_only else self._objects
        params = [*selection.items(), ("limit", str(PAGE))]
        objects: list[T] = []
        page: str | None = None
        for _ in range(MOST_PAGES):
            more = [("continue", page)] if page else []
            try:
                shape = KubernetesList[type]  # type: ignore[valid-type]
                answer = await session.get(path, params + more, type=shape)
            except (ConnectorError, BudgetExceeded) as error:
                # Keep the pages that were read, and report the rest as left out.
                if not objects:
                    raise
                gone = isinstance(error, ConnectorError) and error.status == GONE
                return (
                    objects,
                    "the list changed while it was read"
                    if gone
                    else f"the rest was not read: {error}",
                )
            objects += answer.items or []
            page = answer.metadata.next_page if answer.metadata else None
            if not page:
                return objects, None
        # With a selector the server gives no count (metav1.ListMeta).
        left = answer.metadata.remaining_item_count if answer.metadata else None
        return (
            objects,
            f"{left:,} more left out" if left else f"more than {len(objects):,} are there",
        )

    async def groups(self) -> dict[str, ServedGroup]:
        """The groups that the server has, by name; everyone who logged in may ask. Raises
        ConnectorError, BudgetExceeded."""
        answer = await self._objects.get(GROUPS, type=_ApiGroups)
        served_groups_by_name = {}
        for group in answer.groups:
            versions = frozenset(version.version for version in group.versions or ())
            preferred = group.preferred_version.version if group.preferred_version else ""
            served_groups_by_name[group.name] = ServedGroup(versions, preferred)
        return served_groups_by_name

    async def log(self, path: str, selection: Mapping[str, str]) -> str:
        """The log of a container. Raises ConnectorError, BudgetExceeded."""
        return await self._objects.text(path, list(selection.items()))

    async def refusal(self, path: str, *, names_only: bool = False) -> Refusal | None:
        """Why the list at `path` cannot be read, None when it can. Raises what is no answer at
        all."""
        session = self._metadata if names_only else self._objects
        try:
            shape = KubernetesList[dict[str, Any]]
            await session.get(path, [("limit", "1")], type=shape)
        except ConnectorError as error:
            return _refusal_of(error)
        return None

    async def log_refusal(self, space: str) -> Refusal | None:
        """Why the log of a pod cannot be read; of one that is there none of its lines are asked
        for. None where there is no pod to ask about."""
        path = f"/api/v1/namespaces/{space}/pods"
        try:
            listed = await self._metadata.get(path, [("limit", "1")], type=KubernetesList[Named])
            for pod in listed.items or ():
                name = quote(pod.metadata.name, safe="")
                await self._objects.text(f"{path}/{name}/log", [("tailLines", "0")])
        except ConnectorError as error:
            refusal = _refusal_of(error)
            # A pod of several containers wants one of them to be named, once the right is there.
            return refusal if refusal.status == FORBIDDEN else None
        return None


def _refusal_of(error: ConnectorError) -> Refusal:
    """What a server answered that knows who asks. Raises the error where it does not."""
    if error.status is None or error.status == UNAUTHORIZED:
        raise error
    return Refusal(error.status, error.problem)


def replayed(path: str, selection: Mapping[str, str] = NO_SELECTION) -> str:
    """A list as a human may ask for it again."""
    return f"kubectl get --raw '{path}{'?' + urlencode(selection) if selection else ''}'"
