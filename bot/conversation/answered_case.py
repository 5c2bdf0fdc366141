"""One answered investigation when somebody asks about it: its case, its diagnosis, its report, and
links to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from faultline.analysis.case.folder import Case, read_case, read_diagnosis, read_report
from faultline.analysis.vocabulary import Cause, Diagnosis, Evidence, Finding, Report
from faultline.bot.answer.foreign_text import safe_url, sentence, single_line
from faultline.bot.answer.lines import SHOWN_BY
from faultline.bot.answer.view import AnswerView, answer_view
from faultline.bot.intake.questions.slack_question import AnswerLine
from faultline.bot.policy.services import Teams
from faultline.bot.settings import Settings
from faultline.bot.store.store import StoredInvestigation

LINE = 400
MAX_NAMES = 2_000
LINKS = 3


@dataclass(frozen=True)
class AnsweredCase:
    """One answered investigation. `newer_runs` when a follow-up in the same thread has no answer
    yet."""

    investigation: StoredInvestigation
    case: Case
    diagnosis: Diagnosis
    report: Report
    page_url: str
    now: datetime
    newer_runs: bool = False
    teams: Mapping[str, str] = field(default_factory=dict)
    """Team by service in small letters, as the settings have them."""

    @cached_property
    def view(self) -> AnswerView:
        """What the answer says."""
        case = self.case
        return answer_view(
            case.alert, self.diagnosis, self.report, gaps=case.gaps, evidence=case.evidence
        )

    @property
    def findings(self) -> Mapping[str, Finding]:
        """By id."""
        return self.view.findings

    @property
    def causes(self) -> Sequence[Cause]:
        """The likeliest first; none where nothing is wrong: what moved then is no suspect."""
        return self.view.suspects

    @property
    def first(self) -> Cause | None:
        """The likeliest cause."""
        return self.causes[0] if self.causes else None

    @cached_property
    def services(self) -> tuple[str, ...]:
        """Every service that the case knows by name, and what findings and causes are about."""
        case = self.case
        # A dict, not a set: its order decides which names stay.
        names: dict[object, None] = dict.fromkeys([case.alert.service, *case.scope.services])
        names |= dict.fromkeys(c.subject for c in self.causes)
        names |= dict.fromkeys(f.subject for f in self.findings.values())
        for table in (case.metrics, case.logs, case.spans):
            names |= dict.fromkeys(table["service"].drop_nulls().unique().sort().to_list())
        names |= dict.fromkeys(
            [*case.topology["caller"].to_list(), *case.topology["callee"].to_list()]
        )
        named = [n for n in names if isinstance(n, str) and n][:MAX_NAMES]
        return tuple(
            dict.fromkeys([*named, *(n.rpartition("/")[2] for n in named)])
        )  # `job/rank 2` is rank 2

    @cached_property
    def signals(self) -> tuple[str, ...]:
        """Every signal of the case by name."""
        return tuple(self.case.metrics["signal"].drop_nulls().unique().sort().to_list())[:MAX_NAMES]

    def some(self, ids: Iterable[str]) -> list[Finding]:
        """The findings with these ids, in that order; unknown ids are left out."""
        return [self.findings[i] for i in dict.fromkeys(ids) if i in self.findings]

    def line(self, finding: Finding, bold: str = "") -> AnswerLine:
        """A finding's own sentence, with its links."""
        return self.statement(finding.sentence, (finding.id,), bold)

    def statement(self, text: str, ids: Sequence[str] = (), bold: str = "") -> AnswerLine:
        """A sentence that rests on findings, with links to them."""
        finding_ids = [f.id for f in self.some(ids)]
        return AnswerLine(
            text=sentence(text, LINE),
            findings=tuple(finding_ids),
            links=self.links(finding_ids),
            bold=bold,
        )

    def links(self, ids: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """To the first findings on the page, each called by what shows it, and to the first
        evidence of theirs that has an address at its vendor."""
        links: dict[str, str] = {}
        cited: list[Evidence] = []
        for finding_id in ids[:LINKS]:
            items = [self.view.evidence.get(e) for e in self.findings[finding_id].evidence]
            evidence = [item for item in items if item is not None]
            called = SHOWN_BY.get(evidence[0].kind, "evidence") if evidence else "finding"
            links.setdefault(called, f"{self.page_url}#{quote(finding_id, safe='')}")
            cited += evidence
        linked = next((item for item in cited if safe_url(item.link)), None)
        if linked is not None:
            links[single_line(linked.source, 40)] = linked.link or ""
        # Addresses come from vendors: only plain ones become links.
        safe = ((title, safe_url(url)) for title, url in links.items())
        return tuple((title, url) for title, url in safe if url)


def load_case(
    investigation: StoredInvestigation,
    folder: Path,
    settings: Settings,
    *,
    now: datetime,
    newer_runs: bool = False,
) -> AnsweredCase:
    """Read an answered investigation's folder. Raises EvidenceError."""
    return AnsweredCase(
        investigation=investigation,
        case=read_case(folder),
        diagnosis=read_diagnosis(folder),
        report=read_report(folder),
        page_url=page_url(settings, investigation.id),
        now=now,
        newer_runs=newer_runs,
        teams=Teams.of(settings).services,
    )


def page_url(settings: Settings, investigation_id: str) -> str:
    """An investigation's web page."""
    return f"{settings.server.public_url}/investigations/{investigation_id}"
