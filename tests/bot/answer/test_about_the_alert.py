"""What is odd about the alert itself stands in the answer, with what to change."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faultline.analysis.vocabulary import Alert, Diagnosis, Impact, Section, Verdict
from faultline.bot.answer.writer.built_in import word

AT = datetime(2026, 11, 28, 14, 0, tzinfo=UTC)
NOTHING = Diagnosis(
    verdict=Verdict.INSUFFICIENT_EVIDENCE,
    confidence=0.0,
    causes=(),
    findings=(),
    impact=Impact(sentence="", findings=()),
)


def alert(**fields: object) -> Alert:
    given = {"source": "alertmanager", "title": "Rule", "started_at": AT, "service": "ledger"}
    return Alert.model_validate({**given, **fields})


def test_a_note_is_among_the_doubts() -> None:
    claims = word(NOTHING, alert(notes=("The sender's clock is ahead of ours.",))).claims
    shown = [claim.text for claim in claims if claim.section is Section.UNSURE]
    assert any("clock is ahead" in text for text in shown)


@pytest.mark.parametrize(
    ("source", "labels", "change"),
    [
        ("deployment", {"deployment": "ledger"}, 'labels: {service: "{{ $labels.deployment }}"}'),
        ("exported_container", {"exported_container": "ledger"}, "honorLabels: true"),
        ("pod", {"pod": "ledger-0"}, "metricRelabelings: [{action: labeldrop, regex: service}]"),
    ],
)
def test_a_label_that_misroutes_comes_with_its_rule(
    source: str, labels: dict[str, str], change: str
) -> None:
    routed = alert(
        service_from=f"its label {source}",
        labels={"service": "mon-kube-state-metrics", "job": "kube-state-metrics", **labels},
    )
    assert change in word(NOTHING, routed).next_steps[-1].text
    assert not word(NOTHING, alert(labels={"service": "ledger"})).next_steps
