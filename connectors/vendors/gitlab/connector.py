"""GitLab: deployments, releases, pipelines, merged merge requests and commits with their diffs, and
code at a revision.

Reading only: GET is all that can be sent. Speaks to gitlab.com and to servers from 15.7 on.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import quote

from faultline.analysis.errors import ConnectorError, FaultlineError, SettingsError
from faultline.connectors.shared.changes.code_connector import CodeConnector
from faultline.connectors.shared.contract.base import Check
from faultline.connectors.shared.http.linked_pages import LinkedHttp, LinkedSession
from faultline.connectors.shared.settings.limits import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.vendors.gitlab import GitLabSettings, answers
from faultline.connectors.vendors.gitlab.repository import VENDOR, GitLabProject

URL = "https://gitlab.com"
API = "/api/v4"
LIMITS = Limits(deadline_s=30, max_bytes=32 * 1024 * 1024, requests_per_s=5, concurrency=4)
"""gitlab.com allows 2,000 requests a minute, but 300 of files of a repository and 400 of a project
each (docs.gitlab.com/user/gitlab_com, "Rate limits on GitLab.com")."""
WRITING_SCOPES = frozenset({"api", "write_repository", "write_registry", "admin_mode", "sudo"})
"""docs.gitlab.com/security/tokens/access_token_scopes; `read_api` is all that is needed."""
DEVELOPER = 30
"""The access level from which one may push (docs.gitlab.com/api/access_requests)."""
MOST_CHECKED = 5
_NAME = re.compile(
    r"\d{1,18}|[A-Za-z0-9_][\w.-]{0,254}(/[A-Za-z0-9_.][\w.-]{0,254}){1,20}", re.ASCII
)
_READ = {
    "deployments": "/deployments",
    "merge requests": "/merge_requests",
    "pipelines": "/pipelines",
    "releases": "/releases",
    "code": "/repository/commits",
}


def build(gitlab_settings: GitLabSettings, settings: SharedSettings) -> GitLabConnector | None:
    """The configured connector, or None without a token. Raises SettingsError."""
    if gitlab_settings.token is None:
        return None
    services = {
        name: tuple(e.gitlab_project) for name, e in settings.services.items() if e.gitlab_project
    }
    for name, projects in services.items():
        # A part of two dots would lead out of the path.
        if not all(_NAME.fullmatch(p) and ".." not in p.split("/") for p in projects):
            raise SettingsError(
                f"services.{name}.gitlab_project", "must be group/project or the project's number"
            )
    jobs = {e.training_job: name for name, e in settings.services.items() if e.training_job}
    return GitLabConnector(
        gitlab_settings.token.get_secret_value(),
        gitlab_settings.url,
        services,
        gitlab_settings.environments,
        jobs,
        limits=gitlab_settings.limits(LIMITS),
    )


class GitLabConnector(CodeConnector):
    """Changes and code of GitLab's projects."""

    name = VENDOR
    setting = "gitlab_project"

    def __init__(
        self,
        token: str,
        url: str = URL,
        services: Mapping[str, Sequence[str]] | None = None,
        environments: Sequence[str] = (),
        jobs: Mapping[str, str] | None = None,
        *,
        limits: Limits = LIMITS,
    ) -> None:
        self._web = url.rstrip("/")
        headers = {"PRIVATE-TOKEN": token, "User-Agent": "faultline"}
        http = LinkedHttp(VENDOR, self._web + API, headers=headers, limits=limits)
        super().__init__(http, services or {}, environments, jobs or {})

    async def check(self) -> Check:
        """Which projects can be read, what of them, and can the token write?"""
        if not self.repositories:
            return Check(self.name, False, "no service has a gitlab_project in the settings")
        try:
            async with self._open() as session:
                scopes = await self._scopes(session)
                checks = await asyncio.gather(
                    *(self._checked(session, p, scopes) for p in self.repositories[:MOST_CHECKED])
                )
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        lines = [line for _, line, _ in checks]
        left_out = len(self.repositories) - MOST_CHECKED
        lines += [f"{left_out} more were not tried"] if left_out > 0 else []
        warnings = [warning for _, _, warning in checks if warning]
        writing = sorted(scopes & WRITING_SCOPES)
        if writing:
            warnings = [
                (
                    f"the token can also write (scopes {', '.join(writing)}): "
                    "give it one with read_api alone"
                )
            ]
        line = f"GitLab at {self._web}: {'; '.join(lines)}; only GET is sent"
        return Check(
            self.name,
            all(ok for ok, _, _ in checks),
            line + (f"; warning: {warnings[0]}" if warnings else ""),
        )

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[LinkedSession]:
        async with self._http.open() as session:
            yield session

    def _repository(self, session: LinkedSession, name: str) -> GitLabProject:
        return GitLabProject(session, name, self._web, self.production, self._environments)

    async def _scopes(self, session: LinkedSession) -> frozenset[str]:
        """The token's scopes; none where it is of a kind that does not tell."""
        try:
            return frozenset(
                (await session.get("/personal_access_tokens/self", type=answers.TokenAnswer)).scopes
            )
        except ConnectorError as error:
            # A token that is not accepted fails every other call as well.
            if error.status == 401:
                raise
            return frozenset()

    async def _checked(
        self, session: LinkedSession, name: str, scopes: frozenset[str]
    ) -> tuple[bool, str, str]:
        """Whether a project can be read, what of it in words, and a warning where nothing says it
        cannot be written."""
        path = f"/projects/{quote(name, safe='')}"
        try:
            project = await session.get(path, type=answers.ProjectAnswer)
        except ConnectorError as error:
            if error.status == 401:
                raise
            return False, f"{name} cannot be read ({_status(error)})", ""
        tried = await asyncio.gather(
            *(self._refusal(session, path + end) for end in _READ.values())
        )
        refused = [f"{what} ({why})" for what, why in zip(_READ, tried, strict=True) if why]
        line = f"{name} can be read" + (f", but not {', '.join(refused)}" if refused else "")
        access = project.permissions
        levels = (
            [a.access_level for a in (access.project_access, access.group_access) if a]
            if access
            else []
        )
        # Scopes narrow what the user's role allows, so the role counts only without them.
        pushes = not scopes and max(levels, default=0) >= DEVELOPER
        return not refused, line, f"the token's user may push to {name}" if pushes else ""

    async def _refusal(self, session: LinkedSession, path: str) -> str:
        """Why a list cannot be read, or nothing."""
        try:
            await session.page(path, [("per_page", "1")], type=object)
        except ConnectorError as error:
            return _status(error)
        return ""


def _status(error: ConnectorError) -> str:
    return f"HTTP {error.status}" if error.status else error.problem
