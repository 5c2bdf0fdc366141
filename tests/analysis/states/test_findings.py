"""How facts about objects are weighed and said."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.folder import Case
from faultline.analysis.diagnosis import diagnose, established
from faultline.analysis.kinds.finding_details import StateFactDetails
from faultline.analysis.kinds.finding_kinds import STATE_KINDS
from faultline.analysis.kinds.state_faults import FAMILY_OF, STATE_FAULTS
from faultline.analysis.states.weighing import MAX_QUOTE, state_findings
from faultline.analysis.suspects.features import SuspectFeatures, log_odds
from faultline.analysis.suspects.ranking_weights import NO_SUSPECT_ODDS, TEMPERATURE, WEIGHTS
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import at, write_case
from tests.analysis.states.incidents import DAY, events, fact

ALERT = {"service": "checkout"}


def found(folder: Path, states: list[dict[str, Any]], **more: Any) -> list[Finding]:
    """The findings of a case with these facts."""
    return state_findings(case_of(folder, states, **more))


def case_of(folder: Path, states: list[dict[str, Any]], **more: Any) -> Case:
    """A case about checkout with these facts."""
    return write_case(folder, alert=ALERT, states=states, **more)


def strength(folder: Path, since: float | None) -> float:
    """How strong one fact is by its age."""
    row = fact("Service", "cart", "selector_matches_nothing", since or 0, service="cart")
    if since is None:
        del row["since"]
    (finding,) = found(folder, [row])
    return finding.strength


def test_what_is_new_counts_fully_and_what_is_old_hardly(tmp_path: Path) -> None:
    assert strength(tmp_path / "new", -10) == 1.0
    assert strength(tmp_path / "hour", -59) == 1.0
    assert 0.4 < strength(tmp_path / "hours", -5 * 60) < 0.6
    assert strength(tmp_path / "day", -DAY) == 0.15
    assert strength(tmp_path / "days", -3 * DAY) == 0.15
    assert strength(tmp_path / "undated", None) == 0.6
    assert strength(tmp_path / "at once", 5) == 1.0
    assert strength(tmp_path / "afterwards", 6) == 0.7


def test_a_finding_keeps_what_the_connector_says_of_the_object(tmp_path: Path) -> None:
    row = fact("Service", "cart", "port_not_served", -10, service="cart")
    (finding,) = found(tmp_path, [row | {"value": "8099", "expected": "8080"}])
    details = StateFactDetails.of(finding)
    assert details is not None
    assert (details.value, details.expected) == ("8099", "8080")


def test_of_a_long_message_the_reason_at_its_end_is_kept(tmp_path: Path) -> None:
    value = f'Back-off pulling image "shop/cart:2": {"failed to resolve: " * 12}401 Unauthorized'
    row = fact("Pod", "cart-1", "image_unavailable", -10, service="cart", value=value)
    (finding,) = found(tmp_path, [row])
    details = StateFactDetails.of(finding)
    assert details is not None
    assert details.value.startswith('Back-off pulling image "shop/cart:2": ')
    assert details.value.endswith("401 Unauthorized")
    assert len(details.value) <= MAX_QUOTE


def test_a_claim_of_a_stateful_set_is_that_services_own(tmp_path: Path) -> None:
    claim = fact("PersistentVolumeClaim", "data-cart-db-0", "volume_full", -5)
    other = fact("PersistentVolumeClaim", "scratch", "volume_full", -5)
    pod = fact("Pod", "cart-db-0", "crash_loop", -4, service="cart-db", place="node-1")
    effect = fact("StatefulSet", "db", "replicas_missing", -4, service="db")
    by_fact = {}
    for finding in found(tmp_path, [claim, other, pod, effect]):
        details = StateFactDetails.of(finding)
        assert details is not None
        by_fact[details.fact, finding.subject] = details.explained_by
    assert by_fact["volume_full", "cart-db"] is None
    assert by_fact["crash_loop", "cart-db"] == "cart-db"
    assert ("volume_full", "persistentvolumeclaim/scratch") in by_fact


def test_what_begins_after_the_incident_is_none(tmp_path: Path) -> None:
    row = fact("Service", "cart", "selector_matches_nothing", 40, service="cart")
    assert found(tmp_path, [row]) == []


def test_a_setting_explains_what_follows_from_it(tmp_path: Path) -> None:
    rows = [
        fact("Pod", "cart-1", "image_unavailable", -5, service="cart", place="node-1"),
        fact("Deployment", "cart", "replicas_missing", -4, service="cart", value="1", expected="3"),
        fact("Deployment", "ads", "replicas_missing", -4, service="ads", value="1", expected="3"),
    ]
    by_subject = {}
    for finding in found(tmp_path, rows):
        details = StateFactDetails.of(finding)
        assert details is not None
        by_subject[finding.subject, details.fact] = (finding.strength, details.explained_by)
    assert by_subject["cart", "image_unavailable"] == (1.0, None)
    assert by_subject["cart", "replicas_missing"] == (0.2, "cart")
    assert by_subject["ads", "replicas_missing"] == (1.0, None)


@pytest.mark.parametrize(("noted", "explained_by"), [(-9, "cart"), (-12, None)])
def test_an_effect_may_be_noted_minutes_before_its_cause_and_no_longer(
    tmp_path: Path, noted: float, explained_by: str | None
) -> None:
    rows = [
        fact("Pod", "cart-1", "image_unavailable", 0, service="cart", place="node-1"),
        fact("Deployment", "cart", "replicas_missing", noted, service="cart"),
    ]
    facts = [StateFactDetails.of(finding) for finding in found(tmp_path, rows)]
    by = {one.fact: one.explained_by for one in facts if one is not None}
    assert by["replicas_missing"] == explained_by


def test_a_database_that_was_scaled_to_zero_is_why_its_exporter_cannot_connect(
    tmp_path: Path,
) -> None:
    rows = [
        fact("StatefulSet", "orders-db", "scaled_to_zero", -5, service="orders-db"),
        fact("Database", "postgres", "database_unavailable", -4, service="postgres"),
    ]
    strengths = {finding.subject: finding.strength for finding in found(tmp_path, rows)}
    assert strengths == {"orders-db": 1.0, "postgres": 0.2}


def test_a_queue_lacks_consumers_since_a_workload_was_scaled_to_zero(tmp_path: Path) -> None:
    rows = [
        fact("Deployment", "mailer", "scaled_to_zero", -5, service="mailer"),
        fact("Queue", "emails", "queue_without_consumers", -4, service="emails"),
    ]
    strengths = {finding.subject: finding.strength for finding in found(tmp_path, rows)}
    assert strengths == {"mailer": 1.0, "emails": 0.2}


def test_history_is_marked_and_hides_nothing_new(tmp_path: Path) -> None:
    pod = {"service": "checkout", "value": "The node was low on resource"}
    old = [fact("Pod", f"checkout-{n}", "evicted", -6 * DAY, **pod) for n in range(3)]
    (finding,) = found(tmp_path / "old", old)
    details = StateFactDetails.of(finding)
    assert details is not None
    assert details.is_history
    (finding,) = found(tmp_path / "both", [*old, fact("Pod", "checkout-9", "evicted", -3, **pod)])
    details = StateFactDetails.of(finding)
    assert details is not None
    assert not details.is_history
    assert details.objects == ("Pod shop/checkout-9",)
    assert finding.strength == 1.0


def test_a_node_that_runs_no_service_of_the_alert_hardly_counts(tmp_path: Path) -> None:
    calls = [{"caller": "checkout", "callee": "cart"}]
    rows = [
        fact("Node", "node-1", "node_not_ready", -5, service="cart"),
        fact("Node", "node-2", "node_not_ready", -5, service="ads"),
        fact("Node", "node-3", "node_not_ready", -5),
    ]
    findings = state_findings(case_of(tmp_path, rows, topology=calls))
    strengths = {finding.subject: finding.strength for finding in findings}
    assert strengths == {"node-1": 1.0, "node-2": 0.1, "node-3": 0.1}


def test_a_node_explains_its_own_pods_alone(tmp_path: Path) -> None:
    rows = [
        fact("Node", "node-7", "node_not_ready", -5, service="cart"),
        fact("Pod", "cart-1", "crash_loop", -4, service="cart", place="node-7"),
        fact("Pod", "cart-2", "crash_loop", -4, service="cart", place="node-2"),
    ]
    findings = {finding.subject: finding for finding in found(tmp_path, rows)}
    assert findings["node-7"].strength == 0.75
    assert findings["node-7"].sentence == (
        "Node node-7 is not ready; 1 of 2 failing pods run there."
    )


def test_a_cordon_matters_only_while_a_pod_waits_for_closed_nodes(tmp_path: Path) -> None:
    cordon = fact("Node", "node-7", "node_cordoned", -5, service="cart")
    pod = {"service": "cart"}
    closed = fact("Pod", "cart-1", "unschedulable", -4, value="1 node(s) were unschedulable", **pod)
    full = fact("Pod", "cart-1", "unschedulable", -4, value="9 Insufficient cpu", **pod)
    waiting = {f.subject: f.strength for f in found(tmp_path / "closed", [cordon, closed])}
    assert (waiting["node-7"], waiting["cart"]) == (1.0, 0.2)
    without = {f.subject: f.strength for f in found(tmp_path / "full", [cordon, full])}
    assert (without["node-7"], without["cart"]) == (0.3, 1.0)


def test_an_object_of_several_services_is_its_own_subject(tmp_path: Path) -> None:
    rows = [
        fact("NetworkPolicy", "deny-all", "traffic_blocked", -5, service="cart"),
        fact("NetworkPolicy", "deny-all", "traffic_blocked", -5, service="ads"),
        fact("Ingress", "old", "route_to_nothing", -5),
    ]
    subjects = {finding.subject for finding in found(tmp_path, rows)}
    assert subjects == {"networkpolicy/deny-all", "ingress/old"}


def test_a_fresh_fact_adds_two_and_a_half_to_the_log_odds(tmp_path: Path) -> None:
    assert (WEIGHTS["state_setting"], WEIGHTS["state_instance"]) == (2.5, 1.25)
    node = fact("Node", "node-7", "node_not_ready", -5, service="checkout")
    case = case_of(tmp_path, [node])
    known = established(case)
    (suspect,) = known.suspects
    features = SuspectFeatures(known.observation, known.findings, known.suspects).of("node-7")
    assert features.state_setting == pytest.approx(0.97**2)
    odds = log_odds(WEIGHTS, features)
    told = math.log(suspect.probability / (1 - suspect.probability))
    assert told == pytest.approx(odds / TEMPERATURE - NO_SUSPECT_ODDS)


def test_every_number_of_a_sentence_is_known(tmp_path: Path) -> None:
    row = fact("ResourceQuota", "compute", "quota_exceeded", -5, service="cart", value="20 of 20.5")
    (finding,) = found(tmp_path, [row])
    assert sorted(finding.numbers.values()) == [20.0, 20.5]


def test_a_fact_that_nobody_knows_says_nothing(tmp_path: Path) -> None:
    assert found(tmp_path, [fact("Pod", "cart-1", "haunted", -5, service="cart")]) == []


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    value = "{object} {0} \u202e<!channel> " + "x" * 5000
    row = fact("Service", "cart", "route_to_nothing", -5, service="cart", value=value)
    (finding,) = found(tmp_path, [row])
    assert "{object} {0}" in finding.sentence
    assert "\u202e" not in finding.sentence
    assert len(finding.sentence) < 400


def test_lines_that_repeat_a_fact_are_no_second_voice(tmp_path: Path) -> None:
    quota = fact("ResourceQuota", "compute", "quota_exceeded", -5, service="checkout")
    text = 'pods "checkout-1" is forbidden: exceeded quota: compute'
    lines = events("checkout", text, (-4, 1, 2, 3, 4, 5))
    answer = diagnose(case_of(tmp_path, [quota], logs=lines))
    assert "failure_signature" not in {finding.kind for finding in answer.findings}
    assert answer.causes[0].subject == "namespace/shop"


@pytest.mark.parametrize("name", sorted(STATE_FAULTS))
def test_every_fact_becomes_a_cause_with_a_step(tmp_path: Path, name: str) -> None:
    answer = diagnose(case_of(tmp_path, [fact("Pod", "cart-1", name, -5, service="cart")]))
    (cause,) = answer.causes
    assert cause.kind == name
    assert cause.next_step
    assert "{" not in f"{cause.summary}{cause.next_step}"
    assert answer.findings[0].kind == FAMILY_OF[name]
    assert FAMILY_OF[name] in STATE_KINDS


def test_the_evidence_is_the_list_that_showed_it(tmp_path: Path) -> None:
    shown = {"kind": "states", "source": "kubernetes"}
    evidence = [{"id": "E1", "query": "a", **shown}, {"id": "E2", "query": "b", **shown}]
    row = fact("Service", "cart", "selector_matches_nothing", -5, service="cart", query="b")
    (finding,) = found(tmp_path, [row], evidence=evidence)
    assert finding.evidence == ("E2",)
    assert finding.onset is not None
    assert finding.onset.isoformat() == at(-5)
