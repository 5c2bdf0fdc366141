"""What an answer tells people to do: the step, what undoes it, and how to see that it worked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from faultline.analysis.kinds.finding_details import ChangeDetails, StateFactDetails
from faultline.analysis.vocabulary import Alert, Finding, Verdict
from faultline.bot.answer.writer.next_steps import routing_step, who_restores
from faultline.bot.answer.writer.story import Story
from tests.bot.answer.writer.test_names_and_doubts import change
from tests.bot.answer.writer.test_story import ALERT, WEB, diagnosis, found, shift, word

BACK = {
    "Argo CD with self-heal": "Argo CD will restore what is in Git within 3 minutes: "
    "revert it there.",
    "Argo CD": "Argo CD may restore what is in Git within 3 minutes: revert it there.",
    "HorizontalPodAutoscaler web": "HorizontalPodAutoscaler web will set the replicas again: "
    "change its minimum.",
    "VerticalPodAutoscaler web": "VerticalPodAutoscaler web will set requests and limits again: "
    "change its bounds (maxAllowed).",
    "CronJob nightly": "CronJob nightly will do it again at its next run: suspend or change it.",
    "an operator": "An operator may write it back: change it there.",
}


def steps(*findings: Finding, **more: Any) -> list[str]:
    told = diagnosis([(findings[-1].subject, [findings[-1].id])], *findings, **more)
    return [step.text for step in word(told, ALERT).next_steps]


@pytest.mark.parametrize("restorer", BACK)
def test_what_would_undo_the_step_is_named(restorer: str) -> None:
    details = ChangeDetails(change="CE7", restored_by=restorer)
    changed = change("Deploy cart v1.7.0").model_copy(update={"details": details})
    state = found("F2", "web", kind="state", details=StateFactDetails(restored_by=restorer))
    undoes_change = who_restores(Story(None, None, state, changed, None))
    assert undoes_change == BACK[restorer]
    assert who_restores(Story(None, None, state, None, None)) == undoes_change


def test_where_nothing_restores_it_nothing_is_said() -> None:
    restored = found("F2", "web", kind="state", details=StateFactDetails(restored_by="an operator"))
    # Of a blamed change only its own restorer counts.
    assert who_restores(Story(None, None, restored, change("Deploy cart v1"), None)) == ""
    assert who_restores(Story(None, None, None, None, None)) == ""


@pytest.mark.parametrize(
    ("effect", "fixed"),
    [
        (WEB, "Fixed when web's requests succeed again."),
        (
            shift("F1", "web", "latency_p99_ms", "latency", 100, 300),
            "Fixed when web's p99 latency is back near 100 ms.",
        ),
        (
            found(
                "F1", "web", kind="metric_shift", signal="restarts",
                numbers={"baseline": 1.0, "incident": 9.0},
                details={"class": "restarts", "direction": "up", "bad": True},
            ),
            "Fixed when web stops restarting.",
        ),
    ],
)  # fmt: skip
def test_how_to_see_that_it_worked(effect: Finding, fixed: str) -> None:
    cause = shift("F2", "db", "cpu_percent", "cpu", 30, 97)
    assert steps(effect, cause)[0].endswith(f" {fixed}")


def test_of_a_less_likely_cause_the_second_step_follows() -> None:
    cpu, memory = (
        shift("F2", "db", "cpu_percent", "cpu", 30, 97),
        shift("F3", "cart", "memory_percent", "memory", 30, 97),
    )
    causes = [("db", ["F2"]), ("cart", ["F3"])]

    def said(confidence: float, *, same_step: bool) -> list[str]:
        told = diagnosis(causes, WEB, cpu, memory, confidence=confidence)
        second = told.causes[1].model_copy(update={"next_step": "Look." if same_step else "Ask."})
        told = told.model_copy(update={"causes": (told.causes[0], second)})
        return [step.text for step in word(told, ALERT).next_steps]

    first, other = said(0.74, same_step=False)
    assert first.startswith("Look.")
    assert other == "Otherwise, ask."
    assert len(said(0.75, same_step=False)) == 1


def test_after_a_recovery_the_step_prevents_a_repeat() -> None:
    cause = shift("F2", "db", "cpu_percent", "cpu", 30, 97)
    assert steps(WEB, cause, verdict=Verdict.RECOVERED) == ["To prevent a repeat: look."]


def test_while_nothing_is_blamed_the_worst_service_is_looked_at() -> None:
    less = WEB.model_copy(
        update={"id": "F2", "subject": "cart", "numbers": {"baseline": 0.0, "incident": 0.2}}
    )
    told = diagnosis([], WEB, less, verdict=Verdict.INSUFFICIENT_EVIDENCE)
    impact = told.impact.model_copy(update={"findings": ("F2", "F1", "F9")})
    told = told.model_copy(update={"impact": impact})
    (step,) = word(told, ALERT).next_steps
    assert "web" in step.text
    assert step.text.endswith("Then ask again.")
    assert step.findings == ("F1",)
    # What is missing is then what to do something about.
    lacking = told.model_copy(update={"missing": ("traces",)})
    assert word(lacking, ALERT).next_steps == ()


def test_a_quiet_signal_tells_which_threshold_would_not_have_fired() -> None:
    def said(signal: str, **numbers: float) -> list[str]:
        usual = found("F1", "web", kind="alert_in_range", signal=signal, numbers=numbers)
        told = diagnosis([], usual, verdict=Verdict.NO_ACTIVE_INCIDENT)
        return [step.text for step in word(told, ALERT).next_steps]

    assert said("latency_p99_ms", high=300.0) == [
        "Nothing now. If it repeats, set the alert's threshold well above 300 ms."
    ]
    assert said("latency_p99_ms", low=3.0) == []
    assert said("availability", high=100.0) == []


@pytest.mark.parametrize(
    ("labels", "source", "change"),
    [
        (
            {"service": "kube-state-metrics", "exported_job": "web"},
            "its label exported_job",
            "set honorLabels: true in the exporter's ServiceMonitor",
        ),
        (
            {"service": "kube-state-metrics", "deployment": "web"},
            "its label deployment",
            'add to the rule: labels: {service: "{{ $labels.deployment }}"}',
        ),
        (
            {"service": "kube-state-metrics", "deployment": "other"},
            "its label deployment",
            "add to the exporter's ServiceMonitor: "
            "metricRelabelings: [{action: labeldrop, regex: service}]",
        ),
    ],
)
def test_a_label_that_names_the_exporter_is_put_right(
    labels: dict[str, str], source: str, change: str
) -> None:
    alert = Alert(
        source="test", title="web fails", service="web", labels=labels, service_from=source,
        started_at=datetime(2026, 3, 1, 12, tzinfo=UTC),
    )  # fmt: skip
    (step,) = routing_step(alert)
    assert step.text == (
        "The alert's label service names the exporter kube-state-metrics. "
        f"To route it right, {change}"
    )
    assert routing_step(alert.model_copy(update={"labels": {"service": "web"}})) == ()
