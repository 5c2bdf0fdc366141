"""When a model's verdict leads the answer, and when it does not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultline.analysis.kinds.finding_details import ObservationDetails, StateFactDetails
from faultline.analysis.requests.topology import topology_of
from faultline.analysis.vocabulary import (
    Assertion,
    DecisionPolicy,
    Diagnosis,
    Finding,
    ModelVerdict,
    Report,
    Rival,
    Section,
    Verdict,
    VerdictKind,
)
from faultline.bot.answer.asserted.ground import Ground
from faultline.bot.answer.deciding import judged
from faultline.bot.answer.view import AnswerView, answer_view
from faultline.bot.answer.writer.built_in import word
from faultline.bot.answer.writer.guard import keep_supported
from tests.bot.answer.writer.diagnoses import ALERT, DIAGNOSIS, ONSET, finding, with_verdict

POLICY = DecisionPolicy()
MIGRATION = "9c1d7aa0"
KILLED = finding(
    "F7",
    "cartservice",
    "cartservice's pods are killed for want of memory.",
    kind="killed_for_memory",
    signal="restarts",
    strength=0.8,
    details=StateFactDetails(bad=True, fact="killed_for_memory", objects=("Pod cartservice-0",)),
)
OTHER_CHANGE = finding(
    "F8",
    "checkoutservice",
    "Config change 9c1d7aa0 of checkoutservice came 60 s before the onset.",
    kind="change_ruled_out",
    signal="config",
    onset=ONSET - timedelta(seconds=60),
    details={
        "change": MIGRATION,
        "change_kind": "config",
        "title": "lower the pool to 2",
        "reason": "its text bears on nothing that fails",
    },
)
CART_SLOW = finding(
    "F9",
    "cartservice",
    "cartservice latency rose from 10 to 600 (60x).",
    signal="latency_p99_ms",
    numbers={"baseline": 10.0, "incident": 600.0, "ratio": 60.0},
    details={"class": "latency", "direction": "up", "bad": True},
)


def with_findings(*findings: Finding, diagnosis: Diagnosis = DIAGNOSIS, **more: Any) -> Diagnosis:
    return diagnosis.model_copy(update={"findings": (*diagnosis.findings, *findings), **more})


def shows(*findings: str) -> tuple[Assertion, ...]:
    return tuple(Assertion(relation="shows", findings=(name,)) for name in findings)


def verdict(kind: VerdictKind = VerdictKind.OTHER_CAUSE, **more: Any) -> ModelVerdict:
    given = {
        "subject": "cartservice",
        "confidence": 0.8,
        "grounds": shows("F5", "F9"),
        **more,
    }
    return ModelVerdict(kind=kind, **given)


def decided(
    model: ModelVerdict, diagnosis: Diagnosis | None = None, policy: DecisionPolicy = POLICY
) -> Diagnosis:
    ground = Ground(diagnosis or with_findings(CART_SLOW, KILLED, OTHER_CHANGE), ALERT)
    return judged(model, ground, policy, "some-model")


def answer(diagnosis: Diagnosis) -> AnswerView:
    report = Report(headline="?", claims=(), written_by="some-model")
    guarded = keep_supported(report, diagnosis, ALERT, ground=Ground(diagnosis, ALERT))
    return answer_view(ALERT, diagnosis, guarded)


def test_a_verdict_with_grounds_of_two_kinds_leads_where_code_is_unsure() -> None:
    led = decided(verdict(grounds=(*shows("F5"), *shows("F7"))))
    assert led.decision is not None
    assert led.decision.outcome == "led"
    first, second = led.causes[:2]
    assert (first.subject, first.rank, first.change) == ("cartservice", 1, None)
    assert (second.subject, second.rank) == ("checkoutservice", 2), "code's cause is next"
    assert led.verdict is Verdict.CAUSE_FOUND
    assert led.confidence == first.confidence == POLICY.overruled
    assert second.confidence <= 1 - POLICY.overruled
    view = answer(led)
    assert view.headline != word(DIAGNOSIS, ALERT).headline
    assert "cartservice" in view.headline
    assert view.decision_line == (
        "The model's choice. Code alone would have said "
        "deploy “feat: load prices per line item” of checkoutservice (62 %)."
    )
    cited = {name for claim in view.section(Section.WHY) for name in claim.findings}
    assert "F7" in cited


def test_all_of_the_answer_follows_the_decision() -> None:
    view = answer(decided(verdict(grounds=shows("F5", "F7"))))
    assert view.cause is not None
    assert view.cause.subject == "cartservice"
    assert "559e94c" not in view.next_steps[0].text, "no step for a cause that does not lead"
    assert [cause.subject for cause in view.other_causes] == ["checkoutservice"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"confidence": 0.69}, "it is only 69 % sure"),
        ({"grounds": shows("F3")}, "none of its grounds is about cartservice"),
        ({"grounds": shows("F9")}, "its grounds are all of one kind"),
        ({"grounds": ()}, "none of its grounds is about cartservice"),
    ],
)
def test_a_verdict_that_is_not_carried_is_shown_and_does_not_lead(
    changes: dict[str, Any], reason: str
) -> None:
    given = {"grounds": shows("F5", "F7"), **changes}
    dissent = decided(verdict(**given))
    assert dissent.decision is not None
    assert (dissent.decision.outcome, dissent.decision.objection) == ("dissented", reason)
    assert dissent.causes == DIAGNOSIS.causes
    view = answer(dissent)
    assert view.headline == word(with_findings(CART_SLOW, KILLED), ALERT).headline
    assert view.decision_line.startswith("The model disagrees: it names cartservice (")
    assert reason in view.decision_line
    assert view.section(Section.SECOND_OPINION)[0].text.startswith("It names cartservice")


def test_grounds_of_one_kind_carry_what_code_thinks_nearly_as_likely() -> None:
    first, second = DIAGNOSIS.causes
    close = (first, second.model_copy(update={"confidence": 0.3}))
    led = decided(verdict(grounds=shows("F9")), with_findings(CART_SLOW, causes=close))
    assert led.decision is not None
    assert led.decision.outcome == "led"


def test_from_the_bar_on_codes_cause_stays() -> None:
    sure = with_findings(KILLED, confidence=POLICY.bar)
    dissent = decided(verdict(grounds=shows("F5", "F7"), confidence=0.99), sure)
    assert dissent.decision is not None
    assert dissent.decision.objection == "code is 90 % sure"
    assert not dissent.decision.refuted
    assert dissent.causes == DIAGNOSIS.causes


@pytest.mark.parametrize("decides", ["dissent_only", "never"])
def test_the_settings_may_keep_a_verdict_from_leading(decides: Any) -> None:
    policy = POLICY.model_copy(update={"decides": decides})
    dissent = decided(verdict(grounds=shows("F5", "F7")), policy=policy)
    assert dissent.decision is not None
    assert dissent.decision.outcome == "dissented"
    agreed = decided(verdict(VerdictKind.AGREE, grounds=shows("F1")), policy=policy)
    assert agreed.confidence == DIAGNOSIS.confidence


def test_what_speaks_for_a_dissent_is_no_reason_for_codes_cause() -> None:
    dissent = decided(verdict(grounds=shows("F5", "F7"), confidence=0.6))
    ground = Ground(dissent, ALERT)
    claim = word(dissent, ALERT).claims[0].model_copy(update={"asserted": shows("F9")})
    report = Report(headline="?", claims=(claim,), written_by="some-model")
    guarded = keep_supported(report, dissent, ALERT, ground=ground)
    reasons = [c for c in guarded.claims if c.section is Section.WHY]
    assert not any("F9" in c.findings for c in reasons)
    rather = [c for c in guarded.claims if c.section is Section.SECOND_OPINION]
    assert any("F9" in c.findings for c in rather)


def test_no_dissent_is_cut_however_much_is_said() -> None:
    dissent = decided(verdict(grounds=shows("F5", "F7"), confidence=0.6))
    ground = Ground(dissent, ALERT)
    said = [Assertion(relation="shows", findings=(f"F{n}",)) for n in range(1, 8)]
    claims = tuple(
        word(dissent, ALERT).claims[0].model_copy(update={"asserted": (one, two)})
        for one in said
        for two in said[:2]
        if one != two
    )
    report = Report(headline="?", claims=claims[:10], written_by="some-model")
    guarded = keep_supported(report, dissent, ALERT, ground=ground)
    assert any(c.section is Section.SECOND_OPINION for c in guarded.claims)


def test_agreement_raises_codes_confidence_and_gives_a_cause_that_was_withheld() -> None:
    agreed = decided(verdict(VerdictKind.AGREE, subject=None, grounds=shows("F1", "F2")))
    assert agreed.confidence == agreed.causes[0].confidence == POLICY.agreed
    assert answer(agreed).decision_line == "The model agrees. Code alone is 62 % sure."
    withheld = with_verdict(Verdict.INSUFFICIENT_EVIDENCE)
    given = decided(
        verdict(subject="checkoutservice", grounds=shows("F1", "F2"), change=None),
        with_findings(
            diagnosis=withheld,
            causes=(
                DIAGNOSIS.causes[0].model_copy(update={"change": None}),
                *DIAGNOSIS.causes[1:],
            ),
        ),
    )
    assert given.verdict is Verdict.CAUSE_FOUND
    assert given.confidence == POLICY.agreed
    assert "Code would not have named it" in answer(given).decision_line


@pytest.mark.parametrize("changes", [{"grounds": ()}, {"confidence": 0.5}])
def test_agreement_without_grounds_or_confidence_raises_nothing(changes: dict[str, Any]) -> None:
    given = {"grounds": shows("F1"), **changes}
    agreed = decided(verdict(VerdictKind.AGREE, **given))
    assert agreed.confidence == DIAGNOSIS.confidence
    assert answer(agreed).decision_line == "The model agrees."


def test_another_change_of_the_same_service_may_lead() -> None:
    led = decided(
        verdict(
            VerdictKind.OTHER_CHANGE,
            subject="checkoutservice",
            change=MIGRATION,
            grounds=shows("F8", "F1"),
        )
    )
    assert led.decision is not None
    assert led.decision.outcome == "led"
    first, second = led.causes[:2]
    assert (first.subject, first.change) == ("checkoutservice", MIGRATION)
    assert (second.subject, second.change) == ("checkoutservice", DIAGNOSIS.causes[0].change)
    view = answer(led)
    assert "lower the pool to 2" in view.headline
    assert "evert config change" in view.next_steps[0].text


def test_a_change_that_came_after_the_trouble_never_leads() -> None:
    late = OTHER_CHANGE.model_copy(update={"onset": ONSET + timedelta(minutes=9)})
    model = verdict(
        VerdictKind.OTHER_CHANGE,
        subject="checkoutservice",
        change=MIGRATION,
        grounds=shows("F8", "F1"),
        confidence=0.99,
    )
    dissent = decided(model, with_findings(late))
    assert dissent.decision is not None
    assert (
        dissent.decision.objection == "the change that it blames went live after the trouble began"
    )
    assert dissent.decision.refuted


def test_what_was_so_long_before_the_trouble_carries_nothing() -> None:
    old = KILLED.model_copy(update={"onset": ONSET - timedelta(hours=3)})
    early = CART_SLOW.model_copy(update={"onset": ONSET - timedelta(hours=2)})
    dissent = decided(verdict(grounds=shows("F7", "F9")), with_findings(old, early))
    assert dissent.decision is not None
    assert dissent.decision.objection == "what it cites of cartservice was so long before"


def test_a_caller_that_only_suffers_does_not_lead_over_its_callee() -> None:
    calls = topology_of([("frontend", "checkoutservice"), ("checkoutservice", "cartservice")])
    model = verdict(
        subject="frontend",
        grounds=(
            Assertion(relation="shows", findings=("F3",)),
            Assertion(relation="calls", subjects=("frontend", "checkoutservice")),
        ),
        confidence=0.99,
    )
    ground = Ground(DIAGNOSIS, ALERT, calls=calls)
    dissent = judged(model, ground, POLICY, "some-model")
    assert dissent.decision is not None
    assert dissent.decision.objection == "checkoutservice, which it calls, is in trouble too"


def test_something_may_be_wrong_where_code_found_nothing() -> None:
    calm = with_verdict(Verdict.NO_ACTIVE_INCIDENT)
    led = decided(
        verdict(VerdictKind.SOMETHING_WRONG, grounds=shows("F5", "F7")),
        with_findings(KILLED, diagnosis=calm),
    )
    assert led.verdict is Verdict.CAUSE_FOUND
    assert led.causes[0].subject == "cartservice"
    assert answer(led).decision_line == (
        "The model's choice. Code alone would have said no active incident."
    )


def test_nothing_is_wrong_only_where_what_alerted_is_seen_to_be_as_usual() -> None:
    model = verdict(VerdictKind.NOTHING_WRONG, subject=None, grounds=shows("F3"))
    dissent = decided(model)
    assert dissent.decision is not None
    assert dissent.decision.outcome == "dissented"
    in_range = finding(
        "F10",
        "checkoutservice",
        "checkoutservice p99 is 214 ms, within its usual range.",
        kind="alert_in_range",
        signal="http_server_duration_p99_ms",
        numbers={"value": 214.0, "low": 200.0, "high": 260.0},
    )
    still_bad = decided(
        verdict(VerdictKind.NOTHING_WRONG, subject=None, grounds=shows("F10")),
        with_findings(in_range),
    )
    assert still_bad.decision is not None
    assert still_bad.decision.objection == "F1 shows that requests of checkoutservice suffer"
    calm = DIAGNOSIS.model_copy(
        update={"findings": tuple(f for f in DIAGNOSIS.findings if f.id != "F1")}
    )
    led = decided(
        verdict(VerdictKind.NOTHING_WRONG, subject=None, grounds=shows("F10")),
        with_findings(in_range, diagnosis=calm),
    )
    assert led.verdict is Verdict.NO_ACTIVE_INCIDENT


def test_what_is_steady_beside_the_alerting_signal_makes_nothing_calm() -> None:
    calm = DIAGNOSIS.model_copy(
        update={"findings": tuple(f for f in DIAGNOSIS.findings if f.id != "F1")}
    )
    model = verdict(
        VerdictKind.NOTHING_WRONG,
        subject=None,
        grounds=(Assertion(relation="unaffected", findings=("L1",)),),
    )
    for signal, outcome in (("cpu_cores", "dissented"), (ALERT.signal, "led")):
        steady = finding(
            "L1",
            "checkoutservice",
            f"checkoutservice {signal} was steady: 2 before, 2 in the incident.",
            kind="looked_at",
            signal=signal,
            details=ObservationDetails(about="series", direction="unaffected", departed=False),
        )
        diagnosis = decided(model, with_findings(steady, diagnosis=calm))
        assert diagnosis.decision is not None
        assert diagnosis.decision.outcome == outcome


def test_who_cannot_decide_says_what_would() -> None:
    model = verdict(
        VerdictKind.UNDECIDABLE,
        subject=None,
        grounds=shows("F3"),
        would_decide="The slow query log of the database.",
    )
    diagnosis = decided(model)
    view = answer(diagnosis)
    assert view.decision_line == "The model disagrees: it cannot tell the cause from what there is."
    (opinion, *_) = view.section(Section.SECOND_OPINION)
    assert opinion.text.endswith("What would tell: the slow query log of the database.")


def test_a_rival_that_the_case_does_not_know_is_left_out() -> None:
    rivals = (
        Rival(subject="frontend", finding="F3"),
        Rival(subject="nobody", finding="F3"),
        Rival(subject="frontend", finding="F99"),
    )
    diagnosis = decided(verdict(grounds=shows("F5", "F7"), rivals=rivals))
    assert diagnosis.decision is not None
    assert diagnosis.decision.verdict.rivals == rivals[:1]
