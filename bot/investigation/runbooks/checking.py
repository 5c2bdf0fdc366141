"""The runbooks' lines of `faultline check`."""

from __future__ import annotations

from faultline.bot.investigation.runbooks.library import RunbookLibrary
from faultline.bot.investigation.runbooks.linting import lint
from faultline.bot.investigation.runbooks.runbook import usable_queries
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Check
from faultline.connectors.vendors.datadog import DatadogSettings
from faultline.connectors.vendors.prometheus import PrometheusSettings

NAME = "runbooks"
MOST_LINES = 200
"""A directory of other files than runbooks is reported in this many lines."""


def runbook_checks(settings: Settings) -> list[Check]:
    """One line for each fault, by file and line; one that counts where there is none. Blocking;
    nothing when unset."""
    directories = settings.runbooks.directories
    if not directories:
        return []
    library, problems = lint(settings)
    faults = [Check(NAME, False, str(problem)) for problem in problems[:MOST_LINES]]
    if len(problems) > MOST_LINES:
        faults.append(Check(NAME, False, f"and {len(problems) - MOST_LINES} more"))
    count = len(library.runbooks)
    read = f"{count} runbook{'' if count == 1 else 's'} in {', '.join(directories)}"
    return faults or [Check(NAME, count > 0, f"{read}{_unused_queries_note(library, settings)}")]


def _unused_queries_note(library: RunbookLibrary, settings: Settings) -> str:
    """Queries for connectors that are not set up: no fault, for others may share the files."""
    setup_by_vendor = {
        "prometheus": any(section.url for section in settings.sections(PrometheusSettings)),
        "datadog": any(
            section.api_key and section.app_key for section in settings.sections(DatadogSettings)
        ),
    }
    missing = {name for name, is_set_up in setup_by_vendor.items() if not is_set_up}
    queries = [
        q
        for runbook in library.runbooks.values()
        for q in usable_queries(runbook.keys)
        if q[0] in missing
    ]
    vendors = " and ".join(sorted({q[0] for q in queries}))
    return (
        f"; {len(queries)} of their queries will not be asked: {vendors} is not set up"
        if queries
        else ""
    )
