"""Create a Jira issue (or one in Linear, GitHub, GitLab): a ticket with the answer in it.

A click leaves the wish in the store, and a worker, which alone has the token, makes the ticket.
"""

from __future__ import annotations

from typing import ClassVar

from bot.answer.targets.slack.button_type import Offer
from bot.conversation.slack.click_context import ClickContext
from bot.conversation.slack.clickable_button import ClickableButton
from bot.conversation.slack.payloads import Interaction
from bot.policy.roles import Act
from bot.store.store import StoredInvestigation
from bot.store.tickets import AskedTickets

NOT_YET = "It is still being investigated. Ask for a ticket when the answer is there."


class TicketButton(ClickableButton):
    """Asks for a ticket, or has it brought up to date."""

    act: ClassVar[Act] = "ticket"
    target: ClassVar[str]
    """The tracker's name among the reply targets."""
    one: ClassVar[str]
    """A ticket of it, for people."""

    def label(self, offer: Offer) -> str | None:
        """Only where there is an answer, and the tracker is set up."""
        for ticket in offer.status.tickets:
            if ticket.target == self.target and offer.answered:
                return ticket.label
        return None

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Keep the wish."""
        tickets = AskedTickets(context.store.engine)
        if not await context.stored(tickets.ask, investigation.id, self.target):
            context.later(context.ephemeral(click, NOT_YET))
            return
        await context.did_by_click(click, investigation, f"asked for a {self.one}")
        said = f"The {self.one} with this answer is on its way. Its link will be under the answer."
        context.later(context.ephemeral(click, said))


class JiraButton(TicketButton):
    """An issue in Jira."""

    name, target, one = "jira_issue", "jira_issues", "Jira issue"


class LinearButton(TicketButton):
    """An issue in Linear."""

    name, target, one = "linear_issue", "linear_issues", "Linear issue"


class GitHubButton(TicketButton):
    """An issue on GitHub."""

    name, target, one = "github_issue", "github_issues", "GitHub issue"


class GitLabButton(TicketButton):
    """An issue on GitLab."""

    name, target, one = "gitlab_issue", "gitlab_issues", "GitLab issue"


JIRA, LINEAR, GITHUB, GITLAB = JiraButton(), LinearButton(), GitHubButton(), GitLabButton()
