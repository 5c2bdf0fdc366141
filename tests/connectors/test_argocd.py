"""The connector of Argo CD over real HTTP: syncs as deploys, what is unhealthy, failed syncs, and
the published description."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from faultline.analysis.errors import SettingsError
from faultline.bot.settings import Settings
from faultline.connectors.vendors.argocd import CONNECTOR
from faultline.connectors.vendors.argocd.connector import ArgoCD
from faultline.connectors.vendors.elasticsearch import CONNECTOR as ELASTICSEARCH
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ONSET
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.published import fits_published, parameters_of, specification
from tests.connectors.stand_ins import argocd as stand_in
from tests.connectors.stand_ins import elasticsearch


def connector(server: LocalServer, **own: Any) -> ArgoCD:
    """As the settings build it, before the stand-in."""
    stand_in.serve(server)
    values = stand_in.settings(server.url)
    values["argocd"] |= own
    built = CONNECTOR.configured(Settings.model_validate(values))
    assert isinstance(built, ArgoCD)
    return built


def test_a_sync_is_a_deploy_of_the_application_with_both_revisions(
    server: LocalServer, tmp_path: Path
) -> None:
    found = collected(tmp_path, connector(server))
    assert found.missing == ()
    rows = found.tables["changes"].sort("time", descending=True)
    assert rows["service"].to_list() == ["checkout", "orders-db"]
    first, second = rows.iter_rows(named=True)
    assert (first["time"], first["kind"], first["id"]) == (stand_in.SYNCED, "deploy", stand_in.NEW)
    assert first["title"] == (
        f"Argo CD synced checkout: {stand_in.OLD[:12]} -> {stand_in.NEW[:12]} (checkout/prod)"
    )
    assert first["author"] == "dana"
    assert first["link"] == f"{server.url}/applications/argocd/checkout"
    assert second["title"] == "Argo CD synced orders-db: 15.5.0 -> 15.5.1 (postgresql)"
    assert second["author"] == "automated sync"
    (item,) = found.items
    assert item.details == {
        # A chart is kept in no repository of code.
        "repository of checkout": stand_in.REPOSITORY,
        "checkout": "Degraded since 2026-03-02T11:50:00Z: "
        "Deployment checkout exceeded its progress deadline",
    }
    assert server.asked[0].headers["Authorization"] == "Bearer eyJhbGciOiJIUzI1NiJ9.0a1b2c3d"


def test_only_named_environments_and_projects(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server, environments=["shop-staging"], projects=["shop", "data"])
    rows = collected(tmp_path, built).tables["changes"]
    assert rows["title"].to_list() == [
        f"Argo CD synced checkout-staging: {stand_in.NEW[:12]} (checkout/prod)"
    ]
    assert server.asked[0].query == {"projects": ["shop", "data"]}


def test_a_sync_that_failed_and_one_that_runs_are_told(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    at = ONSET - timedelta(minutes=1)
    states = {"cart": "Failed", "search": "Running", "checkout": "Succeeded"}
    listed = []
    for name, phase in states.items():
        operation = {
            "phase": phase,
            "message": "one or more objects failed to apply",
            "startedAt": stand_in.stamp(at),
            "operation": {"initiatedBy": {"username": "dana@example.com"}},
            "syncResult": {"revision": stand_in.NEW},
        }
        sync = {"status": "OutOfSync", "revision": stand_in.OLD}
        listed.append(stand_in.application(name, "shop", [], operationState=operation, sync=sync))
    body = stand_in.answer(listed)
    server.on(stand_in.APPLICATIONS, Reply(body))
    found = collected(tmp_path, built)
    rows = found.tables["changes"].sort("service")
    why = "one or more objects failed to apply"
    assert rows["title"].to_list() == [
        f"Argo CD sync of cart failed: {why}",
        f"Argo CD sync of search still running: {why}",
    ]
    assert rows["author"].to_list() == [None, None]
    # Nothing of the first is in the cluster.
    assert rows["kind"].to_list() == ["merge", "deploy"]
    assert found.items[0].details["cart"] == "out of sync"


def test_a_sync_that_fails_is_a_state_of_a_service_in_scope_with_its_reason(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    refused = 'Deployment.apps "x" is invalid: spec.selector: field is immutable'
    operation = {
        "phase": "Failed",
        "message": f"one or more objects failed to apply, reason: {refused}. Retrying attempt #5",
        "startedAt": stand_in.stamp(ONSET),
    }
    listed = [
        stand_in.application(name, "shop", [], operationState=operation)
        for name in ("checkout", "mailer")
    ]
    server.on(stand_in.APPLICATIONS, Reply(stand_in.answer(listed)))
    rows = collected(tmp_path, built).tables["states"]
    (row,) = rows.select("kind", "name", "fact", "service", "value", "since").rows()
    assert row == ("Application", "checkout", "sync_failed", "checkout", refused, ONSET)


def test_two_sources_no_history_and_no_application(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    source = {"repoURL": stand_in.REPOSITORY, "path": "x"}
    two = stand_in.synced(1, ONSET, "", revisions=["a" * 40, "b" * 40], sources=[source, source])
    del two["revision"], two["source"]
    body = stand_in.answer([stand_in.application("cart", "shop", [two])])
    server.on(stand_in.APPLICATIONS, Reply(body))
    (title,) = collected(tmp_path, built).tables["changes"]["title"]
    assert title == f"Argo CD synced cart: {'a' * 12}, {'b' * 12} (x)"
    server.on(stand_in.APPLICATIONS, Reply(stand_in.answer(None)))
    found = collected(tmp_path, built)
    assert found.missing == ()
    assert found.items[0].rows == 0


def test_hostile_applications(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    evil = "x\n\x1b]0;" + "y" * 5_000 + "/../?#"
    history = [stand_in.synced(1, ONSET, evil, initiatedBy={"username": evil})]
    history.append(stand_in.synced(2, ONSET, "z", deployedAt="0000-00-00"))
    body = stand_in.answer([stand_in.application(evil, evil, history)])
    server.on(stand_in.APPLICATIONS, Reply(body))
    (row,) = collected(tmp_path, built).tables["changes"].iter_rows(named=True)
    for column in ("title", "id", "author", "service"):
        assert len(row[column]) <= 200
        assert row[column].isprintable()
    assert row["link"] is None


def test_a_refusal_is_a_gap_and_the_check_says_what_it_needs(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    check = asyncio.run(built.check())
    assert check.ok
    assert check.line == (f"Argo CD at {server.url}: applications can be read; only GET is sent")
    server.refusal = Reply({"error": "permission denied", "code": 7}, status=403)
    (gap,) = collected(tmp_path, built).missing
    assert "not permitted" in gap.reason
    check = asyncio.run(built.check())
    assert not check.ok
    assert "needs `applications, get` in its RBAC" in check.line


def test_a_user_name_is_refused(server: LocalServer) -> None:
    with pytest.raises(SettingsError, match="takes tokens alone"):
        connector(server, username="admin")


def test_the_call_and_the_answer_are_those_of_the_published_description(
    server: LocalServer, tmp_path: Path, shared: Path
) -> None:
    collected(tmp_path, connector(server, projects=["shop"]))
    document = specification(shared / "specs" / "argocd.swagger.json.gz")
    assert set(server.asked[0].query) <= {"projects"}
    # Their array of projects is given as one parameter several times.
    assert "projects" in parameters_of(document, stand_in.APPLICATIONS)
    fits_published(document, stand_in.APPLICATIONS, stand_in.answer(stand_in.applications()))


def test_the_sync_is_named_near_the_onset_of_the_errors(
    server: LocalServer, tmp_path: Path
) -> None:
    with LocalServer() as logs:
        elasticsearch.serve(logs)
        values = elasticsearch.settings(logs.url)
        errors = ELASTICSEARCH.configured(Settings.model_validate(values))
        assert errors is not None
        found = diagnosed(tmp_path, errors, connector(server))
    near = [one for one in found.findings if one.kind == "change_near"]
    assert [one.series["id"] for one in near][:1] == [stand_in.NEW]
    assert near[0].subject == "checkout"
    assert pl.Series([near[0].effect]).is_between(3.5, 4.5).all()
