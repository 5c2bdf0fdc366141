"""What declares drafts that revert a change. Imports no client: the settings and the store load
this file, too.

A change that can be reverted is a merge or a commit whose address, as its evidence has it, is on
the code host of the settings and in a repository that they name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from faultline.analysis.kinds.finding_details import ChangeDetails
from faultline.analysis.vocabulary import Diagnosis, Verdict
from faultline.bot.answer.foreign_text import safe_url
from faultline.bot.answer.targets.tickets.target import TicketTarget
from faultline.bot.settings import Settings
from faultline.bot.settings.reply_targets import GitHubRevertsSettings, GitLabRevertsSettings
from faultline.bot.store.follow_ups import Wish
from faultline.connectors.shared.settings.settings_types import Section

S = TypeVar("S", bound=Section)

ESTABLISHED = (Verdict.CAUSE_FOUND, Verdict.RECOVERED)
"""Verdicts whose first cause the evidence points to."""
DIGEST = 12


@dataclass(frozen=True)
class BlamedChange:
    """A merge, by its number, or a commit."""

    project: str
    number: str | None
    commit: str | None
    link: str


def blamed_link(diagnosis: Diagnosis) -> str | None:
    """The address of the change that the first cause blames; None where it blames none, is not
    established, or no evidence says where the change is."""
    first = min(diagnosis.causes, key=lambda cause: cause.rank, default=None)
    if first is None or first.change is None or diagnosis.verdict not in ESTABLISHED:
        return None
    for finding in diagnosis.findings:
        details = ChangeDetails.of(finding)
        # A reason marks a change that was ruled out.
        if details is not None and details.change == first.change and details.reason is None:
            return safe_url(details.link)
    return None


@dataclass(kw_only=True, eq=False)
class RevertTarget(TicketTarget[S]):
    """One code host. Nothing is drafted there before somebody clicks."""

    host: Callable[[S], tuple[str, tuple[str, ...]]]
    """Base of addresses for people, and the projects in which reverts may be drafted."""
    pattern: re.Pattern[str]
    """The path of a change's address there."""
    sign: str
    """What stands before the number of a merge."""

    def change_at(self, link: str | None, settings: Settings) -> BlamedChange | None:
        """The change at an address; None where it is none that may be reverted."""
        section = self.section(settings)
        if section is None or safe_url(link) is None or link is None:
            return None
        web, projects = self.host(section)
        if not link.startswith(f"{web}/"):
            return None
        match = self.pattern.fullmatch(link.removeprefix(web))
        # The address comes from evidence: only projects that the operator named are written to.
        if match is None or match[1] not in projects:
            return None
        return BlamedChange(match[1], match[2], match[3], link)

    def about(self, blamed: str | None, settings: Settings) -> str | None:
        """The change's address."""
        change = self.change_at(blamed, settings)
        return change.link if change else None

    def button(self, about: str, *, made: bool) -> str:
        """A draft is kept in step without another click."""
        match = self.pattern.search(about)
        if made or match is None:
            return ""
        return f"Draft a revert of {self.sign + match[2] if match[2] else match[3][:DIGEST]}"

    def ticket_key(self, wish: Wish) -> str:
        """One for each change."""
        digest = hashlib.sha256(wish.about.encode()).hexdigest()[:DIGEST]
        return f"{super().ticket_key(wish)}:{digest}"


GITHUB = RevertTarget(
    name="github_reverts",
    label="Reverts on GitHub",
    noun="draft revert on GitHub",
    settings=GitHubRevertsSettings,
    needs=("repositories", "token"),
    client="faultline.bot.answer.targets.tickets.github_reverts:GitHubReverts",
    host=lambda settings: (
        settings.url.removesuffix("/api/v3").replace("://api.", "://", 1),
        settings.repositories,
    ),
    # Groups: the project, then the number of the merge or the commit.
    pattern=re.compile(r"/([\w.-]+/[\w.-]+)/(?:pull/(\d{1,9})|commit/([0-9a-f]{40}))"),
    sign="#",
)
GITLAB = RevertTarget(
    name="gitlab_reverts",
    label="Reverts on GitLab",
    noun="draft revert on GitLab",
    settings=GitLabRevertsSettings,
    needs=("projects", "token"),
    client="faultline.bot.answer.targets.tickets.gitlab_reverts:GitLabReverts",
    host=lambda settings: (settings.url, settings.projects),
    pattern=re.compile(
        r"/([\w.-]+(?:/[\w.-]+)+)/-/(?:merge_requests/(\d{1,9})|commit/([0-9a-f]{40}))"
    ),
    sign="!",
)
