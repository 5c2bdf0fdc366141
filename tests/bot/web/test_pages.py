"""The pages as a visitor on this machine sees them, over HTTP."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
from pydantic import SecretStr

from faultline.analysis.vocabulary import Diagnosis, Impact, Report, Verdict
from faultline.bot.intake.sources.alertmanager import read_alertmanager
from faultline.bot.settings import Settings
from faultline.bot.settings.loading import settings_of
from faultline.bot.store.listing import Labels
from faultline.connectors.vendors.pagerduty import PagerDutySettings
from tests.bot.web.sample_case import ALERT, FINDINGS, REPORT, write_sample_case
from tests.bot.web.serving import Server, Site, serving


def test_the_empty_list_says_how_to_send_a_first_alert(browser: httpx.Client) -> None:
    page = browser.get("/").text
    assert "faultline demo" in page
    assert "http://127.0.0.1:8080/webhooks/alertmanager" in page
    assert "http://127.0.0.1:8080/webhooks/pagerduty" in page


def test_the_alert_of_the_empty_list_is_one_that_the_webhook_takes(browser: httpx.Client) -> None:
    payload = re.search(r"-d '(.*?)'</code>", browser.get("/").text)
    assert payload is not None
    taken = read_alertmanager(
        html.unescape(payload.group(1)).encode(), Settings(), now=datetime.now(UTC)
    )
    assert isinstance(taken, list)
    assert (taken[0].alert.title, taken[0].alert.service) == ("High latency", "checkout")


def test_the_empty_list_says_which_ways_are_set_up(server: Server, tmp_path: Path) -> None:
    settings = Settings(pagerduty=PagerDutySettings(webhook_secrets=(SecretStr("s"),)))
    with serving(server, tmp_path, settings) as site:
        page = httpx.get(site.url).text
    assert "FAULTLINE_ALERTMANAGER__WEBHOOK_TOKENS</code></span>" in page
    assert "FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS" not in page


def test_the_empty_list_says_of_each_slack_workspace_what_is_to_be_set(
    server: Server, tmp_path: Path
) -> None:
    environ = {
        "FAULTLINE_SLACK__EU__SIGNING_SECRETS": "s",
        "FAULTLINE_SLACK__EU__BOT_TOKEN": "xoxb-1",
        "FAULTLINE_SLACK__US__SIGNING_SECRETS": "s",
        "FAULTLINE_SLACK__ASIA__APP_TOKEN": "xapp-1",
    }
    names = ("eu", "us", "asia", "lab")
    settings = settings_of({"slack": [{"name": name} for name in names]}, environ)
    with serving(server, tmp_path, settings) as site:
        page = httpx.get(site.url).text
    assert set(re.findall(r"set <code>(FAULTLINE_SLACK__\w+)</code>", page)) == {
        "FAULTLINE_SLACK__US__BOT_TOKEN",
        "FAULTLINE_SLACK__LAB__SIGNING_SECRETS",
    }


def test_feedback_names_nobody_by_an_id(site: Site, browser: httpx.Client, sample: str) -> None:
    cause = "the deploy of <@U0ADA>"
    Labels(site.store.engine).write(sample, right=False, who="U0BOB", cause=cause)
    page = browser.get(f"/investigations/{sample}").text
    assert "by a person: the deploy of a person" in page
    assert "The cause was: the deploy of a person" in browser.get("/accuracy").text
    assert not re.search("U0ADA|U0BOB", page)


def test_the_list_shows_the_newest_first_with_verdict_confidence_and_repeats(
    site: Site, browser: httpx.Client
) -> None:
    now = datetime.now(UTC)
    old = site.store.accept(ALERT, now=now - timedelta(minutes=5)).investigation_id
    assert old is not None
    site.store.accept(ALERT)
    site.store.finish(
        old, "done", verdict="recovered", confidence=0.71, headline="checkout recovered"
    )
    new = site.investigate(ALERT.model_copy(update={"title": "disk full", "service": "ledger"}))
    page = browser.get("/").text
    assert page.index(new) < page.index(old)
    row = page[page.index(f'id="i-{old}"') :]
    for shown in (
        "checkout recovered",
        "checkout p99 latency above 800 ms",
        "Recovered",
        "Likely",
        "fired 2 times",
    ):
        assert shown in row
    assert "Queued" in page
    assert "ledger" in page


def test_what_waits_says_how_many_wait_before_it(site: Site, browser: httpx.Client) -> None:
    first = site.investigate(ALERT)
    second = site.investigate(ALERT.model_copy(update={"title": "disk full", "service": "ledger"}))
    assert "the investigation starts in a moment" in browser.get(f"/investigations/{first}").text
    assert "about 1 waits before it" in browser.get(f"/investigations/{second}").text


def test_an_investigation_is_told_in_the_order_of_what_people_need(
    sample: str, browser: httpx.Client
) -> None:
    page = browser.get(f"/investigations/{sample}").text
    in_order = (
        "Likely cause",
        "since",
        "20 Nov, 03:08",
        f"<h1>{REPORT.headline}</h1>",
        "What's happening",
        "It began at 03:08:15",
        '<h2 id="h-why">Why',
        "Requests in payment wait 38.2 times longer",
        "Do next",
        "Roll payment back to v411.",
        "Restore pool_size: 50",
        "Not sure about",
        "CPU use rose from 31",
        "checkout p99 latency above 800",
        "<h2>Timeline</h2>",
        "<h2>All evidence</h2>",
        "<h3>For payment</h3>",
        'id="F1"',
        "<h3>Against it</h3>",
        "<h3>Affected by it</h3>",
        "What we could not collect",
        "HTTP 403: the key lacks the scope apm_read",
        "How this was decided",
        "86\u00a0%",
        "The deploy of payment v412 cut its database pool",
        "The database itself is healthy. (cites no finding)",
        "Written by",
        "7 findings",
        "Was this right?",
        "case.zip",
    )
    body, at = page[page.index('<article id="case"') :], 0
    for text in in_order:
        assert text in body[at:], text
        at = body.index(text, at)


def test_each_finding_has_its_permalink_evidence_query_window_and_link(
    sample: str, browser: httpx.Client
) -> None:
    page = browser.get(f"/investigations/{sample}").text
    for finding in FINDINGS:
        assert f'id="{finding.id}"' in page
        assert f'href="#{finding.id}">#{finding.id}</a>' in re.sub(r' title="[^"]*"', "", page)
    first = page[page.index('id="F1"') : page.index('id="F2"')]
    assert "avg:trace.http.request.duration.p99{service:checkout}" in first
    assert "20 Nov 2026, 02:42:00 UTC" in first
    assert (
        'href="https://app.datadoghq.com/metric/explorer?from=1" rel="noopener noreferrer"' in first
    )


def test_a_log_finding_shows_an_example_line_and_a_training_finding_a_row_per_rank(
    sample: str, browser: httpx.Client
) -> None:
    page = browser.get(f"/investigations/{sample}").text
    log = page[page.index('id="F3"') : page.index('id="F4"')]
    assert (
        "ERROR pool.acquire: connection pool exhausted after 5000 ms (size=5, in_use=5, "
        "waiting=211)" in log
    )
    ranks = page[page.index('id="F6"') : page.index('id="F7"')]
    assert ranks.count("<tr") == 9
    slow = re.search(r'<tr class="subject">.*?</tr>', ranks, re.DOTALL)
    assert slow is not None
    assert slow.group().index("5") < slow.group().index("gpu-1")


def test_findings_that_nothing_cites_come_last(sample: str, browser: httpx.Client) -> None:
    page = browser.get(f"/investigations/{sample}").text
    assert (
        page.index('id="F6"')
        < page.index("<h3>Also seen; the answer does not rest on it")
        < page.index('id="F7"')
    )


def test_a_citation_of_an_unknown_finding_is_no_link(sample: str, browser: httpx.Client) -> None:
    page = browser.get(f"/investigations/{sample}").text
    assert "Its deploy three minutes earlier set pool_size" in page
    assert "F99" not in page


def test_insufficient_evidence_says_what_would_be_needed(site: Site, browser: httpx.Client) -> None:
    investigation_id = site.investigate(ALERT)
    diagnosis = Diagnosis(
        verdict=Verdict.INSUFFICIENT_EVIDENCE,
        confidence=0.2,
        causes=(),
        findings=(),
        impact=Impact(sentence="No effect on a user-facing signal was found."),
        missing=("Spans of payment: the key lacks apm_read.",),
    )
    report = Report(headline="The evidence does not single out a cause", claims=())
    write_sample_case(site.cases / investigation_id, diagnosis=diagnosis, report=report)
    site.store.finish(
        investigation_id,
        "done",
        verdict="insufficient_evidence",
        confidence=0.2,
        headline=report.headline,
    )
    page = browser.get(f"/investigations/{investigation_id}").text
    assert "Not enough evidence" in page
    assert "Spans of payment: the key lacks apm_read." in page


def test_a_running_investigation_shows_its_progress_and_refreshes_without_scripts(
    site: Site, browser: httpx.Client
) -> None:
    investigation_id = site.investigate(ALERT)
    site.store.start(investigation_id)
    site.store.add_progress(investigation_id, "collect", "asking datadog", key="collect")
    page = browser.get(f"/investigations/{investigation_id}").text
    assert "Investigating" in page
    assert "asking datadog" in page
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in page


def test_a_failed_investigation_says_why(site: Site, browser: httpx.Client) -> None:
    investigation_id = site.investigate(ALERT)
    site.store.finish(
        investigation_id,
        "failed",
        verdict=None,
        confidence=None,
        headline="The store did not answer",
    )
    answer = browser.get(f"/investigations/{investigation_id}")
    assert answer.status_code == 200
    assert "The store did not answer" in answer.text
    assert "Failed" in answer.text


def test_a_case_that_cannot_be_read_is_one_line_on_a_page_that_stands(
    sample: str, site: Site, browser: httpx.Client
) -> None:
    (site.cases / sample / "findings.json").write_text('{"verdict": "cause_found"')
    answer = browser.get(f"/investigations/{sample}")
    assert answer.status_code == 200
    assert answer.text.count('class="trouble"') == 1
    assert "This case cannot be read in full. findings.json: is not readable JSON" in answer.text
    assert REPORT.headline in answer.text


def test_a_table_that_cannot_be_read_leaves_the_findings_on_the_page(
    sample: str, site: Site, browser: httpx.Client
) -> None:
    (site.cases / sample / "changes.parquet").write_bytes(b"PAR1 not a table PAR1")
    page = browser.get(f"/investigations/{sample}").text
    assert "changes.parquet: is not a readable Parquet file" in page
    assert 'id="F1"' in page


def test_a_lost_case_folder_is_said_in_one_line(site: Site, browser: httpx.Client) -> None:
    investigation_id = site.investigate(ALERT)
    site.store.finish(
        investigation_id, "done", verdict="recovered", confidence=0.5, headline="over"
    )
    page = browser.get(f"/investigations/{investigation_id}").text
    assert "The case folder of this investigation is not there any more." in page


def test_unknown_addresses_are_pages_with_status_404(sample: str, browser: httpx.Client) -> None:
    unknown = browser.get("/investigations/20260101-000000-abcdef")
    assert (unknown.status_code, "No such investigation" in unknown.text) == (404, True)
    assert browser.get("/nothing/here").status_code == 404
    assert browser.get("/investigations/..%2f..%2fetc/case.zip").status_code == 404
    assert browser.get(f"/investigations/{sample}/series/F99.json").status_code == 404
    assert browser.get("/static/../pages.py").status_code == 404


def test_health_and_readiness_are_plain(browser: httpx.Client) -> None:
    assert browser.get("/healthz").text == "ok\n"
    assert browser.get("/readyz").text == "ready\n"


def test_readiness_fails_with_the_store(site: Site, browser: httpx.Client) -> None:
    with site.store.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE investigations")
    answer = browser.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "the store does not answer\n")
    assert browser.get("/healthz").status_code == 200


def test_every_page_refuses_inline_scripts_framing_and_sniffing(
    sample: str, browser: httpx.Client
) -> None:
    for path in (
        "/",
        f"/investigations/{sample}",
        "/nothing",
        "/login",
        "/static/app.css",
        "/healthz",
    ):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "style-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


def test_browsers_keep_static_files_for_a_week(browser: httpx.Client) -> None:
    assert browser.get("/static/app.css").headers["cache-control"] == "public, max-age=604800"


def test_pages_hold_no_inline_script_style_or_handler_and_load_nothing_from_elsewhere(
    sample: str, browser: httpx.Client
) -> None:
    for path in ("/", f"/investigations/{sample}", "/nothing"):
        page = browser.get(path).text
        assert re.search(r"<script(?![^>]*\bsrc=)", page) is None
        assert re.search(r"<style|\sstyle=|\son[a-z]+=", page) is None
        for address in re.findall(r'<(?:script|link)[^>]*?(?:src|href)="([^"]+)"', page):
            assert address.startswith("/static/")
            assert browser.get(address).status_code == 200
