"""The Sentry connector against a local server that answers in the shapes of its API."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.folder import read_case, write_evidence, write_json
from faultline.analysis.case.tables import SCHEMAS, conform, write_table
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Alert, Diagnosis, Evidence, Gap, Link
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.shared.transport.transport import retry_after
from faultline.connectors.vendors.sentry import CONNECTOR
from faultline.connectors.vendors.sentry import connector as sentry
from faultline.connectors.vendors.sentry import issues as sentry_issues
from faultline.connectors.vendors.sentry import releases as sentry_releases
from faultline.connectors.vendors.sentry.answers import (
    ListedEvent,
    SentryApiEvent,
    breadcrumbs_of,
    folded,
    frames_of,
)
from faultline.connectors.vendors.sentry.connector import SentryConnector, page_address
from faultline.connectors.vendors.sentry.issues import alike_sampled, issue_of
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import sentry as stand_in
from tests.connectors.stand_ins.sentry import (
    COMMIT,
    DEPLOYED,
    NEW,
    OLD,
    ORGANIZATION,
    PROJECT,
    RELEASE,
)


def connector(server: LocalServer) -> SentryConnector:
    """From settings, as the bot builds it."""
    built = CONNECTOR.configured(Settings.model_validate(stand_in.settings(server.url)))
    assert built is not None
    return built


def alert(**given: Any) -> Alert:
    """An alert about checkout."""
    return Alert(
        **{
            "source": "pagerduty",
            "title": "Checkout fails",
            "started_at": ALERT_AT,
            "service": "checkout",
        }
        | given
    )


def collect(server: LocalServer, folder: Path, about: Alert | None = None) -> Collected:
    """What is collected for an alert."""
    request = request_for(folder, services=("checkout", "cart"), alert=about or alert())
    return asyncio.run(collect_from(connector(server), request))


def reasons(found: Collected) -> str:
    """All gaps in one text."""
    return " | ".join(f"{m.query}: {m.reason}" for m in found.missing)


@pytest.fixture
def sentry_server(server: LocalServer) -> LocalServer:
    """Sentry, with its incident."""
    stand_in.serve(server)
    return server


def test_events_become_log_lines_with_the_folded_stack_trace(
    sentry_server: LocalServer, tmp_path: Path
) -> None:
    found = collect(sentry_server, tmp_path)
    logs = conform(found.tables["logs"], "logs", "logs")
    new = logs.filter(logs["message"].str.contains("PoolTimeout"))
    assert new["time"].min() == ONSET
    assert set(logs["service"]) == {"checkout"}
    assert set(logs["level"]) == {"ERROR"}
    message = new["message"][0]
    assert (
        "at acquire (checkout/payments/pool.py:88), pay (checkout/orders/views.py:42), wait"
        in message
    )
    said = json.loads(new["attributes"][0])
    assert (said["release"], said["issue"], said["environment"]) == (
        RELEASE,
        "CHECKOUT-1",
        "production",
    )
    assert found.missing == ()


def test_counts_of_an_issue_keep_their_proportion(
    sentry_server: LocalServer, tmp_path: Path
) -> None:
    logs = collect(sentry_server, tmp_path).tables["logs"]
    old = logs.filter(logs["message"].str.contains("KeyError"))
    now = old.filter(old["time"] >= ALERT_AT - timedelta(minutes=30)).height
    before = old.height - now
    assert now >= 15
    assert before / now == pytest.approx(4, rel=0.1)


def test_of_windows_with_more_events_than_are_listed_the_same_share_is_kept() -> None:
    listed = [ListedEvent() for _ in range(100)]
    kept, cut = alike_sampled((listed, 1_000), (listed, 10_000))
    assert len(kept) == 10 + 100
    assert cut == "110 of 11,000 events, chosen at random"
    assert alike_sampled((listed, 100), (listed[:3], 3)) == ([*listed, *listed[:3]], None)
    assert alike_sampled((listed, 0), ([], 0)) == (listed, None)


def test_errors_per_minute_are_a_metric_of_the_service(
    sentry_server: LocalServer, tmp_path: Path
) -> None:
    metrics = conform(collect(sentry_server, tmp_path).tables["metrics"], "metrics", "metrics")
    assert set(metrics["signal"]) == {"error_rate"}
    assert metrics.filter(metrics["time"] < ONSET)["value"].max() == 1
    assert metrics.filter(metrics["time"] >= ONSET)["value"].min() == 10
    assert metrics["time"].min() == ALERT_AT - timedelta(minutes=150)


def test_the_query_of_a_metric_alert_is_counted_beside_the_projects_errors(
    sentry_server: LocalServer, tmp_path: Path
) -> None:
    labels = {"sentry_project": "checkout", "query": "level:fatal", "aggregate": "count()"}
    metrics = collect(sentry_server, tmp_path, alert(source="sentry", labels=labels)).tables[
        "metrics"
    ]
    counted = [a for a in sentry_server.asked if a.path == f"{ORGANIZATION}/events-timeseries/"]
    assert counted[0].query["query"] == ["level:fatal"]
    assert len(counted) == 2
    assert set(metrics["labels"]) == {None, '{"query": "level:fatal"}'}


def test_releases_come_with_deploy_commits_and_files(
    sentry_server: LocalServer, tmp_path: Path
) -> None:
    changes = conform(collect(sentry_server, tmp_path).tables["changes"], "changes", "changes")
    by_id = {r["id"]: r for r in changes.iter_rows(named=True)}
    assert set(by_id) == {RELEASE, COMMIT}
    for row in by_id.values():
        assert (row["time"], row["service"], row["kind"], row["author"]) == (
            DEPLOYED,
            "checkout",
            "deploy",
            "Dana",
        )
        assert json.loads(row["files"]) == ["checkout/payments/pool.py", "checkout/settings.py"]
    assert (
        by_id[RELEASE]["title"]
        == "Release 2.4.1 to production: Wait 50 ms for a connection of the payments pool"
    )
    assert by_id[COMMIT]["title"] == "Wait 50 ms for a connection of the payments pool"


def test_a_deploy_to_another_environment_is_no_change(
    sentry_server: LocalServer, tmp_path: Path
) -> None:
    staging = {"id": "1", "environment": "staging", "name": "d", "url": None, "dateStarted": None}
    path = f"{ORGANIZATION}/releases/checkout%402.4.1/deploys/"
    sentry_server.on(path, Reply([staging | {"dateFinished": "2026-03-02T11:48:00Z"}]))
    assert collect(sentry_server, tmp_path).tables["changes"].height == 0


def test_items_hold_stack_breadcrumbs_query_and_link(
    sentry_server: LocalServer, tmp_path: Path
) -> None:
    found = collect(sentry_server, tmp_path)
    issue = next(
        i for i in found.items if i.details.get("issue") == "CHECKOUT-1" and i.kind == "logs"
    )
    assert issue.details["frame 1"] == "acquire (checkout/payments/pool.py:88)"
    assert issue.details["frame 3"] == "wait (threading.py:327)"
    assert "POST https://payments/charge 503" in issue.details["breadcrumb 1"]
    assert "tag user" not in issue.details
    assert issue.link is not None
    assert issue.link.startswith(
        f"{sentry_server.url}/organizations/acme/issues/4001/?start=2026-03-02T11%3A30%3A00Z"
    )
    assert all(i.link and i.query.startswith("GET /api/0/") for i in found.items)


def test_the_alerts_own_issue_is_read_first(sentry_server: LocalServer, tmp_path: Path) -> None:
    collect(sentry_server, tmp_path, alert(source="sentry", service=None, labels={"issue_id": OLD}))
    assert sentry_server.paths()[0] == f"{ORGANIZATION}/issues/{OLD}/"
    projects = {a.query["project"][0] for a in sentry_server.asked if "project" in a.query}
    assert projects == {"checkout"}


def test_the_environments_of_the_settings_are_asked(
    sentry_server: LocalServer, tmp_path: Path
) -> None:
    collect(sentry_server, tmp_path)
    listed = [a for a in sentry_server.asked if a.path == f"{ORGANIZATION}/issues/"]
    assert all(a.query["environment"] == ["production"] for a in listed)
    assert {a.query["start"][0] for a in listed} == {"2026-03-02T11:30:00Z", "2026-03-02T09:30:00Z"}


def test_only_get_is_sent(sentry_server: LocalServer, tmp_path: Path) -> None:
    collect(sentry_server, tmp_path)
    asyncio.run(connector(sentry_server).check())
    assert sentry_server.methods == {"GET"}
    assert all(a.headers["Authorization"] == "Bearer sntrys_1" for a in sentry_server.asked)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, {"detail": "Invalid token"}, "authentication failed (HTTP 401)"),
        (
            403,
            {"detail": "You do not have permission to perform this action."},
            "not permitted with these credentials",
        ),
        (404, {"detail": "The requested resource does not exist"}, "not found (HTTP 404)"),
        (500, {"detail": "Internal Error", "errorId": None}, "refused (HTTP 500)"),
        (200, b'[{"id": "1", "tit', "unexpected response"),
        (200, {"id": 5}, "unexpected response"),
    ],
)
def test_a_refusal_is_a_gap_and_the_rest_stands(
    sentry_server: LocalServer, tmp_path: Path, status: int, body: Any, said: str
) -> None:
    sentry_server.on(f"{ORGANIZATION}/issues/", Reply(body, status=status))
    found = collect(sentry_server, tmp_path)
    assert said in reasons(found)
    assert "internal error" not in reasons(found)
    assert found.tables["metrics"].height
    assert found.tables["changes"].height


def test_a_refused_token_says_so_for_everything(sentry_server: LocalServer, tmp_path: Path) -> None:
    for path in list(sentry_server._replies):
        sentry_server.on(path, Reply({"detail": "Invalid token sntrys_1"}, status=401))
    found = collect(sentry_server, tmp_path, alert(source="sentry", labels={"issue_id": NEW}))
    assert {m.kind for m in found.missing} == {"logs", "metrics", "changes"}
    assert "authentication failed" in reasons(found)
    assert "sntrys_1" not in reasons(found)


def test_a_rate_limit_is_waited_for(sentry_server: LocalServer, tmp_path: Path) -> None:
    first = [
        Reply(
            {"detail": "You are attempting to use this endpoint too frequently."},
            429,
            {"Retry-After": "0"},
        )
    ]
    answer = sentry_server._replies[f"{PROJECT}/releases/"]
    assert isinstance(answer, list)
    sentry_server.on(f"{PROJECT}/releases/", *first, *answer)
    assert collect(sentry_server, tmp_path).missing == ()


def test_the_moment_that_sentry_names_is_when_a_request_is_made_again() -> None:
    now = time.time()
    assert 20 < retry_after({"x-sentry-rate-limit-reset": str(int(now) + 30)}, 0.5) <= 30
    assert retry_after({"x-sentry-rate-limit-reset": str(int(now) - 30)}, 0.5) == 0
    assert retry_after({"x-sentry-rate-limit-reset": "soon"}, 0.5) == 0.5
    assert (
        retry_after({"retry-after": "2", "x-sentry-rate-limit-reset": str(int(now) + 30)}, 0.5) == 2
    )


def test_an_issue_that_is_gone_is_a_gap(sentry_server: LocalServer, tmp_path: Path) -> None:
    found = collect(sentry_server, tmp_path, alert(source="sentry", labels={"issue_id": "99"}))
    assert "GET /api/0/organizations/acme/issues/99/" in reasons(found)
    assert found.tables["logs"].height


def test_without_a_project_in_scope_the_gap_names_the_setting(
    sentry_server: LocalServer, tmp_path: Path
) -> None:
    request = request_for(tmp_path, services=("cart",), alert=alert(service="cart"))
    found = asyncio.run(collect_from(connector(sentry_server), request))
    assert "services.NAME.sentry_project" in reasons(found)
    assert sentry_server.asked == []


HOSTILE: tuple[list[Any], ...] = (
    [],
    [5, None, {"type": 1, "data": []}],
    [
        {
            "type": "exception",
            "data": {
                "values": [None, {"stacktrace": {"frames": [1, {"function": "x\x00\n" * 999}]}}]
            },
        }
    ],
    [
        {"type": "exception", "data": {"values": "none"}},
        {"type": "breadcrumbs", "data": {"values": [{"data": 5}, 7]}},
    ],
)


@pytest.mark.parametrize("entries", HOSTILE)
def test_hostile_entries_give_short_lines(entries: list[Any]) -> None:
    event = SentryApiEvent(entries=entries)
    for text in (*frames_of(event), *breadcrumbs_of(event), folded("t\x1b[31m\n" * 500, event)):
        assert text.isprintable() or not text
        assert len(text) < 1_200


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://acme.sentry.io/issues/77/?project=1", "77"),
        ("https://sentry.io/organizations/acme/issues/77/events/abc/", "77"),
        ("https://sentry.example.com/organizations/acme/issues/77", "77"),
        ("https://github.com/acme/sentry/issues/77", None),
        ("https://acme.sentry.io/issues/CHECKOUT-1/", None),
    ],
)
def test_an_issue_is_found_by_its_link(url: str, found: str | None) -> None:
    assert issue_of(alert(links=(Link(title="x", url=url),))) == found


def test_pages_of_regions_are_on_the_main_host() -> None:
    assert page_address("https://de.sentry.io") == "https://sentry.io"
    assert page_address("https://sentry.example.com") == "https://sentry.example.com"


def test_check_says_what_can_be_read(sentry_server: LocalServer) -> None:
    said = asyncio.run(connector(sentry_server).check())
    assert said.ok
    assert "issues, counts, releases can be read; only GET is sent" in said.line
    assert "warning" not in said.line


def test_check_warns_of_a_token_that_can_write(sentry_server: LocalServer) -> None:
    sentry_server.on("/api/0/", Reply({"auth": {"scopes": ["event:read", "event:admin"]}}))
    sentry_server.on(f"{PROJECT}/releases/", Reply({"detail": "no"}, status=403))
    said = asyncio.run(connector(sentry_server).check())
    assert (
        "releases cannot be read (not permitted with these credentials; needs project:read)"
        in said.line
    )
    assert "the token can also write (event:admin)" in said.line


def test_check_of_a_server_that_does_not_answer() -> None:
    said = asyncio.run(SentryConnector("acme", "t", "http://127.0.0.1:9").check())
    assert not said.ok
    assert "no answer" in said.line


def test_scopes_that_write_are_known() -> None:
    assert [
        bool(sentry._WRITES.fullmatch(s))
        for s in ("event:read", "project:releases", "org:ci", "team:write")
    ] == [
        False,
        True,
        True,
        True,
    ]


def test_documented_limits_are_the_real_ones() -> None:
    page = (Path(__file__).parents[2] / "docs/connectors/sentry.md").read_text()
    limits = sentry.LIMITS
    rate = f"{limits.requests_per_s:g} requests a second and {limits.concurrency} at once"
    assert f"{rate}, {limits.max_bytes // 1024**2} MiB and {limits.deadline_s:g} seconds" in page
    assert f"at most {sentry.MOST_PROJECTS} projects" in page
    assert f"up to {sentry_issues.MOST_ISSUES}:" in page
    assert f"up to {sentry_issues.PAGE} each" in page
    assert f"at most {sentry_releases.MOST_RELEASES} |" in page


def diagnosed(server: LocalServer, folder: Path) -> Diagnosis:
    """The case that a collection makes, diagnosed."""
    (folder / "traces").mkdir(parents=True)
    request = request_for(folder / "traces", services=("checkout",), alert=alert())
    found = asyncio.run(collect_from(connector(server), request))
    write_json(folder / "alert.json", request.alert)
    write_json(folder / "scope.json", request.scope)
    items = [
        Evidence(id=f"E{n}", kind=i.kind, source="sentry", query=i.query)
        for n, i in enumerate(found.items)
    ]
    gaps = [
        Gap(id=f"G{n}", kind=m.kind, source="sentry", query=m.query, reason=m.reason)
        for n, m in enumerate(found.missing)
    ]
    write_evidence(folder, items, gaps)
    for name in SCHEMAS:
        if name in found.tables and found.tables[name].height:
            write_table(folder, name, found.tables[name])
    return diagnose(read_case(folder))


def test_the_new_error_and_the_release_that_brought_it_are_diagnosed(
    sentry_server: LocalServer, tmp_path: Path
) -> None:
    found = diagnosed(sentry_server, tmp_path)
    assert (found.verdict, found.causes[0].subject) == ("cause_found", "checkout")
    assert found.causes[0].change in (RELEASE, COMMIT)
    kinds = {f.kind for f in found.findings}
    assert {"metric_shift", "change_near"} <= kinds
    assert any(
        "PoolTimeout" in f.sentence and f.kind in ("log_new", "failure_signature")
        for f in found.findings
    )
    assert not any("KeyError" in f.sentence for f in found.findings)
