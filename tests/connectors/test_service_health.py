"""Azure Service Health over real HTTP: which issues of a subscription become facts.

The stand-in answers as the example of "Events_ListBySubscriptionId" in Azure's REST API
specifications does (Microsoft.ResourceHealth, 2024-02-01).
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.errors import SettingsError
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.vendors.status_pages import CONNECTOR
from faultline.connectors.vendors.status_pages.connector import StatusPagesConnector
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply

TOKEN_PATH = "/tenant-1/oauth2/v2.0/token"
SECRET = "entra-secret-1"
BEGAN = ONSET - timedelta(minutes=2)


def events_path(subscription: str) -> str:
    """Where one subscription's events are asked."""
    return f"/subscriptions/{subscription}/providers/Microsoft.ResourceHealth/events"


def event(title: str = "ACTIVE: SQL Database in West Europe", **more: Any) -> dict[str, Any]:
    """One event as the specification's example has it."""
    region = {"impactedRegion": "West Europe", "status": "Active", "impactedTenants": []}
    own = {
        "eventType": "ServiceIssue",
        "eventSource": "ServiceHealth",
        "status": "Active",
        "title": title,
        "summary": "An outage alert is being investigated.",
        "header": "Your service might have been impacted by an Azure service issue",
        "article": {"articleContent": "<html>An outage alert is being investigated.</html>"},
        "links": [{"type": "Hyperlink", "bladeName": "RequestRCABlade", "parameters": {}}],
        "level": "Warning",
        "eventLevel": "Error",
        "impactStartTime": f"{BEGAN:%Y-%m-%dT%H:%M:%S.1203530Z}",
        "impact": [{"impactedService": "SQL Database", "impactedRegions": [region]}],
        "isHIR": False,
        "priority": 2,
        "lastUpdateTime": f"{ALERT_AT:%Y-%m-%dT%H:%M:%SZ}",
        "hirStage": "active",
    }
    kind = "/providers/Microsoft.ResourceHealth/events"
    return {"id": f"{kind}/BC_1-FXZ", "name": "BC_1-FXZ", "type": kind, "properties": own | more}


def answer(*events: dict[str, Any], **more: Any) -> Reply:
    """The list as it is answered."""
    return Reply({"value": list(events), **more})


def connector(server: LocalServer, **own: Any) -> StatusPagesConnector:
    """For one subscription, asked as Azure Monitor's application."""
    token = {"token_type": "Bearer", "expires_in": 3599, "access_token": "token-1"}
    server.on(TOKEN_PATH, Reply(token))
    azure = {"tenant_id": "tenant-1", "client_id": "client-1", "client_secret": SECRET}
    page = {"provider": "Azure", "kind": "azure_service_health", "subscriptions": ["s-1"]}
    page |= {"called_as": ["database.windows.net"], "used_by": ["checkout"]}
    tables = {
        "azure_monitor": azure | {"login_url": server.url, "management_url": server.url},
        "status_pages": page | own,
    }
    built = CONNECTOR.configured(Settings.model_validate(tables))
    assert isinstance(built, StatusPagesConnector)
    return built


def values(found: Collected) -> list[str]:
    """The texts of the facts."""
    if "states" not in found.tables:
        return []
    return [str(one) for one in conform(found.tables["states"], "states", "states")["value"]]


