"""The scope with what the operator's runbooks add to it, and the guidance that goes into the
case."""

from __future__ import annotations

import logging
from datetime import datetime

from faultline.analysis.case.runbooks import AppliedRunbooks
from faultline.analysis.vocabulary import Alert, Scope
from faultline.analysis.wording.phrases import plain
from faultline.bot.investigation.runbooks.library import linkable_hosts, read_library
from faultline.bot.investigation.runbooks.matching import guided
from faultline.bot.investigation.scoping import scope_for
from faultline.bot.settings import Settings

log = logging.getLogger("faultline.runbooks")

LONGEST_TEXT = 400


def guided_scope(
    alert: Alert, settings: Settings, *, now: datetime, recorded: Scope | None = None
) -> tuple[Scope, AppliedRunbooks | None]:
    """The scope of one alert; None where no runbooks are configured. Reads the runbooks each
    time (blocking)."""
    scope = scope_for(alert, settings, now=now, recorded=recorded)
    if not settings.runbooks.directories:
        return scope, None
    try:
        guidance = guided(
            read_library(settings.runbooks.directories), alert, scope, linkable_hosts(settings)
        )
        return scope_for(
            alert, settings, now=now, recorded=recorded, hints=guidance.hints
        ), guidance.applied
    # The edge of runbooks: an incident is answered without them, too.
    except Exception as error:  # noqa: BLE001
        log.warning("cannot use runbooks: %s", type(error).__name__)
        return scope, AppliedRunbooks(
            troubles=(f"runbooks could not be used: unexpected {type(error).__name__}",)
        )


def runbooks_line(applied: AppliedRunbooks) -> str:
    """One line for the progress log."""
    names = (
        ", ".join(f"{runbook.name} ({runbook.why})" for runbook in applied.runbooks)
        or "none matches"
    )
    broken = len(applied.troubles)
    phrase = (
        f"; {broken} problem{'s' if broken != 1 else ''}: {applied.troubles[0]}" if broken else ""
    )
    return plain(names, LONGEST_TEXT) + plain(phrase, LONGEST_TEXT)
