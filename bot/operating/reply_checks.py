"""Whether answers reach people: posts under way for too long, reply targets that are down, digests
that nobody got."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta

from sqlalchemy import func, select

from analysis.wording.phrases import counted
from bot.operating.check_results import CheckResult, lasting, when
from bot.operating.engine_rows import Workflow
from bot.operating.inspection import Inspection
from bot.operating.stands import last_said, next_try
from bot.policy.reply_targets import configured_targets
from bot.queue.engine import WORKFLOW_REPLY
from bot.store.message_updates import DIGEST_WAITS, ENDED
from bot.store.models import InvestigationRow, PostRow
from bot.store.store import forgotten_key

UNDER_WAY = timedelta(minutes=5)
"""A claim is renewed every few seconds while its request is under way, and passes on after 10 s
(`LEASE`)."""
TRIED = 2
"""A reply that was tried so often meets a target that does not answer."""
FORGOTTEN = forgotten_key("")
DIGEST_LATE = DIGEST_WAITS + timedelta(minutes=10)
TELLS_LATE = timedelta(minutes=10)


def reply_checks(inspection: Inspection) -> Iterator[CheckResult]:
    """All of them."""
    replies = (
        [w for w in inspection.rows.active() if w.name == WORKFLOW_REPLY] if inspection.rows else []
    )
    yield from _targets(inspection, replies)
    yield from _claims(inspection, {w.id.split(":")[0] for w in replies})
    yield from _digests(inspection)
    yield from _untold(inspection)


def _targets(inspection: Inspection, replies: list[Workflow]) -> Iterator[CheckResult]:
    assert inspection.rows is not None or not replies
    by_target: defaultdict[str, list[Workflow]] = defaultdict(list)
    for reply in replies:
        by_target[(reply.queue or "").removeprefix("replies-") or "a reply target"].append(reply)
    for target, waiting in sorted(by_target.items()):
        first = waiting[0]
        tries, again = next_try(inspection.rows.steps(first.id)) if inspection.rows else (0, None)
        if tries < TRIED and inspection.now - first.created_at < UNDER_WAY:
            continue
        id_ = first.id.split(":")[0]
        said = f"{counted(len(waiting), 'answer')} waiting for {target}, the oldest ({id_}) "
        said += f"for {lasting(inspection.now - first.created_at)}, tried {tries} times"
        why = last_said(inspection, id_, f"reply {target}")
        todo = (
            f"is {target} down, or its token refused? `faultline check` asks it; tries go on "
            f"for most of a day"
        )
        todo += f", the next at {when(again)}" if again else ""
        yield CheckResult("wrong", "replies", said + (f": {why}" if why else ""), todo)


def _claims(inspection: Inspection, replying: set[str]) -> Iterator[CheckResult]:
    row = PostRow
    query = select(row.key, row.attempted_at, row.investigation_id).where(
        row.ref.is_(None),
        ~row.key.endswith(FORGOTTEN),
        row.attempted_at < inspection.now - UNDER_WAY,
    )
    with inspection.read() as session:
        found = session.execute(query.order_by(row.attempted_at).limit(200)).all()
    ended = [(key, at) for key, at, id_ in found if id_ not in replying]
    if ended:
        key, at = ended[0]
        said = (
            f"{counted(len(ended), 'post')} claimed and never recorded, the oldest {key} at "
            f"{when(at)}"
        )
        todo = (
            "the next try looks for it at the vendor first; `faultline requeue ID` makes one, "
            "if its target answers"
        )
        yield CheckResult("wrong", "posts", said, todo)


def _digests(inspection: Inspection) -> Iterator[CheckResult]:
    row = InvestigationRow
    query = (
        select(row.channel, func.count(), func.min(row.quiet_until))
        .where(row.quiet_until < inspection.now - DIGEST_LATE, row.digested_at.is_(None))
        .group_by(row.channel)
        .limit(20)
    )
    with inspection.read() as session:
        found = session.execute(query).all()
    targets = [one for one in configured_targets(inspection.settings) if one.has_channels]
    labels = " or ".join(one.label for one in targets) or "no reply target with channels"
    for channel, count, until in found:
        said = (
            f"{channel or 'a channel'} was not told of {counted(count, 'investigation')} of "
            f"its quiet hours, "
        )
        said += f"which ended at {when(until)}" if until else "which are over"
        yield CheckResult(
            "wrong",
            "digests",
            said,
            (
                f"{labels} is down, or the bot is not in that channel: workers' logs say "
                f"`digest: ...`"
            ),
        )


def _untold(inspection: Inspection) -> Iterator[CheckResult]:
    """Messages to edit that nobody edits: a worker does so within seconds."""
    row = InvestigationRow
    due = (
        row.revision > row.notified_revision,
        row.wants_run.is_(False),
        row.status.in_(ENDED),
        row.finished_at < inspection.now - TELLS_LATE,
    )
    again = (row.wants_run, row.status.in_(ENDED), row.finished_at < inspection.now - TELLS_LATE)
    with inspection.read() as session:
        edits = session.scalar(select(func.count()).where(*due)) or 0
        reruns = session.scalar(select(func.count()).where(*again)) or 0
    if (edits or reruns) and not inspection.executors().count:
        said = (
            f"{counted(edits, 'message')} to bring up to date, {counted(reruns, 'run')} to "
            f"make again"
        )
        yield CheckResult("wrong", "replies", said, "start a worker")
