"""Whether answers reach people: posts under way for too long, reply targets that are down, digests
that nobody got."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta

from sqlalchemy import func, select

from analysis.wording.phrases import counted
from bot.operating.engine_rows import Workflow
from bot.operating.findings import Finding, lasting, when
from bot.operating.looking import Look
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


def reply_checks(look: Look) -> Iterator[Finding]:
    """All of them."""
    replies = [w for w in look.rows.active() if w.name == WORKFLOW_REPLY] if look.rows else []
    yield from _targets(look, replies)
    yield from _claims(look, {w.id.split(":")[0] for w in replies})
    yield from _digests(look)
    yield from _untold(look)


def _targets(look: Look, replies: list[Workflow]) -> Iterator[Finding]:
    assert look.rows is not None or not replies
    by_target: defaultdict[str, list[Workflow]] = defaultdict(list)
    for reply in replies:
        by_target[(reply.queue or "").removeprefix("replies-") or "a reply target"].append(reply)
    for target, waiting in sorted(by_target.items()):
        first = waiting[0]
        tries, again = next_try(look.rows.steps(first.id)) if look.rows else (0, None)
        if tries < TRIED and look.now - first.created_at < UNDER_WAY:
            continue
        id_ = first.id.split(":")[0]
        said = f"{counted(len(waiting), 'answer')} waiting for {target}, the oldest ({id_}) "
        said += f"for {lasting(look.now - first.created_at)}, tried {tries} times"
        why = last_said(look, id_, f"reply {target}")
        todo = (
            f"is {target} down, or its token refused? `faultline check` asks it; tries go on "
            f"for most of a day"
        )
        todo += f", the next at {when(again)}" if again else ""
        yield Finding("wrong", "replies", said + (f": {why}" if why else ""), todo)


def _claims(look: Look, replying: set[str]) -> Iterator[Finding]:
    row = PostRow
    query = select(row.key, row.attempted_at, row.investigation_id).where(
        row.ref.is_(None), ~row.key.endswith(FORGOTTEN), row.attempted_at < look.now - UNDER_WAY
    )
    with look.read() as session:
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
        yield Finding("wrong", "posts", said, todo)


def _digests(look: Look) -> Iterator[Finding]:
    row = InvestigationRow
    query = (
        select(row.channel, func.count(), func.min(row.quiet_until))
        .where(row.quiet_until < look.now - DIGEST_LATE, row.digested_at.is_(None))
        .group_by(row.channel)
        .limit(20)
    )
    with look.read() as session:
        found = session.execute(query).all()
    targets = [one for one in configured_targets(look.settings) if one.has_channels]
    labels = " or ".join(one.label for one in targets) or "no reply target with channels"
    for channel, count, until in found:
        said = (
            f"{channel or 'a channel'} was not told of {counted(count, 'investigation')} of "
            f"its quiet hours, "
        )
        said += f"which ended at {when(until)}" if until else "which are over"
        yield Finding(
            "wrong",
            "digests",
            said,
            (
                f"{labels} is down, or the bot is not in that channel: workers' logs say "
                f"`digest: ...`"
            ),
        )


def _untold(look: Look) -> Iterator[Finding]:
    """Messages to edit that nobody edits: a worker does so within seconds."""
    row = InvestigationRow
    due = (
        row.revision > row.notified_revision,
        row.wants_run.is_(False),
        row.status.in_(ENDED),
        row.finished_at < look.now - TELLS_LATE,
    )
    again = (row.wants_run, row.status.in_(ENDED), row.finished_at < look.now - TELLS_LATE)
    with look.read() as session:
        edits = session.scalar(select(func.count()).where(*due)) or 0
        reruns = session.scalar(select(func.count()).where(*again)) or 0
    if (edits or reruns) and not look.executors().count:
        said = (
            f"{counted(edits, 'message')} to bring up to date, {counted(reruns, 'run')} to "
            f"make again"
        )
        yield Finding("wrong", "replies", said, "start a worker")
