"""The PagerDuty connector against a local server that answers in the shapes of the REST API."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Alert, Link
from faultline.connectors.shared.contract.base import Request, collect_from
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.vendors.pagerduty.answers import change_kind
from faultline.connectors.vendors.pagerduty.connector import LIMITS, PagerDutyConnector, incident_of
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.pagerduty_server import INCIDENT, SERVICE, alerts, error, serve_incident


def pagerduty_request(folder: Path, *services: str) -> Request:
    """The request for the incident's alert as its webhook gave it."""
    alert = Alert(
        source="pagerduty",
        id=INCIDENT,
        title="Checkout is slow",
        started_at=ALERT_AT,
        service="checkout",
    )
    return request_for(folder, services=services, alert=alert)


def connector(server: LocalServer, **limits: Any) -> PagerDutyConnector:
    """A connector to the local server."""
    chosen = Limits(**{**LIMITS.__dict__, **limits})
    return PagerDutyConnector("token-123", server.url, "bot@example.com", limits=chosen)


def test_changes_alerts_log_and_past_incidents_are_read(
    server: LocalServer, tmp_path: Path
) -> None:
    serve_incident(server)
    collected = asyncio.run(connector(server).collect(pagerduty_request(tmp_path)))
    changes = conform(collected.tables["changes"], "changes", "changes")
    assert {(r["id"], r["kind"], r["service"]) for r in changes.iter_rows(named=True)} == {
        ("01A", "deploy", "checkout"),
        ("01B", "flag", "checkout"),
        ("01C", "merge", "checkout"),
    }
    deploy = changes.filter(id="01A").row(0, named=True)
    assert (deploy["author"], deploy["link"]) == ("dana", "https://ci.example.com/01A")
    monitors = conform(collected.tables["monitors"], "monitors", "monitors")
    assert monitors["monitor"].to_list() == [f"Checkout p99 above {n} s" for n in (1, 2, 3)]
    assert monitors["service"].unique().to_list() == ["checkout"]
    assert collected.missing == ()
    details = {i.query: i.details for i in collected.items}
    assert details[f"body of /incidents/{INCIDENT}/alerts"]["nested.region"] == "eu-1"
    assert "query: p99:checkout" in str(details[f"GET /incidents/{INCIDENT}/log_entries"])
    assert "Checkout was slow" in str(details[f"GET /incidents/{INCIDENT}/past_incidents"])


def test_who_is_on_call_and_related_incidents_are_told_by_name_alone(
    server: LocalServer, tmp_path: Path
) -> None:
    serve_incident(server)
    collected = asyncio.run(connector(server).collect(pagerduty_request(tmp_path)))
    details = {i.query: dict(i.details) for i in collected.items}
    assert details["GET /oncalls?escalation_policy_ids[]=PT20YPA&earliest=true"] == {
        "on call, level 1": "Dana (Daily rotation)",
        "on call, level 2": "PSAM001 (Daily rotation)",
    }
    related = details[f"GET /incidents/{INCIDENT}/related_incidents"]
    assert related == {
        "PR2P3RW 2026-03-02T11:57:00Z": "Cart cannot pay (machine learning inferred)"
    }
    asked = next(a for a in server.asked if a.path == "/oncalls")
    assert (asked.query["escalation_policy_ids[]"], asked.query["earliest"]) == (
        ["PT20YPA"],
        ["true"],
    )
    assert "example.com" not in repr(details)


def test_who_is_on_call_for_a_service_now_is_asked_by_its_escalation_policy(
    server: LocalServer,
) -> None:
    serve_incident(server)
    assert asyncio.run(connector(server).on_call("Cart")) == {
        "on call, level 1": "Dana (Daily rotation)",
        "on call, level 2": "PSAM001 (Daily rotation)",
    }
    asked = next(a for a in server.asked if a.path == "/oncalls")
    assert asked.query["escalation_policy_ids[]"] == ["PT20YPA"]
    assert {a.method for a in server.asked} == {"GET"}
    assert asyncio.run(connector(server).on_call("unheard-of")) == {}
    server.on("/oncalls", Reply({}, 500))
    with pytest.raises(ConnectorError):
        asyncio.run(connector(server).on_call("Cart"))


@pytest.mark.parametrize(
    "broken", [{"oncalls": [None, 5, {"user": "x"}, {"escalation_level": []}]}, {"oncalls": []}]
)
def test_odd_answers_about_who_is_on_call_are_nobody(
    server: LocalServer, tmp_path: Path, broken: Any
) -> None:
    serve_incident(server)
    server.on("/oncalls", Reply(broken))
    collected = asyncio.run(connector(server).collect(pagerduty_request(tmp_path)))
    assert next(i for i in collected.items if "/oncalls" in i.query).details == {}
    assert collected.missing == ()


