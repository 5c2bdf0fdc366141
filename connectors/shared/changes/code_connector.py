"""What the connectors of code hosts share: which repositories are read for an alert, and the code
at a revision."""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Alert, EvidenceKind
from faultline.connectors.shared.changes.code_changes import PRODUCTION, DiffBudget
from faultline.connectors.shared.changes.code_host import (
    KIND,
    MOST_REPOSITORIES,
    Repository,
    RepositoryReading,
    code_at,
    collected,
    read_code,
    read_repository,
)
from faultline.connectors.shared.changes.code_lines import SourceLines, frames_of, safe_path
from faultline.connectors.shared.contract.base import Check, Collected, Missing, Request
from faultline.connectors.shared.http.linked_pages import LinkedHttp, LinkedSession
from faultline.connectors.shared.settings.connector_settings import Limits

DEPLOYS = re.compile(
    r"(^|[^a-z])(deploy[a-z]*|releas[a-z]*|roll-?out|promote|publish|ship|cd)($|[^a-z])", re.I
)
"""Names of pipelines that deploy, as the starter workflows of GitHub and GitLab have them."""
ELSEWHERE = re.compile(
    r"(^|[-_/ .])(stag(e|ing)|p?review|dev(elopment)?|test|qa|sandbox)($|[-_/ .])", re.I
)
"""Environments that no customer sees."""
# Foreign text that becomes a part of an address: no character may change where it leads.
_REVISION = re.compile(r"[0-9A-Za-z][\w./@+-]{0,200}")


class CodeConnector(ABC):
    """Changes and code of the repositories of services.

    `services`: repositories by our name of a service; `jobs`: the service that runs a training job,
    by the job's name.
    """

    kinds: tuple[EvidenceKind, ...] = (KIND,)
    name: str
    setting: str
    """The key of a service that names its repositories."""

    def __init__(
        self,
        http: LinkedHttp,
        services: Mapping[str, Sequence[str]],
        environments: Sequence[str],
        jobs: Mapping[str, str],
    ) -> None:
        self._http = http
        self._jobs = dict(jobs)
        self._services = {name: tuple(repositories) for name, repositories in services.items()}
        self._environments = tuple(environments)

    @property
    def limits(self) -> Limits:
        """Its limits."""
        return self._http.limits

    @property
    def repositories(self) -> tuple[str, ...]:
        """Every repository of the settings."""
        return tuple(dict.fromkeys(r for names in self._services.values() for r in names))

    @abstractmethod
    def _open(self) -> AbstractAsyncContextManager[LinkedSession]:
        """A session that is allowed to read."""

    @abstractmethod
    def _repository(self, session: LinkedSession, name: str) -> Repository:
        """A repository as read in that session."""

    @abstractmethod
    async def check(self) -> Check:
        """Which repositories can be read, and can they be written to?"""

    async def collect(self, request: Request) -> Collected:
        """What was rolled out and merged around the incident. A call that fails is a gap, the
        others stand."""
        names = self.repositories_for(request)
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
                        self._repository(session, n), self._services_of(n, request), request, diffs
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

    def repositories_for(self, request: Request) -> list[str]:
        """Those that the alert itself names, then those of the services in scope; without a scope,
        all."""
        alert_text = " ".join(
            [*request.alert.labels.values(), *(link.url for link in request.alert.links)]
        )[:32_768]
        # Match whole names: "shop/api" must not be found in "shop/api-gateway".
        named = [
            r
            for r in self.repositories
            if re.search(rf"(?<![\w.-]){re.escape(r)}(?![\w-])", alert_text)
        ]
        scope = request.scope
        services = [
            s
            for s in (*scope.services, request.alert.service, self._jobs.get(scope.job or ""))
            if s
        ]
        requested_services = [
            r for s in (services or self._services) for r in self._services.get(s, ())
        ]
        return list(dict.fromkeys([*named, *requested_services]))

    def production(self, environment: str, is_production: bool | None = None) -> bool:
        """Whether an environment is one whose deployments count."""
        if self._environments:
            return environment.casefold() in {e.casefold() for e in self._environments}
        # A host may leave its production flag unset, so the name counts as well.
        return bool(is_production) or bool(PRODUCTION.search(environment))

    def _services_of(self, repository: str, request: Request) -> tuple[str, ...]:
        """The services kept in a repository, those in scope where there are any, else the training
        job in scope."""
        services = [s for s, names in self._services.items() if repository in names]
        job = request.scope.job
        named = tuple(s for s in request.scope.services if s in services)
        return named or ((job,) if job and self._jobs.get(job) in services else tuple(services))

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
