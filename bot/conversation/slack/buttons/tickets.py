"""Create a Jira issue (or one in Linear, GitHub, GitLab): a ticket with the answer in it. Draft a
revert: the same for a pull or merge request that takes the blamed change back.

A click leaves the wish in the store, and a worker, which alone has the token, makes the ticket.
"""

from __future__ import annotations

from typing import ClassVar

from faultline.analysis.errors import FaultlineError
from faultline.bot.answer.targets.slack.buttons import Offer
from faultline.bot.answer.targets.tickets.revert_target import blamed_link
from faultline.bot.answer.targets.tickets.target import ticket_offers
from faultline.bot.conversation.slack.click_context import ClickableButton, ClickContext
from faultline.bot.conversation.slack.payloads import Interaction
from faultline.bot.policy.people import Act
from faultline.bot.store.follow_ups import TicketRequests
from faultline.bot.store.store import StoredInvestigation

NOT_YET = "It is still being investigated. Ask for a ticket when the answer is there."


class TicketButton(ClickableButton):
    """Asks for a ticket, or has it brought up to date."""

    act: ClassVar[Act] = "ticket"
    target: ClassVar[str]
    """The tracker's name among the reply targets."""
    noun: ClassVar[str]
    """A ticket of it, for people."""

    def label(self, offer: Offer) -> str | None:
        """Only where there is an answer, and the tracker is set up."""
        for ticket in offer.status.tickets:
            if ticket.target == self.target and offer.answered:
                return ticket.label or None
        return None

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Keep the wish."""
        tickets = TicketRequests(context.store.engine)
        if not await context.stored(tickets.ask, investigation.id, self.target):
            context.later(context.ephemeral(click, NOT_YET))
            return
        await context.did_by_click(click, investigation, f"asked for a {self.noun}")
        sentence = (
            f"The {self.noun} with this answer is on its way. Its link will be under the answer."
        )
        context.later(context.ephemeral(click, sentence))


class JiraButton(TicketButton):
    """An issue in Jira."""

    name, target, noun = "jira_issue", "jira_issues", "Jira issue"


class LinearButton(TicketButton):
    """An issue in Linear."""

    name, target, noun = "linear_issue", "linear_issues", "Linear issue"


class GitHubButton(TicketButton):
    """An issue on GitHub."""

    name, target, noun = "github_issue", "github_issues", "GitHub issue"


class GitLabButton(TicketButton):
    """An issue on GitLab."""

    name, target, noun = "gitlab_issue", "gitlab_issues", "GitLab issue"


class RevertButton(TicketButton):
    """Asks for a draft that reverts the change which the answer blames."""

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """The case says which change that is, and reading it takes longer than Slack waits."""
        context.later(self._ask(context, click, investigation))

    async def _ask(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        try:
            sentence = await self._request_revert(context, click, investigation)
        except FaultlineError as error:
            sentence = f"No revert was asked for: {error}."
        await context.ephemeral(click, sentence)

    async def _request_revert(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> str:
        blamed = blamed_link((await context.answer(investigation)).diagnosis)
        offers = await context.stored(
            ticket_offers, investigation, context.store, context.settings, blamed
        )
        # What can be reverted may have changed since the message was posted.
        offered = [offer for offer in offers if offer.target == self.target and offer.label]
        if not offered:
            return "The answer does not blame a change that can be reverted here."
        about = offered[0].about
        tickets = TicketRequests(context.store.engine)
        if not await context.stored(tickets.ask, investigation.id, self.target, about):
            return NOT_YET
        await context.did_by_click(click, investigation, f"asked for a {self.noun} of {about}")
        return f"A draft that reverts {about} is on its way. Its link will be under the answer."


class GitHubRevertButton(RevertButton):
    """A draft pull request on GitHub."""

    name, target, noun = "github_revert", "github_reverts", "draft revert on GitHub"


class GitLabRevertButton(RevertButton):
    """A draft merge request on GitLab."""

    name, target, noun = "gitlab_revert", "gitlab_reverts", "draft revert on GitLab"


JIRA, LINEAR, GITHUB, GITLAB = JiraButton(), LinearButton(), GitHubButton(), GitLabButton()
GITHUB_REVERT, GITLAB_REVERT = GitHubRevertButton(), GitLabRevertButton()
