"""Which findings an answer's first sentence is made of, and which it leaves out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from faultline.analysis.vocabulary import Alert, Cause, Diagnosis, Finding, Impact, Verdict
from faultline.bot.answer.view import answer_view
from faultline.bot.answer.writer.built_in import word

ALERT = Alert(
    source="test", title="web fails", service="web", started_at=datetime(2026, 3, 1, 12, tzinfo=UTC)
)
FAILS: dict[str, Any] = {
    "kind": "metric_shift", "signal": "error_ratio", "strength": 0.9,
    "numbers": {"baseline": 0.0, "incident": 0.4},
    "details": {"class": "errors", "direction": "up", "bad": True},
}  # fmt: skip


def found(id: str, subject: str, **given: Any) -> Finding:
    return Finding(id=id, subject=subject, **{"sentence": f"{id}.", "strength": 0.8, **given})


def shift(id: str, subject: str, signal: str, kind: str, before: float, now: float) -> Finding:
    return found(
        id, subject, kind="metric_shift", signal=signal,
        numbers={"baseline": before, "incident": now, "ratio": now / before},
        details={"class": kind, "direction": "up", "bad": True},
    )  # fmt: skip


def line(id: str, subject: str, example: str, **details: Any) -> Finding:
    given = {"is_error": True, "bad": True, "class": "errors", "lines": 9, "example": example}
    return found(
        id, subject, kind="log_new", sentence=example, numbers={"lines": 9.0},
        details={**given, **details},
    )  # fmt: skip


def diagnosis(
    causes: list[tuple[str, list[str]]],
    *findings: Finding,
    confidence: float = 0.6,
    verdict: Verdict = Verdict.CAUSE_FOUND,
    missing: tuple[str, ...] = (),
) -> Diagnosis:
    ranked = []
    for rank, (subject, cited) in enumerate(causes, start=1):
        ranked.append(
            Cause(
                rank=rank,
                subject=subject,
                kind="errors",
                confidence=confidence / rank,
                summary="?",
                next_step="Look.",
                findings=tuple(cited),
            )
        )
    return Diagnosis(
        verdict=verdict,
        confidence=confidence,
        causes=tuple(ranked),
        findings=findings,
        impact=Impact(sentence="?", services=("web",), findings=("F1",)),
        missing=missing,
    )


WEB = found("F1", "web", **FAILS)
CALLS = found(
    "F2", "bank", kind="calls_into", numbers={"lines": 9.0},
    details={"callers": ["web"], "lines": 9, "bad": True},
)  # fmt: skip
EXPIRED = found(
    "F3", "web", kind="failure_signature", numbers={"lines": 9.0},
    details={
        "signature": "certificate_expired", "meaning": "a certificate has expired", "lines": 9,
        "example": "x509: certificate has expired: https://bank/charge", "is_error": True,
        "class": "errors", "bad": True,
    },
)  # fmt: skip


def headline(told: Diagnosis) -> str:
    return word(told, ALERT).headline


def test_why_calls_fail_comes_before_that_they_fail() -> None:
    told = diagnosis([("bank", ["F2"]), ("web", ["F3"])], WEB, CALLS, EXPIRED)
    assert headline(told) == (
        "40 % of web's requests fail, probably because bank's certificate has expired."
    )
    # The caller that logs it stands at the other end of the same calls.
    assert [claim.text for claim in word(told, ALERT).claims if "could also be" in claim.text] == [
        "It could also be web itself (30 %), which makes the failing calls to bank."
    ]


def test_a_line_that_names_another_host_says_nothing_of_this_one() -> None:
    details = EXPIRED.details.model_copy(update={"example": "x509: expired: https://other"})
    other = EXPIRED.model_copy(update={"details": details})
    told = diagnosis([("bank", ["F2"])], WEB, CALLS, other)
    assert "calls from web to bank fail" in headline(told)


def test_an_error_that_it_logs_comes_before_a_busier_cpu() -> None:
    logged = line("F2", "db", "processing failed: bad offset 7")
    busier = shift("F3", "db", "cpu_percent", "cpu", 30, 70)
    told = diagnosis([("db", ["F2", "F3"])], WEB, logged, busier)
    assert headline(told) == (
        "40 % of web's requests fail; db logs “processing failed: bad offset 7”."
    )
    used_up = shift("F3", "db", "cpu_percent", "cpu", 30, 97)
    told = diagnosis([("db", ["F2", "F3"])], WEB, logged, used_up)
    assert headline(told).endswith("because db is out of CPU.")


def test_requests_that_rose_as_much_explain_a_busier_cpu() -> None:
    busier = shift("F2", "db", "cpu_percent", "cpu", 30, 70)
    more = shift("F3", "db", "requests_per_sec", "traffic", 100, 240)
    told = diagnosis([("db", ["F2", "F3"])], WEB, busier, more)
    assert headline(told).endswith("because db's request rate rose 2.4x.")


@pytest.mark.parametrize(
    ("now", "is_said"), [(0.9, True), (0.04, False)], ids=["much used", "hardly used"]
)
def test_a_pool_that_is_hardly_used_explains_nothing(now: float, *, is_said: bool) -> None:
    pool = shift("F2", "db", "db.pool.utilization", "connections", 0.01, now)
    told = diagnosis([("db", ["F2"])], WEB, pool)
    assert ("utilization" in headline(told)) is is_said


def test_a_service_without_instances_is_down_whatever_its_latency() -> None:
    slow = shift("F1", "web", "latency_p99_ms", "latency", 10, 25)
    reason = found(
        "F2", "web", kind="start_state", sentence="Pod a/web-1 cannot start.",
        details={"fact": "reference_missing", "objects": ["Pod a/web-1"], "bad": True,
                 "value": 'secret "web-key" not found'},
    )  # fmt: skip
    none = found(
        "F3", "web", kind="placing_state", sentence="Deployment a/web has 0 of 2 instances.",
        details={"fact": "replicas_missing", "objects": ["Deployment a/web"], "bad": True,
                 "value": "0", "expected": "2"},
    )  # fmt: skip
    told = diagnosis([("web", ["F2", "F1", "F3"])], slow, reason, none, confidence=0.95)
    assert headline(told) == (
        "web is down (0 of 2 instances) because its Secret web-key does not exist."
    )
    assert word(told, ALERT).next_steps[0].text.endswith("Fixed when all instances of web run.")


def test_a_deploy_that_took_a_service_down_is_told_with_what_keeps_it_from_starting() -> None:
    reason = found(
        "F2", "web", kind="start_state", sentence="Pod a/web-1 cannot start.", strength=1.0,
        details={"fact": "reference_missing", "objects": ["Pod a/web-1"], "bad": True,
                 "value": 'secret "web-key" not found'},
    )  # fmt: skip
    none = found(
        "F3", "web", kind="placing_state", sentence="Deployment a/web has 0 of 2 instances.",
        details={"fact": "replicas_missing", "objects": ["Deployment a/web"], "bad": True,
                 "value": "0", "expected": "2"},
    )  # fmt: skip
    no_endpoint = found(
        "F5", "web", kind="route_state", sentence="Service a/web has no ready endpoint.",
        details={"fact": "no_ready_endpoints", "objects": ["Service a/web"], "bad": True},
    )  # fmt: skip
    deploy = found(
        "F4", "web", kind="change_near", signal="deploy", onset=ALERT.started_at,
        details={"change": "web-66b7", "change_kind": "deploy", "before": "2.1.0",
                 "after": "2.2.0", "title": "Rollout of web: image web:2.1.0 -> web:2.2.0"},
    )  # fmt: skip
    found_all = [WEB, no_endpoint, reason, none, deploy]
    told = diagnosis([("web", ["F4", "F5", "F3", "F2"])], *found_all, confidence=0.95)
    causes = (told.causes[0].model_copy(update={"change": "web-66b7"}),)
    assert headline(told.model_copy(update={"causes": causes})) == (
        "Deploy of web 2.2.0 took it down (0 of 2 instances): its Secret web-key does not exist."
    )


def test_a_full_heap_says_more_than_that_garbage_collection_takes_longer() -> None:
    gc = shift("F2", "web", "gc_time_ratio", "cpu", 0.004, 0.6)
    heap = found(
        "F3", "web", kind="failure_signature", numbers={"lines": 40.0}, strength=0.7,
        details={"signature": "jvm_out_of_memory", "meaning": "a Java process ran out of heap",
                 "own": True, "lines": 40, "is_error": True, "bad": True, "example": "no heap"},
    )  # fmt: skip
    told = diagnosis([("web", ["F2", "F3", "F1"])], WEB, gc, heap, confidence=0.95)
    assert headline(told).endswith("it logs that a Java process ran out of heap.")


def test_a_change_is_told_by_what_it_did_to_its_service_and_not_by_its_callers() -> None:
    slow = shift("F2", "pay", "latency_p50_ms", "latency", 35, 3100)
    few_fail = found("F6", "pay", **{**FAILS, "numbers": {"baseline": 0.0, "incident": 0.02}})
    calls = found(
        "F3", "pay", kind="calls_into", numbers={"lines": 9.0}, strength=0.9,
        details={"callers": ["web"], "lines": 9, "bad": True},
    )  # fmt: skip
    deploy = found(
        "F4", "pay", kind="change_near", signal="deploy", onset=ALERT.started_at,
        details={"change": "pay-66b7", "change_kind": "deploy", "before": "3.9", "after": "4.0",
                 "title": "Rollout of pay: image pay:3.9 -> pay:4.0"},
    )  # fmt: skip
    told = diagnosis(
        [("pay", ["F3", "F4", "F6", "F2"])], WEB, few_fail, slow, calls, deploy, confidence=0.95
    )
    causes = (told.causes[0].model_copy(update={"change": "pay-66b7"}),)
    text = headline(told.model_copy(update={"causes": causes}))
    assert text.startswith("Deploy of pay 4.0 made 40 % of web's requests fail: pay")
    assert "slower" in text


def test_a_victim_whose_line_accuses_another_is_no_other_candidate() -> None:
    own = line("F2", "db", "disk is full")
    victim = line("F3", "cart", "request to pay timed out", names="pay")
    accused = line("F3", "cart", "bad request: no such field")
    first = [("db", ["F2"]), ("cart", ["F3"])]
    said = [one.text for one in word(diagnosis(first, WEB, own, victim), ALERT).claims]
    assert not [text for text in said if "could also be" in text]
    said = [one.text for one in word(diagnosis(first, WEB, own, accused), ALERT).claims]
    assert [text for text in said if text.startswith("It could also be cart: it logs")]


def test_two_places_with_the_same_services_are_told_in_few_words() -> None:
    at = {"services": ["pay", "cart"], "services_there": 2, "bad": True}
    zone = found("F2", "eu-1", kind="place_contrast", details={**at, "place_kind": "zone"})
    node = found("F3", "node-4", kind="place_contrast", details={**at, "place_kind": "node"})
    told = diagnosis([("eu-1", ["F2"]), ("node-4", ["F3"])], WEB, zone, node, confidence=0.4)
    assert headline(told) == (
        "40 % of web's requests fail, possibly because pay and cart are in trouble in zone eu-1 "
        "and not elsewhere."
    )
    texts = [claim.text for claim in word(told, ALERT).claims]
    assert (
        "It could also be node-4: the same services are in trouble there and not elsewhere."
    ) in texts


def test_what_is_missing_does_not_repeat_a_signal_that_stopped() -> None:
    stopped = found(
        "F1", "web", kind="signal_stopped", signal="error_ratio", numbers={"minutes": 10.0}
    )
    told = diagnosis(
        [], stopped, verdict=Verdict.INSUFFICIENT_EVIDENCE, missing=("The error rate stopped.",)
    )
    view = answer_view(ALERT, told, word(told, ALERT))
    assert view.missing == ()


def test_the_effect_is_the_alerting_service_s_where_the_impact_measures_none() -> None:
    own = found("F1", "db", **FAILS)
    alerting = found("F2", "web", **{**FAILS, "strength": 0.1})
    restarted = found(
        "F3", "db", kind="metric_shift", signal="container_restarts",
        numbers={"baseline": 0.0, "incident": 3.0},
        details={"class": "restarts", "direction": "up", "bad": True},
    )  # fmt: skip
    told = diagnosis([("db", ["F3", "F1"])], own, alerting, restarted)
    told = told.model_copy(update={"impact": Impact(sentence="?", services=("web",))})
    assert headline(told) == ("40 % of web's requests fail, probably because db keeps restarting.")


def test_a_single_restart_at_another_time_is_no_mechanism() -> None:
    for agreement, because in ((0.8, "because db restarted."), (0.05, "why is not known yet.")):
        once = found(
            "F2", "db", kind="metric_shift", signal="container_restarts",
            numbers={"baseline": 0.0, "incident": 1.0},
            details={"class": "restarts", "direction": "up", "bad": True, "agreement": agreement},
        )  # fmt: skip
        assert headline(diagnosis([("db", ["F2"])], WEB, once)).endswith(because)


def test_without_a_cause_the_step_is_to_read_the_service_that_fails_most() -> None:
    told = diagnosis([], WEB, verdict=Verdict.INSUFFICIENT_EVIDENCE, confidence=0.0)
    (step,) = word(told, ALERT).next_steps
    assert step.text == "Read the errors in the log of web. Then ask again."


@pytest.mark.parametrize(
    ("signal", "steps"),
    [
        ("latency_p99_ms", ["Nothing now. If it repeats, set the alert's threshold well above "
                            "127 ms."]),
        ("success_ratio", []),
    ],
)  # fmt: skip
def test_where_nothing_is_wrong_the_step_names_the_top_of_the_usual_range(
    signal: str, steps: list[str]
) -> None:
    calm = found(
        "F1", "web", kind="alert_in_range", signal=signal,
        numbers={"now": 120.0, "low": 112.0, "high": 127.0},
    )  # fmt: skip
    told = diagnosis([], calm, verdict=Verdict.NO_ACTIVE_INCIDENT, confidence=0.75)
    assert [step.text for step in word(told, ALERT).next_steps] == steps


def test_which_part_of_the_culprit_is_worse_is_said_where_the_others_are_fine() -> None:
    part = found(
        "F2", "web", kind="part_contrast", signal="error_ratio",
        details={"bad": True, "part_kind": "pod", "parts": ["web-7-x2"], "parts_known": 3},
    )  # fmt: skip
    answer = word(diagnosis([("web", ["F1", "F2"])], found("F1", "web", **FAILS), part), ALERT)
    assert answer.headline.endswith("and only in pod web-7-x2: the other 2 are as before.")
    behind = word(
        diagnosis(
            [("api", ["F3", "F4"])],
            found("F1", "web", **FAILS),
            found("F3", "api", **FAILS),
            part.model_copy(update={"id": "F4", "subject": "api"}),
        ),
        ALERT,
    )
    assert "; the trouble sits in pod web-7-x2 of api" in behind.headline


@pytest.mark.parametrize(("share", "is_said"), [(0.0005, False), (0.02, True)])
def test_failures_that_an_objective_allows_begin_no_answer(share: float, *, is_said: bool) -> None:
    numbers = {"baseline": 0.0, "incident": share}
    few = found("F1", "web", **(FAILS | {"numbers": numbers}))
    state = found(
        "F2", "web", kind="start_state", sentence="ConfigMap web-settings does not exist.",
        details={"fact": "reference_missing", "objects": ["Pod a/web-1"], "bad": True,
                 "value": "ConfigMap web-settings does not exist"},
    )  # fmt: skip
    told = word(diagnosis([("web", ["F2"])], few, state), ALERT)
    assert ("requests fail" in told.headline) is is_said