def test_every_page_is_read_and_the_right_windows_and_headers_are_sent(
    server: LocalServer, tmp_path: Path
) -> None:
    serve_incident(server)
    asyncio.run(connector(server).collect(pagerduty_request(tmp_path)))
    changes = [a for a in server.asked if a.path == f"/services/{SERVICE}/change_events"]
    assert [a.query.get("offset") for a in changes] == [None, ["2"]]
    assert changes[0].query["since"] == ["2026-03-01T09:30:00Z"]
    assert changes[0].query["until"] == ["2026-03-02T12:00:00Z"]
    assert all(a.headers["Authorization"] == "Token token=token-123" for a in server.asked)
    assert server.methods == {"GET"}


def test_a_service_in_scope_is_found_by_its_name_and_its_changes_asked(
    server: LocalServer, tmp_path: Path
) -> None:
    serve_incident(server)
    asyncio.run(connector(server).collect(pagerduty_request(tmp_path, "checkout", "cart")))
    assert "/services/PCART01/change_events" in server.paths()


def test_hostile_alert_text_comes_as_short_printable_details(
    server: LocalServer, tmp_path: Path
) -> None:
    serve_incident(server)
    collected = asyncio.run(connector(server).collect(pagerduty_request(tmp_path)))
    note = next(i.details["note"] for i in collected.items if "note" in i.details)
    assert len(note) <= 500
    assert note.isprintable()


def test_a_page_that_always_says_more_does_not_loop(server: LocalServer, tmp_path: Path) -> None:
    serve_incident(server)
    endless = {"alerts": [], "limit": 0, "offset": 0, "more": True}
    server.on(f"/incidents/{INCIDENT}/alerts", Reply(endless))
    server.on(f"/incidents/{INCIDENT}/log_entries", Reply({"log_entries": [{}], "more": True}))
    asyncio.run(connector(server, requests_per_s=1000).collect(pagerduty_request(tmp_path)))
    assert server.paths().count(f"/incidents/{INCIDENT}/alerts") == 1
    assert server.paths().count(f"/incidents/{INCIDENT}/log_entries") == 100


@pytest.mark.parametrize("status", [402, 403, 404])
def test_past_incidents_outside_the_plan_are_a_gap_that_says_so(
    server: LocalServer, tmp_path: Path, status: int
) -> None:
    serve_incident(server)
    server.on(f"/incidents/{INCIDENT}/past_incidents", error(status, "Forbidden"))
    collected = asyncio.run(connector(server).collect(pagerduty_request(tmp_path)))
    (gap,) = collected.missing
    assert gap.reason.startswith("similar past incidents are not part of this PagerDuty plan")
    assert collected.tables["changes"].height == 3


def test_a_key_that_is_not_accepted_is_a_gap_for_everything_and_is_not_quoted(
    server: LocalServer, tmp_path: Path
) -> None:
    server.on(f"/incidents/{INCIDENT}", error(401, "Unauthorized token-123"))
    collected = asyncio.run(collect_from(connector(server), pagerduty_request(tmp_path)))
    assert {m.kind for m in collected.missing} == {"changes", "monitors", "alert"}
    assert all("authentication failed (HTTP 401)" in m.reason for m in collected.missing)
    assert "token-123" not in repr(collected)


def test_an_incident_that_is_gone_leaves_the_services_changes(
    server: LocalServer, tmp_path: Path
) -> None:
    serve_incident(server)
    server.on(f"/incidents/{INCIDENT}", error(404, "Not Found"))
    known = PagerDutyConnector("t", server.url, services={"checkout": SERVICE})
    collected = asyncio.run(known.collect(pagerduty_request(tmp_path, "checkout")))
    assert collected.tables["changes"].height == 3
    assert any("not found (HTTP 404)" in m.reason for m in collected.missing)


def test_a_429_is_waited_for_as_long_as_pagerduty_says(server: LocalServer, tmp_path: Path) -> None:
    serve_incident(server)
    limited = error(429, "Rate limit exceeded", {"ratelimit-reset": "1"})
    server.on(f"/incidents/{INCIDENT}/past_incidents", limited, Reply({"past_incidents": []}))
    started = time.monotonic()
    collected = asyncio.run(connector(server).collect(pagerduty_request(tmp_path)))
    assert time.monotonic() - started >= 1.0
    assert collected.missing == ()


def test_a_429_that_asks_for_more_than_the_time_left_is_a_gap_at_once(
    server: LocalServer, tmp_path: Path
) -> None:
    serve_incident(server)
    server.on(
        f"/incidents/{INCIDENT}/log_entries",
        error(429, "Rate limit exceeded", {"Retry-After": "3600"}),
    )
    started = time.monotonic()
    collected = asyncio.run(connector(server).collect(pagerduty_request(tmp_path)))
    assert time.monotonic() - started < 15
    assert [m.reason for m in collected.missing if "HTTP 429" in m.reason]


