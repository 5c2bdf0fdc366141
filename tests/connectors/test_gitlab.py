"""The GitLab connector against a local server in GitLab's shapes; what it shares with GitHub's is
tested there."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from faultline.analysis.case.tables import conform
from faultline.analysis.errors import SettingsError
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.changes.code_host import SKEW
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.vendors.code_hosts import GITLAB as CONNECTOR
from faultline.connectors.vendors.code_hosts import GitLabSettings
from faultline.connectors.vendors.code_hosts.gitlab import GitLabConnector
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import gitlab as stand_in
from tests.connectors.stand_ins.github import DEPLOYED, LATER, OLD, POOL, POOL_FILE, README, SETTING
from tests.connectors.test_github import TRACE, diagnosed

API = stand_in.API


def connector(server: LocalServer, **limits: Any) -> GitLabConnector:
    """A connector to the local server."""
    chosen = Limits(**{**GitLabConnector.usual_limits.__dict__, "requests_per_s": 1000, **limits})
    section = GitLabSettings(token=SecretStr("secret-token"), url=server.url)
    return GitLabConnector(section, {"checkout": (stand_in.PROJECT,)}, limits=chosen)


def collected(server: LocalServer, folder: Path, summary: str = TRACE, **limits: Any) -> Collected:
    """What is brought for checkout's alert."""
    alert = Alert(source="t", title="Checkout is slow", started_at=ALERT_AT, summary=summary)
    request = request_for(folder, services=("checkout",), alert=alert)
    return asyncio.run(collect_from(connector(server, **limits), request))


def changes(found: Collected) -> list[dict[str, Any]]:
    """The rows, in order of time and id."""
    return (
        conform(found.tables["changes"], "changes", "changes").sort("time", "id", "kind").to_dicts()
    )


