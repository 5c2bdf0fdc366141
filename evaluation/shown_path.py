"""Whether an answer shows how the culprit came to raise the alert: every hop between the two.

A right name may be luck; a reader trusts, and can check, the chain of calls that leads to it. The
idea is OpenRCA 2.0's, which grades the path beside the cause. A hop is shown when the answer names
it: in its words, among what it calls affected, or in the evidence of its first cause.
"""

from __future__ import annotations

from collections.abc import Sequence

from faultline.analysis.vocabulary import Diagnosis, Report
from faultline.bot.answer.writer.quotable import folded, named_in


def path_shown(path: Sequence[str], diagnosis: Diagnosis, report: Report) -> bool | None:
    """Whether every service of the path is shown; None for a path without a call."""
    if len(path) < 2:
        return None
    text = folded("\n".join(_shown(diagnosis, report)))
    return all(named_in(folded(service), text) for service in path)


def _shown(diagnosis: Diagnosis, report: Report) -> list[str]:
    shown = [report.headline, diagnosis.impact.sentence, *diagnosis.impact.services]
    shown += [claim.text for claim in report.claims]
    if not diagnosis.causes:
        return shown
    first = diagnosis.causes[0]
    shown += [first.subject, first.summary]
    for finding in diagnosis.findings:
        if finding.id in first.findings:
            shown += [finding.subject, finding.sentence]
    return shown
