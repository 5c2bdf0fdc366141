"""What an investigation runs in the process pool: analysis and ranking, the words and the picture.

These functions import late: not whoever asks pays for it, but the processes of the pool, or the
nursery that forks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faultline.analysis.case.calls import CallList
    from faultline.analysis.case.rounds import Lead
    from faultline.analysis.vocabulary import Diagnosis, Report

CHART = "charts/decisive.png"


def load() -> None:
    """Import what these functions need."""
    import faultline.bot.answer.pictures.png
    import faultline.bot.answer.writer.markdown  # noqa: F401
    from faultline.analysis.analyzers import analyzers

    analyzers()


@dataclass(frozen=True)
class Analysis:
    """The diagnosis of a case, who calls whom in it, where its evidence leads, and which services
    fail that the alerting one may call."""

    diagnosis: Diagnosis
    calls: CallList
    leads: Sequence[Lead]
    failing_peers: Sequence[str]


def analyze_with_leads(folder: Path) -> Analysis:
    """Diagnose the case in `folder`."""
    from faultline.analysis.case.alert_place import place_of
    from faultline.analysis.case.calls import MOST_WRITTEN, CallList
    from faultline.analysis.case.folder import read_case
    from faultline.analysis.diagnosis import diagnose
    from faultline.analysis.ranking.failing_peers import failing_peers
    from faultline.analysis.ranking.leads import leads_of
    from faultline.analysis.requests.topology import case_calls

    case = read_case(folder)
    diagnosis = diagnose(case)
    calls = case_calls(case)
    listed_calls = CallList(place=place_of(case.alert), calls=calls[:MOST_WRITTEN])
    leads = leads_of(case, diagnosis, calls)
    return Analysis(diagnosis, listed_calls, leads, failing_peers(case, diagnosis))


def analyze_case(folder: Path) -> Diagnosis:
    """Diagnose the case in `folder`."""
    from faultline.analysis.case.folder import read_case
    from faultline.analysis.diagnosis import diagnose

    return diagnose(read_case(folder))


@dataclass(frozen=True)
class WrittenAnswer:
    """By the built-in writer, with the picture where there is one."""

    report: Report
    markdown: str
    chart: bytes | None


def write_answer(folder: Path) -> WrittenAnswer:
    """Word the answer to a case that has been diagnosed, and draw its picture."""
    from faultline.analysis.case.folder import read_calls, read_case, read_diagnosis
    from faultline.bot.answer.guidance import with_guidance
    from faultline.bot.answer.pictures.png import answer_png
    from faultline.bot.answer.view import answer_view
    from faultline.bot.answer.writer.built_in import word
    from faultline.bot.answer.writer.guard import keep_supported
    from faultline.bot.answer.writer.markdown import to_markdown

    case, diagnosis = read_case(folder), read_diagnosis(folder)
    report = word(diagnosis, case.alert, case.gaps)
    # The built-in report passes the same guard as a model's.
    report = keep_supported(report, diagnosis, case.alert, gaps=case.gaps)
    report = with_guidance(report, case.runbooks)
    view = answer_view(case.alert, diagnosis, report, gaps=case.gaps, evidence=case.evidence)
    return WrittenAnswer(report, to_markdown(view), answer_png(case, diagnosis, read_calls(folder)))


def render_chart(folder: Path) -> bytes | None:
    """The picture of a case that has been diagnosed: its map and its decisive chart, as PNG."""
    from faultline.analysis.case.folder import read_calls, read_case, read_diagnosis
    from faultline.bot.answer.pictures.png import answer_png

    return answer_png(read_case(folder), read_diagnosis(folder), read_calls(folder))
