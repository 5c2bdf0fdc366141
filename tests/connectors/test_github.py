"""The GitHub connector against a local server in GitHub's shapes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import SecretStr

from faultline.analysis.case.folder import read_case, write_evidence, write_json
from faultline.analysis.case.rounds import Lead
from faultline.analysis.case.tables import conform, write_table
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.errors import ConnectorError, SettingsError
from faultline.analysis.vocabulary import Alert, Diagnosis, Evidence, Link
from faultline.bot.settings import Settings
from faultline.connectors.shared.changes.code_changes import DIFF_LENGTH, DIFFS_LENGTH, PATCH_LENGTH
from faultline.connectors.shared.changes.code_host import (
    MOST_CHANGES,
    MOST_COMPARED,
    MOST_LINES,
    MOST_REPOSITORIES,
)
from faultline.connectors.shared.changes.code_lines import AROUND
from faultline.connectors.shared.changes.code_repository import (
    DEPLOYMENT_PAGES,
    MERGE_PAGES,
    PER_PAGE,
)
from faultline.connectors.shared.contract.abilities import ReadsRepositories
from faultline.connectors.shared.contract.base import Collected, Request, collect_from
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.vendors.code_hosts import GITHUB as CONNECTOR
from faultline.connectors.vendors.code_hosts import GitHubSettings
from faultline.connectors.vendors.code_hosts.github import (
    MOST_FILES,
    MOST_STATUSES,
    GitHubConnector,
    web_of,
)
from tests.connectors import github_shapes as shapes
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import github as stand_in

BASE = f"/repos/{stand_in.REPOSITORY}"
TRACE = (
    'Traceback (most recent call last):\n  File "/app/src/checkout/pool.py", '
    "line 12, in get\nqueue.Empty"
)


def alert(summary: str = TRACE, **fields: Any) -> Alert:
    """Checkout's alert."""
    return Alert(
        source="t",
        title="Checkout is slow: no connection in time",
        started_at=ALERT_AT,
        summary=summary,
        **fields,
    )


def connector(server: LocalServer, *services: str, **limits: Any) -> GitHubConnector:
    """A connector to the local server; the services share one repository."""
    chosen = Limits(**{**GitHubConnector.usual_limits.__dict__, "requests_per_s": 1000, **limits})
    repositories = dict.fromkeys(services or ("checkout",), (stand_in.REPOSITORY,))
    section = GitHubSettings(
        token=SecretStr("secret-token"), api_url=server.url, app_url=shapes.WEB
    )
    return GitHubConnector(section, repositories, limits=chosen)


def request(folder: Path, summary: str = TRACE, *services: str) -> Request:
    """What is asked for checkout's alert."""
    return request_for(folder, services=services or ("checkout",), alert=alert(summary))


def collected(server: LocalServer, folder: Path, summary: str = TRACE) -> Collected:
    """What is brought for checkout's alert."""
    return asyncio.run(collect_from(connector(server), request(folder, summary)))


def changes(found: Collected) -> list[dict[str, Any]]:
    """The rows, in order of time and id."""
    return (
        conform(found.tables["changes"], "changes", "changes").sort("time", "id", "kind").to_dicts()
    )


