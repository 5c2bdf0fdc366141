"""GitHub: deployments, releases, workflow runs, merged pull requests and commits with their diffs,
and code at a revision.

Reading only: GET is all that can be sent, but for the one POST with which a GitHub App gets a token
that may only read (`faultline.connectors.vendors.github.app`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import quote, urlsplit

from faultline.analysis.errors import ConnectorError, FaultlineError, SettingsError
from faultline.connectors.shared.changes.code_connector import CodeConnector
from faultline.connectors.shared.contract.base import Check
from faultline.connectors.shared.http.linked_pages import LinkedHttp, LinkedSession
from faultline.connectors.shared.settings.limits import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import plain_url
from faultline.connectors.vendors.github import GitHubSettings, answers
from faultline.connectors.vendors.github.app import GitHubApp
from faultline.connectors.vendors.github.repository import VENDOR, GitHubRepository

API = "https://api.github.com"
LIMITS = Limits(deadline_s=30, max_bytes=32 * 1024 * 1024, requests_per_s=10, concurrency=6)
"""GitHub allows 5,000 requests an hour, and 900 points (one for each GET) a minute."""
HEADERS = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
    "User-Agent": "faultline",
}
WRITING_SCOPES = frozenset(
    {"repo", "public_repo", "workflow", "repo_deployment", "admin:org", "delete_repo"}
)
"""Scopes of a classic token that let it write (docs.github.com, "Scopes for OAuth apps"); none
reads code alone."""
MOST_CHECKED = 5
# `.` and `..` would lead out of the path.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_READ = {
    "deployments": "/deployments",
    "pull requests": "/pulls",
    "workflow runs": "/actions/runs",
    "releases": "/releases",
    "code": "/commits",
}


def build(github_settings: GitHubSettings, settings: SharedSettings) -> GitHubConnector | None:
    """The configured connector, or None without a token or an app's key. Raises SettingsError."""
    if github_settings.token is None and github_settings.private_key is None:
        return None
    services = {
        name: tuple(e.github_repository)
        for name, e in settings.services.items()
        if e.github_repository
    }
    for name, repositories in services.items():
        if not all(_NAME.fullmatch(r) for r in repositories):
            raise SettingsError(f"services.{name}.github_repository", "must be owner/repository")
    app = None
    if github_settings.token is None:
        app = GitHubApp.of(
            github_settings.api_url,
            github_settings.app_id,
            github_settings.installation_id,
            github_settings.private_key,
        )
    token = github_settings.token.get_secret_value() if github_settings.token else None
    jobs = {e.training_job: name for name, e in settings.services.items() if e.training_job}
    return GitHubConnector(
        token,
        github_settings.api_url,
        github_settings.app_url,
        services,
        github_settings.environments,
        jobs,
        app=app,
        limits=github_settings.limits(LIMITS),
    )


class GitHubConnector(CodeConnector):
    """Changes and code of GitHub's repositories, with a token or as an app's installation."""

    name = VENDOR
    setting = "github_repository"

    def __init__(
        self,
        token: str | None,
        api_url: str = API,
        app_url: str | None = None,
        services: Mapping[str, Sequence[str]] | None = None,
        environments: Sequence[str] = (),
        jobs: Mapping[str, str] | None = None,
        *,
        app: GitHubApp | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        headers = {**HEADERS, **({"Authorization": f"Bearer {token}"} if token else {})}
        super().__init__(
            LinkedHttp(VENDOR, api_url, headers=headers, limits=limits),
            services or {},
            environments,
            jobs or {},
        )
        self._web = plain_url(app_url, VENDOR) if app_url else web_of(self._http.base_url)
        self._app = app

    async def check(self) -> Check:
        """Which repositories can be read, what of them, and can the token write?"""
        if not self.repositories:
            return Check(self.name, False, "no service has a github_repository in the settings")
        try:
            async with self._open() as session:
                checks = await asyncio.gather(
                    *(self._checked(session, r) for r in self.repositories[:MOST_CHECKED])
                )
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        ok = all(repository_check[0] for repository_check in checks)
        lines = [line for _, line, _ in checks]
        left_out = len(self.repositories) - MOST_CHECKED
        lines += [f"{left_out} more were not tried"] if left_out > 0 else []
        writes = [warning for _, _, warning in checks if warning]
        line = f"GitHub at {self._http.base_url}: {'; '.join(lines)}; only GET is sent"
        return Check(self.name, ok, line + (f"; warning: {writes[0]}" if writes else ""))

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[LinkedSession]:
        # An app's token holds for an hour, so each session asks for it.
        headers = (
            {"Authorization": f"Bearer {await self._app.token(self.limits)}"} if self._app else {}
        )
        async with self._http.open(headers=headers) as session:
            yield session

    def _repository(self, session: LinkedSession, name: str) -> GitHubRepository:
        return GitHubRepository(session, name, self._web, self.production, self._environments)

    async def _checked(self, session: LinkedSession, name: str) -> tuple[bool, str, str]:
        """Whether a repository can be read, what of it in words, and a warning where it can be
        written to."""
        path = "/repos/" + "/".join(quote(part, safe="") for part in name.split("/"))
        try:
            page = await session.page(path, [], type=answers.RepositoryAnswer)
        except ConnectorError as error:
            # A token that is not accepted fails for every repository alike.
            if error.status == 401:
                raise
            return False, f"{name} cannot be read ({_status(error)})", ""
        tried = await asyncio.gather(
            *(self._refusal(session, path + end) for end in _READ.values())
        )
        refused = [f"{what} ({why})" for what, why in zip(_READ, tried, strict=True) if why]
        line = f"{name} can be read" + (f", but not {', '.join(refused)}" if refused else "")
        return (
            not refused,
            line,
            _warning(name, page.headers, page.value.permissions or {}, bool(self._app)),
        )

    async def _refusal(self, session: LinkedSession, path: str) -> str:
        """Why a list cannot be read, or nothing. An empty repository (409) and switched-off actions
        are no refusal."""
        try:
            await session.page(path, [("per_page", "1")], type=object)
        except ConnectorError as error:
            return "" if error.status == 409 else _status(error)
        return ""


def web_of(api_url: str) -> str:
    """Where people see what an API serves: GitHub's, a data-residency one's (`api.`), or a server's
    (`/api/v3`)."""
    parts = urlsplit(api_url)
    host = parts.netloc.removeprefix("api.")
    return f"{parts.scheme}://{host}{parts.path.removesuffix('/api/v3')}"


def _warning(
    name: str, headers: Mapping[str, str], permissions: Mapping[str, bool], app: bool
) -> str:
    """A classic token says its scopes; of others only what its user, or the app, may do in the
    repository is known."""
    if "x-oauth-scopes" in headers:
        scopes = {s.strip() for s in headers["x-oauth-scopes"].split(",")}
        writing = sorted(scopes & WRITING_SCOPES)
        phrase = (
            f"the token can also write (scopes {', '.join(writing)}): give "
            "it a fine-grained one that may only read"
        )
        return phrase if writing else ""
    if app or not any(permissions.get(p) for p in ("push", "maintain", "admin")):
        return ""
    return (
        f"the token's user may push to {name}: see that the token itself has read permissions alone"
    )


def _status(error: ConnectorError) -> str:
    return f"HTTP {error.status}" if error.status else error.problem
