"""Slack's Events API through Bolt: the same app serves events over HTTP and over Socket Mode.

An event is acknowledged after its alert is in the store, never before: Slack then repeats what we
failed to keep, and the event's id makes a repeat of what we did keep a duplicate.
"""

from __future__ import annotations

import asyncio
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from slack_bolt import BoltResponse
from slack_bolt.async_app import AsyncApp, AsyncBoltRequest
from slack_bolt.authorization import AuthorizeResult
from sqlalchemy.exc import SQLAlchemyError

from faultline.bot.answer.targets.slack.posts import SlackWebClient
from faultline.bot.intake.accepted_places import placed_arrival
from faultline.bot.intake.accepting import Accept, Ignored, IntakeLimits, NotAccepted, take
from faultline.bot.intake.payload_fields import as_rows
from faultline.bot.intake.questions.commands import command_in
from faultline.bot.intake.questions.message_router import MessageRouter
from faultline.bot.intake.slack_channels import SlackChannels
from faultline.bot.intake.slack_layout import layout_of, shape_of
from faultline.bot.intake.slack_listener import (
    HELP,
    SlackListener,
    is_direct,
    may_be_for_us,
    mention_arrival,
    of_person,
    question_in,
)
from faultline.bot.intake.slack_messages import PassedOver, watched
from faultline.bot.intake.slack_payload import Envelope, Message, Ourselves, slack_plain
from faultline.bot.intake.slack_people import (
    LOOK_UP_WITHIN_S,
    UNREACHABLE,
    Claimed,
    SlackPeople,
    failure_text,
)
from faultline.bot.policy.people import Act, may, refusal, too_many_investigations
from faultline.bot.policy.values import Arrival
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.passed_over import count_passed_over

MISSHAPEN = (AttributeError, LookupError, TypeError, ValueError)
"""How Bolt fails on a genuine body of a shape it does not know, before any of our listeners; to
repeat it is no use."""
READ_COMMANDS = ("status", "handover", "help")
"""What may be said to us by whoever may read."""
Register = Callable[[AsyncApp, Settings], None]
"""Adds listeners of another room to Bolt's app of the workspace that the settings were made for."""

log = logging.getLogger("faultline.intake")


class SlackWorkspace:
    """The few things we ask Slack while an event waits: who are we, and what began this thread?"""

    def __init__(self, settings: Settings) -> None:
        token = settings.slack.bot_token
        self.token = token.get_secret_value() if token else None
        self.client = SlackWebClient(settings.slack.api_url, token=self.token, timeout=5)
        self.people = SlackPeople(settings, self.client)

    async def ourselves(self, envelope: Envelope) -> Ourselves:
        """Who we are: the envelope says so, and once Slack answered it, `auth.test`."""
        account = await self.people.account()
        user_ids = {account.user_id} - {""} if account else set()
        for authorization in envelope.authorizations:
            if authorization.is_bot is True and authorization.user_id:
                user_ids.add(authorization.user_id)
        bot_id = account.bot_id if account else ""
        teams = await self.people.home()
        return Ourselves(frozenset(user_ids), bot_id, envelope.api_app_id, teams)

    async def parent(self, message: Message) -> Message | None:
        """The message that began the thread, or None when there is none or Slack does not answer
        quickly."""
        if not message.is_reply:
            return None
        call = self.client.conversations_replies(
            channel=message.channel, ts=message.thread_ts, limit=1
        )
        try:
            answer = await asyncio.wait_for(call, LOOK_UP_WITHIN_S)
        except UNREACHABLE as error:
            log.warning("slack conversations.replies failed (%s)", failure_text(error))
            return None
        rows = as_rows(answer.get("messages"))
        return Message.model_validate(rows[0]) if rows else None


