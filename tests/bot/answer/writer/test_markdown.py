from __future__ import annotations

from faultline.analysis.vocabulary import Evidence, Verdict, Window
from faultline.bot.answer.view import answer_view
from faultline.bot.answer.writer.built_in import word
from faultline.bot.answer.writer.markdown import to_markdown
from tests.bot.answer.writer.diagnoses import (
    ALERT,
    DIAGNOSIS,
    GAPS,
    HOSTILE,
    ONSET,
    poisoned,
    with_verdict,
)

EVIDENCE = (
    Evidence(
        id="E1",
        kind="metrics",
        source="prometheus",
        query="histogram_quantile(0.99, x)",
        window=Window(start=ONSET, end=ONSET),
        link="https://prometheus.example/graph?q=a b)",
        rows=120,
    ),
)


def test_the_document_holds_the_whole_answer_in_reading_order() -> None:
    report = word(DIAGNOSIS, ALERT, GAPS).model_copy(
        update={"dropped": ('claim "x": cites no finding',)}
    )
    text = to_markdown(answer_view(ALERT, DIAGNOSIS, report, gaps=GAPS, evidence=EVIDENCE))
    sections = [
        "# Deploy",
        "## What's happening",
        "## Why",
        "## Do next",
        "## Not sure about",
        "## Causes",
        "## Findings",
        "## Evidence",
        "## Evidence we could not collect",
    ]
    places = [text.index(s) for s in [*sections, "## Removed from the report"]]
    assert places == sorted(places)
    assert "**Likely cause**: Likely (62 %)" in text
    assert "[F1](#f1)" in text
    assert (
        '<a id="f1"></a>**F1** checkoutservice http\\_server\\_duration\\_p99\\_ms rose from 213.7'
        in text
    )
    assert "([open](https://prometheus.example/graph?q=a%20b%29))" in text
    assert "HTTP 403, apm\\_read is missing" in text


def test_what_is_missing_is_told() -> None:
    diagnosis = with_verdict(Verdict.INSUFFICIENT_EVIDENCE, causes=(), missing=("Needed: logs.",))
    text = to_markdown(
        answer_view(ALERT, diagnosis, word(diagnosis, ALERT, ()), gaps=(), evidence=())
    )
    assert "## What is missing\n\n- Needed: logs." in text
    assert "## Causes" not in text


def test_nothing_foreign_becomes_mark_up() -> None:
    diagnosis, alert = (
        poisoned(),
        ALERT.model_copy(update={"title": HOSTILE, "service": "a|b<img src=x>"}),
    )
    gaps = (GAPS[0].model_copy(update={"reason": HOSTILE}),)
    evidence = (EVIDENCE[0].model_copy(update={"link": "javascript:alert(1)", "query": HOSTILE}),)
    text = to_markdown(
        answer_view(alert, diagnosis, word(diagnosis, alert, gaps), gaps=gaps, evidence=evidence)
    )
    assert "<img" not in text
    assert "evil.example|docs" not in text
    assert "](javascript" not in text
    assert "://evil" not in text
    assert "<!here>" not in text
    assert "`" not in text
    assert "@channel" not in text
