"""Publishing the Home tab: when somebody opens it, when something on it changed, and never too
often.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.case.earlier import RecordLevel, is_telling
from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Verdict
from faultline.bot.answer.foreign_text import safe_url, single_line
from faultline.bot.answer.lines import percent, span_of
from faultline.bot.answer.targets.slack.blocks import (
    Block,
    actions,
    bold,
    bullets,
    button,
    context,
    emoji,
    header,
    link,
    paragraph,
    rich,
    section,
    text,
)
from faultline.bot.answer.targets.slack.buttons import until_words
from faultline.bot.answer.targets.slack.message import DOTS
from faultline.bot.answer.targets.slack.posts import slack_error
from faultline.bot.answer.view import VERDICT_LABELS
from faultline.bot.conversation.slack.click_context import FAILURES, ClickContext
from faultline.bot.intake.slack_people import Claimed
from faultline.bot.policy.people import SlackPerson, may, person, refusal
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.listing import AnswerLabel
from faultline.bot.store.store import StoredInvestigation
from faultline.bot.store.suppressed_alerts import Mute
from faultline.bot.store.visibility import Visibility
from faultline.connectors.shared.contract.base import Check

# The Home tab: what was investigated, what works, how answers were judged, what is muted, how to
# ask. Pure.

UNMUTE, REFRESH = "faultline_home_unmute", "faultline_home_refresh"
RECENT, MUTED, PARTS = 12, 15, 25
HELP = (
    (
        "Ask",
        "@Faultline investigate checkout errors since 10:05; in the thread of an alert that first "
        "word is enough",
    ),
    ("Go on", "write in the thread of an answer; a mention is not needed"),
    (
        "Look deeper",
        "Evidence shows every finding with links; Wider window looks at three times the time",
    ),
    ("Teach it", "Right or Wrong under an answer: from these the record of answers is counted"),
    ("Have peace", "Mute this alert counts it and investigates nothing"),
)


@dataclass(frozen=True)
class Home:
    """What the tab shows. `checks` is None while the parts are being checked."""

    now: datetime
    latest: Sequence[StoredInvestigation]
    labels: dict[str, AnswerLabel]
    waiting: int
    running: int
    checks: Sequence[Check] | None
    record: Sequence[RecordLevel]
    mutes: Sequence[Mute]
    public_url: str


def home_view(home: Home) -> Block:
    """The tab, within 100 blocks."""
    if not home.latest:
        recent = [
            paragraph(
                "None yet. Invite me to a channel with alerts, or ask: @Faultline investigate ..."
            )
        ]
    else:
        recent = [rich(bullets([_recent_line(home, i) for i in home.latest[:RECENT]]))]
    blocks = [
        header("Faultline"),
        *_health(home),
        header("Recent investigations"),
        *recent,
        header("How answers were judged"),
        _judged(home.record),
        header("Muted alerts"),
        *_muted(home),
        header("How to use it"),
        rich(bullets([section(bold(what), text(f"  {how}")) for what, how in HELP])),
        actions("home", [button(REFRESH, "Refresh", "refresh")]),
        context(f"As of {home.now:%H:%M:%S} UTC", home.public_url, to="Open the pages"),
    ]
    return {"type": "home", "blocks": blocks}


def not_for_you(why: str) -> Block:
    """The tab of somebody who may not read."""
    return {"type": "home", "blocks": [header("Faultline"), paragraph(why)]}


def _health(home: Home) -> list[Block]:
    queue = f"{home.running} running, {home.waiting} waiting"
    if home.checks is None:
        return [rich(section(text(f"Queue: {queue}. The connected parts are being checked ...")))]
    broken, partial, good = [], [], []
    for check in home.checks:
        if not check.ok:
            broken.append((check.name, check.line))
            continue
        good.append(single_line(check.name, 30))
        if check.unread:
            partial.append((check.name, "; ".join(check.unread)))
    if broken:
        dot, phrase = "warning", f"{len(broken)} of {len(home.checks)} parts do not work"
    elif partial:
        dot, phrase = "warning", "Some evidence cannot be read"
    else:
        dot, phrase = "large_green_circle", "Everything works"
    blocks = [rich(section(emoji(dot), text(" "), bold(phrase), text(f"  Queue: {queue}")))]
    problems = [*broken, *partial]
    if problems:
        items = [
            section(bold(single_line(name, 30)), text(f"  {single_line(line, 240)}"))
            for name, line in problems[:PARTS]
        ]
        blocks.append(rich(bullets(items)))
    if good:
        blocks.append(context(f"Works: {', '.join(good)}", limit=900))
    return blocks


def _recent_line(home: Home, investigation: StoredInvestigation) -> Block:
    dot, label = _state(investigation)
    url = safe_url(f"{home.public_url}/investigations/{investigation.id}")
    title = single_line(investigation.alert.title, 120) or "an alert without a title"
    ago = span_of(home.now - investigation.accepted_at)
    elements = [emoji(dot), bold(f" {label}"), text("  "), link(url, title) if url else text(title)]
    about = [f"{ago} ago"]
    if investigation.status == "done" and investigation.confidence is not None:
        about.append(percent(investigation.confidence))
    judged = home.labels.get(investigation.id)
    if judged is not None:
        who = single_line(person(judged.who), 60) or "somebody"
        about.append(f"{'right' if judged.right else 'wrong'}, said {who}")
    if investigation.related:
        about.append(f"{len(investigation.related) + 1} alerts")
    return section(*elements, text(f"  {' · '.join(about)}"))


def _state(investigation: StoredInvestigation) -> tuple[str, str]:
    if investigation.status == "failed":
        return "warning", "Failed"
    if investigation.status == "joined":
        return "link", "Joined"
    # The store may hold a verdict of another version.
    verdict = next((v for v in Verdict if v.value == investigation.verdict), None)
    if investigation.status == "done" and verdict is not None:
        return DOTS[verdict], VERDICT_LABELS[verdict]
    return "mag", "Waiting" if investigation.status == "accepted" else "Investigating"


def _judged(record: Sequence[RecordLevel]) -> Block:
    of, right = sum(level.of for level in record), sum(level.right for level in record)
    if not of:
        return paragraph("Nobody has judged an answer yet: press Right or Wrong under one.")
    lines = [section(bold(f"{right} of {of}"), text(" judged answers were right"))]
    levels = [level for level in sorted(record, key=lambda r: -r.level) if is_telling(level.of)]
    items = [
        section(text(f"said {_band(level.level)}: {level.right} of {level.of} right"))
        for level in levels
    ]
    return rich(*lines, *([bullets(items)] if items else []))


def _band(level: int) -> str:
    return f"{10 * level} to {10 * level + 9} %" if level < 9 else "90 % and more"


def _muted(home: Home) -> list[Block]:
    if not home.mutes:
        return [paragraph("None.")]
    blocks = [_mute(mute) for mute in home.mutes[:MUTED]]
    if len(home.mutes) > MUTED:
        blocks.append(context(f"and {len(home.mutes) - MUTED} more"))
    return blocks


def _mute(mute: Mute) -> Block:
    # An alert without a title is known by its fingerprint.
    what = single_line(mute.title, 150) or single_line(mute.fingerprint, 40)
    when = "it is resolved" if mute.until_resolved else until_words(mute.until)
    phrase = f"; {mute.alert_count} held back" if mute.alert_count else ""
    reason = f"; {single_line(mute.reason, 150)}" if mute.reason else ""
    mute_text = f"{what}: until {when}, by {single_line(mute.by, 80) or 'somebody'}{reason}{phrase}"
    # As plain text: Slack parses nothing in the alert's title.
    return {
        "type": "section",
        "text": {"type": "plain_text", "text": mute_text, "emoji": False},
        "accessory": button(UNMUTE, "Unmute", mute.fingerprint),
    }


EVERY_S = 5.0
"""One person's tab is published at most this often; what comes in between is one publication
afterwards."""
CHECK_EVERY_S = 600.0
"""The parts are asked whether they work at most this often, however many people look."""
MAX_PEOPLE = 1_000
MUTES_AMONG = 200
"""With several workspaces, a mute is shown in those that got its alert among this many of their
newest investigations."""

AllChecks = Callable[[Settings], Awaitable[Sequence[Check]]]

log = logging.getLogger("faultline.slack")


class HomeTab:
    """The tab of everybody in the workspace."""

    def __init__(
        self, context: ClickContext, all_checks: AllChecks, *, every_s: float = EVERY_S
    ) -> None:
        self._context = context
        self._every_s = every_s
        self._all_checks = all_checks
        self._checks: Sequence[Check] | None = None
        self._check_after = 0.0
        self._checking = asyncio.Lock()
        self._published: OrderedDict[str, float] = OrderedDict()
        self._waiting: set[str] = set()

    async def show(self, claimed: Claimed) -> None:
        """Publish it for one person, now or as soon as that may be done again."""
        user = claimed.id
        if not user or user in self._waiting:
            return
        self._waiting.add(user)
        try:
            await asyncio.sleep(
                max(0.0, self._published.get(user, -math.inf) + self._every_s - time.monotonic())
            )
        finally:
            self._waiting.discard(user)
        self._note(user)
        person, role = await self._context.people.role(claimed)
        if not may(role, "read"):
            await self._send(user, not_for_you(refusal(person, role, "read")))
            return
        await self._publish(person)
        # Publish before the checks, which may take long, and once more with their result.
        if await self._check():
            await self._publish(person)

    async def _publish(self, person: SlackPerson) -> None:
        self._note(person.id)
        try:
            visibility = await self._context.visible_to(person)
            view = home_view(await in_store(self._read, visibility))
        except SQLAlchemyError as error:
            log.warning("slack: the Home tab was not published (%s)", type(error).__name__)
            return
        await self._send(person.id, view)

    def _note(self, user: str) -> None:
        """That it is published for somebody now."""
        self._published[user] = time.monotonic()
        self._published.move_to_end(user)
        # Forget those first whose tab was published longest ago.
        while len(self._published) > MAX_PEOPLE:
            self._published.popitem(last=False)

    async def _send(self, user: str, view: Block) -> None:
        try:
            await self._context.client.views_publish(user_id=user, view=view)
        except FAILURES as error:
            log.warning(
                "slack: the Home tab was not published (%s)", slack_error("views.publish", error)
            )

    async def _check(self) -> bool:
        """Whether the parts were checked again."""
        async with self._checking:
            if time.monotonic() < self._check_after:
                return False
            # Set it first, so that a check that fails is not repeated for everybody who looks.
            self._check_after = time.monotonic() + CHECK_EVERY_S
            try:
                self._checks = await self._all_checks(self._context.settings)
            except FaultlineError as error:
                self._checks = [Check("check", False, str(error))]
            return True

    def _read(self, visibility: Visibility) -> Home:
        context, now = self._context, datetime.now(UTC)
        latest = context.latest(RECENT, visibility)
        return Home(
            now=now,
            latest=latest,
            labels=context.labels.of([i.id for i in latest]),
            waiting=context.store.count("accepted", visibility),
            running=context.store.count("running", visibility),
            checks=self._checks,
            record=context.labels.visible_to(visibility).record(),
            mutes=[] if visibility.teams is not None else self._mutes(now, visibility),
            public_url=context.settings.server.public_url,
        )

    def _mutes(self, now: datetime, visibility: Visibility) -> list[Mute]:
        """The mutes of alerts that come to this workspace."""
        context = self._context
        active = context.mutes.active(now, visibility)
        if not context.has_other_workspaces:
            return active
        fingerprints = {
            investigation.alert.fingerprint for investigation in context.latest(MUTES_AMONG)
        }
        return [mute for mute in active if mute.fingerprint in fingerprints]