def test_what_the_last_deployment_carried_stands_at_the_time_it_reached_production(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    found = collected(server, tmp_path)
    rows = {(r["id"], r["kind"]): r for r in changes(found)}
    assert set(rows) == {
        (stand_in.README, "deploy"),
        (stand_in.POOL, "deploy"),
        (stand_in.SETTING, "config"),
        (stand_in.SETTING, "deploy"),
    }
    assert {r["time"] for r in rows.values()} == {stand_in.DEPLOYED}
    assert {r["service"] for r in rows.values()} == {"checkout"}
    pool = rows[stand_in.POOL, "deploy"]
    assert pool["title"] == "Lower the number of pooled connections (#42)"
    assert (pool["author"], pool["link"]) == ("dana", f"{shapes.WEB}/shop/checkout/pull/42")
    assert json.loads(pool["files"]) == [stand_in.POOL_FILE, "logo.png"]
    assert "-connections = queue.Queue(maxsize=64)" in pool["diff"]
    assert found.missing == ()


def test_what_was_merged_afterwards_is_told_and_blamed_for_nothing(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    details = {k: v for item in collected(server, tmp_path).items for k, v in item.details.items()}
    assert (
        details[stand_in.LATER]
        == "merged 2026-03-02 11:55 UTC, not known to be deployed: Tidy up (#43)"
    )
    assert details["2026-03-02 11:10 Tests"] == "failed at bbbbbbbbbbbb"


def test_the_code_at_the_stack_traces_line_is_brought_as_it_was_deployed(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    (item,) = [i for i in collected(server, tmp_path).items if "code" in i.details]
    assert ">    12  connection = connections.get()" in item.details["code"]
    assert item.details["changes that touch this file"] == stand_in.POOL[:12]
    assert (
        item.link == f"{shapes.WEB}/shop/checkout/blob/{stand_in.SETTING}/src/checkout/pool.py#L12"
    )
    asked = next(a for a in server.asked if "/contents/" in a.path)
    assert asked.query["ref"] == [stand_in.SETTING]


def test_every_item_says_how_to_ask_again_and_has_a_link(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    items = collected(server, tmp_path).items
    assert all(i.link and i.link.startswith(f"{shapes.WEB}/shop/checkout/") for i in items)
    assert all(
        i.query.startswith("GET /repos/shop/checkout/") or "code" in i.details for i in items
    )
    compared = next(i for i in items if "/compare/" in i.query)
    assert (
        compared.link == f"{shapes.WEB}/shop/checkout/compare/{stand_in.OLD}...{stand_in.SETTING}"
    )


def diagnosed(found: Collected, folder: Path) -> Diagnosis:
    """The diagnosis of a case with this evidence, and a latency that rises a minute after the
    deployment."""
    case = folder / "case"
    case.mkdir()
    asked = request(folder)
    write_json(
        case / "alert.json",
        asked.alert.model_copy(update={"service": "checkout", "signal": "latency_p99"}),
    )
    write_json(case / "scope.json", asked.scope)
    times = [ALERT_AT - timedelta(seconds=15 * n) for n in range(600, 0, -1)]
    values = [(900.0 if t >= ONSET else 100.0) + n % 7 for n, t in enumerate(times)]
    metrics = {
        "time": times,
        "service": "checkout",
        "signal": "latency_p99",
        "value": values,
        "unit": "ms",
    }
    write_table(case, "metrics", pl.DataFrame(metrics))
    write_table(case, "changes", found.tables["changes"])
    evidence = [
        Evidence(id=f"E{n}", kind=i.kind, source="github", query=i.query)
        for n, i in enumerate(found.items)
    ]
    write_evidence(case, evidence, [])
    return diagnose(read_case(case))


def test_the_diagnosis_blames_the_pull_request_and_none_of_those_deployed_with_it(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    cause = diagnosed(collected(server, tmp_path), tmp_path).causes[0]
    assert (cause.subject, cause.change) == ("checkout", stand_in.POOL)
    assert "Lower the number of pooled connections (#42)" in cause.summary


def test_of_two_changes_alike_the_one_that_touches_the_stack_traces_file_is_blamed(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    pulls = [
        shapes.pull(42, "Tidy up", stand_in.POOL, ALERT_AT - timedelta(minutes=40)),
        shapes.pull(41, "Tidy up", stand_in.README, ALERT_AT - timedelta(minutes=30)),
    ]
    server.on(f"{BASE}/pulls", Reply(pulls))
    for number, path in ((42, stand_in.POOL_FILE), (41, "src/checkout/basket.py")):
        server.on(
            f"{BASE}/pulls/{number}/files",
            Reply([shapes.changed(path, "@@ -1 +1 @@\n-x = 1\n+x = 2\n")]),
        )
    assert diagnosed(collected(server, tmp_path), tmp_path).causes[0].change == stand_in.POOL


def without_deployments(server: LocalServer) -> None:
    """The repository as one that tells GitHub of no deployment."""
    stand_in.serve(server)
    server.on(f"{BASE}/deployments", Reply([]))


def test_without_deployments_the_workflows_that_deploy_count(
    server: LocalServer, tmp_path: Path
) -> None:
    without_deployments(server)
    before = shapes.run(70, "Deploy", stand_in.OLD, ALERT_AT - timedelta(hours=20), "success")
    now = shapes.run(72, "Deploy", stand_in.SETTING, stand_in.DEPLOYED, "success")
    server.on(f"{BASE}/actions/runs", Reply({"total_count": 2, "workflow_runs": [now, before]}))
    rows = {(r["id"], r["kind"]): r for r in changes(collected(server, tmp_path))}
    assert rows[stand_in.POOL, "deploy"]["time"] == stand_in.DEPLOYED


def test_without_workflows_that_deploy_the_releases_count(
    server: LocalServer, tmp_path: Path
) -> None:
    without_deployments(server)
    server.on(f"{BASE}/actions/runs", Reply({"total_count": 0, "workflow_runs": []}))
    releases = [
        shapes.release("v/2", stand_in.DEPLOYED),
        shapes.release("v1", ALERT_AT - timedelta(days=9)),
    ]
    server.on(f"{BASE}/releases", Reply(releases))
    compared = next(v for k, v in server._replies.items() if "/compare/" in k)
    server._replies[f"{BASE}/compare/v1...v%2F2"] = compared
    rows = {r["id"]: r for r in changes(collected(server, tmp_path))}
    assert rows[stand_in.POOL]["time"] == stand_in.DEPLOYED
    assert rows["v/2"]["title"] == "Release v/2"


def test_where_nothing_was_rolled_out_what_was_merged_is_a_merge(
    server: LocalServer, tmp_path: Path
) -> None:
    without_deployments(server)
    server.on(f"{BASE}/actions/runs", Reply({"total_count": 0, "workflow_runs": []}))
    server.on(f"{BASE}/releases", Reply([]))
    rows = changes(collected(server, tmp_path))
    assert [(r["kind"], r["id"][0], r["time"]) for r in rows] == [
        ("merge", "b", ALERT_AT - timedelta(minutes=90)),
        ("merge", "d", ALERT_AT - timedelta(minutes=40)),
        ("merge", "f", ALERT_AT - timedelta(minutes=5)),
    ]


def test_a_deployment_of_an_earlier_revision_says_that_it_goes_back(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    old = shapes.commit(stand_in.OLD, "Before", ALERT_AT, ("9" * 40,))
    back = Reply(shapes.comparison([old], [], behind=4))
    server.on(f"{BASE}/compare/{stand_in.OLD}...{stand_in.SETTING}", back)
    (row,) = changes(collected(server, tmp_path))
    assert (
        row["title"]
        == "Deployment of main to production (back to an earlier revision; 4 commits taken out)"
    )
    assert (row["id"], row["author"]) == (stand_in.SETTING, "deploy-bot")


@pytest.mark.parametrize(("files", "has_more"), [(MOST_FILES - 1, False), (MOST_FILES, True)])
def test_a_long_comparison_says_what_it_leaves_out(
    server: LocalServer, tmp_path: Path, files: int, *, has_more: bool
) -> None:
    stand_in.serve(server)
    old = shapes.commit(stand_in.OLD, "Before", ALERT_AT, ("9" * 40,))
    compared = shapes.comparison([old], [shapes.changed(f"{n:03}.py") for n in range(files)])
    between = f"{BASE}/compare/{stand_in.OLD}...{stand_in.SETTING}"
    server.on(between, Reply({**compared, "total_commits": 7}))
    found = collected(server, tmp_path)
    assert "7 more commits were left out" in [gap.reason for gap in found.missing]
    (row,) = changes(found)
    assert ("(and more files)" in json.loads(row["files"])) is has_more


def test_a_deployment_that_failed_carries_nothing_and_says_so(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    server.on(
        f"{BASE}/deployments/13/statuses", Reply([shapes.status("failure", stand_in.DEPLOYED)])
    )
    (row,) = changes(collected(server, tmp_path))
    assert row["title"] == "Deployment of main to production (failed)"
    assert stand_in.POOL_FILE in json.loads(row["files"])


def test_a_change_that_reached_two_regions_counts_once_from_the_first(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    later, old = stand_in.DEPLOYED + timedelta(minutes=4), ALERT_AT - timedelta(days=2)
    regions = [
        shapes.deployment(23, stand_in.SETTING, "production-us", later),
        shapes.deployment(13, stand_in.SETTING, "production-eu", stand_in.DEPLOYED),
        shapes.deployment(21, stand_in.OLD, "production-us", old),
        shapes.deployment(11, stand_in.OLD, "production-eu", old),
    ]
    server.on(f"{BASE}/deployments", Reply(regions))
    for number, at in ((23, later), (21, old)):
        server.on(f"{BASE}/deployments/{number}/statuses", Reply([shapes.status("success", at)]))
    found = collected(server, tmp_path)
    assert {r["time"] for r in changes(found)} == {stand_in.DEPLOYED}
    assert server.paths().count(f"{BASE}/pulls/42/files") == 1


def test_code_is_read_as_it_was_when_the_alert_came_and_not_as_a_later_deployment_left_it(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    after = ALERT_AT + timedelta(seconds=30)
    fix = shapes.deployment(14, "7" * 40, "production", after)
    known = server._replies[f"{BASE}/deployments"]
    assert isinstance(known, list)
    server.on(f"{BASE}/deployments", Reply([fix, *known[0].body]))
    server.on(f"{BASE}/deployments/14/statuses", Reply([shapes.status("success", after)]))
    (item,) = [i for i in collected(server, tmp_path).items if "code" in i.details]
    assert item.details["revision"] == stand_in.SETTING


def test_the_first_success_counts_and_without_one_the_last_status(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    minute = timedelta(minutes=1)
    began = shapes.status("in_progress", stand_in.DEPLOYED - minute)
    again = [
        shapes.status(s, stand_in.DEPLOYED + n * minute)
        for n, s in enumerate(["success", "success", "inactive"])
    ]
    server.on(f"{BASE}/deployments/13/statuses", Reply([*again[::-1], began]))
    assert {r["time"] for r in changes(collected(server, tmp_path))} == {stand_in.DEPLOYED}
    server.on(
        f"{BASE}/deployments/13/statuses",
        Reply([shapes.status("failure", stand_in.DEPLOYED), began]),
    )
    assert [r["title"] for r in changes(collected(server, tmp_path))] == [
        "Deployment of main to production (failed)"
    ]


@pytest.mark.parametrize("state", ["queued", "pending", "waiting"])
def test_a_deployment_that_waits_has_changed_nothing_yet(
    server: LocalServer, tmp_path: Path, state: str
) -> None:
    stand_in.serve(server)
    server.on(f"{BASE}/deployments/13/statuses", Reply([shapes.status(state, stand_in.DEPLOYED)]))
    assert changes(collected(server, tmp_path)) == []


def test_a_deployment_under_way_has_begun_to_change_things(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    server.on(f"{BASE}/deployments/13/statuses", Reply([shapes.status("in_progress", ONSET)]))
    rows = {(r["id"], r["kind"]): r for r in changes(collected(server, tmp_path))}
    assert rows[stand_in.POOL, "deploy"]["time"] == ONSET
    assert (
        rows[stand_in.SETTING, "deploy"]["title"]
        == "Deployment of main to production (still running)"
    )


@pytest.mark.parametrize(
    "date", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2026-03-02T11:00:00"]
)
def test_a_commit_may_claim_any_date(server: LocalServer, tmp_path: Path, date: str) -> None:
    stand_in.serve(server)
    commits = [
        shapes.commit(s, "x", ALERT_AT, (p,)) for s, p in (("a", "9"), ("b", "a"), ("e", "b"))
    ]
    commits = [json.loads(json.dumps(c).replace("2026-03-02T12:00:00Z", date)) for c in commits]
    for one, sha in zip(commits, (stand_in.OLD, stand_in.README, stand_in.SETTING), strict=True):
        one["sha"], one["parents"] = sha, one["parents"] and [{"sha": stand_in.README}]
    compared = shapes.comparison(commits, [])
    server.on(f"{BASE}/compare/{stand_in.OLD}...{stand_in.SETTING}", Reply(compared))
    found = collected(server, tmp_path)
    assert found.missing == ()
    assert stand_in.SETTING in {r["id"] for r in changes(found)}


def test_the_page_tells_the_limits_as_they_are() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/connectors/github.md").read_text()
    limits = GitHubConnector.usual_limits
    assert f"{limits.requests_per_s:g} a second and {limits.concurrency} at once" in page
    assert f"{limits.max_bytes // 1024**2} MiB and {limits.deadline_s:g} seconds" in page
    listed = DEPLOYMENT_PAGES * PER_PAGE
    assert f"{listed} deployments listed and {MOST_STATUSES} read, {MOST_COMPARED} compared" in page
    assert f"{MERGE_PAGES * PER_PAGE} pull requests, {MOST_CHANGES} changes with files" in page
    assert (
        f"{PATCH_LENGTH:,}\ncharacters of diff of a file, {DIFF_LENGTH:,} "
        f"of a change, {DIFFS_LENGTH:,} in all"
    ) in page
    assert f"{MOST_REPOSITORIES} repositories" in page
    assert f"{AROUND} lines before and after each of the first {MOST_LINES} places" in page
    assert all(
        f"`{name}`" in page for name in ("github.app_id", "github.environments", "github.api_url")
    )


def test_only_the_environments_of_the_settings_count(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    section = GitHubSettings(token=SecretStr("t"), api_url=server.url, environments=("Staging",))
    chosen = GitHubConnector(section, {"checkout": (stand_in.REPOSITORY,)})
    found = asyncio.run(collect_from(chosen, request(tmp_path)))
    assert {r["time"] for r in changes(found)} == {stand_in.DEPLOYED - timedelta(minutes=20)}
    assert any("no earlier deployment is known" in m.reason for m in found.missing)


def test_a_repository_the_alert_names_comes_first_and_one_nobody_configured_is_not_read(
    server: LocalServer, tmp_path: Path
) -> None:
    both = {"cart": ("shop/cart",), "checkout": (stand_in.REPOSITORY,)}
    asked = request_for(
        tmp_path,
        services=("cart",),
        alert=alert(
            labels={"repo": "other/secret"},
            links=(Link(title="x", url=f"{shapes.WEB}/shop/checkout/blob/a/b.py"),),
        ),
    )
    names = GitHubConnector(
        GitHubSettings(api_url=server.url, token=SecretStr("t")), both
    ).repositories_for(asked.alert, asked.scope)
    assert names == ["shop/checkout", "shop/cart"]


def later_request(folder: Path, lead: Lead) -> Request:
    """Of a round about a service to which checkout's alert led."""
    first = request(folder)
    scope = first.scope.model_copy(update={"services": (lead.subject,)})
    links = tuple(Link(title="change", url=url) for url in lead.links)
    return Request(
        alert("", service=lead.subject, links=links),
        scope,
        folder,
        round=2,
        leads=(lead,),
        earlier=((first.alert, first.scope),),
    )


def test_a_later_round_reads_the_repository_of_the_suspected_service(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    settings = stand_in.settings(server.url)
    settings["services"] = {
        "checkout": {"github_repository": ["shop/web"]},
        "payments": {"github_repository": [stand_in.REPOSITORY]},
    }
    made = CONNECTOR.configured(Settings.model_validate(settings))
    assert made is not None
    lead = Lead(subject="payments", because="called by checkout")
    found = asyncio.run(collect_from(made, later_request(tmp_path, lead)))
    assert {row["service"] for row in changes(found)} == {"payments"}
    assert not any("shop/web" in a.path for a in server.asked)


def test_a_link_of_a_change_leads_to_a_repository_of_the_settings_and_to_no_other(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    settings = stand_in.settings(server.url)
    settings["services"] = {
        "checkout": {"github_repository": ["shop/web"]},
        "platform": {"github_repository": [stand_in.REPOSITORY]},
    }
    made = CONNECTOR.configured(Settings.model_validate(settings))
    assert made is not None
    links = (f"{shapes.WEB}/{stand_in.REPOSITORY}/commit/abc", f"{shapes.WEB}/other/secret/pull/1")
    lead = Lead(subject="payments", because="called by checkout", links=links)
    found = asyncio.run(collect_from(made, later_request(tmp_path, lead)))
    assert "payments" in {row["service"] for row in changes(found)}
    assert not any("other/secret" in a.path or "shop/web" in a.path for a in server.asked)


def test_a_repository_that_a_workload_names_is_read_where_the_settings_allow_it(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    settings = stand_in.settings(server.url)
    settings["services"] = {
        "web": {"github_repository": ["shop/web"]},
        "platform": {"github_repository": [stand_in.REPOSITORY]},
    }
    made = CONNECTOR.configured(Settings.model_validate(settings))
    assert isinstance(made, ReadsRepositories)
    address = f"{shapes.WEB}/{stand_in.REPOSITORY}"
    assert made.reads_repository(f"{address}/tree/main")
    assert not made.reads_repository(f"{shapes.WEB}/other/secret")
    lead = Lead(
        kind="repository",
        subject=address,
        because="checkout's workload names it",
        links=(address,),
        service="checkout",
    )
    asked = later_request(tmp_path, lead)
    alert = asked.alert.model_copy(update={"service": None})
    scope = asked.scope.model_copy(update={"services": ()})
    found = asyncio.run(collect_from(made, replace(asked, alert=alert, scope=scope)))
    assert "checkout" in {row["service"] for row in changes(found)}
    assert not any("shop/web" in a.path for a in server.asked)


def test_a_repository_that_was_read_in_the_first_round_is_not_read_again(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    lead = Lead(subject="payments", because="called by checkout")
    shared = connector(server, "checkout", "payments")
    assert asyncio.run(collect_from(shared, later_request(tmp_path, lead))) == Collected()
    assert server.asked == []


def test_no_repository_of_the_services_in_scope_is_a_gap(
    server: LocalServer, tmp_path: Path
) -> None:
    found = asyncio.run(collect_from(connector(server), request(tmp_path, TRACE, "billing")))
    assert [m.reason for m in found.missing] == [
        "no service in scope has a github_repository in the settings"
    ]
    assert server.asked == []


BROKEN = {
    "401": (
        Reply({"message": "Bad credentials"}, status=401),
        "authentication failed (HTTP 401)",
    ),
    "403": (
        Reply({"message": "no"}, status=403),
        "not permitted with these credentials (HTTP 403)",
    ),
    "404": (
        Reply({"message": "Not Found"}, status=404),
        "or the token may not read this repository (HTTP 404)",
    ),
    "429": (Reply({}, status=429, headers={"Retry-After": "3600"}), "rate limit is used up"),
    "500": (Reply({}, status=500), "HTTP 500"),
    "cut": (Reply(b'{"default_bra', claims=500), "no answer"),
    "shape": (Reply(["a"]), "unexpected response"),
    "moved": (
        Reply(b"", status=301, headers={"Location": "https://example.com/"}),
        "was renamed",
    ),
    "large": (Reply(b'"' + b"x" * 300_000 + b'"'), "limit of 100,000 bytes"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_repository_that_cannot_be_read_is_one_gap_that_says_why(
    server: LocalServer, tmp_path: Path, name: str
) -> None:
    reply, said = BROKEN[name]
    stand_in.serve(server)
    server.on(BASE, reply)
    found = asyncio.run(
        collect_from(connector(server, max_bytes=100_000), request(tmp_path, "no trace"))
    )
    (gap,) = found.missing
    assert said in gap.reason
    assert "secret-token" not in repr(found)


@pytest.mark.parametrize(
    "path", ["/deployments", "/actions/runs", "/releases", "/pulls", "/pulls/42/files"]
)
@pytest.mark.parametrize(
    "reply", [Reply({}, status=403), Reply(b"{"), Reply({"message": "x"}, status=502)]
)
def test_a_call_that_fails_is_a_gap_and_the_others_stand(
    server: LocalServer, tmp_path: Path, path: str, reply: Reply
) -> None:
    stand_in.serve(server)
    server.on(BASE + path, reply)
    found = collected(server, tmp_path)
    assert found.missing
    assert all("internal error" not in m.reason for m in found.missing)
    assert changes(found)


def test_a_server_that_drips_is_left_at_the_deadline(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    server.on(f"{BASE}/deployments", Reply([1] * 500, drip_s=0.2))
    found = asyncio.run(collect_from(connector(server, deadline_s=3), request(tmp_path)))
    assert any("time limit" in m.reason or "no answer" in m.reason for m in found.missing)


def test_the_files_of_so_many_changes_are_read_and_the_rest_is_said(
    server: LocalServer, tmp_path: Path
) -> None:
    without_deployments(server)
    server.on(f"{BASE}/actions/runs", Reply({"total_count": 0, "workflow_runs": []}))
    server.on(f"{BASE}/releases", Reply([]))
    many = [
        shapes.pull(n, f"Change {n}", f"{n:040x}", ALERT_AT - timedelta(minutes=n))
        for n in range(1, 81)
    ]
    server.on(f"{BASE}/pulls", Reply(many))
    for n in range(1, 81):
        server.on(f"{BASE}/pulls/{n}/files", Reply([shapes.changed(f"src/{n}.py", "+x\n")]))
    found = collected(server, tmp_path)
    assert len(changes(found)) == 80
    assert sum(1 for a in server.asked if a.path.endswith("/files")) == MOST_CHANGES
    assert any(f"the files of {80 - MOST_CHANGES} more changes" in m.reason for m in found.missing)


def test_hostile_text_stays_text_and_secrets_in_diffs_are_masked(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    token = "ghp_" + "a1" * 18
    evil = shapes.pull(
        42, "<!channel> *x*\x1b[2J\n" * 50, stand_in.POOL, ALERT_AT - timedelta(minutes=40)
    )
    server.on(f"{BASE}/pulls", Reply([evil]))
    server.on(f"{BASE}/pulls/42/files", Reply([shapes.changed("a.py", f"+key = '{token}'\n")]))
    row = next(r for r in changes(collected(server, tmp_path)) if r["id"] == stand_in.POOL)
    assert row["title"].isprintable()
    assert len(row["title"]) <= 200
    assert token not in row["diff"]


def test_code_at_a_revision_is_read_from_configured_repositories_alone(server: LocalServer) -> None:
    stand_in.serve(server)
    own = connector(server)
    lines = asyncio.run(own.code_at(stand_in.REPOSITORY, stand_in.SETTING, stand_in.POOL_FILE, 12))
    assert lines is not None
    assert "connections.get()" in lines.text
    assert asyncio.run(own.code_at(stand_in.REPOSITORY, stand_in.SETTING, "src/none.py", 1)) is None
    asked = len(server.asked)
    for repository, revision, path in (
        ("other/secret", "main", "a.py"),
        (stand_in.REPOSITORY, "main", "../../../other/secret/contents/a.py"),
        (stand_in.REPOSITORY, "main", "config/.env"),
        (stand_in.REPOSITORY, "../x", "a.py"),
        (stand_in.REPOSITORY, "a b", "a.py"),
    ):
        with pytest.raises(ConnectorError):
            asyncio.run(own.code_at(repository, revision, path, 1))
    assert len(server.asked) == asked


def test_a_stack_trace_of_files_that_are_elsewhere_is_a_gap(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    found = collected(server, tmp_path, 'File "/app/other/thing.py", line 3, in x')
    assert any(
        "none of the files that the alert's stack trace names" in m.reason for m in found.missing
    )


def test_a_folder_or_a_broken_content_is_no_code(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    path = f"{BASE}/contents/{stand_in.POOL_FILE.replace('/', '%2F')}"
    for body in (
        [{"type": "dir"}],
        {"type": "symlink"},
        {"type": "file", "encoding": "none"},
        {"type": "file"},
    ):
        server.on(path, Reply(body))
        found = collected(server, tmp_path)
        assert any(m.query.startswith("code at") or "code at" in m.query for m in found.missing)
        assert all("internal error" not in m.reason for m in found.missing)


def test_the_check_says_what_can_be_read_and_warns_when_the_token_can_write(
    server: LocalServer,
) -> None:
    stand_in.serve(server)
    check = asyncio.run(connector(server).check())
    assert check.ok
    assert check.line.endswith("shop/checkout can be read; only GET is sent")
    server.on(BASE, Reply(shapes.repository(), headers={"X-OAuth-Scopes": "repo, read:org"}))
    server.on(f"{BASE}/deployments", Reply({}, status=403))
    check = asyncio.run(connector(server).check())
    assert not check.ok
    assert "but not deployments (HTTP 403)" in check.line
    assert "warning: the token can also write (scopes repo)" in check.line
    server.on(BASE, Reply(shapes.repository(push=True)))
    assert (
        "the token's user may push to shop/checkout" in asyncio.run(connector(server).check()).line
    )
    server.on(BASE, Reply({}, status=404))
    assert "shop/checkout cannot be read (HTTP 404)" in asyncio.run(connector(server).check()).line
    server.on(BASE, Reply({}, status=401))
    assert "authentication failed" in asyncio.run(connector(server).check()).line


def test_the_token_is_sent_and_nothing_but_get(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    collected(server, tmp_path)
    assert server.methods == {"GET"}
    assert {a.headers["Authorization"] for a in server.asked} == {"Bearer secret-token"}
    assert {a.headers["Accept"] for a in server.asked} == {"application/vnd.github+json"}


def test_settings_build_the_connector_or_say_what_is_wrong() -> None:
    assert CONNECTOR.configured(Settings()) is None
    made = CONNECTOR.configured(Settings.model_validate(stand_in.settings("http://127.0.0.1:1")))
    assert made is not None
    assert made.repositories == (stand_in.REPOSITORY,)
    for name in (
        "checkout",
        "shop/../x",
        "shop/checkout/x",
        "https://github.com/shop/x",
        "shop/..",
    ):
        wrong = {"github": {"token": "t"}, "services": {"checkout": {"github_repository": name}}}
        with pytest.raises(SettingsError, match=r"services\.checkout\.github_repository"):
            CONNECTOR.configured(Settings.model_validate(wrong))
    with pytest.raises(SettingsError, match=r"github\.app_id"):
        CONNECTOR.configured(Settings.model_validate({"github": {"private_key": "x"}}))


def test_links_lead_where_people_see_what_the_api_serves() -> None:
    assert web_of("https://api.github.com") == "https://github.com"
    assert web_of("https://api.shop.ghe.com") == "https://shop.ghe.com"
    assert web_of("https://git.shop.example/api/v3") == "https://git.shop.example"


def test_a_service_of_a_shared_repository_gets_the_changes_that_name_it(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    asked = request(tmp_path, "no trace", "checkout", "billing")
    found = asyncio.run(collect_from(connector(server, "checkout", "billing"), asked))
    services = {(r["service"], r["id"]) for r in changes(found) if r["kind"] == "deploy"}
    assert ("checkout", stand_in.POOL) in services
    assert ("billing", stand_in.POOL) not in services
    assert ("billing", stand_in.README) in services


def test_an_alert_about_a_training_job_gets_the_changes_of_the_service_that_runs_it(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    settings = stand_in.settings(server.url)
    settings["services"]["checkout"]["training_job"] = "llm-7b"
    settings["services"]["cart"]["github_repository"] = ["shop/cart"]
    made = CONNECTOR.configured(Settings.model_validate(settings))
    assert made is not None
    found = asyncio.run(collect_from(made, request_for(tmp_path, job="llm-7b", alert=alert())))
    assert {r["service"] for r in changes(found)} == {"llm-7b"}
    assert not any("shop/cart" in a.path for a in server.asked)


def test_pages_beyond_the_cap_are_said(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    pool = shapes.pull(42, "Pool", stand_in.POOL, ALERT_AT - timedelta(minutes=40))

    def endless(asked: Asked) -> Reply:
        page = int(asked.query.get("page", ["1"])[0])
        return Reply([pool], headers={"Link": f'<https://x/y?page={page + 1}>; rel="next"'})

    server.on(f"{BASE}/pulls", endless)
    cuts = [i.cut for i in collected(server, tmp_path).items if i.cut]
    assert "only the latest 3 closed pull requests were asked" in cuts
