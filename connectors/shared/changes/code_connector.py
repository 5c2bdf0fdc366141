"""What the connectors of code hosts share: which repositories are read for an alert, and the code
at a revision."""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from faultline.analysis.errors import ConnectorError, FaultlineError, SettingsError
from faultline.analysis.vocabulary import Alert, EvidenceKind, Scope
from faultline.connectors.shared.changes.code_changes import PRODUCTION, ChangeRows, DiffBudget
from faultline.connectors.shared.changes.code_host import (
    KIND,
    MOST_REPOSITORIES,
    RepositoryReading,
    code_at,
    collected,
    read_code,
    read_repository,
)
from faultline.connectors.shared.changes.code_lines import SourceLines, frames_of, safe_path
from faultline.connectors.shared.changes.code_repository import Repository
from faultline.connectors.shared.contract.base import Check, Collected, Missing, Request
from faultline.connectors.shared.http.linked_pages import LinkedHttp, LinkedPage, LinkedSession
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.settings_types import Names
from faultline.connectors.shared.settings.shared_settings import SharedSettings

MOST_CHECKED = 5
# Foreign text that becomes a part of an address: no character may change where it leads.
_REVISION = re.compile(r"[0-9A-Za-z][\w./@+-]{0,200}")


class CodeHostSection(Protocol):
    """What the settings of a code host have at least."""

    @property
    def environments(self) -> Names: ...
    def limits(self, usual: Limits) -> Limits: ...


S = TypeVar("S", bound=CodeHostSection)