BROKEN = {
    "cut short": (Reply(b'{"alerts": [', claims=500), "no answer"),
    "not JSON": (Reply(b'{"alerts": ['), "not JSON"),
    "another shape": (Reply({"alerts": "none"}), "holds no list of alerts"),
    "server error": (error(500, "oops"), "HTTP 500"),
    "elsewhere": (Reply(b"", status=302, headers={"Location": "https://example.com/"}), "redirect"),
    "too large": (Reply(b'{"alerts": ["' + b"x" * 200_000 + b'"]}'), "limit of 100,000 bytes"),
    "packed": (Reply(b"\x1f\x8b", headers={"Content-Encoding": "gzip"}), "encoding"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_answer_is_one_gap_and_the_others_stand(
    server: LocalServer, tmp_path: Path, case: str
) -> None:
    reply, words = BROKEN[case]
    serve_incident(server)
    server.on(f"/incidents/{INCIDENT}/alerts", reply)
    limits = {"max_bytes": 100_000} if case == "too large" else {}
    collected = asyncio.run(connector(server, **limits).collect(pagerduty_request(tmp_path)))
    assert any(words in m.reason and m.kind == "monitors" for m in collected.missing)
    assert case == "too large" or collected.tables["changes"].height == 3


def test_an_answer_that_drips_ends_at_the_deadline_and_the_rest_is_handed_over(
    server: LocalServer, tmp_path: Path
) -> None:
    serve_incident(server)
    server.on(f"/incidents/{INCIDENT}/alerts", Reply({"alerts": alerts()}, drip_s=0.05))
    started = time.monotonic()
    collected = asyncio.run(
        collect_from(connector(server, deadline_s=4), pagerduty_request(tmp_path))
    )
    assert time.monotonic() - started < 20
    assert collected.tables["changes"].height == 3
    assert any("time limit of 3 s" in m.reason for m in collected.missing)


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
def test_a_write_is_refused_before_anything_is_sent(server: LocalServer, method: str) -> None:
    budget = ByteBudget("answers", 1000)
    with connector(server).session(Deadline.after(5), budget) as session:
        with pytest.raises(Exception, match="not supported"):
            getattr(session, method)(f"/incidents/{INCIDENT}/notes", json={})
        session.permitted_methods = ("GET", method.upper())
        with pytest.raises(ConnectorError, match="a connector sends GET only"):
            getattr(session, method)(f"/incidents/{INCIDENT}/notes", json={})
    assert server.asked == []


def test_a_session_does_not_leave_the_apis_address(server: LocalServer) -> None:
    with (
        connector(server).session(Deadline.after(5), ByteBudget("answers", 1000)) as session,
        pytest.raises(ConnectorError, match="leaves the API's address"),
    ):
        session.parent.request("GET", "http://127.0.0.1:9/")


def test_an_alert_is_enriched_with_the_body_but_keeps_its_identity(server: LocalServer) -> None:
    serve_incident(server)
    alert = Alert(
        source="pagerduty",
        id=INCIDENT,
        title="Slow",
        started_at=ALERT_AT,
        labels={"severity": "P1"},
    )
    richer = asyncio.run(connector(server).enrich(alert))
    assert richer.job == "llm-1"
    assert richer.labels["severity"] == "P1"
    assert "incident_key" not in richer.labels
    assert richer.service == "Checkout Service"
    assert richer.links[0].url == f"https://acme.pagerduty.com/incidents/{INCIDENT}"


@pytest.mark.parametrize(
    "known",
    [
        f"https://acme.pagerduty.com/incidents/{INCIDENT}",
        f"https://acme.eu.pagerduty.com/incidents/{INCIDENT}",
        f"http://127.0.0.1:9999/incidents/{INCIDENT}/?from=slack",
    ],
)
def test_an_alert_has_one_link_to_its_incident(server: LocalServer, known: str) -> None:
    serve_incident(server)
    link = Link(title="PagerDuty incident", url=known)
    alert = Alert(source="pagerduty", id=INCIDENT, title="Slow", started_at=ALERT_AT, links=(link,))
    assert asyncio.run(connector(server).enrich(alert)).links == (link,)


@pytest.mark.parametrize("theirs", [SERVICE, "checkout SERVICE"])
def test_the_catalogue_may_give_pagerdutys_id_or_name_of_a_service(
    server: LocalServer, theirs: str
) -> None:
    serve_incident(server)
    known = PagerDutyConnector("t", server.url, services={"shop-checkout": theirs})
    alert = Alert(source="pagerduty", id=INCIDENT, title="Slow", started_at=ALERT_AT)
    assert asyncio.run(known.enrich(alert)).service == "shop-checkout"


def test_the_incident_is_found_by_id_or_link_and_never_by_text_that_is_not_one() -> None:
    link = Link(title="incident", url="https://acme.pagerduty.com/incidents/PXYZ123?utm=1")
    common = {"title": "t", "started_at": ALERT_AT}
    assert incident_of(Alert(source="pagerduty", id="PT4KHLK", **common)) == "PT4KHLK"  # type: ignore[arg-type]
    assert incident_of(Alert(source="slack", id="C1", links=(link,), **common)) == "PXYZ123"  # type: ignore[arg-type]
    assert incident_of(Alert(source="pagerduty", id="../users/me", **common)) is None  # type: ignore[arg-type]
    evil = Link(title="x", url="https://evil.example/https://acme.pagerduty.com/incidents/PXYZ123")
    assert incident_of(Alert(source="slack", links=(evil,), **common)) is None  # type: ignore[arg-type]


def test_of_several_accounts_the_one_that_sent_an_alert_is_asked_about_its_incident(
    server: LocalServer,
) -> None:
    common = {"id": "PT4KHLK", "title": "t", "started_at": ALERT_AT}
    alert = Alert(source="pagerduty", labels={"pagerduty_account": "eu"}, **common)  # type: ignore[arg-type]
    assert incident_of(alert, "eu") == "PT4KHLK"
    assert incident_of(alert, "us") is None
    accounts = [PagerDutyConnector("t", server.url, account=name) for name in ("eu", "us", "")]
    assert [one.is_of(alert) for one in accounts] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Build Success - Increase snapshot create timeout to 30 seconds", "deploy"),
        ("Deployed v2 (merge pull request #12)", "deploy"),
        ("PR #12 merged into release", "merge"),
        ("Feature flag checkout-v2 toggled", "flag"),
        ("Ran migration 0042_add_index", "migration"),
        ("Scaled checkout from 3 to 1 replicas", "scale"),
        ("Updated configuration of the load balancer", "config"),
        ("Something happened", "deploy"),
    ],
)
def test_the_kind_of_a_change_is_read_from_its_text(text: str, kind: str) -> None:
    assert change_kind(text) == kind


