"""What every click needs: the store within the time Slack waits, Slack itself, and work that goes
on after the answer.

Slack wants its answer within 3 s. So what must not be forgotten is written first, in at most
`STORE_WITHIN_S`; what takes longer (reading a case, opening a modal, editing a message) goes on
afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

import aiohttp
from slack_sdk.errors import SlackClientError
from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import Scope
from faultline.bot.answer.targets.slack.blocks import Block
from faultline.bot.answer.targets.slack.buttons import MORE, PREFIX, SlackButton, all_buttons
from faultline.bot.answer.targets.slack.posts import error_code, slack_client, slack_error
from faultline.bot.answer.targets.slack.replies import SlackReplies
from faultline.bot.conversation.slack.payloads import Interaction
from faultline.bot.intake.accepting import NotAccepted
from faultline.bot.intake.slack_channels import SlackChannels
from faultline.bot.intake.slack_people import Claimed, SlackPeople
from faultline.bot.policy.people import Act, Role, SlackPerson, may, refusal
from faultline.bot.policy.values import ENDED
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.settings import Settings
from faultline.bot.store.conversations import Conversations
from faultline.bot.store.follow_ups import FollowUps
from faultline.bot.store.listing import Labels
from faultline.bot.store.quotas import PersonActs
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.bot.store.suppressed_alerts import Mutes
from faultline.bot.store.visibility import ALL, NOTHING, Visibility
from faultline.connectors.shared.rows.named_ids import named_id

if TYPE_CHECKING:
    from faultline.bot.answer.outcome import Answer, Outcome

CasePath = Callable[[str], Awaitable[Path | None]]
P = ParamSpec("P")
T = TypeVar("T")

STORE_WITHIN_S = 2.0
AT_ONCE_S = 0.7
"""A case that is read in this time goes into the modal at once; a trigger lives for 3 s."""
MAX_TASKS = 200
"""Clicks being worked on after their answer; more than this is no use to anybody."""
RETRY_WAITS_S = (1.0, 5.0, 20.0, 60.0)
OWNER = "slack-clicks"
PEOPLE = "people"
"""Stage of the progress lines that say who did what."""
OPENED_ALREADY = "exchanged_trigger_id"
"""Slack told of one click more than once."""
TOO_LATE = {
    "expired_trigger_id": "Slack only lets us open a form within 3 seconds of a click.",
    "invalid_trigger_id": "Slack rejected the click.",
}
FAILURES = (SlackClientError, aiohttp.ClientError, TimeoutError)

log = logging.getLogger("faultline.slack")


class ClickContext:
    """Shared by all handlers of one workspace in one process."""

    def __init__(self, settings: Settings, store: Store, case_path: CasePath) -> None:
        self.settings, self.store = settings, store
        self.client = slack_client(settings.slack)
        self.replies = SlackReplies(settings, store, owner=OWNER)
        self.workspace = settings.slack.instance.name
        self.has_other_workspaces = len(settings.instances("slack")) > 1
        # A message about the same investigation may stand in each workspace.
        other_settings = [
            workspace_settings
            for workspace_settings in settings.per_instance("slack")
            if workspace_settings.slack is not settings.slack
        ]
        self._everywhere = [self.replies]
        self._everywhere += [
            SlackReplies(workspace_settings, store, owner=OWNER)
            for workspace_settings in other_settings
        ]
        self.labels, self.mutes, self.follow_ups = (
            Labels(store.engine),
            Mutes(store.engine, timedelta(hours=settings.people.mute_hours)),
            FollowUps(store.engine),
        )
        self.people = SlackPeople(settings, self.client)
        self.acts = PersonActs(store.engine)
        self.channels = SlackChannels(settings, store.engine)
        self._case_path = case_path
        self._tasks: set[asyncio.Task[None]] = set()

    async def stored(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a call of the store. Raises NotAccepted when it does not answer in time."""
        try:
            async with asyncio.timeout(STORE_WITHIN_S):
                return await in_store(work, *args, **kwargs)
        except TimeoutError:
            raise NotAccepted(f"the store did not answer within {STORE_WITHIN_S:g} s") from None
        except SQLAlchemyError as error:
            raise NotAccepted(f"the store cannot be used ({type(error).__name__})") from error

    async def did(self, investigation_id: str, what: str, *, key: str) -> None:
        """Note who did what on the investigation; the same `key` again notes nothing."""
        note = partial(
            self.store.add_progress, investigation_id, PEOPLE, what, key=f"{PEOPLE}:{key}"
        )
        await self.stored(note)

    async def did_by_click(
        self, click: Interaction, investigation: StoredInvestigation, what: str
    ) -> None:
        """Note what whoever clicked did; a click that Slack reports twice is noted once."""
        key = f"{click.user.id}:{click.action.action_ts}:{click.action.action_id}"
        await self.did(investigation.id, f"{click.user.display_name} {what}", key=key)

    async def is_ours(self, click: Interaction) -> bool:
        """Whether it was clicked in the bot's own installation, by what Slack says."""
        return await self.people.is_ours(click.installed_in)

    async def role(self, click: Interaction) -> tuple[SlackPerson, Role | None]:
        """Who clicked, and what they may do."""
        return await self.people.role(claimed_by(click))

    async def may(self, click: Interaction, act: Act) -> bool:
        """Whether whoever clicked may do it; they hear why not."""
        person, role = await self.role(click)
        if may(role, act):
            return True
        log.info("slack: a click of a %s without the role for it", person.kind)
        self.later(self.ephemeral(click, refusal(person, role, act)))
        return False

    async def visible_to(self, person: SlackPerson) -> Visibility:
        """Whose investigations somebody may hear of outside of any channel. Guests and strangers
        read no public channel that they were not invited to, so they hear of none."""
        if person.kind != "member":
            return NOTHING
        channels = await self.channels.read_by({self.workspace: person.id})
        # Slack does not say who belongs to which team.
        apart = self.settings.login.isolation == "teams"
        return Visibility(frozenset() if apart else None, channels)

    async def within_rate(
        self, click: Interaction, act: Act, key: str, most: int, window: timedelta
    ) -> bool:
        """Count one more act of whoever clicked; False where that is too many. Raises
        NotAccepted."""
        who = named_id(self.workspace, click.user.id)
        return await self.stored(self.acts.count, who, act, key, most, window)

    def place(self, click: Interaction) -> tuple[str, str]:
        """Channel and thread of the message under a button, as the store writes them."""
        channel, thread = click.place
        return named_id(self.workspace, channel), thread

    def latest(self, most: int, visibility: Visibility = ALL) -> list[StoredInvestigation]:
        """The newest investigations; with several workspaces, those posted to this one."""
        if not self.has_other_workspaces:
            return self.store.latest(most, visibility)
        ids = Conversations(self.store.engine).in_workspace(self.workspace, self.replies.name, most)
        return self.store.some(list(ids), visibility)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Go on after the answer to Slack. Raises NotAccepted when too much is going on already."""
        if len(self._tasks) >= MAX_TASKS:
            # Close it, or Python warns of a coroutine that nobody awaited.
            work.close()
            raise NotAccepted(f"{MAX_TASKS} clicks are being worked on already")
        # The event loop keeps only weak references, so hold the task until it ends.
        task = asyncio.create_task(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def ephemeral(self, click: Interaction, text: str) -> None:
        """Tell the person who clicked, and nobody else. Where there is no channel, as on the Home
        tab, nothing is said."""
        channel, thread = click.place
        if not channel or not click.user.id:
            return
        # The answer to a click outside of a thread belongs in the channel.
        inside = thread if click.message.thread_ts or click.container.thread_ts else None
        try:
            await self.client.chat_postEphemeral(
                channel=channel, user=click.user.id, text=text, thread_ts=inside
            )
        except FAILURES as error:
            log.warning(
                "slack: an explanation was not shown (%s)",
                slack_error("chat.postEphemeral", error, channel),
            )

    async def open(self, click: Interaction, view: Block) -> str | None:
        """Open a modal; its id, or None when it was too late, which the person sees."""
        try:
            opened = await self.client.views_open(trigger_id=click.trigger_id, view=view)
        except FAILURES as error:
            code = error_code(error)
            if code == OPENED_ALREADY:
                return None
            why = TOO_LATE.get(code) or str(slack_error("views.open", error))
            log.warning("slack: a form was not opened (%s)", code or type(error).__name__)
            await self.ephemeral(click, f"{why} Please click again.")
            return None
        return str(opened["view"]["id"])

    async def update(self, view_id: str, view: Block, *, hash_: str | None = None) -> None:
        """Replace a modal's content; one that was closed meanwhile is nobody's loss."""
        try:
            await self.client.views_update(view_id=view_id, view=view, hash=hash_)
        except FAILURES as error:
            log.info("slack: a form was not updated (%s)", slack_error("views.update", error))

    async def answer(self, investigation: StoredInvestigation) -> Answer:
        """The answer in the case. Raises FaultlineError saying why it cannot be read."""
        try:
            folder = await self._case_path(investigation.id)
            if folder is None:
                raise FaultlineError("the case folder is not there any more")
            return await in_thread(_read, folder)
        except OSError as error:
            raise FaultlineError(
                f"the case cannot be read ({error.strerror or type(error).__name__})"
            ) from error

    async def scope(self, investigation: StoredInvestigation) -> Scope:
        """What the investigation looked at. Raises FaultlineError."""
        from faultline.analysis.case.folder import read_case

        try:
            folder = await self._case_path(investigation.id)
            if folder is None:
                raise FaultlineError("the case folder is not there")
            return (await in_thread(read_case, folder)).scope
        except OSError as error:
            raise FaultlineError(
                f"the case cannot be read ({error.strerror or type(error).__name__})"
            ) from error

    async def outcome(self, investigation: StoredInvestigation) -> Outcome:
        """How it ended. Raises FaultlineError."""
        from faultline.bot.answer.outcome import (
            Outcome,
        )  # late: the web process starts without what a worker needs

        answered = investigation.status == "done"
        return Outcome(investigation, await self.answer(investigation) if answered else None)

    async def refresh(self, investigation: StoredInvestigation) -> None:
        """Bring the investigation's message up to date; tried again for a while when Slack does not
        answer.

        While it runs (again) there is nothing to do: its end edits the message.
        """
        for wait in (*RETRY_WAITS_S, None):
            now = await in_store(self.store.get, investigation.id)
            if now is None or now.status not in ENDED:
                return
            try:
                outcome = await self.outcome(now)
                for replies in self._everywhere:
                    await replies.refresh(outcome)
                return
            except ConnectorError as error:
                if not error.retryable or wait is None:
                    log.warning("slack: a message was not brought up to date (%s)", error)
                    return
            except FaultlineError as error:
                log.warning("slack: a message was not brought up to date (%s)", error)
                return
            await asyncio.sleep(wait)


def claimed_by(click: Interaction) -> Claimed:
    """What a click says of whoever clicked."""
    teams = frozenset({click.user.team_id} - {""})
    return Claimed(click.user.id, teams, click.installed_in)


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    # The edge of a click: nobody waits for it, so it is logged here.
    except Exception as error:  # noqa: BLE001
        log.error(
            "slack: a click came to nothing (%s)",
            error if isinstance(error, FaultlineError) else type(error),
        )


def _read(folder: Path) -> Answer:
    from faultline.analysis.case.folder import read_case, read_diagnosis, read_report
    from faultline.bot.answer.outcome import Answer

    case = read_case(folder)
    return Answer(read_diagnosis(folder), read_report(folder), case.evidence, case.gaps, None)


# What a click on a button under an answer does, and what its form keeps.


class TooMuch(FaultlineError):
    """Somebody sent more forms than they may; its words are for them."""


class ClickableButton(SlackButton):
    """One button with what a click on it does."""

    act: ClassVar[Act] = "rate"
    """What a click, or its form, is in the table of roles."""
    form: ClassVar[str] = ""
    """The callback id of the form that it opens, "" for none."""
    first_field: ClassVar[str] = ""
    """The block of that form under which an error is shown."""

    @abstractmethod
    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """What a click does. Slack waits 3 s: what takes longer goes to `context.later`.

        Raises NotAccepted where the store does not answer; Slack shows that to whoever clicked.
        """

    def act_of(self, form: Interaction, investigation: StoredInvestigation) -> Act:
        """What the form that was filled in asks for."""
        return self.act

    async def sent(
        self, context: ClickContext, form: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Keep what the form of this button says. Raises NotAccepted, and TooMuch where somebody
        sent too many."""
        raise NotImplementedError(f"button {self.name} opens no form")


def clicked_button(action: str, value: str) -> tuple[ClickableButton, str] | None:
    """Which button was clicked under the answer to which investigation, from a click's action id
    and value; None for anything else."""
    name, investigation_id = action.removeprefix(PREFIX), value
    if action == MORE:
        # In the menu the value names the button, too.
        name, _, investigation_id = value.partition(" ")
    for button in all_buttons():
        if button.name == name and isinstance(button, ClickableButton):
            return button, investigation_id
    return None


def button_of_form(callback_id: str) -> ClickableButton | None:
    """The button that opened a form; None for a form of nobody."""
    for button in all_buttons():
        if isinstance(button, ClickableButton) and button.form and button.form == callback_id:
            return button
    return None
