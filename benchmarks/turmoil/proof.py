"""The ledger at the end: what senders were answered, what the store holds, what Slack and PagerDuty
show."""

from __future__ import annotations

import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote_plus

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.turmoil.lines import Posted
from benchmarks.turmoil.senders import REFUSED, Sent, Shape
from faultline.bot.answer.targets.pagerduty.note import bears_marker
from faultline.bot.answer.targets.slack.replies import EVENT_TYPE
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.bot.store.tables import GroupedAlertRow, InvestigationRow
from faultline.loopback.pagerduty import LoopbackPagerDuty
from faultline.loopback.slack import LoopbackSlack

ENDED = ("done", "failed")
STILL = "Investigating"
STARTS = ("started", "joined", "grouped", "duplicate", "spooled")
KINDS = (
    "lost",
    "doubled",
    "stored twice",
    "stuck",
    "posted though lost",
    "never taken",
    "taken though refused",
    "unexplained",
)
"""Of anomalies."""
ON_ITS_WAY_S = 1.5
"""A request of a worker that was declared lost just then may have been under way."""


KEYS = re.compile(r"[0-9a-f]{8,}(?:-[0-9a-f]+)*(?::\w+)?")
"""Ids of investigations, and keys of posts that begin with one."""


@dataclass
class Books:
    """What was found to be so; each violation is a sentence."""

    violations: list[str] = field(default_factory=list)
    broken: Counter[str] = field(default_factory=Counter)
    """How many of each of `KINDS`."""
    outcomes: Counter[str] = field(default_factory=Counter)
    answered: int = 0
    explained: int = 0
    messages: int = 0
    notes: int = 0
    concerned: dict[str, str] = field(default_factory=dict)
    """Investigation to its story, where something is wrong with it."""

    def say(self, kind: str, sentence: str) -> None:
        """One more violation."""
        self.broken[kind] += 1
        self.violations.append(f"{kind}: {sentence}")


@dataclass(frozen=True)
class Outside:
    """What stands at the vendors, by investigation."""

    messages: Mapping[str, list[str]]
    """The current texts of its messages."""
    notes: Mapping[tuple[str, str], int]
    """By incident and investigation."""
    strangers: int
    """Posts that bear no key of an investigation."""


@dataclass(frozen=True)
class Lives:
    """Who posted: requests that post as the vendors' lines saw them, the processes of each address
    in their order (when they were started, and their ids), and when workers were declared lost.
    Moments of the monotonic clock."""

    posted: Sequence[Posted] = ()
    processes: Mapping[str, Sequence[tuple[float, int]]] = field(default_factory=dict)
    lost_at: Mapping[str, float] = field(default_factory=dict)

    def posts_of_the_lost(self) -> list[str]:
        """What workers posted after they were declared lost, and so after their successors
        began."""
        posts = []
        for executor, at in self.lost_at.items():
            pid = int(executor.split("-")[1])
            for address, lives in self.processes.items():
                for nth, (_, life) in enumerate(lives):
                    if life != pid:
                        continue
                    ends = lives[nth + 1][0] if nth + 1 < len(lives) else math.inf
                    posts += [
                        f"{executor} ({address}) {post.at - at:.1f} s after it was declared lost: "
                        f"{keys_in(post.body)}"
                        for post in self.posted
                        if post.sender == address and at + ON_ITS_WAY_S < post.at < ends
                    ]
        return posts


NOBODY_LOST = Lives()


def keys_in(body: bytes) -> str:
    """Which posts a request makes, as far as its body says."""
    plain = unquote_plus(body.decode("utf-8", "replace"))
    return " ".join(sorted(set(KEYS.findall(plain)))) or plain[:80]


