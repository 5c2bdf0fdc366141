"""Whether alerts come in and answers reach people: alerts that the database has not taken,
monitoring that is silent, posts under way for too long, reply targets that are down, digests that
nobody got."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from sqlalchemy import func, select

from faultline.analysis.wording.phrases import counted
from faultline.bot.intake.moving import NOT_STORED_S, PROBE_EVERY_S
from faultline.bot.intake.spool import REFUSED, figures_of
from faultline.bot.intake.watchdog import missing_after
from faultline.bot.operating.engine_rows import Workflow
from faultline.bot.operating.inspection import CheckResult, Executors, Inspection, lasting, when
from faultline.bot.operating.work_checks import last_progress, next_try, taken_over
from faultline.bot.policy.reply_targets import configured_targets
from faultline.bot.policy.values import ENDED
from faultline.bot.queue.engine_database import WORKFLOW_REPLY
from faultline.bot.settings import Settings
from faultline.bot.store.databases import spool_directory
from faultline.bot.store.messages import DIGEST_WAITS
from faultline.bot.store.reports import HANGING, WATCHDOG, last_time
from faultline.bot.store.store import forgotten_key
from faultline.bot.store.tables import InvestigationRow, PostRow

HUNG_LATELY = timedelta(seconds=3 * PROBE_EVERY_S)
"""A web process notes it each time that it writes a sign of life."""


def spool_checks(settings: Settings, now: datetime) -> Iterator[CheckResult]:
    """The spool of this host. Asks no database."""
    directory = spool_directory(settings)
    try:
        figures = figures_of(directory)
    except OSError as error:
        # Only the bot's user may read the directory, and another one may run this.
        phrase = f"{directory} cannot be read ({error.strerror})"
        yield CheckResult("wrong", "spool", phrase, "look as the user that runs the bot")
        return
    if figures.oldest_at is None:
        yield CheckResult("ok", "spool", "no alert waits for the database")
    else:
        waits = now - figures.oldest_at
        phrase = (
            f"{counted(figures.alerts, 'alert')} in {directory} not in the database, the oldest "
            f"for {lasting(waits)}"
        )
        late = waits > timedelta(seconds=NOT_STORED_S)
        todo = (
            "the database takes no writes, or no web process runs on this host; keep the directory:"
            " alerts are moved as soon as both are there"
        )
        yield CheckResult("wrong" if late else "ok", "spool", phrase, todo if late else "")
    if figures.refused:
        phrase = f"the database refused {counted(figures.refused, 'alert')}: {directory / REFUSED}"
        todo = "each line is one alert; look at what it says, then delete the file"
        yield CheckResult("wrong", "spool", phrase, todo)


def hanging_checks(inspection: Inspection) -> Iterator[CheckResult]:
    """Threads of web processes that wait for the database though it answers others."""
    hung = last_time(inspection.store, HANGING)
    if hung is None or inspection.now - hung > HUNG_LATELY:
        return
    phrase = "calls of the database hang in a web process, though it answers others"
    todo = (
        "look at the locks of the database and the network to it; restart the web process where "
        "faultline_store_threads_hanging does not fall"
    )
    yield CheckResult("wrong", "database", phrase, todo)


def watchdog_checks(inspection: Inspection) -> Iterator[CheckResult]:
    """The alert that always fires, once it has arrived."""
    heartbeat = inspection.settings.heartbeat
    time = last_time(inspection.store, WATCHDOG)
    if time is None or not heartbeat.watchdog_alert:
        return
    silent = (inspection.now - time).total_seconds()
    missing = missing_after(
        silent, timedelta(minutes=heartbeat.watchdog_minutes), heartbeat.watchdog_alert
    )
    if missing is None:
        phrase = f"{heartbeat.watchdog_alert} arrived {lasting(timedelta(seconds=silent))} ago"
        yield CheckResult("ok", "watchdog", phrase)
        return
    todo = (
        "look at Prometheus, Alertmanager and the route of that alert: while it is missing, real "
        "alerts may be too"
    )
    yield CheckResult("wrong", "watchdog", missing, todo)


UNDER_WAY = timedelta(minutes=5)
"""A claim is renewed every few seconds while its request is under way, and passes on after 10 s
(`LEASE`)."""
TRIED = 2
"""After this many tries the target counts as not answering."""
FORGOTTEN = forgotten_key("")
DIGEST_LATE = DIGEST_WAITS + timedelta(minutes=10)
TELLS_LATE = timedelta(minutes=10)


def reply_checks(inspection: Inspection) -> Iterator[CheckResult]:
    """All of them."""
    replies = []
    if inspection.rows is not None:
        replies = [w for w in inspection.rows.active() if w.name == WORKFLOW_REPLY]
    yield from _targets(inspection, replies)
    yield from _claims(inspection, {w.id.split(":")[0] for w in replies})
    yield from _digests(inspection)
    # Messages to edit that nobody edits: a worker does so within seconds.
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
        messages, runs = counted(edits, "message"), counted(reruns, "run")
        phrase = f"{messages} to bring up to date, {runs} to make again"
        yield CheckResult("wrong", "replies", phrase, "start a worker")


def _targets(inspection: Inspection, replies: list[Workflow]) -> Iterator[CheckResult]:
    by_target: defaultdict[str, list[Workflow]] = defaultdict(list)
    by_lost: defaultdict[tuple[str, str], int] = defaultdict(int)
    living = inspection.executors()
    for reply in replies:
        target = (reply.queue or "").removeprefix("replies-") or "a reply target"
        if reply.status == "PENDING" and reply.executor and reply.executor in living.lost:
            by_lost[target, reply.executor] += 1
        else:
            by_target[target].append(reply)
    for (target, name), count in sorted(by_lost.items()):
        yield _with_lost_worker(living, name, target, count)
    for target, waiting in sorted(by_target.items()):
        yield from _waiting_for(inspection, target, waiting, anybody=living.count > 0)


def _with_lost_worker(living: Executors, name: str, target: str, count: int) -> CheckResult:
    """The target may be well: nobody has asked it since."""
    worker = living.lost[name]
    verb = "is" if count == 1 else "are"
    phrase = f"{counted(count, 'answer')} for {target} {verb} held by {worker.who}, which has not "
    phrase += f"answered for {lasting(worker.silent)}"
    return CheckResult("wrong", "replies", phrase, taken_over(worker, living))


def _waiting_for(
    inspection: Inspection, target: str, waiting: list[Workflow], *, anybody: bool
) -> Iterator[CheckResult]:
    first = waiting[0]
    waited = inspection.now - first.created_at
    tries, again = 0, None
    if inspection.rows is not None:
        tries, again = next_try(inspection.rows.steps(first.id))
    if tries < TRIED and waited < UNDER_WAY:
        return
    id_ = first.id.split(":")[0]
    phrase = f"{counted(len(waiting), 'answer')} waiting for {target}, the oldest ({id_}) "
    phrase += f"for {lasting(waited)}, tried {tries} times"
    why = last_progress(inspection, id_, f"reply {target}")
    if why:
        phrase += f": {why}"
    todo = f"is {target} down, or its token refused? `faultline check` asks it; "
    todo += "tries go on for most of a day"
    if again is not None:
        todo += f", the next at {when(again)}"
    if not anybody:
        todo = "start a worker: nobody posts them"
    yield CheckResult("wrong", "replies", phrase, todo)


def _claims(inspection: Inspection, replying: set[str]) -> Iterator[CheckResult]:
    row = PostRow
    query = select(row.key, row.attempted_at, row.investigation_id).where(
        row.ref.is_(None),
        # `faultline requeue` leaves these as marks: nobody posts under them.
        ~row.key.endswith(FORGOTTEN),
        row.attempted_at < inspection.now - UNDER_WAY,
    )
    with inspection.read() as session:
        rows = session.execute(query.order_by(row.attempted_at).limit(200)).all()
    # A reply that is still at work looks for its own post.
    ended = [(key, at) for key, at, id_ in rows if id_ not in replying]
    if not ended:
        return
    key, at = ended[0]
    posts = counted(len(ended), "post")
    phrase = f"{posts} claimed and never recorded, the oldest {key} at {when(at)}"
    todo = "the next try looks for it at the vendor first; "
    todo += "`faultline requeue ID` makes one, if its target answers"
    yield CheckResult("wrong", "posts", phrase, todo)


def _digests(inspection: Inspection) -> Iterator[CheckResult]:
    row = InvestigationRow
    query = (
        select(row.channel, func.count(), func.min(row.quiet_until))
        .where(row.quiet_until < inspection.now - DIGEST_LATE, row.digested_at.is_(None))
        .group_by(row.channel)
        .limit(20)
    )
    with inspection.read() as session:
        rows = session.execute(query).all()
    targets = [
        configured_target
        for configured_target in configured_targets(inspection.settings)
        if configured_target.has_channels
    ]
    labels = (
        " or ".join(target.target_label for target in targets) or "no reply target with channels"
    )
    for channel, count, until in rows:
        untold = counted(count, "investigation")
        ended = f"which ended at {when(until)}" if until else "which are over"
        phrase = f"{channel or 'a channel'} was not told of {untold} of its quiet hours, {ended}"
        todo = f"{labels} is down, or the bot is not in that channel: "
        todo += "workers' logs say `digest: ...`"
        yield CheckResult("wrong", "digests", phrase, todo)
