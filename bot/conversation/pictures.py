"""The picture that belongs to an answer in a thread, drawn as the pictures of answers are."""

from __future__ import annotations

from pathlib import Path

from faultline.analysis.case.folder import Case, read_case, read_diagnosis
from faultline.analysis.vocabulary import Diagnosis, Finding
from faultline.bot.intake.questions.slack_question import AnswerText

OF_A_SERIES = "series"
"""Id of the finding that stands for a series about which there is none."""


def drawn(answer: AnswerText, folder: Path) -> bytes | None:
    """The PNG of the finding or the series that the answer is about; None when it has no points."""
    # Late: loading what draws takes half a second, and most answers have no picture.
    from faultline.bot.answer.pictures.png import finding_png

    case, diagnosis = read_case(folder), read_diagnosis(folder)
    if answer.picture is None:
        return finding_png(case, diagnosis, answer.chart or "")
    finding = finding_of_series(case, diagnosis, *answer.picture)
    shown = diagnosis.model_copy(update={"findings": (*diagnosis.findings, finding)})
    return finding_png(case, shown, finding.id)


def finding_of_series(case: Case, diagnosis: Diagnosis, service: str, signal: str) -> Finding:
    """The strongest finding about a series of metrics; for a series that did not move, one that
    only names it."""
    about = [
        finding
        for finding in diagnosis.findings
        if finding.series.get("table") == "metrics"
        and (finding.series.get("service"), finding.series.get("signal")) == (service, signal)
    ]
    if about:
        return max(about, key=lambda finding: finding.strength)
    series = {"table": "metrics", "service": service, "signal": signal}
    return Finding(
        id=OF_A_SERIES,
        kind="metric_shift",
        subject=service,
        signal=signal,
        sentence=f"{signal} of {service}",
        strength=0.0,
        series=series,
    )
