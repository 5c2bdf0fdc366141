"""The search, what happened before, the judgement of an answer and the judged cases, over HTTP."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from pydantic import SecretStr

from faultline.analysis.case.earlier import EarlierInvestigation
from faultline.analysis.case.folder import write_json
from faultline.analysis.vocabulary import Alert, Diagnosis, Finding
from faultline.bot.settings import ServerSettings, Settings
from faultline.bot.store.listing import AnswerLabel, Labels
from faultline.bot.store.memory import Memory
from faultline.bot.web.record_pages import truth_of
from faultline.evaluation.labels import read_label, system_of
from tests.bot.web.sample_case import ALERT, ALERT_AT, DIAGNOSIS, SCOPE
from tests.bot.web.serving import Server, Site, serving

TOKEN = "correct horse battery staple"
EARLIER_ID = "20261103-010203-abcdef"
SAID = (
    "Second time in 30 days, last on 3 Nov: payment runs out of a resource, and it shows again now."
)


def remember(site: Site, about: Alert, headline: str) -> str:
    investigation_id = site.investigate(about)
    site.store.finish(
        investigation_id, "done", verdict="cause_found", confidence=0.8, headline=headline
    )
    kept = EarlierInvestigation(
        id=investigation_id,
        at=ALERT_AT,
        fingerprint=about.fingerprint,
        title=about.title,
        verdict="cause_found",
        headline=headline,
    )
    Memory(site.store.engine).remember(kept, about)
    return investigation_id


def with_memory(site: Site, sample: str, **details: object) -> None:
    tested = {
        "investigation": EARLIER_ID,
        "when": "2026-11-03 01:02 UTC",
        "alert": "checkout is slow",
    }
    tested |= {"cause": "payment runs out of a resource", "outcome": "holds again in F1"}
    finding = Finding(
        id="F90",
        kind="earlier_investigation",
        subject="payment",
        strength=0.1,
        sentence=SAID,
        details={"investigation": EARLIER_ID, "tested": [tested], **details},
    )
    diagnosis = DIAGNOSIS.model_copy(update={"findings": (*DIAGNOSIS.findings, finding)})
    write_json(site.cases / sample / "findings.json", diagnosis)


def key_of(browser: httpx.Client, investigation_id: str) -> str:
    found = re.search(
        r'name="csrf" value="(\w+)"', browser.get(f"/investigations/{investigation_id}").text
    )
    assert found is not None
    return found[1]


def judged(site: Site, investigation_id: str) -> AnswerLabel | None:
    return Labels(site.store.engine).get(investigation_id)


def test_a_search_lists_what_it_finds_and_is_not_polled(site: Site, browser: httpx.Client) -> None:
    mine = remember(site, ALERT, "payment cut its pool")
    other = remember(
        site, ALERT.model_copy(update={"title": "disk full", "service": "ledger"}), "disk of ledger"
    )
    page = browser.get("/", params={"q": "POOL paym"}).text
    assert mine in page
    assert other not in page
    assert "<h1>Found</h1>" in page
    assert "“POOL paym”" in page
    assert '<p class="dim">1 ' in page
    assert "hx-get" not in page
    assert "hx-get" in browser.get("/", params={"q": "  "}).text


def test_a_search_that_finds_nothing_says_so(site: Site, browser: httpx.Client) -> None:
    remember(site, ALERT, "payment cut its pool")
    page = browser.get("/", params={"q": "unheard of"}).text
    assert "Nothing matches" in page
    assert "“unheard of”" in page
    assert "Nothing has alerted yet" not in page


@pytest.mark.parametrize(
    "hostile",
    ['"><script>alert(1)</script>', "' OR 1=1 --", "a\x00b", "x" * 10_000, "\u202e", "%ff"],
)
def test_a_hostile_search_is_shown_as_text(site: Site, browser: httpx.Client, hostile: str) -> None:
    remember(site, ALERT, "payment cut its pool")
    answer = browser.get(f"/?q={quote(hostile)}")
    assert answer.status_code == 200
    assert "<script>alert" not in answer.text
    assert "\u202e" not in answer.text
    assert len(answer.text) < 20_000


def test_the_page_tells_what_happened_before_with_links_and_apart_from_the_findings(
    sample: str, site: Site, browser: httpx.Client
) -> None:
    assert "None that this bot remembers" in browser.get(f"/investigations/{sample}").text
    with_memory(site, sample)
    page = browser.get(f"/investigations/{sample}").text
    section = page[page.index('id="earlier"') : page.index('id="decided"')]
    for shown in (
        SAID.replace("30 days", "30\u00a0days"),
        f'href="/investigations/{EARLIER_ID}"',
        "holds again in F1",
        'id="F90"',
    ):
        assert shown in section
    evidence = page[page.index('id="evidence"') : page.index('id="earlier"')]
    assert evidence.count('<details class="finding"') == 7


@pytest.mark.parametrize(
    "tested", ["text", 7, [1, None, {"investigation": '"><script>', "when": {"a": 1}}], {"a": []}]
)
def test_rows_of_another_shape_do_no_harm(
    sample: str, site: Site, browser: httpx.Client, tested: object
) -> None:
    with_memory(site, sample, tested=tested)
    answer = browser.get(f"/investigations/{sample}")
    assert answer.status_code == 200
    assert '"><script>' not in answer.text


def test_an_answer_is_judged_from_its_page_and_the_newest_judgement_is_shown(
    sample: str, site: Site, browser: httpx.Client
) -> None:
    given = {
        "csrf": key_of(browser, sample),
        "right": "no",
        "cause": "the <b>cart</b>",
        "who": "ann",
    }
    answer = browser.post(f"/investigations/{sample}/judgement", data=given)
    assert (answer.status_code, answer.headers["location"]) == (
        303,
        f"/investigations/{sample}#judgement",
    )
    held = judged(site, sample)
    assert held is not None
    assert (held.right, held.cause, held.who) == (False, "the <b>cart</b>", "ann")
    page = browser.get(f"/investigations/{sample}").text
    assert "Marked <b>wrong</b> by ann" in page
    assert "the &lt;b&gt;cart&lt;/b&gt;" in page
    browser.post(f"/investigations/{sample}/judgement", data={**given, "right": "yes", "cause": ""})
    assert "Marked <b>right</b> by ann" in browser.get(f"/investigations/{sample}").text


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"csrf": ""}, 403),
        ({"csrf": "0" * 64}, 403),
        ({"csrf": "é"}, 403),
        ({"right": "maybe"}, 400),
        ({"right": ""}, 400),
        ({"cause": "x" * 100_000}, 413),
        ({f"field{n}": "x" for n in range(50)}, 403),
    ],
)
def test_a_form_that_is_not_ours_is_refused(
    sample: str, site: Site, browser: httpx.Client, change: dict[str, str], status: int
) -> None:
    given = {"csrf": key_of(browser, sample), "right": "yes", **change}
    assert browser.post(f"/investigations/{sample}/judgement", data=given).status_code == status
    assert judged(site, sample) is None


def test_what_has_no_answer_cannot_be_judged(site: Site, browser: httpx.Client) -> None:
    running = site.investigate(ALERT)
    assert "Was this right?" not in browser.get(f"/investigations/{running}").text
    done = remember(site, ALERT.model_copy(update={"title": "other"}), "payment cut its pool")
    given = {"csrf": key_of(browser, done), "right": "yes"}
    assert browser.post(f"/investigations/{running}/judgement", data=given).status_code == 409
    assert browser.post("/investigations/none/judgement", data=given).status_code == 404


@pytest.fixture
def locked(server: Server, tmp_path: Path) -> Iterator[tuple[Site, str]]:
    settings = Settings(server=ServerSettings(access_token=SecretStr(TOKEN)))
    with serving(server, tmp_path, settings) as site:
        yield site, remember(site, ALERT, "payment cut its pool")


def test_with_a_token_only_its_holders_judge(locked: tuple[Site, str]) -> None:
    site, name = locked
    with httpx.Client(base_url=site.url) as client:
        assert (
            client.post(f"/investigations/{name}/judgement", data={"right": "yes"}).status_code
            == 401
        )
        assert client.get("/judged.zip").status_code == 401
        client.headers["authorization"] = f"Bearer {TOKEN}"
        assert (
            client.post(f"/investigations/{name}/judgement", data={"right": "yes"}).status_code
            == 303
        )
    assert judged(site, name) is not None


def test_the_record_is_shown_from_five_judged_answers_on(
    sample: str, site: Site, browser: httpx.Client
) -> None:
    labels = Labels(site.store.engine)
    for number in range(5):
        name = site.investigate(ALERT.model_copy(update={"title": f"alert {number}"}))
        site.store.finish(name, "done", verdict="cause_found", confidence=0.82, headline="x")
        page = browser.get(f"/investigations/{sample}").text
        assert "other answers at this confidence" not in page
        labels.write(name, right=number > 0)
    page = browser.get(f"/investigations/{sample}").text
    assert "Of 5 other answers at this confidence that people judged, 4 were right." in page


def test_judged_cases_are_a_download_that_eval_reads(
    sample: str, site: Site, browser: httpx.Client, tmp_path: Path
) -> None:
    assert "/judged.zip" not in browser.get("/").text
    Labels(site.store.engine).write(sample, right=False, cause="it was cart: its cache was lost")
    lost = site.investigate(ALERT.model_copy(update={"title": "its folder is gone"}))
    Labels(site.store.engine).write(lost, right=True)
    assert "2 judged cases (zip)" in browser.get("/").text
    answer = browser.get("/judged.zip")
    assert answer.headers["content-disposition"] == 'attachment; filename="faultline-judged.zip"'
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert archive.testzip() is None
    archive.extractall(tmp_path / "judged")
    (folder,) = (tmp_path / "judged").iterdir()
    assert folder.name == f"incident-{sample}"
    assert system_of(folder.name) == "incident"
    label = read_label(folder)
    assert label is not None
    assert (label.subject, label.gradable) == ("cart", True)
    assert (folder / "metrics.parquet").is_file()
    assert "label.json" not in str(
        zipfile.ZipFile(
            io.BytesIO(browser.get(f"/investigations/{sample}/case.zip").content)
        ).namelist()
    )


@pytest.mark.parametrize(
    ("said", "right", "expected"),
    [
        ("", True, {"subject": "payment", "change": "v412", "verdict": "cause_found"}),
        ("Payment, its pool", False, {"subject": "payment", "change": None, "verdict": None}),
        (
            "the deploy v412 of checkout",
            False,
            {"subject": "checkout", "change": "v412", "verdict": None},
        ),
        ("cartwheel", False, {"subject": None, "change": None, "verdict": None}),
        ("", False, {"subject": None, "change": None, "verdict": None}),
        ("x" * 2_000, False, {"subject": None, "change": None, "verdict": None}),
    ],
)
def test_the_truth_is_the_answer_or_what_the_words_name(
    said: str, right: bool, expected: dict[str, str | None]
) -> None:
    label = AnswerLabel("20261120-031200-abcdef", right, said, "", ALERT_AT + timedelta(days=1))
    truth = truth_of(label, DIAGNOSIS, SCOPE)
    assert {name: truth.get(name) for name in expected} == expected
    assert json.loads(json.dumps(truth)) == truth


def test_a_right_all_clear_is_a_verdict_to_reach(sample: str) -> None:
    calm = Diagnosis.model_validate(
        {**DIAGNOSIS.model_dump(), "verdict": "no_active_incident", "causes": ()}
    )
    truth = truth_of(AnswerLabel(sample, True, "", "", ALERT_AT), calm, SCOPE)
    assert truth["verdict"] == "no_active_incident"
    assert "subject" not in truth
