"""What declares the trackers. Imports no client: the settings and the store load this file, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from faultline.bot.answer.foreign_text import safe_url
from faultline.bot.answer.targets.client_target import ClientTarget
from faultline.bot.answer.targets.target_type import TargetProblem
from faultline.bot.policy.reply_targets import declared_targets
from faultline.bot.policy.values import ReplyTo
from faultline.bot.settings import Settings, is_secret
from faultline.bot.settings.reply_targets import (
    GitHubIssuesSettings,
    GitLabIssuesSettings,
    JiraIssuesSettings,
    LinearIssuesSettings,
)
from faultline.bot.store.follow_ups import Wish, wished
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.connectors.shared.settings.settings_types import Section

S = TypeVar("S", bound=Section)


@dataclass(kw_only=True, eq=False)
class TicketTarget(ClientTarget[S]):
    """One tracker. Nothing is made there before somebody clicks."""

    on_click = True
    noun: str
    """A ticket of it, for people: "Jira issue"."""

    def address(self, reply_to: ReplyTo, service: str | None, settings: Settings) -> str | None:
        """What somebody's click left behind."""
        return reply_to.other_addresses.get(self.target_name)

    def offered(self, settings: Settings) -> bool:
        """Whether people may ask for one. The token is a worker's alone: servers offer it
        without."""
        section = self.section(settings)
        if section is None:
            return False
        return all(getattr(section, key) for key in self.needs if not is_secret(type(section), key))

    def offer(
        self,
        investigation: StoredInvestigation,
        store: Store,
        settings: Settings,
        blamed: str | None,
    ) -> TicketOffer | None:
        """What may be asked for here, or was made."""
        if not self.offered(settings):
            return None
        wish = wished(
            investigation.reply_to.other_addresses.get(self.target_name), investigation.id
        )
        ref = store.posts(wish.first).get(self.ticket_key(wish), "") if wish else ""
        # As `ref_of` writes it: the name, then the address.
        title, _, url = ref.partition(" ")
        about, label = self.about(blamed, settings), ""
        if about is not None:
            made = bool(title) and wish is not None and wish.about == about
            label = self.button(about, made=made)
        # The tracker gave the address: only a plain one becomes a link.
        address = safe_url(url) or ""
        return TicketOffer(self.target_name, self.noun, label, about or "", title, address)

    def ticket_key(self, wish: Wish) -> str:
        """The key under which the store keeps the ticket."""
        return self.post_key(wish.first)

    def about(self, blamed: str | None, settings: Settings) -> str | None:
        """What a ticket would be made of beside the answer, which blames the change at this
        address. None: there can be none."""
        return ""

    def button(self, about: str, *, made: bool) -> str:
        """What the button for it says; nothing where there is nothing to click."""
        return f"Update the {self.noun}" if made else f"Create a {self.noun}"

    def problems(self, settings: Settings) -> Iterator[TargetProblem]:
        """Something is offered that nobody can make."""
        if self.offered(settings) and not self.configured(settings):
            phrase = f"{self.label} are offered, and this process has no token for them"
            yield TargetProblem("note", phrase, f"set {self.variable('token')} for the workers")


JIRA = TicketTarget(
    name="jira_issues",
    label="Jira issues",
    noun="Jira issue",
    settings=JiraIssuesSettings,
    needs=("url", "project", "email", "token"),
    client="faultline.bot.answer.targets.tickets.jira:JiraTickets",
)
LINEAR = TicketTarget(
    name="linear_issues",
    label="Linear issues",
    noun="Linear issue",
    settings=LinearIssuesSettings,
    needs=("team", "token"),
    client="faultline.bot.answer.targets.tickets.linear:LinearTickets",
)
GITHUB = TicketTarget(
    name="github_issues",
    label="GitHub issues",
    noun="GitHub issue",
    settings=GitHubIssuesSettings,
    needs=("repository", "token"),
    client="faultline.bot.answer.targets.tickets.github:GitHubTickets",
)
GITLAB = TicketTarget(
    name="gitlab_issues",
    label="GitLab issues",
    noun="GitLab issue",
    settings=GitLabIssuesSettings,
    needs=("project", "token"),
    client="faultline.bot.answer.targets.tickets.gitlab:GitLabTickets",
)


@dataclass(frozen=True)
class TicketOffer:
    """A ticket that somebody may ask for, or that there is: then with its name and address.
    `label` is what a button says, "" where there is nothing to ask for."""

    target: str
    noun: str
    label: str = ""
    about: str = ""
    title: str = ""
    url: str = ""
    joins: str = "of"
    """The word between what it is and what it is about."""

    @property
    def value(self) -> str:
        """In a form: what was offered, so that nothing else is made."""
        return f"{self.target} {self.about}".rstrip()

    @property
    def what(self) -> str:
        """For people: what is asked for, and what about."""
        return f"{self.noun} {self.joins} {self.about}" if self.about else self.noun


@runtime_checkable
class OffersTickets(Protocol):
    """A reply target at which people may ask for something by a click."""

    def offer(
        self,
        investigation: StoredInvestigation,
        store: Store,
        settings: Settings,
        blamed: str | None,
    ) -> TicketOffer | None:
        """What may be asked for there, or was made; None where neither. Blocks."""


def ticket_offers(
    investigation: StoredInvestigation,
    store: Store,
    settings: Settings,
    blamed: str | None = None,
) -> tuple[TicketOffer, ...]:
    """Of each tracker in use, and of PagerDuty's notes, for an answer that blames the change at the
    address `blamed`. Blocks; on an event loop in a thread."""
    offers: list[TicketOffer] = []
    for target in declared_targets(settings):
        if isinstance(target, OffersTickets):
            offer = target.offer(investigation, store, settings, blamed)
            if offer is not None and (offer.label or offer.title):
                offers.append(offer)
    return tuple(offers)