class CodeConnector(ABC, Generic[S]):
    """Changes and code of the repositories of services: each host says what is its own.

    `services`: repositories by our name of a service; `jobs`: the service that runs a training job,
    by the job's name.
    """

    kinds: tuple[EvidenceKind, ...] = (KIND,)
    follows = ("service", "repository")
    name: ClassVar[str]
    title: ClassVar[str]
    setting: ClassVar[str]
    """The key of a service that names its repositories."""
    names: ClassVar[re.Pattern[str]]
    names_problem: ClassVar[str]
    """What is wrong with a name that does not match `names`."""
    repository: ClassVar[type[Repository]]
    repository_answer: ClassVar[type[Any]]
    lists: ClassVar[Mapping[str, str]]
    """The lists that are read, by what they hold: paths below a repository's."""
    writing_scopes: ClassVar[frozenset[str]]
    """Scopes of a token that let it write."""
    advised: ClassVar[str]
    """The token to take instead of one that can write."""
    required: ClassVar[Sequence[str]]
    """The keys of which at least one must be set."""

    usual_limits: ClassVar[Limits]

    def __init__(
        self,
        section: S,
        services: Mapping[str, Sequence[str]],
        jobs: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._services = {name: tuple(repositories) for name, repositories in services.items()}
        self._jobs = dict(jobs or {})
        self._environments = section.environments
        api, self._web, headers = self._server(section)
        usual = section.limits(limits or self.usual_limits)
        self._http = LinkedHttp(self.name, api, headers=headers, limits=usual)

    @abstractmethod
    def _server(self, section: S) -> tuple[str, str, dict[str, str]]:
        """The base of its API, that of links for people, and what every request carries."""

    @classmethod
    def build(cls, section: S, settings: SharedSettings) -> Self | None:
        """The configured connector, or None without a required key. Raises SettingsError."""
        if all(getattr(section, key) is None for key in cls.required):
            return None
        services: dict[str, Sequence[str]] = {}
        jobs: dict[str, str] = {}
        for name, service in settings.services.items():
            repositories = getattr(service, cls.setting)
            if not all(cls.names.fullmatch(repository) for repository in repositories):
                raise SettingsError(f"services.{name}.{cls.setting}", cls.names_problem)
            if repositories:
                services[name] = repositories
            if service.training_job:
                jobs[service.training_job] = name
        return cls(section, services, jobs)

    @property
    def limits(self) -> Limits:
        """Its limits."""
        return self._http.limits

    @property
    def repositories(self) -> tuple[str, ...]:
        """Every repository of the settings."""
        return tuple(dict.fromkeys(r for names in self._services.values() for r in names))

    def _open(self) -> AbstractAsyncContextManager[LinkedSession]:
        """A session that is allowed to read."""
        return self._http.open()

    def _repository(self, session: LinkedSession, name: str) -> Repository:
        return self.repository(session, name, self._web, self.production, self._environments)

    async def check(self) -> Check:
        """Which repositories can be read, what of them, and can the token write?"""
        if not self.repositories:
            return Check(self.name, False, f"no service has a {self.setting} in the settings")
        try:
            async with self._open() as session:
                scopes = await self._scopes(session)
                checks = await asyncio.gather(
                    *(
                        self._checked(session, name, scopes)
                        for name in self.repositories[:MOST_CHECKED]
                    )
                )
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        lines = [line for _, line, _ in checks]
        left_out = len(self.repositories) - MOST_CHECKED
        lines += [f"{left_out} more were not tried"] if left_out > 0 else []
        warnings = [self._scopes_warning(scopes), *(warning for _, _, warning in checks)]
        warning = next((f"; warning: {warning}" for warning in warnings if warning), "")
        # People know a server of GitLab without the path of its API.
        address = self._http.base_url.removesuffix("/api/v4")
        line = f"{self.title} at {address}: {'; '.join(lines)}; only GET is sent{warning}"
        return Check(self.name, all(ok for ok, _, _ in checks), line)

    async def _scopes(self, session: LinkedSession) -> frozenset[str]:
        """The token's scopes, where a call of its own tells them."""
        return frozenset()

    def _scopes_warning(self, scopes: Iterable[str]) -> str:
        writing = sorted(self.writing_scopes & set(scopes))
        if not writing:
            return ""
        return f"the token can also write (scopes {', '.join(writing)}): give it {self.advised}"

    @abstractmethod
    def _warning(self, name: str, page: LinkedPage[Any], scopes: frozenset[str]) -> str:
        """A warning where a repository can be written to. `page` is its own answer."""

    async def _checked(
        self, session: LinkedSession, name: str, scopes: frozenset[str]
    ) -> tuple[bool, str, str]:
        """Whether a repository can be read, what of it in words, and a warning where it can be
        written to."""
        path = self.repository.path_of(name)
        try:
            page = await session.page(path, [], type=self.repository_answer)
        except ConnectorError as error:
            # A token that is not accepted fails for every repository alike.
            if error.status == 401:
                raise
            return False, f"{name} cannot be read ({_status(error)})", ""
        refusals = await asyncio.gather(
            *(_refusal(session, path + end) for end in self.lists.values())
        )
        refused = [f"{what} ({why})" for what, why in zip(self.lists, refusals, strict=True) if why]
        line = f"{name} can be read" + (f", but not {', '.join(refused)}" if refused else "")
        return not refused, line, self._warning(name, page, scopes)

    async def collect(self, request: Request) -> Collected:
        """What was rolled out and merged around the incident. A call that fails is a gap, the
        others stand."""
        names = self._unread(request)
        if not names and request.earlier:
            return Collected()
        if not names:
            phrase = f"no service in scope has a {self.setting} in the settings"
            return Collected(
                missing=(Missing(KIND, "repositories of the services in scope", phrase),)
            )
        # The order names the likeliest repositories first, so the cap drops the unlikely ones.
        read, left_out = names[:MOST_REPOSITORIES], names[MOST_REPOSITORIES:]
        diffs = DiffBudget()
        async with self._open() as session:
            readings = await asyncio.gather(
                *(
                    read_repository(
                        self._repository(session, n), self._rows_of(n, request, diffs), request
                    )
                    for n in read
                )
            )
            lost = await self._read_code(readings, request.alert)
        collection = collected(readings)
        if left_out:
            lost.append(
                Missing(
                    KIND,
                    ", ".join(left_out[:10]),
                    f"{len(left_out)} more repositories were left out",
                )
            )
        return Collected(collection.tables, collection.items, (*collection.missing, *lost))

    async def code_at(
        self, repository: str, revision: str, path: str, line: int
    ) -> SourceLines | None:
        """The lines around `path:line` (from 1) of a repository of the settings; None where it has
        no such file.

        Raises ConnectorError, also for a path that leads out of the repository; BudgetExceeded.
        """
        safe = safe_path(path)
        # The caller may be a language model: only repositories of the settings may be read.
        if repository not in self.repositories:
            raise ConnectorError(self.name, "code", "the repository is not in the settings")
        # Two dots could leave the repository in a URL, or ask for a range of revisions.
        if safe is None or not _REVISION.fullmatch(revision) or ".." in revision:
            raise ConnectorError(
                self.name, "code", "the path or the revision is not valid in a repository"
            )
        async with self._open() as session:
            return await code_at(self._repository(session, repository), revision, safe, line)

    def _unread(self, request: Request) -> list[str]:
        """The request's repositories without those that were read in the rounds before."""
        read: list[str] = []
        for alert, scope in request.earlier:
            names = [r for r in self.repositories_for(alert, scope) if r not in read]
            read += names[:MOST_REPOSITORIES]
        names = self.repositories_for(request.alert, request.scope)
        return [name for name in names if name not in read]

    def reads_repository(self, address: str) -> bool:
        """Whether the settings name the repository at an address."""
        return any(_names([address], repository) for repository in self.repositories)

    def repositories_for(self, alert: Alert, scope: Scope) -> list[str]:
        """Those that the alert itself names, then those of the services in scope; without either,
        all."""
        texts = [*alert.labels.values(), *(link.url for link in alert.links)]
        named = [r for r in self.repositories if _names(texts, r)]
        services = [
            s for s in (*scope.services, alert.service, self._jobs.get(scope.job or "")) if s
        ]
        if not services and not named:
            services = list(self._services)
        requested_services = [r for s in services for r in self._services.get(s, ())]
        return list(dict.fromkeys([*named, *requested_services]))

    def production(self, environment: str, is_production: bool | None = None) -> bool:
        """Whether an environment is one whose deployments count."""
        if self._environments:
            return environment.casefold() in {e.casefold() for e in self._environments}
        # A host may leave its production flag unset, so the name counts as well.
        return bool(is_production) or bool(PRODUCTION.search(environment))

    def _rows_of(self, repository: str, request: Request, diffs: DiffBudget) -> ChangeRows:
        """Rows for the services kept in a repository: those in scope where there are any, else the
        training job in scope. The others get the changes that name them."""
        services = [s for s, names in self._services.items() if repository in names]
        job = request.scope.job
        if (
            job
            and self._jobs.get(job) in services
            and not set(services) & {*request.scope.services}
        ):
            return ChangeRows((job,), diffs=diffs)
        linked = linked_services(request, repository)
        every = dict.fromkeys((*request.scope.services, *linked))
        in_scope = [s for s in every if s in services or s in linked]
        neighbours = [s for s in services if s not in in_scope] if in_scope else []
        return ChangeRows(in_scope or services, diffs=diffs, neighbours=neighbours)

    async def _read_code(
        self, readings: Sequence[RepositoryReading], alert: Alert
    ) -> list[Missing]:
        frames = frames_of(alert)
        if not frames:
            return []
        total = sum([await read_code(reading, frames) for reading in readings])
        if total:
            return []
        first = frames[0]
        phrase = (
            "none of the files that the alert's stack trace names was found in these repositories"
        )
        return [Missing(KIND, f"code at {first.path}:{first.line}", phrase)]


def linked_services(request: Request, repository: str) -> list[str]:
    """The services whose leads link to the repository."""
    services = []
    for pointer in request.leads:
        if _names(pointer.links, repository):
            services.append(pointer.service or pointer.subject)
    return services


def _names(texts: Iterable[str], repository: str) -> bool:
    """Whether a text names the repository."""
    # Match whole names: "shop/api" must not be found in "shop/api-gateway".
    name = rf"(?<![\w.-]){re.escape(repository)}(?![\w-])"
    return re.search(name, " ".join(texts)[:32_768]) is not None


async def _refusal(session: LinkedSession, path: str) -> str:
    """Why a list cannot be read, or nothing. An empty repository (409) and switched-off actions are
    no refusal."""
    try:
        await session.page(path, [("per_page", "1")], type=object)
    except ConnectorError as error:
        return "" if error.status == 409 else _status(error)
    return ""


def _status(error: ConnectorError) -> str:
    return f"HTTP {error.status}" if error.status else error.problem
