"""The API over real HTTP: what it takes, what it gives, and whom it refuses."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import text
from starlette.applications import Starlette

from faultline.bot.answer.replay import json_of
from faultline.bot.answer.view import answer_view
from faultline.bot.api.routes import api_routes
from faultline.bot.intake.accepting import store_accept
from faultline.bot.intake.spool import Spool
from faultline.bot.intake.spooling import SpoolingAccept
from faultline.bot.settings import ServerSettings, Settings
from faultline.bot.store.listing import Labels
from faultline.bot.store.quotas import TokenLimits
from faultline.bot.store.visitors import AuditFilter, AuditLog
from faultline.bot.web.pages import page_routes
from tests.bot.api.conftest import TOKEN, Program
from tests.bot.web.sample_case import ALERT, DIAGNOSIS, EVIDENCE, GAPS, REPORT, write_sample_case
from tests.bot.web.serving import PATIENT_S, Server, Site, serving

ALL = "/api/investigations"
ASKED = {"question": "checkout is slow", "service": "checkout"}


def answered(site: Site) -> str:
    known = site.investigate(ALERT)
    write_sample_case(site.cases / known)
    site.store.start(known)
    site.store.finish(
        known, "done", verdict="cause_found", confidence=0.86, headline=REPORT.headline
    )
    return known


def test_a_request_is_stored_as_an_alert_would_be_and_waits_for_a_worker(
    site: Site, program: Program
) -> None:
    client = program()
    given = {**ASKED, "since": "2026-11-20T03:00Z", "places": {"cluster": "eu-1"}}
    answer = client.post(ALL, json=given)
    assert answer.status_code == 202
    started = answer.json()
    assert started["outcome"] == "started"
    assert site.store.undispatched() == [started["id"]]
    stored = site.store.get(started["id"])
    assert stored is not None
    assert (stored.question, stored.alert.service) == ("checkout is slow", "checkout")
    assert stored.alert.started_at == datetime(2026, 11, 20, 3, tzinfo=UTC)
    assert (stored.alert.source, stored.alert.labels["cluster"]) == ("api", "eu-1")
    shown = client.get(f"{ALL}/{started['id']}").json()
    assert (shown["status"], shown["source"], shown["verdict"]) == ("accepted", "api", None)
    assert client.get(f"{ALL}/{started['id']}/answer").status_code == 409


def test_the_same_key_is_the_same_investigation_and_of_one_caller(
    site: Site, program: Program
) -> None:
    client, other = program(), program()
    key = {"idempotency-key": "deploy-7"}
    first = client.post(ALL, json=ASKED, headers=key)
    again = client.post(ALL, json=ASKED, headers=key)
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json()["id"] == first.json()["id"]
    assert again.json()["outcome"] == "duplicate"
    for changed in ({"since": "30m"}, {"service": "cart"}, {"places": {"cluster": "x"}}):
        refused = client.post(ALL, json={**ASKED, **changed}, headers=key)
        assert refused.status_code == 422
        assert "idempotency key was used for another request" in refused.json()["error"]
    relative = {**ASKED, "since": "30m"}
    late = {"idempotency-key": "deploy-8"}
    ids = {client.post(ALL, json=relative, headers=late).json()["id"] for _ in range(2)}
    assert len(ids) == 1, "30m is another time the second time, and the same request"
    assert other.post(ALL, json=ASKED, headers=key).json()["outcome"] == "started"
    # The key that an answer names is the one to ask with again.
    named = client.post(ALL, json=ASKED).json()
    found = client.post(ALL, json=ASKED, headers={"idempotency-key": named["key"]})
    assert found.json()["id"] == named["id"]
    assert site.store.count() == 4


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 422, "question: "),
        ({"question": " "}, 422, "question: is empty"),
        ({"question": "x", "since": "tomorrow"}, 422, "since: is neither 30m"),
        ({"question": "x", "since": "2999-01-01T00:00Z"}, 422, "since: lies in the future"),
        ({"question": "x", "since": "0001-01-01"}, 422, "since: "),
        ({"question": "x", "sinec": "30m"}, 422, "sinec: "),
        ({"question": "x", "service": "a\u0000b"}, 422, "service: "),
        ({"question": "x", "places": {"a b": "c"}}, 422, "places."),
        ([], 422, "the body: "),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(
    program: Program, body: object, status: int, said: str
) -> None:
    answer = program().post(ALL, json=body)
    assert answer.status_code == status
    assert answer.json()["error"].startswith(said)
    assert "\n" not in answer.json()["error"]


def test_a_body_that_is_no_json_or_too_long_is_refused(program: Program) -> None:
    client = program()
    header = {"content-type": "application/json"}
    assert client.post(ALL, content=b"{", headers=header).status_code == 400
    assert client.post(ALL, content=b"[" * 60_000, headers=header).status_code == 400
    assert client.post(ALL, content=b" " * 70_000, headers=header).status_code == 413
    assert client.post(ALL, data=ASKED).status_code == 415
    odd = {"idempotency-key": "a" * 201}
    assert client.post(ALL, json=ASKED, headers=odd).status_code == 422


def test_the_list_gives_page_after_page(site: Site, program: Program) -> None:
    client = program("viewer")
    ids = []
    for number in range(5):
        labels = {"fingerprint": str(number)}
        ids.append(site.investigate(ALERT.model_copy(update={"labels": labels})))
    seen: list[str] = []
    query: dict[str, str] = {"limit": "2"}
    for _ in range(3):
        page = client.get(ALL, params=query).json()
        seen += [one["id"] for one in page["investigations"]]
        query["after"] = page["next"] or ""
    assert page["next"] is None
    assert sorted(seen) == sorted(ids)
    assert client.get(ALL, params={"status": "done"}).json()["investigations"] == []
    assert client.get(ALL, params={"service": "cart"}).json()["investigations"] == []
    for wrong in ({"limit": "0"}, {"after": "none"}, {"colour": "red"}, {"status": "odd"}):
        answer = client.get(ALL, params=wrong)
        assert answer.status_code == 422
        assert answer.json()["error"].startswith(next(iter(wrong)))


def test_the_answer_is_that_of_the_terminal(site: Site, program: Program) -> None:
    known = answered(site)
    given = program("viewer").get(f"{ALL}/{known}/answer").json()
    view = answer_view(ALERT, DIAGNOSIS, REPORT, gaps=GAPS, evidence=EVIDENCE)
    assert given == {"id": known, **json.loads(json.dumps(json_of(view)))}


def test_a_finding_comes_with_its_query_its_window_and_its_values(
    site: Site, program: Program
) -> None:
    client, known = program("viewer"), answered(site)
    findings = client.get(f"{ALL}/{known}/findings").json()["findings"]
    assert [one["id"] for one in findings] == [one.id for one in DIAGNOSIS.findings]
    charted = next(one for one in DIAGNOSIS.findings if one.series.get("table") == "metrics")
    given = client.get(f"{ALL}/{known}/findings/{charted.id}").json()
    assert given["finding"]["sentence"] == charted.sentence
    asked = {one["id"]: one["query"] for one in given["evidence"]}
    assert asked == {one.id: one.query for one in EVIDENCE if one.id in charted.evidence}
    assert all(one["window"] for one in given["evidence"] if one["kind"] == "metrics")
    assert given["values"]["rows"] > 0
    curve = given["values"]["curves"][0]
    assert len(curve["times"]) == len(curve["values"]) > 1
    assert client.get(f"{ALL}/{known}/findings/F999").status_code == 404


def test_progress_comes_as_it_is_written_and_ends_with_the_investigation(
    site: Site, program: Program
) -> None:
    client, known = program("viewer"), site.investigate(ALERT)
    site.store.start(known)
    site.store.add_progress(known, "collect", "asking prometheus", key="one")
    lines: list[str] = []

    def listen() -> None:
        with client.stream("GET", f"{ALL}/{known}/events") as stream:
            lines.extend(stream.iter_lines())

    listener = threading.Thread(target=listen)
    listener.start()
    time.sleep(0.7)
    site.store.add_progress(known, "analyze", "comparing", key="two")
    time.sleep(0.7)
    site.store.finish(known, "failed", verdict=None, confidence=None, headline="no source")
    listener.join(PATIENT_S)
    events = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert events[0] == "progress"
    assert events[-1] == "done"
    data = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    texts = [one["text"] for one in data if "text" in one]
    assert texts == ["asking prometheus", "comparing"]
    seen = next(one["seq"] for one in data if "seq" in one)
    again = client.get(f"{ALL}/{known}/events", headers={"last-event-id": str(seen)}).text
    assert "asking prometheus" not in again
    assert "comparing" in again
    failed = client.get(f"{ALL}/{known}/answer")
    assert (failed.status_code, failed.json()["error"]) == (
        409,
        "The investigation failed: no source.",
    )


def test_feedback_is_kept_under_the_tokens_name(site: Site, program: Program) -> None:
    client, known = program(), answered(site)
    answer = client.post(f"{ALL}/{known}/feedback", json={"right": False, "cause": "DNS"})
    assert (answer.status_code, answer.json()["who"]) == (200, "pipeline")
    label = Labels(site.store.engine).get(known)
    assert label is not None
    assert (label.right, label.cause, label.who) == (False, "DNS", "pipeline")
    running = site.investigate(ALERT.model_copy(update={"labels": {"fingerprint": "2"}}))
    assert client.post(f"{ALL}/{running}/feedback", json={"right": True}).status_code == 409


def test_who_is_refused_is_told_why_in_json(site: Site, program: Program) -> None:
    refused = program("viewer").post(ALL, json=ASKED)
    assert refused.status_code == 403
    assert refused.json() == {"error": "This takes the role responder; yours is viewer."}
    bare = httpx.get(f"{site.url}{ALL}", timeout=PATIENT_S)
    assert bare.status_code == 401
    assert bare.headers["www-authenticate"] == "Bearer"
    wrong = httpx.get(f"{site.url}{ALL}", headers={"authorization": "Bearer faultline_a_b"})
    assert (wrong.status_code, "revoked or expired" in wrong.json()["error"]) == (401, True)
    nothing = program("viewer").get("/api/nothing")
    assert (nothing.status_code, "openapi.json" in nothing.json()["error"]) == (404, True)
    for hidden in ("none", "%00", "a" * 3_000):
        assert program("viewer").get(f"{ALL}/{hidden}").json() == {
            "error": "No investigation has this id."
        }


def test_each_token_has_its_own_rates(site: Site, program: Program) -> None:
    slow = program(limits=TokenLimits(investigations_per_hour=1, calls_per_minute=4))
    assert slow.post(ALL, json=ASKED).status_code == 202
    refused = slow.post(ALL, json=ASKED)
    assert refused.status_code == 429
    assert "your limit of 1 investigations per hour" in refused.json()["error"]
    assert slow.get(ALL).status_code == 200
    assert slow.get(ALL).status_code == 200
    too_fast = slow.get(ALL)
    assert too_fast.status_code == 429
    assert 0 < int(too_fast.headers["retry-after"]) <= 61
    assert program().post(ALL, json=ASKED).status_code == 202


def test_what_changes_something_stands_in_the_audit(site: Site, program: Program) -> None:
    client = program()
    started = client.post(ALL, json=ASKED).json()["id"]
    program("viewer").post(ALL, json=ASKED)
    log = AuditLog(site.store.engine, retention=timedelta(days=1))
    lines = log.read(AuditFilter())
    made = next(one for one in lines if one.action == "asked for an investigation")
    assert (made.investigation_id, made.name, made.status) == (started, "pipeline", 202)
    assert made.who.startswith("token ")
    assert any(one.action == "refused" and one.status == 403 for one in lines)
    assert "checkout is slow" not in str(lines)


def test_private_channels_are_not_for_programs(site: Site, program: Program) -> None:
    known = answered(site)
    with site.store.engine.begin() as connection:
        connection.execute(text("UPDATE investigations SET slack_channel = 'T1/CPRIVATE'"))
    client = program("admin")
    assert client.get(ALL).json()["investigations"] == []
    for path in ("", "/answer", "/findings", "/findings/F1", "/events"):
        assert client.get(f"{ALL}/{known}{path}").status_code == 404, path
    assert client.post(f"{ALL}/{known}/feedback", json={"right": True}).status_code == 404


def test_without_a_login_this_machine_asks_without_a_token(
    server: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serving(server, tmp_path_factory.mktemp("open")) as site:
        started = httpx.post(f"{site.url}{ALL}", json=ASKED, timeout=PATIENT_S)
        assert started.status_code == 202
        # What another site's page can send without asking first is not taken.
        for headers in (
            {"content-type": "text/plain"},
            {"content-type": "application/x-www-form-urlencoded"},
        ):
            forged = httpx.post(f"{site.url}{ALL}", content=json.dumps(ASKED), headers=headers)
            assert forged.status_code == 415
        foreign = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
        assert httpx.post(f"{site.url}{ALL}", json=ASKED, headers=foreign).status_code == 403
        rebound = httpx.get(f"{site.url}{ALL}", headers={"host": "evil.example"})
        assert rebound.status_code == 403
        assert "error" in rebound.json()


def test_the_access_token_works_too(site: Site) -> None:
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert httpx.post(f"{site.url}{ALL}", json=ASKED, headers=bearer).status_code == 202


def test_while_the_database_is_slow_the_spool_takes_it_and_the_key_finds_it_later(
    site: Site, server: Server, tmp_path: Path
) -> None:
    writer = store_accept(site.store)
    spool = Spool(tmp_path / "spool", 10, 1_000_000)
    slow = SpoolingAccept(writer, spool, within_s=0)
    headers = {"authorization": f"Bearer {TOKEN}", "idempotency-key": "one"}
    settings = Settings(server=ServerSettings(access_token=SecretStr(TOKEN)))

    async def no_case(_id: str) -> Path | None:
        return None

    for accept, status, outcome in ((slow, 202, "spooled"), (writer, 202, "started")):
        doors = [partial(api_routes, accept=accept)]
        server.app = Starlette(routes=page_routes(settings, site.store, no_case, doors=doors))
        answer = httpx.post(f"{site.url}{ALL}", json=ASKED, headers=headers, timeout=PATIENT_S)
        assert (answer.status_code, answer.json()["outcome"]) == (status, outcome)
        assert answer.json()["key"] == "one"
        assert (answer.json()["id"] is None) == (outcome == "spooled")
    assert not spool.is_empty(), "its delivery is that of the one which was started"
