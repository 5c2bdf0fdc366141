"""Nodes and volumes to which the evidence leads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.folder import Case
from faultline.analysis.case.rounds import Lead
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.ranking.leads import OF_ALERT, change_links, leads_of
from faultline.analysis.vocabulary import Evidence
from tests.analysis.cases import at, series, write_case


def leads(case: Case) -> list[Lead]:
    return [lead for lead in leads_of(case, diagnose(case), []) if lead.kind != "service"]


@pytest.mark.parametrize(
    ("alert", "kind", "subject"),
    [
        ({"host": "node-7"}, "node", "node-7"),
        (
            {"labels": {"namespace": "shop", "persistentvolumeclaim": "data-orders-0"}},
            "volume",
            "shop/data-orders-0",
        ),
    ],
)
def test_what_the_alert_is_about_is_the_first_lead(
    tmp_path: Path, alert: dict[str, Any], kind: str, subject: str
) -> None:
    metrics = series("web", "error_ratio", 0.01, 0.4)
    case = write_case(tmp_path, alert={"service": "web", **alert}, metrics=metrics)
    (lead,) = leads(case)
    assert (lead.kind, lead.subject, lead.because) == (kind, subject, OF_ALERT)


@pytest.mark.parametrize("alert", [{"host": "10.0.0.7"}, {"labels": {"pvc": "data-0"}}])
def test_an_address_and_a_claim_without_its_namespace_lead_nowhere(
    tmp_path: Path, alert: dict[str, Any]
) -> None:
    metrics = series("web", "error_ratio", 0.01, 0.4)
    case = write_case(tmp_path, alert={"service": "web", **alert}, metrics=metrics)
    assert leads(case) == []


@pytest.mark.parametrize("listed", [False, True])
def test_the_node_of_an_evicted_pod_is_a_lead_until_a_cluster_tells_of_it(
    tmp_path: Path, listed: bool
) -> None:
    fact = {
        "kind": "Pod",
        "name": "web-1",
        "fact": "evicted",
        "namespace": "shop",
        "service": "web",
        "place": "node-3",
        "value": "The node was low on resource: memory",
        "since": at(1),
    }
    monitor = {"monitor": "node node-3 Ready", "service": "web", "state": "ok", "since": at(-900)}
    case = write_case(
        tmp_path,
        alert={"service": "web"},
        metrics=series("web", "error_ratio", 0.01, 0.4),
        states=[fact],
        monitors=[monitor] if listed else [],
    )
    assert [lead.subject for lead in leads(case)] == ([] if listed else ["node-3"])


def test_a_suspected_service_brings_the_links_of_its_changes(tmp_path: Path) -> None:
    metrics = series("web", "error_ratio", 0.01, 0.4) + series("api", "error_ratio", 0.01, 0.5)
    changes = [
        {"time": at(minutes), "service": service, "kind": "deploy", "id": link, "title": "Deploy"}
        | {"link": link}
        for minutes, service, link in ((1, "api", "a1"), (2, "web", "w"), (3, "api", "a2"))
    ]
    case = write_case(tmp_path, alert={"service": "web"}, metrics=metrics, changes=changes)
    assert change_links(case, "api") == ("a2", "a1")


def test_a_repository_that_the_workload_of_the_alert_names_is_a_lead(tmp_path: Path) -> None:
    address = "https://github.com/shop/web"
    case = write_case(
        tmp_path,
        alert={"service": "web"},
        metrics=series("web", "error_ratio", 0.01, 0.4),
    )
    item = Evidence(
        id="E9",
        kind="changes",
        source="kubernetes",
        query="kubectl get",
        details={"repository of web": address, "repository of mail": "https://github.com/x/mail"},
    )
    case = replace(case, evidence=(*case.evidence, item))
    (lead,) = leads(case)
    assert (lead.kind, lead.subject, lead.service) == ("repository", address, "web")


def test_a_workload_beside_it_that_was_scaled_shortly_before_is_a_lead(tmp_path: Path) -> None:
    changes = [
        {"time": at(minutes), "service": service, "kind": "scale", "id": service, "title": "set"}
        for service, minutes in (("mailer", -1), ("search", -300))
    ]
    case = write_case(
        tmp_path,
        alert={"service": "web"},
        scope={"incident": [at(-5), at(30)]},
        metrics=series("web", "error_ratio", 0.01, 0.4),
        changes=changes,
    )
    subjects = [lead.subject for lead in leads_of(case, diagnose(case), [])]
    assert "mailer" in subjects
    assert "search" not in subjects
