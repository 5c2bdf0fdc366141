"""A ticket that somebody asks for on the page of an answer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from faultline.analysis.case.folder import write_json
from faultline.bot.settings import Settings
from faultline.bot.store.store import ReplyTo
from tests.bot.answer.targets.test_reverts import blaming
from tests.bot.web.sample_case import ALERT
from tests.bot.web.serving import Server, Site, form_of, serving

SETTINGS = Settings.model_validate(
    {
        "github_issues": {"repository": "acme/ops"},
        "linear_issues": {"team": "T1"},
        "github_reverts": {"repositories": ["acme/shop"]},
    }
)


@pytest.fixture
def site(server: Server, tmp_path: Path) -> Iterator[Site]:
    """A site whose settings name two trackers."""
    with serving(server, tmp_path, SETTINGS) as running:
        yield running


def ask(browser: httpx.Client, name: str, target: str) -> httpx.Response:
    page = f"/investigations/{name}"
    return browser.post(f"{page}/ticket", data={**form_of(browser, page), "target": target})


def test_a_form_asks_for_a_ticket_and_the_page_links_to_it(
    site: Site, sample: str, browser: httpx.Client
) -> None:
    page = browser.get(f"/investigations/{sample}").text
    assert "Create a GitHub issue" in page
    assert "Create a Linear issue" in page
    assert ask(browser, sample, "github_issues").status_code == 303
    found = site.store.get(sample)
    assert found is not None
    assert found.reply_to.other_addresses == {"github_issues": f"{sample} {sample}"}
    people = [one.text for one in site.store.progress(sample) if one.stage == "people"]
    assert people == ["somebody asked for a GitHub issue"]
    key = f"{sample}:github_issues"
    site.store.claim_post(key, sample, owner="w", lease=timedelta(seconds=1))
    site.store.record_post(key, "#7 https://github.com/acme/ops/issues/7")
    page = browser.get(f"/investigations/{sample}").text
    assert '<a href="https://github.com/acme/ops/issues/7">#7</a>' in page
    assert "Update the GitHub issue" in page


def test_an_address_that_is_none_is_no_link(site: Site, sample: str, browser: httpx.Client) -> None:
    ask(browser, sample, "github_issues")
    key = f"{sample}:github_issues"
    site.store.claim_post(key, sample, owner="w", lease=timedelta(seconds=1))
    site.store.record_post(key, "#7 javascript:alert(1)")
    assert "javascript:" not in browser.get(f"/investigations/{sample}").text


@pytest.mark.parametrize("target", ["", "jira_issues", "slack", "\x00"])
def test_a_tracker_that_is_not_set_up_is_refused(
    site: Site, sample: str, browser: httpx.Client, target: str
) -> None:
    assert ask(browser, sample, target).status_code == 400
    found = site.store.get(sample)
    assert found is not None
    assert found.reply_to.other_addresses == {}


def test_without_an_answer_there_is_no_ticket(
    site: Site, sample: str, browser: httpx.Client
) -> None:
    form = {**form_of(browser, f"/investigations/{sample}"), "target": "github_issues"}
    site.store.start(sample)
    assert "Create a GitHub issue" not in browser.get(f"/investigations/{sample}").text
    assert browser.post(f"/investigations/{sample}/ticket", data=form).status_code == 409


def test_a_form_asks_for_a_draft_that_reverts_the_change_it_names(
    site: Site, sample: str, browser: httpx.Client
) -> None:
    link = "https://github.com/acme/shop/pull/12"
    assert "Draft a revert" not in browser.get(f"/investigations/{sample}").text
    write_json(site.cases / sample / "findings.json", blaming(link))
    assert "Draft a revert of #12" in browser.get(f"/investigations/{sample}").text
    stale = f"github_reverts {link.removesuffix('12')}11"
    assert ask(browser, sample, stale).status_code == 400
    assert ask(browser, sample, f"github_reverts {link}").status_code == 303
    found = site.store.get(sample)
    assert found is not None
    assert found.reply_to.other_addresses == {"github_reverts": f"{sample} {sample} {link}"}
    people = [one.text for one in site.store.progress(sample) if one.stage == "people"]
    assert people == [f"somebody asked for a draft revert on GitHub of {link}"]


def test_a_form_asks_for_a_note_on_the_incident_of_the_alert(
    server: Server, tmp_path: Path, browser: httpx.Client
) -> None:
    given = Settings.model_validate({"pagerduty": {"from_email": "oncall@example.com"}})
    (tmp_path / "noted").mkdir()
    with serving(server, tmp_path / "noted", given) as site:
        name = site.store.accept(ALERT, reply_to=ReplyTo(pagerduty_incident="P1")).investigation_id
        assert name is not None
        site.store.start(name)
        site.store.finish(name, "done", verdict=None, confidence=None, headline="payments v2")
        assert "Send to PagerDuty" in browser.get(f"/investigations/{name}").text
        assert ask(browser, name, "pagerduty P2").status_code == 400
        assert ask(browser, name, "pagerduty P1").status_code == 303
        found = site.store.get(name)
        assert found is not None
        assert found.reply_to.other_addresses == {"pagerduty": f"{name} {name} P1"}
        people = [one.text for one in site.store.progress(name) if one.stage == "people"]
        assert people == ["somebody asked for a PagerDuty note on incident P1"]
        site.store.claim_post(f"{name}:pagerduty", name, owner="w", lease=timedelta(seconds=1))
        site.store.record_post(f"{name}:pagerduty", "N1")
        page = browser.get(f"/investigations/{name}").text
        assert "PagerDuty note on incident P1" in page
        assert "Update the PagerDuty note" in page