def outside(slack: LoopbackSlack, pagerduty: LoopbackPagerDuty, ids: Sequence[str]) -> Outside:
    """Read the stand-ins' own books."""
    messages: defaultdict[str, list[str]] = defaultdict(list)
    notes: Counter[tuple[str, str]] = Counter()
    strangers, expected_ids = 0, set(ids)
    for message in list(slack.posts):
        metadata = message.metadata or {}
        key = str(metadata.get("event_payload", {}).get("key", "")).partition(":")[0]
        if metadata.get("event_type") == EVENT_TYPE and key in expected_ids:
            messages[key].append(message.text)
        else:
            strangers += 1
    for incident in list(pagerduty.incidents.values()):
        for note in list(incident.notes):
            marked = note.content.rstrip().rpartition("\n")[2].removeprefix("Faultline ")
            if marked in expected_ids and bears_marker(note.content, marked):
                notes[incident.id, marked] += 1
            else:
                strangers += 1
    return Outside(messages, notes, strangers)


def everything(store: Store) -> list[StoredInvestigation]:
    """All investigations."""
    with Session(store.engine) as session:
        ids = list(session.scalars(select(InvestigationRow.id)))
    return store.some(ids)


def unsettled(investigations: Sequence[StoredInvestigation], records: Outside) -> list[str]:
    """Investigations that have not ended, or whose answer does not stand in each wanted place
    yet."""
    return [
        investigation.id
        for investigation in investigations
        if investigation.status not in ENDED or _missing(investigation, records)
    ]


def _missing(investigation: StoredInvestigation, records: Outside) -> str:
    texts = records.messages.get(investigation.id, [])
    if not texts or all(STILL in text for text in texts):
        return "no answer in Slack"
    incident = investigation.reply_to.pagerduty_incident
    if (
        incident
        and not records.notes.get((incident, investigation.id))
        and not (investigation.resolved_at and investigation.status == "failed")
    ):
        return "no note at PagerDuty"
    return ""


def titles(store: Store) -> dict[str, list[str]]:
    """The investigations in which each alert is stored, by its title: as its first alert, or as one
    that joined it."""
    ids_by_title: defaultdict[str, list[str]] = defaultdict(list)
    for investigation in everything(store):
        ids_by_title[investigation.alert.title].append(investigation.id)
    with Session(store.engine) as session:
        rows = session.execute(select(GroupedAlertRow.alert, GroupedAlertRow.investigation_id))
        for alert, investigation in rows:
            ids_by_title[alert["title"]].append(investigation)
    return ids_by_title


def prove(
    sent: Sequence[Sent],
    investigations: Sequence[StoredInvestigation],
    records: Outside,
    stored: Mapping[str, Sequence[str]],
    lives: Lives = NOBODY_LOST,
) -> Books:
    """Compare them; `stored` as of `titles`."""
    books = Books()
    by_id = {investigation.id: investigation for investigation in investigations}
    acknowledged_ids: set[str] = set()
    for alert in sent:
        # The sender of a spooled alert was not told in which investigation it is.
        if "spooled" in alert.outcomes:
            alert.investigations.update(stored.get(alert.title, ()))
        acknowledged_ids |= alert.investigations
        _alert(books, alert, by_id)
        _stored_once(books, alert, stored.get(alert.title, ()))
    for post in lives.posts_of_the_lost():
        books.say("posted though lost", post)
    for investigation in investigations:
        _investigation(books, investigation, records)
        if investigation.id not in acknowledged_ids and not any(s.gave_up for s in sent):
            books.say(
                "unexplained",
                f"{investigation.id} was started, and no sender got its id "
                f"({investigation.alert.title})",
            )
    if records.strangers:
        books.say("unexplained", f"{records.strangers} posts bear no key of an investigation")
    books.messages = sum(len(texts) for texts in records.messages.values())
    books.notes = sum(records.notes.values())
    books.concerned = {i: "" for i in by_id if any(i in sentence for sentence in books.violations)}
    return books


