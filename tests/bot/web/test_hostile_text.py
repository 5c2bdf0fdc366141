"""Alert titles, log lines, service names and links are an attacker's to choose."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.case.folder import write_evidence, write_json
from faultline.analysis.vocabulary import Alert, Claim, Gap, Link
from faultline.bot.web.text import safe_href, visible
from tests.bot.web.sample_case import (
    ALERT,
    DIAGNOSIS,
    EVIDENCE,
    FINDINGS,
    REPORT,
    write_sample_case,
)
from tests.bot.web.serving import Site

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"
QUOTES = "\"' onmouseover=alert(1) x=\"'>{{7*7}}{% raw %}"
REVERSED = "invoice\u202excod.exe"
NASTY = SCRIPT + QUOTES + REVERSED
BAD_LINKS = (
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    " javascript:alert(1)",
    "java\nscript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:x",
    "file:///etc/passwd",
    "//evil.example",
    "http:///nohost",
    "http://[broken",
    "https://good.example\u202e/x",
    "https:\\\\evil.example",
)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]


@pytest.fixture
def hostile(site: Site) -> str:
    alert = Alert(
        source=NASTY,
        title=NASTY,
        started_at=ALERT.started_at,
        service=NASTY,
        severity=NASTY,
        links=tuple(Link(title=NASTY, url=url) for url in BAD_LINKS),
    )
    investigation_id = site.store.accept(alert, question=NASTY).investigation_id
    assert investigation_id is not None
    folder = site.cases / investigation_id
    text = {"subject": NASTY, "signal": NASTY, "kind": NASTY, "sentence": NASTY}
    findings = tuple(
        f.model_copy(
            update={
                **text,
                "details": {
                    NASTY: NASTY,
                    "example": NASTY,
                    "link": BAD_LINKS[0],
                    "ranks": [{NASTY: NASTY, "rank": 1}],
                },
                "numbers": {NASTY: 1.0},
                "effect_unit": NASTY,
            }
        )
        for f in FINDINGS
    )
    causes = tuple(
        c.model_copy(update={**text, "summary": NASTY, "next_step": NASTY})
        for c in DIAGNOSIS.causes
    )
    impact = DIAGNOSIS.impact.model_copy(update={"sentence": NASTY, "services": (NASTY,)})
    diagnosis = DIAGNOSIS.model_copy(
        update={"findings": findings, "causes": causes, "impact": impact}
    )
    report = REPORT.model_copy(
        update={
            "headline": NASTY,
            "claims": (Claim(text=NASTY, findings=("F1", NASTY)),),
            "next_steps": (),
            "written_by": NASTY,
            "dropped": (NASTY,),
        }
    )
    write_sample_case(folder, diagnosis=diagnosis, report=report)
    write_json(folder / "alert.json", alert)
    evidence = [
        e.model_copy(update={"query": NASTY, "source": NASTY, "link": BAD_LINKS[0]})
        for e in EVIDENCE
    ]
    write_evidence(
        folder, evidence, [Gap(id="G1", kind="logs", source=NASTY, query=NASTY, reason=NASTY)]
    )
    (folder / "changes.csv").write_text(
        "time,service,kind,id,title,link\n"
        + ",".join(
            [ALERT.started_at.isoformat(), *[json.dumps("<b>x</b>")] * 4, "javascript:alert(1)"]
        )
    )
    (folder / "changes.parquet").unlink()
    site.store.add_progress(investigation_id, NASTY, NASTY, key="nasty")
    site.store.finish(investigation_id, "done", verdict=NASTY, confidence=0.9, headline=NASTY)
    return investigation_id


def test_hostile_text_makes_no_element_no_attribute_and_no_link(
    hostile: str, browser: httpx.Client
) -> None:
    for path in ("/", f"/investigations/{hostile}"):
        page = browser.get(path)
        assert page.status_code == 200
        read = _Reader()
        read.feed(page.text)
        assert "img" not in read.tags
        assert [
            v
            for t, a, v in read.attributes
            if t == "script" and a == "src" and not v.startswith("/static/")
        ] == []
        assert read.tags.count("script") == sum(
            a == "src" and t == "script" for t, a, _ in read.attributes
        )
        assert [a for _, a, _ in read.attributes if a.startswith("on")] == []
        links = [v for _, a, v in read.attributes if a in ("href", "action", "src", "data-chart")]
        assert links
        assert [v for v in links if not v.startswith(("/", "#"))] == []


def test_hostile_text_is_shown_as_it_is_with_what_hides_made_visible(
    hostile: str, browser: httpx.Client
) -> None:
    page = browser.get(f"/investigations/{hostile}").text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "{{7*7}}" in page
    assert "\u202e" not in page
    assert "invoice[U+202E]xcod.exe" in page


def test_hostile_names_reach_the_chart_as_text_only(hostile: str, browser: httpx.Client) -> None:
    answer = browser.get(f"/investigations/{hostile}/series/F2.json")
    assert answer.headers["content-type"] == "application/json"
    assert "\u202e" not in answer.text
    assert answer.json()["title"].startswith("<script>")


def test_hostile_ids_in_addresses_are_pages_of_their_own(browser: httpx.Client) -> None:
    for path in (
        "/investigations/<script>",
        "/investigations/%00",
        "/investigations/%F0%9F%92%A9",
        "/%E2%80%AE",
    ):
        answer = browser.get(path)
        assert answer.status_code == 404
        assert "<script>alert" not in answer.text


def test_lone_surrogates_in_details_do_not_break_the_page(
    sample: str, site: Site, browser: httpx.Client
) -> None:
    file = site.cases / sample / "findings.json"
    data = json.loads(file.read_text())
    data["findings"][2]["details"]["example"] = "bad \ud800 text"
    file.write_text(json.dumps(data))
    answer = browser.get(f"/investigations/{sample}")
    assert answer.status_code == 200
    assert "bad [U+D800] text" in answer.text


def test_a_very_long_line_is_cut_and_says_so() -> None:
    assert visible("x" * 50_000).endswith("… (30000 characters left out)")


@pytest.mark.parametrize("url", BAD_LINKS)
def test_only_http_addresses_with_a_host_become_links(url: str) -> None:
    assert safe_href(url) is None


@pytest.mark.parametrize(
    "url", ["https://app.datadoghq.com/x?a=1&b=%20#f", "http://10.0.0.1:9090/graph"]
)
def test_addresses_of_vendors_become_links_unchanged(url: str) -> None:
    assert safe_href(url) == url


@given(st.text())
def test_shown_text_can_always_be_sent_and_never_reorders(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert not set(shown) & set(
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\x00\x1b\u200b\ufeff"
    )
    assert visible(shown) == shown
