"""The page of one finding: its chart, its log lines or a request's spans, its evidence,
what it counts for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from faultline.analysis.case.folder import Case, read_case, read_diagnosis
from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Alert, Cause, Diagnosis, Finding
from faultline.bot.answer.exports.formats import FORMATS, export
from faultline.bot.runtime.threads import in_thread
from faultline.bot.store.store import StoredInvestigation
from faultline.bot.web.finding_view import FindingView, LogLinesView, finding_view, log_lines
from faultline.bot.web.rendering import Site
from faultline.bot.web.span_tree import SpanTree, Trace, example_traces, span_tree

MAX_ID = 200


@dataclass(frozen=True)
class FindingPageView:
    """Everything the page shows."""

    investigation: StoredInvestigation
    alert: Alert
    shown: FindingView
    number: int
    of: int
    newer: str | None
    older: str | None
    causes_for: tuple[Cause, ...]
    causes_against: tuple[Cause, ...]
    in_impact: bool
    logs: LogLinesView | None
    traces: tuple[Trace, ...]
    tree: SpanTree | None
    has_traces: bool
    """Whether the case holds traces of a training job."""
    troubles: tuple[str, ...]


class FindingPage:
    """The handler."""

    def __init__(self, site: Site) -> None:
        self.site = site

    async def finding(self, request: Request) -> Response:
        """One finding."""
        investigation = await self.site.investigation(request)
        if investigation is None:
            return self.site.no_such_investigation(request)
        folder, trouble = await self.site.folder(investigation.id)
        if folder is None:
            return self.site.problem(
                request, 404, "No case folder", trouble or "There is no case folder yet."
            )
        ids = request.path_params["finding_id"], request.query_params.get("trace", "")[:MAX_ID]
        try:
            view = await in_thread(read_finding, investigation, folder, *ids)
        except (FaultlineError, OSError) as error:
            return self.site.problem(request, 404, "This case cannot be read", f"{error}.")
        if view is None:
            return self.site.problem(
                request, 404, "No such finding", "The case holds no finding of this name."
            )
        return self.site.page(request, "finding_page.html", view=view, f=view.shown)


def read_finding(
    investigation: StoredInvestigation, folder: Path, finding_id: str, trace_id: str
) -> FindingPageView | None:
    """Read the case (blocking) and arrange the page; None when it holds no such finding. Raises
    FaultlineError."""
    case, diagnosis = read_case(folder), read_diagnosis(folder)
    ids = [f.id for f in diagnosis.findings]
    if finding_id not in ids:
        return None
    at = ids.index(finding_id)
    finding = diagnosis.findings[at]
    troubles: list[str] = []
    logs, traces, tree = _behind(case, finding, trace_id, troubles)
    return FindingPageView(
        investigation=investigation,
        alert=case.alert,
        shown=finding_view(finding, {e.id: e for e in case.evidence}),
        number=at + 1,
        of=len(ids),
        newer=ids[at - 1] if at else None,
        older=ids[at + 1] if at + 1 < len(ids) else None,
        causes_for=_causes(diagnosis, finding_id, against=False),
        causes_against=_causes(diagnosis, finding_id, against=True),
        in_impact=finding_id in diagnosis.impact.findings,
        logs=logs,
        traces=traces,
        tree=tree,
        has_traces=bool(case.trace_files),
        troubles=tuple(troubles),
    )


def _behind(
    case: Case, finding: Finding, trace_id: str, troubles: list[str]
) -> tuple[LogLinesView | None, tuple[Trace, ...], SpanTree | None]:
    """What was recorded; a table that cannot be read is a trouble, and the rest of the page
    stands."""
    try:
        traces = example_traces(case, finding)
        chosen = trace_id or (traces[0].id if traces else "")
        behind = (
            log_lines(case, finding),
            traces,
            span_tree(case, finding, chosen) if chosen else None,
        )
        # Gaps beyond the recorded ones came up while these tables were read.
        unread = case.gaps[len(case.recorded_gaps) :]
        troubles += [f"What was recorded cannot be read in full. {g.reason}." for g in unread]
        return behind
    except FaultlineError as error:
        troubles.append(f"What was recorded cannot be read. {error}.")
        return None, (), None


def _causes(diagnosis: Diagnosis, finding_id: str, *, against: bool) -> tuple[Cause, ...]:
    return tuple(
        c for c in diagnosis.causes if finding_id in (c.contradicting if against else c.findings)
    )


# An answer for elsewhere, to download: postmortem draft, JSON, task for a coding agent. The same
# bytes each time.

BY_FILE = {export_format.file: name for name, export_format in FORMATS.items()}


class ExportPage:
    """The handler of `/investigations/{id}/export/{file}`."""

    def __init__(self, site: Site) -> None:
        self.site = site

    async def export(self, request: Request) -> Response:
        """One file."""
        investigation = await self.site.investigation(request)
        if investigation is None:
            return self.site.no_such_investigation(request)
        name = BY_FILE.get(request.path_params["file"])
        if name is None:
            return self.site.problem(
                request, 404, "No such export", f"There are {', '.join(BY_FILE)}."
            )
        if investigation.status != "done":
            return self.site.problem(
                request, 409, "Not yet", "This investigation has no answer to export."
            )
        folder, trouble = await self.site.folder(investigation.id)
        if folder is None:
            return self.site.problem(
                request, 404, "No case folder", trouble or "There is no case folder."
            )
        try:
            written = await in_thread(export, folder, name)
        except (FaultlineError, OSError) as error:
            return self.site.problem(
                request, 404, "No export", f"The case cannot be read: {error}."
            )
        headers = {
            "content-disposition": f'attachment; filename="{investigation.id}-{FORMATS[name].file}"'
        }
        return Response(
            written, media_type=f"{FORMATS[name].media_type}; charset=utf-8", headers=headers
        )
