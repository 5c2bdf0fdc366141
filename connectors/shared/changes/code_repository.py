"""One repository at its host, as the collection of changes and code reads it.

GitHub's and GitLab's REST APIs answer the same questions under other paths and with other names of
fields: each declares these, and how it tells what the other does not. All text is hostile.
"""

from __future__ import annotations

import base64
import binascii
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.changes.code_changes import (
    DEPLOYS,
    ELSEWHERE,
    CodeChange,
    CodeCommit,
    CodeComparison,
    FileChange,
    Rollout,
    utc,
)
from faultline.connectors.shared.http.linked_pages import LinkedSession, query_of
from faultline.connectors.shared.rows.collection_builder import readable
from faultline.connectors.shared.vendor_text import short

T = TypeVar("T")
Params = list[tuple[str, str]]
RolloutState = Literal["done", "failed", "running"]
Production = Callable[[str, bool | None], bool]

PER_PAGE = 100
DEPLOYMENT_PAGES, MERGE_PAGES, FILE_PAGES = 2, 3, 3
LONGEST_PATH = 1000
_MOVED = "the {} was renamed: correct it in the settings"
UNREADABLE = {
    404: "not found, or the token may not read this {}",
    **dict.fromkeys((301, 302, 307, 308), _MOVED),
}
"""Why a repository cannot be read at all, by HTTP status."""


@dataclass(frozen=True)
class CodeHostList(Generic[T]):
    """What one list of a host holds: `query` replays it, `link` shows it to a person, `cut` says
    what is not in it."""

    values: tuple[T, ...]
    query: str
    link: str | None = None
    cut: str | None = None


@dataclass(frozen=True)
class PipelineRun:
    """A run of a pipeline. `rollout` where it deploys."""

    name: str
    revision: str
    at: datetime
    failed: bool
    link: str | None = None
    author: str | None = None
    rollout: Rollout | None = None


class HostUser(msgspec.Struct):
    """Who did it: `login` at GitHub, which answers `{}` for nobody it knows, `username` at
    GitLab."""

    login: str | None = None
    username: str | None = None


class HostRun(msgspec.Struct, kw_only=True):
    """A run of a pipeline. `path` is the file of a workflow, which GitLab's pipelines lack."""

    id: int
    sha: str
    created_at: datetime
    updated_at: datetime
    name: str | None = None
    path: str = ""
    status: str | None = None
    author: HostUser | None = None

    @property
    def state(self) -> RolloutState | None:
        """None where it was cancelled or skipped."""
        raise NotImplementedError


class HostRelease(msgspec.Struct):
    """GET .../releases. GitHub publishes releases, GitLab releases them, and each has its own way
    to prepare one."""

    tag_name: str
    published_at: datetime | None = None
    released_at: datetime | None = None
    name: str | None = None
    author: HostUser | None = None
    draft: bool = False
    upcoming_release: bool = False
    prerelease: bool = False


class HostMerge(msgspec.Struct, kw_only=True):
    """A pull request or a merge request."""

    number: int
    title: str
    updated_at: datetime
    merged_at: datetime | None = None
    merge_commit_sha: str | None = None
    author: HostUser | None = None

    def shas(self, commit: str | None) -> tuple[str | None, ...]:
        """The commits that it may have become, the likeliest first. `commit` is one that it is
        known to hold."""
        return (self.merge_commit_sha, commit)


class HostFile(msgspec.Struct, kw_only=True):
    """A file of a change. `patch` is absent of binary and of large files."""

    path: str
    patch: str | None = None
    before: str | None = None


class _Deployment(Protocol):
    @property
    def created_at(self) -> datetime: ...


D = TypeVar("D", bound=_Deployment)