def test_what_the_last_deployment_carried_stands_at_the_time_its_job_ended(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    found = collected(server, tmp_path)
    rows = {(r["id"], r["kind"]): r for r in changes(found)}
    assert set(rows) == {
        (README, "deploy"),
        (POOL, "deploy"),
        (SETTING, "config"),
        (SETTING, "deploy"),
    }
    assert {r["time"] for r in rows.values()} == {DEPLOYED}
    pool = rows[POOL, "deploy"]
    assert pool["title"] == "Lower the number of pooled connections (!42)"
    assert (pool["author"], pool["link"]) == (
        "dana",
        f"{server.url}/shop/web/checkout/-/merge_requests/42",
    )
    assert json.loads(pool["files"]) == [POOL_FILE, "logo.png"]
    assert "-connections = queue.Queue(maxsize=64)" in pool["diff"]
    assert rows[SETTING, "deploy"]["link"] == f"{server.url}/shop/web/checkout/-/jobs/913"
    assert found.missing == ()
    details = {k: v for item in found.items for k, v in item.details.items()}
    assert details[LATER].startswith("merged 2026-03-02 11:55 UTC")
    assert details["2026-03-02 11:10 Tests"] == f"failed at {README[:12]}"


def test_the_code_at_the_stack_traces_line_is_brought_as_it_was_deployed(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    (item,) = [i for i in collected(server, tmp_path).items if "code" in i.details]
    assert ">    12  connection = connections.get()" in item.details["code"]
    assert item.details["changes that touch this file"] == POOL[:12]
    assert item.link == f"{server.url}/shop/web/checkout/-/blob/{SETTING}/src/checkout/pool.py#L12"


def test_the_diagnosis_blames_the_merge_request(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    cause = diagnosed(collected(server, tmp_path), tmp_path).causes[0]
    assert (cause.subject, cause.change) == ("checkout", POOL)


def test_the_windows_the_page_sizes_and_the_token_are_sent_and_nothing_but_get(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    collected(server, tmp_path)
    first, second = [a for a in server.asked if a.path == f"{API}/merge_requests"]
    assert first.query["updated_after"] == ["2026-03-01T09:30:00Z"]
    assert first.query["target_branch"] == ["main"]
    assert second.query["page"] == ["2"]
    assert {a.headers["Private-Token"] for a in server.asked} == {"secret-token"}
    assert server.methods == {"GET"}


def test_commits_of_one_fast_forwarded_merge_request_are_one_change(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    server.on(f"{API}/merge_requests", Reply([]))
    one = stand_in.merge(
        42, "Pool", ALERT_AT - timedelta(minutes=40), merge_sha=None, squash_sha=None
    )
    for sha in (README, POOL, SETTING):
        server.on(f"{API}/repository/commits/{sha}/merge_requests", Reply([one]))
    rows = [r for r in changes(collected(server, tmp_path)) if r["title"] == "Pool (!42)"]
    assert len(rows) == 1


def test_a_deployment_of_an_earlier_revision_says_that_it_goes_back(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    server.on(
        f"{API}/repository/compare", Reply({"commits": [], "diffs": [], "compare_timeout": False})
    )
    (row,) = changes(collected(server, tmp_path))
    assert row["title"] == "Deployment of main to production (back to an earlier revision)"


def test_a_deployment_that_still_runs_began_with_its_job(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    running = stand_in.deployment(13, SETTING, "production", DEPLOYED, "running")
    running["deployable"]["finished_at"] = None
    before = stand_in.deployment(11, OLD, "production", ALERT_AT - timedelta(days=2))
    stopped = stand_in.deployment(12, README, "production", DEPLOYED, "canceled")
    server.on(f"{API}/deployments", Reply([running, stopped, before]))
    rows = {(r["id"], r["kind"]): r for r in changes(collected(server, tmp_path))}
    own = rows[SETTING, "deploy"]
    assert own["title"] == "Deployment of main to production (still running)"
    assert own["time"] == DEPLOYED - timedelta(minutes=1)


def test_a_deployment_after_the_window_is_left_out(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    end = ALERT_AT + SKEW
    after = stand_in.deployment(14, LATER, "production", end + timedelta(seconds=1))
    at_its_end = stand_in.deployment(13, SETTING, "production", end)
    before = stand_in.deployment(11, OLD, "production", ALERT_AT - timedelta(days=2))
    server.on(f"{API}/deployments", Reply([after, at_its_end, before]))
    found = collected(server, tmp_path)
    assert {row["time"] for row in changes(found)} == {end}
    (deployments,) = [item for item in found.items if "/deployments" in item.query]
    assert deployments.rows == 2


def test_without_deployments_the_pipelines_that_deploy_count(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    server.on(f"{API}/deployments", Reply([]))
    pipelines = [
        stand_in.pipeline(72, "Deploy to production", SETTING, DEPLOYED, "success"),
        stand_in.pipeline(
            70, "Deploy to production", OLD, ALERT_AT - timedelta(hours=20), "success"
        ),
    ]
    server.on(f"{API}/pipelines", Reply(pipelines))
    rows = {(r["id"], r["kind"]): r for r in changes(collected(server, tmp_path))}
    assert rows[POOL, "deploy"]["time"] == DEPLOYED


BROKEN = {
    "401": (
        Reply({"message": "401 Unauthorized"}, status=401),
        "authentication failed (HTTP 401)",
    ),
    "403": (
        Reply({"message": "403 Forbidden"}, status=403),
        "not permitted with these credentials (HTTP 403)",
    ),
    "404": (
        Reply({"message": "404 Not Found"}, status=404),
        "or the token may not read this project (HTTP 404)",
    ),
    "429": (
        Reply(b"Retry later", status=429, headers={"Retry-After": "3600"}),
        "rate limit is used up",
    ),
    "500": (Reply({}, status=500), "HTTP 500"),
    "cut": (Reply(b'{"path_wi', claims=500), "no answer"),
    "shape": (Reply(["a"]), "unexpected response"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_project_that_cannot_be_read_is_one_gap_that_says_why(
    server: LocalServer, tmp_path: Path, name: str
) -> None:
    reply, said = BROKEN[name]
    stand_in.serve(server)
    server.on(API, reply)
    found = collected(server, tmp_path, "no trace")
    (gap,) = found.missing
    assert said in gap.reason
    assert "secret-token" not in repr(found)


CALLS = (
    "deployments",
    "pipelines",
    "releases",
    "merge_requests",
    "repository/compare",
    "merge_requests/42/diffs",
)


@pytest.mark.parametrize("path", CALLS)
@pytest.mark.parametrize("reply", [Reply({}, status=403), Reply(b"{"), Reply([{"id": "x"}])])
def test_a_call_that_fails_is_a_gap_and_the_others_stand(
    server: LocalServer, tmp_path: Path, path: str, reply: Reply
) -> None:
    stand_in.serve(server)
    server.on(f"{API}/{path}", reply)
    found = collected(server, tmp_path)
    assert found.missing
    assert all("internal error" not in m.reason for m in found.missing)
    assert changes(found)


def test_the_check_says_what_can_be_read_and_warns_when_the_token_can_write(
    server: LocalServer,
) -> None:
    stand_in.serve(server)
    check = asyncio.run(connector(server).check())
    assert check.ok
    assert check.line.endswith("shop/web/checkout can be read; only GET is sent")
    server.on("/api/v4/personal_access_tokens/self", Reply({"scopes": ["api", "read_api"]}))
    server.on(f"{API}/pipelines", Reply({}, status=403))
    check = asyncio.run(connector(server).check())
    assert not check.ok
    assert "but not pipelines (HTTP 403)" in check.line
    assert "warning: the token can also write (scopes api)" in check.line
    server.on("/api/v4/personal_access_tokens/self", Reply({}, status=404))
    access = {"project_access": None, "group_access": {"access_level": 40}}
    server.on(API, Reply({"path_with_namespace": stand_in.PROJECT, "permissions": access}))
    assert "may push to shop/web/checkout" in asyncio.run(connector(server).check()).line
    server.on("/api/v4/personal_access_tokens/self", Reply({}, status=401))
    assert "authentication failed" in asyncio.run(connector(server).check()).line


def test_settings_build_the_connector_or_say_what_is_wrong() -> None:
    assert CONNECTOR.configured(Settings()) is None
    made = CONNECTOR.configured(Settings.model_validate(stand_in.settings("http://127.0.0.1:1")))
    assert made is not None
    assert made.repositories == (stand_in.PROJECT,)
    for name in ("checkout", "shop/../x", "/shop/x", "https://gitlab.com/shop/x", "shop/x?y"):
        wrong = {"gitlab": {"token": "t"}, "services": {"checkout": {"gitlab_project": name}}}
        with pytest.raises(SettingsError, match=r"services\.checkout\.gitlab_project"):
            CONNECTOR.configured(Settings.model_validate(wrong))


def test_the_page_tells_the_limits_as_they_are() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/connectors/gitlab.md").read_text()
    limits = GitLabConnector.usual_limits
    assert f"{limits.requests_per_s:g} a second and {limits.concurrency} at once" in page
    assert f"{limits.max_bytes // 1024**2} MiB and {limits.deadline_s:g} seconds" in page
    assert all(
        f"`{name}`" in page
        for name in ("FAULTLINE_GITLAB__TOKEN", "gitlab.url", "gitlab.environments")
    )
