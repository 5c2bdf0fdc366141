"""Whether a claim is true, read off a case's own tables: no finding and no check of the guard is
asked, so that the guard can be graded.
"""

from __future__ import annotations

import re
from datetime import datetime

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import metric_windows
from faultline.analysis.kinds.finding_details import change_named
from faultline.analysis.vocabulary import Assertion, Finding
from faultline.evaluation.labels import CaseLabel

MOVED = 0.02
"""A smaller move of a level has no direction."""
HIGH, LOW = 0.9, 0.1
"""Quantiles of the incident that a rise and a fall are read from: a move may end before the window
does."""
_SPACE = re.compile(r"\s+")


def is_true(
    assertion: Assertion, findings: dict[str, Finding], case: Case, label: CaseLabel | None
) -> bool | None:
    """Whether the tables bear the assertion out; None where they do not tell."""
    # A claim may cite the alert too, which is no finding.
    cited_ids = [finding for finding in assertion.findings if finding != "alert"]
    if not findings.keys() >= set(cited_ids):
        return False
    cited_findings = [findings[finding] for finding in cited_ids]
    match assertion.relation:
        case "rose" | "fell" if cited_findings:
            return _moved(cited_findings[0], case, up=assertion.relation == "rose")
        case "quotes":
            return _holds(assertion, cited_findings, case)
        case "calls" if len(assertion.subjects) == 2:
            return _calls(assertion.subjects, case)
        case "changed" if cited_findings:
            return change_named(cited_findings[0]) in case.changes["id"].to_list()
        case "unchanged":
            return not set(assertion.subjects) & set(case.changes["service"].to_list())
        case "unaffected" if assertion.subjects:
            return all(_is_calm(subject, case) for subject in assertion.subjects)
        case "began_before":
            return _before(assertion, findings, case)
        case "explained_by":
            return _is_explained(cited_findings, label)
        case _:
            return None


def _moved(finding: Finding, case: Case, *, up: bool) -> bool | None:
    if not finding.signal:
        return None
    rows = case.metrics.filter(
        pl.col("service") == finding.subject,
        pl.col("signal") == finding.signal,
        pl.col("value").is_finite(),
    )
    windows = metric_windows(case)
    before = rows.filter(windows.in_baseline("time"))["value"].median()
    # The quantile, not the largest: a single point is no move.
    after = rows.filter(windows.in_search("time"))["value"].quantile(HIGH if up else LOW)
    if not isinstance(before, float) or after is None:
        return None
    slack = MOVED * max(abs(before), abs(after))
    return after - before > slack if up else before - after > slack


def _holds(assertion: Assertion, cited_findings: list[Finding], case: Case) -> bool:
    words = _plain(assertion.quote)
    texts = [case.alert.title, case.alert.summary or ""]
    # A quotation may come from any text of the cited service.
    if cited_findings:
        subject = cited_findings[0].subject
        texts = case.logs.filter(pl.col("service") == subject)["message"].to_list()
        changes = case.changes.filter(pl.col("service") == subject)
        for column in ("title", "diff"):
            texts += [text for text in changes[column].to_list() if text]
        texts += [text for text in case.states["value"].to_list() if text]
    return any(words in _plain(text) for text in texts)


def _plain(text: str) -> str:
    return _SPACE.sub(" ", text).strip().casefold()


def _calls(pair: tuple[str, ...], case: Case) -> bool | None:
    topology = case.topology.filter(pl.col("caller") == pair[0], pl.col("callee") == pair[1])
    if topology.height:
        return True
    if not case.spans.height:
        return None
    spans = case.spans.select("span_id", "parent_id", "service", "trace_id")
    edges = spans.join(
        spans, left_on=["trace_id", "parent_id"], right_on=["trace_id", "span_id"], suffix="_of"
    )
    matches = edges.filter(pl.col("service_of") == pair[0], pl.col("service") == pair[1])
    return bool(matches.height)


def _is_calm(service: str, case: Case) -> bool:
    """Whether the middle of each of its series stayed between the baseline's lowest and highest."""
    windows = metric_windows(case)
    rows = case.metrics.filter(pl.col("service") == service, pl.col("value").is_finite())
    key = ["signal", "labels"]
    before = rows.filter(windows.in_baseline("time")).group_by(key)
    after = rows.filter(windows.in_search("time")).group_by(key)
    both = before.agg(low=pl.col("value").min(), high=pl.col("value").max()).join(
        after.agg(middle=pl.col("value").median()), on=key, nulls_equal=True
    )
    left = both.filter((pl.col("middle") < pl.col("low")) | (pl.col("middle") > pl.col("high")))
    return bool(rows.height) and not left.height


def _is_explained(cited_findings: list[Finding], label: CaseLabel | None) -> bool | None:
    """Whether the second finding is about the culprit; None where the label names none."""
    if label is None or not label.subject or len(cited_findings) != 2:
        return None
    cause = cited_findings[1]
    return cause.subject == label.subject or change_named(cause) == label.change


def _before(assertion: Assertion, findings: dict[str, Finding], case: Case) -> bool | None:
    times = [_first(finding, findings, case) for finding in assertion.findings]
    if len(times) != 2 or times[0] is None or times[1] is None:
        return None
    return times[0] < times[1]


def _first(finding_id: str, findings: dict[str, Finding], case: Case) -> datetime | None:
    """When a change went live, or the alert fired: other beginnings are estimates of code."""
    if finding_id == "alert":
        return case.alert.started_at
    change = change_named(findings[finding_id])
    if change is None:
        return None
    time = case.changes.filter(pl.col("id") == change)["time"].min()
    return time if isinstance(time, datetime) else None
