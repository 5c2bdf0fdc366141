"""Whether alerts wait that the database has not taken, and whether the monitoring is heard of."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from faultline.analysis.wording.phrases import counted
from faultline.bot.intake.intake_health import NOT_STORED_S
from faultline.bot.intake.moving import PROBE_EVERY_S
from faultline.bot.intake.spool import REFUSED, figures_of
from faultline.bot.intake.watchdog import missing_after
from faultline.bot.operating.check_results import CheckResult, lasting
from faultline.bot.operating.inspection import Inspection
from faultline.bot.settings import Settings
from faultline.bot.store.databases import spool_directory
from faultline.bot.store.reports import HANGING, WATCHDOG, last_time

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
