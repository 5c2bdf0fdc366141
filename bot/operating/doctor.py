"""`faultline doctor`: what is wrong with an installation, or the story of one investigation. It
only looks.

Exit codes: 0 nothing is wrong, 1 something is, 2 nothing could be looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import FaultlineError
from faultline.bot.operating.delivery_checks import (
    hanging_checks,
    reply_checks,
    spool_checks,
    watchdog_checks,
)
from faultline.bot.operating.inspection import (
    CheckResult,
    Inspection,
    as_json,
    inspected,
    print_findings,
)
from faultline.bot.operating.installation_checks import place_checks, settings_checks
from faultline.bot.operating.size_checks import size_checks
from faultline.bot.operating.story import story
from faultline.bot.operating.work_checks import question_checks, work_checks
from faultline.bot.settings import Settings
from faultline.bot.store.databases import first_line

HEALTHY, WRONG, CANNOT_LOOK = 0, 1, 2
Checks = Callable[[Inspection], Iterator[CheckResult]]


def run_doctor(settings: Settings, name: str | None, *, json_: bool) -> int:
    """Look, print, and say with the exit code what was found."""
    try:
        with inspected(settings) as inspection:
            results = story(inspection, name) if name else whole(inspection)
    except (FaultlineError, OSError) as error:
        sys.stderr.write(f"faultline: {error}\n")
        # Alerts may wait on this host all the same.
        results = list(spool_checks(settings, datetime.now(UTC))) if name is None else []
        if not json_ and any(result.state == "wrong" for result in results):
            print_findings(results)
        return CANNOT_LOOK
    if json_:
        sys.stdout.write(as_json(results) + "\n")
    else:
        print_findings(results)
    return WRONG if any(result.state == "wrong" for result in results) else HEALTHY


def whole(inspection: Inspection) -> Sequence[CheckResult]:
    """Everything that is looked at. A check that fails is a finding, and the others continue."""
    parts: tuple[tuple[str, Checks], ...] = (
        ("database", place_checks),
        ("sizes", size_checks),
        ("database", hanging_checks),
        ("spool", lambda context: spool_checks(context.settings, context.now)),
        ("watchdog", watchdog_checks),
        ("workers", work_checks),
        ("replies", reply_checks),
        ("questions", question_checks),
        ("settings", lambda context: settings_checks(context.settings)),
    )
    check_results: list[CheckResult] = []
    for about, checks in parts:
        try:
            check_results += checks(inspection)
        except SQLAlchemyError as error:
            phrase = f"could not be looked at: {first_line(error)}"
            check_results.append(
                CheckResult(
                    "wrong", about, phrase, "the database, or the rights of its user, say why"
                )
            )
    return check_results
