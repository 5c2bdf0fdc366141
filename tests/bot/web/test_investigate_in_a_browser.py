"""The form that starts an investigation, and an answer as a file, in a real browser."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faultline.bot.web.answer_file import answer_file
from tests.bot.web.browser import Page
from tests.bot.web.sample_case import ALERT, REPORT, write_sample_case
from tests.bot.web.serving import Site
from tests.bot.web.test_in_a_browser import InBrowser, in_browser
from tests.bot.web.test_paths_in_a_browser import VIOLATIONS, axe_core

__all__ = ["axe_core", "in_browser"]

WIDTHS = (1280, 390)
WHAT = "checkout is slow"
SHOWN = "document.querySelector('main h1')?.innerText"


async def fill_in(page: Page, **fields: str) -> None:
    """Type into the form of the page and send it."""
    for name, value in fields.items():
        field = f"document.querySelector('main [name={name}]')"
        await page.value(f"{field}.value = {json.dumps(value)}")
    await page.value("document.querySelector('form.stacked button').click()")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scripts", [True, False])
def test_a_person_fills_in_the_form_and_reads_the_answer(
    in_browser: InBrowser, site: Site, width: int, scripts: bool
) -> None:
    async def visit(page: Page) -> None:
        await page.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        await page.open(site.url + "/", width=width)
        await page.value("document.querySelector('main a[href=\"/investigate\"]').click()")
        await page.until("location.pathname === '/investigate'")
        await fill_in(page, question=WHAT, since="30m", places="cluster=eu-1")
        await page.until("location.pathname.startsWith('/investigations/')")
        (one,) = site.store.latest()
        assert (one.question, one.alert.labels["cluster"]) == (WHAT, "eu-1")
        ago = datetime.now(UTC) - one.alert.started_at
        assert timedelta(minutes=29) < ago < timedelta(minutes=32)
        site.store.start(one.id)
        site.store.add_progress(one.id, "scope", "asking prometheus", key="scope")
        seen = "document.getElementById('progress')?.textContent.includes('asking prometheus')"
        await page.until(seen)
        write_sample_case(site.cases / one.id)
        site.store.finish(
            one.id, "done", verdict="cause_found", confidence=0.86, headline=REPORT.headline
        )
        await page.until(f"{SHOWN} === {json.dumps(REPORT.headline)}")
        assert await page.value("document.documentElement.scrollWidth") <= width
        await page.call("Emulation.setScriptExecutionDisabled", value=False)

    in_browser(visit)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_service_of_the_map_is_looked_at_closer(
    in_browser: InBrowser, site: Site, sample: str, width: int
) -> None:
    link = "document.querySelector('.pic-calls a[href^=\"/investigate?service=\"]')"

    async def visit(page: Page) -> None:
        await page.open(f"{site.url}/investigations/{sample}", width=width)
        await page.value(f"{link}.closest('details').open = true")
        service = await page.value(f"new URL({link}.href).searchParams.get('service')")
        await page.value(f"{link}.click()")
        await page.until("location.pathname === '/investigate'")
        await fill_in(page)
        await page.until("location.pathname.startsWith('/investigations/')")
        newest = site.store.latest()[0]
        assert newest.id != sample
        assert newest.alert.service == service
        assert service in (newest.question or "")

    in_browser(visit)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_in_the_form(
    in_browser: InBrowser, site: Site, axe_core: str, width: int, dark: bool
) -> None:
    async def visit(page: Page) -> None:
        added = await page.call("Page.addScriptToEvaluateOnNewDocument", source=axe_core)
        await page.open(f"{site.url}/investigate?places=a%3Db", width=width, dark=dark)
        assert await page.value(VIOLATIONS) == []
        await fill_in(page, question=WHAT, since="soon")
        await page.until("document.querySelector('[role=alert]')")
        assert await page.value(VIOLATIONS) == []
        assert await page.value("document.documentElement.scrollWidth") <= width
        await page.call("Page.removeScriptToEvaluateOnNewDocument", **added)

    in_browser(visit)


def page_as_a_file(folder: Path, site: Site, investigation: str) -> Path:
    found = site.store.get(investigation)
    assert found is not None
    file = folder / "answer.html"
    file.write_text(answer_file(found, site.cases / investigation), encoding="utf-8")
    return file


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True])
def test_an_answer_as_a_file_needs_nothing_else(
    in_browser: InBrowser,
    site: Site,
    sample: str,
    axe_core: str,
    tmp_path: Path,
    width: int,
    dark: bool,
) -> None:
    file = page_as_a_file(tmp_path, site, sample)

    async def visit(page: Page) -> None:
        added = await page.call("Page.addScriptToEvaluateOnNewDocument", source=axe_core)
        await page.open(file.as_uri(), width=width, dark=dark)
        assert {url for url in page.requested if not url.startswith("about:")} == {file.as_uri()}
        assert page.messages == []
        assert await page.value(SHOWN) == REPORT.headline
        assert await page.value("document.querySelectorAll('.picture svg').length") >= 2
        # The style holds: the pictures are drawn for one width at a time.
        assert await page.value("getComputedStyle(document.querySelector('main')).maxWidth") == (
            "1320px"
        )
        links = await page.value(
            "[...document.querySelectorAll('main a')].map((one) => one.getAttribute('href'))"
        )
        for link in links:
            known = f"Boolean(document.getElementById('{link[1:]}'))"
            assert link.startswith("https://") or await page.value(known), link
        assert await page.value(VIOLATIONS) == []
        assert await page.value("document.documentElement.scrollWidth") <= width
        await page.call("Page.removeScriptToEvaluateOnNewDocument", **added)

    in_browser(visit)


def test_foreign_text_in_a_file_stays_text(site: Site, tmp_path: Path) -> None:
    hostile = "</style><script>alert(1)</script>"
    known = site.investigate(ALERT.model_copy(update={"title": hostile, "service": hostile}))
    write_sample_case(site.cases / known)
    site.store.finish(known, "done", verdict="cause_found", confidence=0.8, headline=hostile)
    text = page_as_a_file(tmp_path, site, known).read_text(encoding="utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;" in text
