"""One finding on its own page: log lines, a request's spans with its critical path, what it
counts for."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import httpx
import polars as pl
import pytest
from pydantic import SecretStr

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.case.tables import write_table
from faultline.bot.settings import ServerSettings, Settings
from faultline.bot.web.finding_view import SHOWN, log_lines
from faultline.bot.web.span_tree import MAX_SHOWN, example_traces, span_tree
from tests.bot.web.sample_case import ALERT, ALERT_AT, FINDINGS, REPORT, write_sample_case
from tests.bot.web.serving import Server, Site, serving
from tests.bot.web.traced_case import ABOUT_SPANS, Span, request, spans, write_traced_case


@pytest.fixture
def traced(site: Site) -> str:
    """The id of a finished investigation whose case holds spans."""
    investigation_id = site.investigate(ALERT)
    write_traced_case(site.cases / investigation_id)
    site.store.finish(
        investigation_id, "done", verdict="cause_found", confidence=0.86, headline=REPORT.headline
    )
    return investigation_id


def case_of(folder: Path, rows: list[Span]) -> Case:
    write_sample_case(folder)
    write_table(folder, "spans", spans(rows))
    return read_case(folder)


def test_every_finding_has_a_page_with_what_it_counts_for(
    sample: str, browser: httpx.Client
) -> None:
    home = f"/investigations/{sample}"
    for finding in FINDINGS:
        page = browser.get(f"{home}/findings/{finding.id}")
        assert page.status_code == 200
        assert f'href="{home}#{finding.id}"' in page.text
    first = browser.get(f"{home}/findings/F1").text
    assert "For candidate 1: The deploy of payment v412 cut" in first
    assert f'rel="next" href="{home}/findings/F2"' in first
    assert "avg:trace.http.request.duration.p99{service:checkout}" in first
    assert "Against candidate 1" in browser.get(f"{home}/findings/F5").text
    assert "Nothing: the answer does not rest on it." in browser.get(f"{home}/findings/F7").text


def test_unknown_findings_and_cases_are_pages_with_status_404(
    sample: str, site: Site, browser: httpx.Client
) -> None:
    for path in (f"{sample}/findings/F99", f"{sample}/findings/%00", "nobody/findings/F1"):
        assert browser.get(f"/investigations/{path}").status_code == 404
    running = site.investigate(ALERT.model_copy(update={"title": "other"}))
    assert browser.get(f"/investigations/{running}/findings/F1").status_code == 404


def test_a_log_finding_shows_lines_of_its_template_from_the_first_to_the_last(
    sample: str, browser: httpx.Client
) -> None:
    page = browser.get(f"/investigations/{sample}/findings/F3").text
    assert "412 lines in the case" in page
    lines = re.findall(r"connection pool exhausted after (\d+) ms</code>", page)
    assert (lines[0], lines[-1], len(lines)) == ("5000", "5411", SHOWN)
    assert "INFO charge" not in page


def test_lines_that_a_runtime_wrapped_are_found_by_their_text(tmp_path: Path) -> None:
    case = read_case(write_sample_case(tmp_path / "case"))
    wrapped = json.dumps({"log": 'pool "main"\texhausted after 7 ms'})
    rows = pl.DataFrame(
        {"time": [ALERT_AT], "service": ["payment"], "message": [wrapped], "level": ["ERROR"]}
    )
    write_table(case.path, "logs", rows)
    finding = FINDINGS[2].model_copy(
        update={"details": {"template": 'pool "main" exhausted after <*> ms'}}
    )
    found = log_lines(read_case(case.path), finding)
    assert found is not None
    assert found.lines[0].text == wrapped


def test_a_template_made_to_be_slow_or_too_long_costs_nothing(tmp_path: Path) -> None:
    case = read_case(write_sample_case(tmp_path / "case"))
    for template in ("<*>" * 5_000, "a" * 200_000, "(" * 500, "<*> " * 2_000 + "z"):
        log_lines(case, FINDINGS[2].model_copy(update={"details": {"template": template}}))


def test_a_request_is_shown_as_a_tree_with_its_critical_path(
    traced: str, browser: httpx.Client
) -> None:
    page = browser.get(f"/investigations/{traced}/findings/F8").text
    rows = re.findall(r'<li class="d(\d)([^"]*)">.*?<b>(\w+)</b>', page, re.DOTALL)
    assert [(depth, name) for depth, _, name in rows] == [
        ("0", "checkout"),
        ("1", "cart"),
        ("1", "payment"),
        ("2", "bank"),
    ]
    assert {name for _, marks, name in rows if "critical" in marks} == {
        "checkout",
        "cart",
        "payment",
        "bank",
    }
    assert [name for _, marks, name in rows if "subject" in marks] == ["payment"]
    assert "during the incident" in page
    assert "before" in page
    failed = browser.get(f"/investigations/{traced}/findings/F8?trace=bad").text
    assert 'class="d1 critical failed subject"' in failed
    assert "A request" not in browser.get(f"/investigations/{traced}/findings/F8?trace=nobody").text


def test_requests_are_offered_that_show_slowness_failure_and_how_it_was(tmp_path: Path) -> None:
    case = read_case(write_traced_case(tmp_path / "case"))
    found = {t.why: t for t in example_traces(case, ABOUT_SPANS)}
    assert set(found) == {"during the incident", "failed", "before"}
    assert found["before"].us == 7_000
    assert found["during the incident"].us == 85_000
    errors = ABOUT_SPANS.model_copy(update={"kind": "span_errors"})
    assert example_traces(case, errors)[0].why == "failed"


def test_what_runs_beside_the_critical_path_is_not_on_it(tmp_path: Path) -> None:
    at, ms = ALERT_AT, timedelta(milliseconds=1)
    rows: list[Span] = [
        ("t", "a", None, "web", "all", at, 100_000, None),
        ("t", "b", "a", "long", "x", at + 10 * ms, 80_000, None),
        ("t", "c", "a", "beside", "x", at + 20 * ms, 30_000, None),
        ("t", "d", "a", "tail", "x", at + 92 * ms, 5_000, None),
    ]
    tree = span_tree(case_of(tmp_path / "case", rows), ABOUT_SPANS, "t")
    assert tree is not None
    assert [r.service for r in tree.rows if r.critical] == ["web", "long", "tail"]
    assert {r.service: r.self_us for r in tree.rows} == {
        "web": 15_000,
        "long": 80_000,
        "beside": 30_000,
        "tail": 5_000,
    }


@pytest.mark.parametrize(
    "parents",
    [("b", "a"), ("a", None), ("missing", "missing"), ("", "")],
    ids=["cycle", "its own parent", "unknown parents", "empty parents"],
)
def test_strange_parents_lose_no_span(tmp_path: Path, parents: tuple[str, str | None]) -> None:
    rows: list[Span] = [
        ("t", "a", parents[0], "one", "x", ALERT_AT, 5.0, None),
        ("t", "b", parents[1], "two", "x", ALERT_AT, 0.0, None),
    ]
    tree = span_tree(case_of(tmp_path / "case", rows), ABOUT_SPANS, "t")
    assert tree is not None
    assert {r.service for r in tree.rows} == {"one", "two"}


def test_of_very_many_spans_the_path_the_errors_and_the_subject_stay(tmp_path: Path) -> None:
    at = ALERT_AT
    rows: list[Span] = [("t", "root", None, "web", "all", at, 1e6, None)]
    rows += [
        ("t", f"s{n}", "root", "cache", "get", at + timedelta(microseconds=n), 1.0, None)
        for n in range(3_000)
    ]
    rows += [("t", "e", "s7", "disk", "read", at, 1.0, "error")]
    rows += [(*request("t", at, slow=True)[2][:2], "root", *request("t", at, slow=True)[2][3:])]
    tree = span_tree(case_of(tmp_path / "case", rows), ABOUT_SPANS, "t")
    assert tree is not None
    assert len(tree.rows) == MAX_SHOWN
    assert tree.left_out == len(rows) - MAX_SHOWN
    assert {"web", "disk", "payment"} <= {r.service for r in tree.rows}


def test_a_chain_of_calls_as_deep_as_can_be_is_walked(tmp_path: Path) -> None:
    rows: list[Span] = [
        ("t", f"s{n}", f"s{n - 1}" if n else None, "deep", "x", ALERT_AT, 1e6 - n, None)
        for n in range(4_000)
    ]
    assert span_tree(case_of(tmp_path / "case", rows), ABOUT_SPANS, "t") is not None


def test_spans_that_cannot_be_read_are_one_line_on_a_page_that_stands(
    traced: str, site: Site, browser: httpx.Client
) -> None:
    (site.cases / traced / "spans.parquet").write_bytes(b"PAR1 not a table PAR1")
    page = browser.get(f"/investigations/{traced}/findings/F8")
    assert page.status_code == 200
    assert "What was recorded cannot be read in full." in page.text
    assert "spans.parquet" in page.text


def test_a_preview_of_a_link_that_somebody_posted_tells_nothing(
    server: Server, tmp_path: Path
) -> None:
    settings = Settings(server=ServerSettings(access_token=SecretStr("t" * 32)))
    with serving(server, tmp_path, settings) as site:
        investigation_id = site.investigate(ALERT)
        write_traced_case(site.cases / investigation_id)
        site.store.finish(
            investigation_id,
            "done",
            verdict="cause_found",
            confidence=0.9,
            headline=REPORT.headline,
        )
        slackbot = {"user-agent": "Slackbot-LinkExpanding 1.0", "accept": "*/*"}
        for page in ("", "/findings/F1", "/replay", "/trace-report", "/series/F1.json"):
            url = f"{site.url}/investigations/{investigation_id}{page}"
            answer = httpx.get(url, headers=slackbot, follow_redirects=True)
            assert "payment" not in answer.text
            assert "checkout" not in answer.text