def test_check_says_what_can_be_read_and_what_not(server: LocalServer) -> None:
    serve_incident(server)
    server.on("/change_events", error(403, "Forbidden"))
    check = asyncio.run(connector(server).check())
    assert check.ok
    assert "incidents, services, on-call can be read" in check.line
    needed = "change_events.read, and a plan that has them"
    assert check.unread == (f"change events cannot be read (HTTP 403; needs {needed})",)
    assert check.unread[0] in check.line
    assert server.methods == {"GET"}


def test_the_local_server_and_our_requests_follow_the_published_specification(
    server: LocalServer, tmp_path: Path, shared: Path
) -> None:
    validators = pytest.importorskip("openapi_schema_validator")
    spec = json.loads((shared / "specs" / "pagerduty-rest.prism.json").read_text())
    serve_incident(server)
    asyncio.run(connector(server).collect(pagerduty_request(tmp_path, "checkout", "cart")))
    asyncio.run(connector(server).check())
    checked = set()
    for asked in list(server.asked):
        path = (
            asked.path.replace(INCIDENT, "{id}").replace(SERVICE, "{id}").replace("PCART01", "{id}")
        )
        get = spec["paths"][path]["get"]
        parameters = [
            spec["components"]["parameters"][p["$ref"].rsplit("/", 1)[1]] for p in get["parameters"]
        ]
        assert set(asked.query) <= {p["name"] for p in parameters if p["in"] == "query"}, path
        if not path.endswith(
            "/log_entries"
        ):  # the specification's own example fails its oneOf there
            pointer = (
                f"#/paths/{path.replace('/', '~1')}/get/responses/200/"
                "content/application~1json/schema"
            )
            answer = json.loads(server._reply(asked).bytes)
            validators.OAS30Validator({**spec, "$ref": pointer}).validate(answer)
            checked.add(path)
    assert len(checked) == 10


@pytest.mark.parametrize(
    ("token", "sent"),
    [
        ("u+abcdefghijklmnop", "Token token=u+abcdefghijklmnop"),
        # An example of PagerDuty's own page, "Obtaining an App OAuth Token".
        (
            "pdus+_0XBPWQQ_dfd3c718-4a46-400d-a8ec-45bab1fd417e",
            "Bearer pdus+_0XBPWQQ_dfd3c718-4a46-400d-a8ec-45bab1fd417e",
        ),
        ("pdeu+_0XBPWQQ", "Bearer pdeu+_0XBPWQQ"),
    ],
)
def test_tokens_of_oauth_are_sent_as_such(server: LocalServer, token: str, sent: str) -> None:
    serve_incident(server)
    asyncio.run(PagerDutyConnector(token, server.url).check())
    assert {asked.headers["Authorization"] for asked in server.asked} == {sent}