def _alert(books: Books, alert: Sent, by_id: Mapping[str, StoredInvestigation]) -> None:
    books.outcomes.update(
        alert.outcomes
        or [f"refused with {alert.statuses[-1]}" if alert.statuses else "never taken"]
    )
    if alert.shape in REFUSED:
        if alert.investigations or any(
            investigation.alert.title == alert.title for investigation in by_id.values()
        ):
            books.say("taken though refused", f"{alert.title} was {alert.shape}")
        return
    if alert.gave_up:
        books.say(
            "never taken", f"{alert.title} ({alert.source}): no answer to {alert.tries} tries"
        )
        return
    needs = (
        any(outcome in STARTS for outcome in alert.outcomes)
        and alert.shape is not Shape.ENDED_FIRST
    )
    if not needs and alert.shape is not Shape.ENDED_FIRST:
        books.say(
            "lost",
            f"{alert.title} ({alert.source}, {alert.shape}) was answered {alert.statuses} "
            f"{alert.outcomes}",
        )
    if len(alert.investigations) > 1:
        books.say(
            "doubled",
            f"{alert.title} ({alert.shape}) has {len(alert.investigations)}: "
            f"{alert.investigations}",
        )
    for identity in alert.investigations - by_id.keys():
        books.say("lost", f"{alert.title}: {identity} was acknowledged and is not in the store")


def _stored_once(books: Books, alert: Sent, stored: Sequence[str]) -> None:
    """An acknowledged alert is in the store exactly once, however often it was sent."""
    if alert.shape in REFUSED or alert.gave_up or alert.shape is Shape.ENDED_FIRST:
        return
    if any(outcome in STARTS for outcome in alert.outcomes) and len(stored) != 1:
        kind = "stored twice" if stored else "lost"
        books.say(kind, f"{alert.title} ({alert.shape}, {alert.outcomes}) is in {list(stored)}")


def _investigation(books: Books, investigation: StoredInvestigation, records: Outside) -> None:
    texts = records.messages.get(investigation.id, [])
    if investigation.status not in ENDED:
        books.say("stuck", f"{investigation.id} is still {investigation.status}")
    elif missing := _missing(investigation, records):
        books.say("lost", f"{investigation.id} ended as {investigation.status}: {missing}")
    elif investigation.status == "done":
        books.answered += 1
    else:
        books.explained += 1
    if len(texts) > 1:
        books.say("doubled", f"{investigation.id} has {len(texts)} messages in Slack")
    for (incident, identity), count in records.notes.items():
        if identity == investigation.id and count > 1:
            books.say("doubled", f"{investigation.id} has {count} notes on {incident}")


def story(
    investigation_id: str, sent: Sequence[Sent], store: Store, faults: Sequence[tuple[float, str]]
) -> str:
    """All that is known of one investigation, and what was broken meanwhile."""
    now, wall = time.monotonic(), time.time()
    investigation = store.get(investigation_id)
    lines = [f"### {investigation_id}", ""]
    if investigation is not None:
        lines += [
            f"{investigation.alert.source}: {investigation.alert.title}, "
            f"{investigation.status}, accepted "
            f"{investigation.accepted_at:%H:%M:%S}"
        ]
        lines += [
            f"- {p.at:%H:%M:%S} {p.stage}: {p.text}" for p in store.progress(investigation_id)
        ]
        lines += [f"- post {key} is {ref}" for key, ref in store.posts(investigation_id).items()]
    alerts = [s for s in sent if investigation_id in s.investigations]
    lines += [
        f"- sent {s.shape} as {s.title}: {s.statuses} {s.outcomes}, {s.tries} tries" for s in alerts
    ]
    began = min((s.sent_at for s in alerts), default=now - 60)
    during = [(at, text) for at, text in faults if at > began - 10]
    lines += [
        f"- {time.strftime('%H:%M:%S', time.gmtime(wall - (now - at)))} fault: {text}"
        for at, text in during[:60]
    ]
    return "\n".join(lines)