class SlackEvents:
    """Bolt's app with our listeners, for one workspace."""

    def __init__(
        self,
        settings: Settings,
        accept: Accept,
        limits: IntakeLimits | None = None,
        more: Sequence[Register] = (),
        message_router: MessageRouter | None = None,
    ) -> None:
        self.settings = settings
        self._listener: SlackListener | None = None
        self._channels: SlackChannels | None = None
        self._engine = message_router.engine if message_router is not None else None
        if message_router is not None:
            self._channels = SlackChannels(settings, message_router.engine)
            self._listener = SlackListener(
                message_router.scoped_to(settings), settings.slack.instance.name
            )
        self.workspace = SlackWorkspace(settings)
        self.app = self._bolt_app(more)
        self._accept = accept
        self._limits = limits or IntakeLimits()
        self._answers: set[asyncio.Task[None]] = set()

    async def message(self, envelope: Envelope) -> None:
        """A message was posted, edited or deleted: an alert, a question, or neither. Raises
        NotAccepted."""
        watched_channel = envelope.event.channel in self.settings.slack.alert_channels
        concerns_us = self._listener is not None and may_be_for_us(envelope)
        if not (watched_channel or concerns_us):
            return
        ourselves = await self.workspace.ourselves(envelope)
        if not await self._is_ours(envelope):
            return
        if self._listener is not None and concerns_us and not ourselves.wrote(of_person(envelope)):
            await self._take_message(envelope, ourselves, self._listener)
        if not watched_channel:
            return
        arrival = watched(envelope, ourselves, self.settings, now=datetime.now(UTC))
        if isinstance(arrival, Ignored):
            log.debug("slack message ignored: %s", arrival.reason)
            if isinstance(arrival, PassedOver) and envelope.event.subtype != "message_changed":
                await self._count(arrival)
            return
        await self._take(arrival)

    async def _count(self, passed_over: PassedOver) -> None:
        """Count it for the health page; without a database it goes uncounted."""
        if self._engine is None:
            return
        message, reason = passed_over.message, passed_over.reason
        layout = layout_of(message)
        app = message.username or message.bot_profile.name
        example = next(iter(layout.headlines), "")
        try:
            await asyncio.wait_for(
                in_store(
                    count_passed_over,
                    self._engine,
                    passed_over.channel,
                    message.sender or app,
                    app,
                    reason,
                    shape_of(message),
                    example,
                ),
                self._limits.accept_within_s,
            )
        except (SQLAlchemyError, TimeoutError) as error:
            log.warning("slack: a message was not counted (%s)", type(error).__name__)

    async def _take_message(
        self, envelope: Envelope, ourselves: Ourselves, listener: SlackListener
    ) -> None:
        """What may be a question, an edit or a deletion of one. Raises NotAccepted."""
        deleted = envelope.event.subtype == "message_deleted"
        # Whose message was deleted Slack does not say, and a question that is gone needs no role.
        if not deleted and not await self._may(envelope, aloud=is_direct(envelope)):
            return
        if await self._investigate_in_dm(envelope):
            return
        await listener.message(envelope, ourselves, within_s=self._limits.accept_within_s)

    async def mention(self, envelope: Envelope, *, repeated: bool) -> None:
        """Someone mentioned us. Raises NotAccepted."""
        message = envelope.event
        ourselves = await self.workspace.ourselves(envelope)
        if not message.channel or ourselves.wrote(message) or not await self._is_ours(envelope):
            return
        if not await self._may(envelope, aloud=not repeated):
            return
        question = question_in(message)
        if question is None and self._listener is not None:
            within = self._limits.accept_within_s
            question = await self._listener.begins(envelope, within_s=within)
        if question is not None and await self._begun(envelope, question, ourselves):
            return
        if message.bot_id:
            return
        if self._listener is not None:
            await self._listener.mention(envelope, within_s=self._limits.accept_within_s)
        # A repeated event must not post the help twice.
        elif not repeated:
            self._answer_later(message)

    async def _begun(self, envelope: Envelope, question: str, ourselves: Ourselves) -> bool:
        """Begin the requested investigation. False when nothing says what to investigate. Raises
        NotAccepted."""
        message, about = envelope.event, None
        parent = await self.workspace.parent(message)
        if message.is_reply and self._listener is not None:
            about = await self._listener.alert_of(message, within_s=self._limits.accept_within_s)
        # What we wrote ourselves is an answer, and no alert to investigate.
        if parent is not None and ourselves.wrote(parent):
            parent = None
        now = datetime.now(UTC)
        arrival = mention_arrival(envelope, question, parent, self.settings, now=now, about=about)
        return arrival is not None and await self._begin(envelope, arrival)

    async def _investigate_in_dm(self, envelope: Envelope) -> bool:
        """`investigate ...` in a direct message, as in a mention; whether it was that. Raises
        NotAccepted."""
        message = envelope.event
        if message.subtype or not is_direct(envelope):
            return False
        question = question_in(message)
        if not question:
            return False
        arrival = mention_arrival(envelope, question, None, self.settings, now=datetime.now(UTC))
        return arrival is not None and await self._begin(envelope, arrival)

    async def _begin(self, envelope: Envelope, arrival: Arrival) -> bool:
        """Begin what a person asked for, unless they asked for too much in an hour. Then they are
        notified. Raises NotAccepted."""
        user = envelope.event.user
        if self._listener is not None and not await self._listener.may_investigate(
            envelope, within_s=self._limits.accept_within_s
        ):
            self._tell(
                envelope.event,
                user,
                too_many_investigations(self.settings.people.investigations_per_hour),
            )
            return True
        await self._take(arrival)
        return True

    async def _is_ours(self, envelope: Envelope) -> bool:
        ours = await self.workspace.people.is_ours(envelope.installed_in)
        if not ours:
            log.warning("slack event ignored: it was sent for another workspace")
        return ours

    async def _may(self, envelope: Envelope, *, aloud: bool) -> bool:
        """Whether the author may have what they ask for; with `aloud` they hear why not."""
        message = of_person(envelope)
        claimed = Claimed.by(envelope, message)
        command = command_in(slack_plain(message.text))
        act: Act = "read" if command is not None and command.kind in READ_COMMANDS else "ask"
        person, role = await self.workspace.people.role(claimed)
        if may(role, act):
            return True
        log.info("slack message ignored: a %s without the role for it", person.kind)
        if aloud and person.kind != "bot":
            self._tell(message, message.user, refusal(person, role, act), envelope.event.channel)
        return False

    async def _take(self, arrival: Arrival) -> None:
        """The alert, with the places that this workspace covers. Raises NotAccepted."""
        placed = placed_arrival(arrival, self.settings.slack.instance.covers)
        await take(self._accept, placed, within_s=self._limits.accept_within_s)
        channel = arrival.reply_to.slack_channel
        if self._channels is not None and channel:
            # Who reads it is known before anybody asks for the page, or the memory of it.
            self._later(self._channels.learn(channel), "conversations.info")

    def _answer_later(self, message: Message) -> None:
        self._later(
            self.workspace.client.chat_postMessage(
                channel=message.channel, thread_ts=message.thread or None, text=HELP
            ),
            "chat.postMessage",
        )

    def _tell(self, message: Message, user: str, text: str, channel: str = "") -> None:
        """One line that this person alone sees."""
        self._later(
            self.workspace.client.chat_postEphemeral(
                channel=channel or message.channel,
                user=user,
                text=text,
                thread_ts=message.thread if message.is_reply else None,
            ),
            "chat.postEphemeral",
        )

    def _later(self, call: Awaitable[Any], name: str) -> None:
        async def posted() -> None:
            try:
                await call
            except UNREACHABLE as error:
                log.warning("slack %s failed (%s)", name, failure_text(error))

        task = asyncio.create_task(posted())
        # The event loop refers to tasks weakly: keep this one until it has ended.
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    def _bolt_app(self, more: Sequence[Register]) -> AsyncApp:
        async def authorize(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult:
            return AuthorizeResult(
                enterprise_id=enterprise_id, team_id=team_id, bot_token=self.workspace.token
            )

        # The client has no token: with one Bolt would ask `auth.test` itself and drop the event
        # when that fails.
        app = AsyncApp(
            name="faultline",
            logger=_without_payloads(),
            client=SlackWebClient(self.settings.slack.api_url, timeout=5),
            authorize=authorize,
            # The route has verified the signature, and Socket Mode sends none.
            request_verification_enabled=False,
            ssl_check_enabled=False,
            ignoring_self_events_enabled=False,
            process_before_response=True,
        )

        @app.event("message")
        async def on_message(body: dict[str, Any]) -> None:
            await self.message(Envelope.model_validate(body))

        @app.event("app_mention")
        async def on_mention(body: dict[str, Any], request: AsyncBoltRequest) -> None:
            await self.mention(
                Envelope.model_validate(body),
                repeated=bool(request.headers.get("x-slack-retry-num")),
            )

        for register in more:
            register(app, self.settings)

        @app.event(re.compile(""))
        async def on_anything_else() -> None:
            """Acknowledged: an event nobody handles would otherwise be sent again."""

        @app.error
        async def on_error(error: Exception) -> BoltResponse:
            if isinstance(error, MISSHAPEN) and not _in_our_code(error):
                log.info("slack delivery ignored: Bolt cannot read it (%s)", type(error).__name__)
                return BoltResponse(status=200, body="")
            reason = str(error) if isinstance(error, NotAccepted) else type(error).__name__
            log.error("slack event not accepted (%s); Slack will send it again", reason)
            return BoltResponse(status=503, body="try again")

        return app


def _in_our_code(error: Exception) -> bool:
    """Whether a listener of ours had been called when it failed."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__", "")).startswith("faultline.bot."):
            return True
    return False


class _NoPayload(logging.Filter):
    """Bolt quotes a request that nobody listens to; its parts are the sender's."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        return not str(record.msg).startswith("Unhandled request")


def _without_payloads() -> logging.Logger:
    """Bolt's logger, which its own ones are made after."""
    logger = logging.getLogger("faultline.slack.bolt")
    if not logger.filters:
        logger.addFilter(_NoPayload())
    return logger
