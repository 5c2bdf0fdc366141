"""The form that starts an investigation, and the page on which admins make tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from faultline.bot.settings import ServerSettings, Settings
from faultline.bot.store.quotas import tokens
from faultline.bot.store.visitors import AuditFilter, AuditLog
from tests.bot.web.sample_case import ALERT, REPORT, write_sample_case
from tests.bot.web.serving import PATIENT_S, Server, Site, form_value, serving, sign_in
from tests.bot.web.test_roles import TOKEN

KEPT, ALL = timedelta(days=1), AuditFilter()


@pytest.fixture
def guarded(server: Server, tmp_path: Path) -> Iterator[Site]:
    """A site that asks for the access token, whose holder is an admin."""
    settings = Settings(server=ServerSettings(access_token=SecretStr(TOKEN)))
    with serving(server, tmp_path, settings) as running:
        yield running


@pytest.fixture
def admin(guarded: Site) -> Iterator[httpx.Client]:
    """A browser in which an admin is signed in."""
    with httpx.Client(
        base_url=guarded.url, timeout=PATIENT_S, headers={"accept": "text/html"}
    ) as client:
        sign_in(client, TOKEN)
        yield client


def form_on(page: str) -> dict[str, str]:
    key = re.search(r'name="key" value="(\w+)"', page)
    assert key is not None
    return {"csrf": form_value(page), "key": key[1]}


def test_the_form_starts_one_investigation_however_often_it_is_sent(
    site: Site, browser: httpx.Client
) -> None:
    assert 'href="/investigate"' in browser.get("/").text
    form = form_on(browser.get("/investigate").text)
    filled = {**form, "question": "checkout is slow", "since": "30m", "places": "cluster = eu-1"}
    first, again = (browser.post("/investigate", data=filled) for _ in range(2))
    assert first.status_code == 303
    assert first.headers["location"] == again.headers["location"]
    (one,) = site.store.latest()
    assert first.headers["location"] == f"/investigations/{one.id}"
    assert (one.alert.source, one.question) == ("page", "checkout is slow")
    assert one.alert.labels["cluster"] == "eu-1"
    assert 29 * 60 < (one.accepted_at - one.alert.started_at).total_seconds() < 31 * 60
    assert "checkout is slow" in browser.get(first.headers["location"]).text


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("question", "", "question: is empty"),
        ("since", "soon", "since when: is neither 30m, 14:19"),
        ("since", "2999-01-01", "lies in the future"),
        ("places", "eu-1", "where: write a label and its value"),
    ],
)
def test_what_is_wrong_is_said_above_the_form_which_keeps_what_was_typed(
    site: Site, browser: httpx.Client, field: str, value: str, said: str
) -> None:
    form = form_on(browser.get("/investigate").text)
    filled = {**form, "question": "<b>slow</b>", "service": "cart", field: value}
    answer = browser.post("/investigate", data=filled)
    assert answer.status_code == 400
    assert said in answer.text
    assert 'value="cart"' in answer.text
    assert field == "question" or "&lt;b&gt;slow&lt;/b&gt;" in answer.text
    assert site.store.count() == 0


def test_look_closer_opens_the_form_for_a_service(site: Site, browser: httpx.Client) -> None:
    known = site.investigate(ALERT)
    write_sample_case(site.cases / known)
    site.store.start(known)
    site.store.finish(
        known, "done", verdict="cause_found", confidence=0.86, headline=REPORT.headline
    )
    page = browser.get(f"/investigations/{known}").text
    links = re.findall(r'href="(/investigate\?service=[^"]+)"', page)
    assert links
    for link in links:
        form = browser.get(link.replace("&amp;", "&")).text
        service = re.search(r"service=([^&]+)", link)
        assert service is not None
        assert f'value="{service[1]}"' in form
        since = re.search(r'id="since"[^>]* value="([^"]*)"', form)
        assert since is not None
        question = re.search(r'<textarea id="question"[^>]*>([^<]+)<', form)
        assert question is not None, "nothing is left to type"
        filled = {**form_on(form), "service": service[1], "since": since[1]}
        filled["question"] = question[1]
        assert browser.post("/investigate", data=filled).status_code == 303


def test_a_token_is_shown_once_works_and_ends_when_it_is_revoked(
    guarded: Site, admin: httpx.Client
) -> None:
    form = {
        "csrf": form_value(admin.get("/tokens").text),
        "name": "pipeline",
        "role": "viewer",
        "days": "30",
        "investigations_per_hour": "5",
        "calls_per_minute": "60",
    }
    made = admin.post("/tokens", data=form)
    assert made.status_code == 200
    assert made.headers["cache-control"] == "no-store"
    found = re.search(r"<code>(faultline_[\w-]+)</code>", made.text)
    assert found is not None
    bearer = {"authorization": f"Bearer {found[1]}"}
    api = f"{guarded.url}/api/investigations"
    assert httpx.get(api, headers=bearer, timeout=PATIENT_S).status_code == 200
    listed = admin.get("/tokens").text
    assert found[1] not in listed
    assert "pipeline" in listed
    (token,) = tokens(guarded.store)
    assert token.used_at is not None
    assert (token.caller.role, token.made_by) == ("viewer", "access token")
    gone = admin.post(f"/tokens/{token.caller.id}/revoke", data={"csrf": form["csrf"]})
    assert gone.status_code == 303
    assert httpx.get(api, headers=bearer, timeout=PATIENT_S).status_code == 401
    notes = {
        one.action: one.note for one in AuditLog(guarded.store.engine, retention=KEPT).read(ALL)
    }
    assert notes["made a token"] == f"token {token.caller.id} (viewer): pipeline"
    assert notes["revoked a token"] == f"token {token.caller.id}: pipeline"


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", ""), ("role", "owner"), ("days", "0"), ("days", "²"), ("calls_per_minute", "1e9")],
)
def test_a_form_for_a_token_that_is_filled_in_wrongly_makes_none(
    guarded: Site, admin: httpx.Client, field: str, value: str
) -> None:
    form = {
        "csrf": form_value(admin.get("/tokens").text),
        "name": "pipeline",
        "role": "viewer",
        "days": "30",
        "investigations_per_hour": "5",
        "calls_per_minute": "60",
    }
    assert admin.post("/tokens", data={**form, field: value}).status_code == 400
    assert tokens(guarded.store) == []


def test_a_token_makes_no_tokens(guarded: Site, admin: httpx.Client) -> None:
    form = {
        "csrf": form_value(admin.get("/tokens").text),
        "name": "pipeline",
        "role": "admin",
        "days": "30",
        "investigations_per_hour": "5",
        "calls_per_minute": "60",
    }
    found = re.search(r"<code>(faultline_[\w-]+)</code>", admin.post("/tokens", data=form).text)
    assert found is not None
    bearer = {"authorization": f"Bearer {found[1]}"}
    refused = httpx.post(f"{guarded.url}/tokens", data=form, headers=bearer, timeout=PATIENT_S)
    assert refused.status_code == 403
    assert len(tokens(guarded.store)) == 1