class Repository(ABC):
    """One repository, readable for one collection. `name` is as the settings have it, `web` the
    base of links for people. Every call raises ConnectorError, BudgetExceeded."""

    vendor: ClassVar[str]
    noun: ClassVar[str]
    # Below its path in the API; the files of a merge have the same name on its page.
    commits: ClassVar[str]
    merges: ClassVar[str]
    merge_files: ClassVar[str]
    # Below its page.
    pages: ClassVar[str]
    # Below `pages`.
    merge_page: ClassVar[str]
    release_page: ClassVar[str]
    run_page: ClassVar[str]
    # As people write and say it.
    merge_mark: ClassVar[str]
    listed_merges: ClassVar[str]
    run_noun: ClassVar[str]
    unnamed_run: ClassVar[str]
    # Answers: of HostMerge and HostFile.
    merge_list: ClassVar[type[list[Any]]]
    file_list: ClassVar[type[list[Any]]]

    def __init__(
        self,
        session: LinkedSession,
        name: str,
        web: str,
        production: Production,
        environments: Sequence[str] = (),
    ) -> None:
        self.name = name
        self._session = session
        self._path = self.path_of(name)
        self._base = web
        self._web = f"{web}/{name}{self.pages}"
        self._production = production
        self._environments = tuple(environments)
        self._branch = ""

    @staticmethod
    @abstractmethod
    def path_of(name: str) -> str:
        """Its path in the API."""

    async def default_branch(self) -> str:
        """Its default branch; fails where the token may not read the repository at all."""
        try:
            self._branch = await self._read_branch()
        except ConnectorError as error:
            problem = UNREADABLE.get(error.status or 0)
            if problem is None:
                raise
            raise ConnectorError(
                self.vendor, self._path, problem.format(self.noun), status=error.status
            ) from error
        return self._branch

    @abstractmethod
    async def _read_branch(self) -> str: ...

    @abstractmethod
    async def rollouts(self, window: Window) -> CodeHostList[Rollout]:
        """Deployments in the window and those just before it, to compare with."""

    async def _deployments(
        self, type: type[list[D]], params: Params, window: Window
    ) -> tuple[list[D], str | None]:
        """Deployments, and what was left out."""
        deployments: list[D] = []
        cut = None
        # Ask for each environment apart, because others would fill the pages.
        for environment in self._environments or (None,):
            of = [("environment", environment)] if environment else []
            listing = await self._session.pages(
                f"{self._path}/deployments", [*params, *of], type=type, most_pages=DEPLOYMENT_PAGES
            )
            deployments += listing.values
            # More pages matter only while the last entry is still in the window.
            if listing.more and utc(listing.values[-1].created_at) > window.start:
                cut = f"only the latest {len(listing.values)} deployments were asked"
        return deployments, cut

    @abstractmethod
    async def runs(self, window: Window) -> CodeHostList[PipelineRun]:
        """Runs of pipelines of the default branch in the window."""

    def _run(self, run: HostRun) -> PipelineRun:
        """A run, with the rollout that it is by its name unless it was cancelled or skipped."""
        name = short(run.name or run.path, 80) or self.unnamed_run
        at, author = utc(run.updated_at), name_of(run.author)
        link = f"{self._web}{self.run_page}/{run.id}"
        rollout = None
        names = f"{run.name or ''} {run.path.rpartition('/')[2]}"
        if run.state is not None and DEPLOYS.search(names):
            rollout = Rollout(
                run.sha,
                f"{self.run_noun} {name}",
                utc(run.created_at) if run.state == "running" else at,
                f"{self.run_noun.capitalize()} {name}",
                run.state,
                author,
                link,
                not ELSEWHERE.search(name),
            )
        return PipelineRun(name, run.sha, at, run.state == "failed", link, author, rollout)

    async def releases(self, window: Window) -> CodeHostList[Rollout]:
        """Releases, the newest first; also those before the window, to compare with."""
        path, params = f"{self._path}/releases", [("per_page", "50")]
        rollouts = []
        for release in await self._session.get(path, params, type=list[HostRelease]):
            at = release.published_at or release.released_at
            if at is None or utc(at) > window.end or release.draft or release.upcoming_release:
                continue
            rollout = Rollout(
                revision=release.tag_name,
                environment="releases",
                at=utc(at),
                title=f"Release {short(release.name or release.tag_name, 80)}",
                author=name_of(release.author),
                link=f"{self._web}{self.release_page}/{quote(release.tag_name, safe='')}",
                production=not release.prerelease,
            )
            rollouts.append(rollout)
        return CodeHostList(tuple(rollouts), query_of(path, params), f"{self._web}/releases")

    async def merged(self, window: Window, branch: str) -> CodeHostList[CodeChange]:
        """Merges into the branch in the window."""
        path = f"{self._path}{self.merges}"
        params, page = self._merged_query(window, branch)
        listing = await self._session.pages(
            path, params, type=self.merge_list, most_pages=MERGE_PAGES
        )
        changes = readable(self._change(merge) for merge in listing.values)
        inside = tuple(change for change in changes if window.start <= change.at <= window.end)
        cut = None
        # Sorted by update: what was merged in the window was updated in it or later.
        if listing.more and utc(listing.values[-1].updated_at) >= window.start:
            cut = f"only the latest {len(listing.values)} {self.listed_merges} were asked"
        return CodeHostList(inside, query_of(path, params), self._web + page, cut)

    @abstractmethod
    def _merged_query(self, window: Window, branch: str) -> tuple[Params, str]:
        """The query of merges, the latest update first, and the page that shows them."""

    async def change_of(self, commit: CodeCommit) -> CodeChange:
        """The merge that brought a commit, or the commit itself."""
        path = f"{self._path}{self.commits}/{quote(commit.sha, safe='')}{self.merges}"
        for merge in await self._session.get(path, type=self.merge_list):
            change = self._change(merge, commit.sha)
            if change is not None:
                return change
        shas = frozenset({commit.sha})
        return CodeChange(
            commit.sha, commit.title, commit.at, commit.author, commit.link, None, shas
        )

    def _change(self, merge: HostMerge, commit: str | None = None) -> CodeChange | None:
        """A merge, known by the commit it became; None where it is not merged."""
        shas = [sha for sha in merge.shas(commit) if sha]
        if merge.merged_at is None or not shas:
            return None
        return CodeChange(
            commit or shas[0],
            f"{short(merge.title, 180)} ({self.merge_mark}{merge.number})",
            utc(merge.merged_at),
            name_of(merge.author),
            self._merge_link(merge.number),
            merge.number,
            # A comparison may list the change under any of them.
            frozenset(shas),
        )

    @abstractmethod
    async def compare(self, base: str, head: str) -> CodeHostList[CodeComparison]:
        """What lies between two revisions."""

    async def files_of(self, change: CodeChange) -> CodeHostList[FileChange]:
        """The files of a merge or a commit, with their hunks."""
        if change.number is None:
            return await self._files_of_commit(change.id)
        path = f"{self._path}{self.merges}/{change.number}{self.merge_files}"
        return await self._files(path, self._merge_link(change.number) + self.merge_files)

    @abstractmethod
    async def _files_of_commit(self, sha: str) -> CodeHostList[FileChange]: ...

    async def _files(self, path: str, link: str) -> CodeHostList[FileChange]:
        params = [("per_page", str(PER_PAGE))]
        listing = await self._session.pages(
            path, params, type=self.file_list, most_pages=FILE_PAGES
        )
        cut = f"only the first {len(listing.values)} files" if listing.more else None
        return CodeHostList(file_changes(listing.values), f"GET {path}", link, cut)

    @abstractmethod
    async def content(self, path: str, revision: str) -> bytes:
        """A file's content at a revision. Raises ConnectorError with status 404 where there is no
        such file."""

    def _decoded(self, call: str, content: str) -> bytes:
        try:
            return base64.b64decode(content)
        except (binascii.Error, ValueError) as error:
            problem = "the file's content cannot be decoded"
            raise ConnectorError(self.vendor, call, problem) from error

    def file_link(self, path: str, revision: str, line: int) -> str:
        """The page of a line."""
        return f"{self._web}/blob/{quote(revision, safe='')}/{quote(path)}#L{line}"

    def _merge_link(self, number: int) -> str:
        return f"{self._web}{self.merge_page}/{number}"

    def _commit_link(self, sha: str) -> str:
        return f"{self._web}/commit/{quote(sha, safe='')}"


def name_of(user: HostUser | None) -> str | None:
    """The user's name at the host."""
    return (user.login or user.username) if user else None


def file_changes(files: Sequence[HostFile]) -> tuple[FileChange, ...]:
    """The files of a change."""
    changes = []
    for file in files:
        # GitLab repeats the path of a file that was not renamed.
        is_renamed = file.before and file.before != file.path
        before = file.before[:LONGEST_PATH] if file.before and is_renamed else None
        patch = _hunks(file.patch or "") or None
        changes.append(FileChange(file.path[:LONGEST_PATH], patch, before))
    return tuple(changes)


def _hunks(diff: str) -> str:
    """The diff from its first hunk on: some versions of GitLab give its `---` and `+++` lines too,
    which are written again."""
    if diff.startswith(("--- ", "diff ")):
        # Without a hunk only the header is left, as for a file that was just renamed.
        place = diff.find("\n@@")
        return diff[place + 1 :] if place >= 0 else ""
    return diff