def test_an_issue_beside_the_onset_is_a_fact_about_azure(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    server.on(events_path("s-1"), answer(event()))
    found = collected(tmp_path, built)
    (row,) = conform(found.tables["states"], "states", "states").iter_rows(named=True)
    assert (row["kind"], row["name"], row["fact"]) == ("Provider", "Azure", "provider_outage")
    assert row["field"] == "Azure, database.windows.net"
    assert row["value"] == (
        "ACTIVE: SQL Database in West Europe (major; SQL Database; since 02 Mar 11:48 UTC)"
    )
    assert (row["service"], row["place"]) == ("checkout", "West Europe")
    assert row["link"].startswith("https://portal.azure.com/#view/Microsoft_Azure_Health/")
    asked = [one for one in server.asked if one.path == events_path("s-1")]
    assert asked[0].query == {"api-version": ["2024-02-01"], "queryStartTime": ["2/16/2026"]}
    assert asked[0].headers["Authorization"] == "Bearer token-1"
    assert [one.method for one in asked] == ["GET"]
    assert found.missing == ()
    assert SECRET not in str(found)


RESOLVED = {"status": "Resolved"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"eventLevel": "Warning"}, "minor"),
        ({"eventLevel": "Informational"}, "minor"),
        ({"eventLevel": None, "level": "Critical"}, "critical"),
        (RESOLVED | {"impactMitigationTime": f"{ONSET:%Y-%m-%dT%H:%M:%SZ}"}, "until 02 Mar 11:50"),
        (RESOLVED | {"impactMitigationTime": "2026-03-01T00:00:00Z"}, ""),
        ({"eventType": "PlannedMaintenance"}, ""),
        ({"eventType": "HealthAdvisory"}, ""),
        ({"eventType": "SecurityAdvisory"}, ""),
        ({"eventTags": ["False Positive"]}, ""),
        ({"impactStartTime": "2026-03-03T00:00:00Z"}, ""),
    ],
)
def test_only_issues_that_overlap_with_ours_count(
    server: LocalServer, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    built = connector(server)
    server.on(events_path("s-1"), answer(event(**change)))
    found = collected(tmp_path, built)
    assert found.missing == ()
    assert [said in one for one in values(found)] == ([True] if said else [])


@pytest.mark.parametrize(
    ("own", "count"),
    [
        ({"regions": ["west europe"]}, 1),
        ({"regions": ["West US"]}, 0),
        ({"components": ["SQL*"]}, 1),
        ({"components": ["Virtual Machines"]}, 0),
    ],
)
def test_only_regions_and_services_that_count(
    server: LocalServer, tmp_path: Path, own: dict[str, Any], count: int
) -> None:
    built = connector(server, **own)
    server.on(events_path("s-1"), answer(event()))
    assert len(values(collected(tmp_path, built))) == count


def test_a_global_issue_counts_in_every_region(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server, regions=["West US"])
    impact = [{"impactedService": "Entra", "impactedRegions": [{"impactedRegion": "Global"}]}]
    server.on(events_path("s-1"), answer(event(impact=impact)))
    assert len(values(collected(tmp_path, built))) == 1


def test_each_subscription_is_asked_and_their_common_issue_is_told_once(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server, subscriptions=["s-1", "s-2", "s-3"])
    server.on(events_path("s-1"), answer(event()))
    server.on(events_path("s-2"), answer(event(), event("ACTIVE: Storage")))
    server.on(events_path("s-3"), Reply({"error": {"code": "AuthorizationFailed"}}, status=403))
    found = collected(tmp_path, built)
    assert [item.rows for item in found.items] == [1, 1]
    assert len(values(found)) == 2
    (gap,) = found.missing
    assert "/subscriptions/s-3/" in gap.reason
    assert "Microsoft.ResourceHealth/events/read (the role Reader)" in gap.reason


def test_further_pages_are_read_at_the_same_address(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    path = events_path("s-1")

    def pages(asked: Asked) -> Reply:
        if asked.query.get("$skipToken") == ["2"]:
            return answer(event("ACTIVE: Storage"))
        # Another host is not asked: only the path and the query count.
        link = f"https://elsewhere.example{path}?api-version=2024-02-01&%24skipToken=2"
        return answer(event(), nextLink=link)

    server.on(path, pages)
    assert len(values(collected(tmp_path, built))) == 2


def test_pages_without_an_end_are_cut_and_that_is_said(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    path = events_path("s-1")
    server.on(path, answer(event(), nextLink=f"{server.url}{path}?$skipToken=1"))
    found = collected(tmp_path, built)
    assert found.items[0].cut == "the first 5 pages of events"
    assert server.paths().count(path) == 5


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply({"value": [{"properties": {"title": 7}}]}), "unexpected response"),
        (Reply({}), "unexpected response"),
        (Reply(b"[" * 100_000), "unexpected response"),
        (Reply({"value": [], "nextLink": "/subscriptions/s-9/secrets"}), "another path"),
        (Reply({"error": {"code": "InvalidAuthenticationToken"}}, status=401), "authentication"),
    ],
)
def test_refusals_and_bad_answers_are_gaps(
    server: LocalServer, tmp_path: Path, reply: Reply, reason: str
) -> None:
    built = connector(server)
    server.on(events_path("s-1"), reply)
    found = collected(tmp_path, built)
    assert found.items == ()
    assert reason in found.missing[0].reason


def test_without_a_token_nothing_is_asked(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    refused = {"error": "invalid_client", "error_description": "AADSTS7000215: bad secret"}
    server.on(TOKEN_PATH, Reply(refused, status=401))
    found = collected(tmp_path, built)
    assert "no token was given: invalid_client, AADSTS7000215" in found.missing[0].reason
    assert server.paths() == [TOKEN_PATH]


def test_check_says_what_can_be_read_and_which_right_is_missing(server: LocalServer) -> None:
    built = connector(server)
    server.on(events_path("s-1"), answer(event(), event("RESOLVED: Storage", **RESOLVED)))
    said = asyncio.run(built.check())
    assert said.ok
    assert said.line.startswith("Azure: 2 incidents")
    assert said.line.endswith("1 of them open; only GET is sent, besides the token's request")
    server.on(events_path("s-1"), Reply({}, status=403))
    refused = asyncio.run(connector(server).check())
    assert not refused.ok
    assert "the role Reader" in refused.line


@pytest.mark.parametrize("wrong", [[], ["a/../b"], [f"s-{n}" for n in range(21)]])
def test_subscriptions_must_be_ids(server: LocalServer, wrong: list[str]) -> None:
    with pytest.raises(SettingsError, match="subscriptions"):
        connector(server, subscriptions=wrong)


def test_it_is_named_beside_the_alert_and_not_blamed(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server, used_by=[])
    server.on(events_path("s-1"), answer(event()))
    given = diagnosed(tmp_path, built)
    assert given.causes == ()
    (finding,) = given.findings
    assert finding.kind == "upstream_incident"
    assert finding.sentence.startswith("Provider Azure reports an outage: ACTIVE: SQL Database")
