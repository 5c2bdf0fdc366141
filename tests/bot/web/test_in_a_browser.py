"""The pages in a real browser: what scripts do, what the security policy lets through, how it fits
a phone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.bot.web.browser import Page, browser_page
from tests.bot.web.sample_case import ALERT, REPORT, write_sample_case
from tests.bot.web.serving import Site

Visit = Callable[[Page], Awaitable[None]]
InBrowser = Callable[[Visit], None]


@pytest.fixture(scope="module")
def in_browser(chromium: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InBrowser]:
    """Runs visits with one browser, which takes longer to start than they."""
    loop, profile = asyncio.new_event_loop(), tmp_path_factory.mktemp("browser") / "profile"
    browser = browser_page(chromium, profile)
    page = loop.run_until_complete(browser.__aenter__())

    def run(visit: Visit) -> None:
        page.messages.clear()
        page.requested.clear()
        loop.run_until_complete(visit(page))
        # The page of one test must not ask the site of the next.
        loop.run_until_complete(page.call("Page.navigate", url="about:blank"))

    yield run
    loop.run_until_complete(browser.__aexit__(None, None, None))
    loop.close()


def test_a_chart_opens_on_demand_without_moving_what_is_above_and_without_complaints(
    in_browser: InBrowser, site: Site, sample: str
) -> None:
    async def visit(page: Page) -> None:
        await page.open(f"{site.url}/investigations/{sample}#F2")
        assert await page.value("document.querySelectorAll('canvas').length") == 0
        await page.value("document.querySelectorAll('.finding').forEach((f) => { f.open = true; })")
        before = await page.value(
            "document.getElementById('F2').getBoundingClientRect().top + scrollY"
        )
        for finding in ("F1", "F2", "F3"):
            await page.value(f"document.querySelector('#{finding} [data-chart]').click()")
            await page.until(f"document.querySelector('#{finding} canvas')")
        assert (
            await page.value(
                "document.querySelector('#F2 [data-chart]').getAttribute('aria-expanded')"
            )
            == "true"
        )
        assert await page.value(
            "document.getElementById('c-F2').innerText.includes('threshold 800')"
        )
        await page.value("document.querySelector('#F1 [data-chart]').click()")
        assert await page.value("document.getElementById('c-F1').hidden")
        for finding in ("F2", "F3"):
            await page.value(f"document.querySelector('#{finding} [data-chart]').click()")
        assert (
            abs(
                await page.value(
                    "document.getElementById('F2').getBoundingClientRect().top + scrollY"
                )
                - before
            )
            < 2
        )
        assert page.messages == []
        assert [url for url in page.requested if not url.startswith(site.url)] == []

    in_browser(visit)


def test_a_running_page_streams_its_progress_and_becomes_the_result_in_place(
    in_browser: InBrowser, site: Site
) -> None:
    investigation_id = site.investigate(ALERT)
    site.store.start(investigation_id)
    for n in range(60):
        site.store.add_progress(investigation_id, "collect", f"line {n}", key=f"{n}")

    async def visit(page: Page) -> None:
        await page.open(f"{site.url}/investigations/{investigation_id}", height=500)
        await page.value("document.getElementById('log').open = true")
        await page.value("window.stayed = true; window.scrollTo(0, 300)")
        assert await page.value("document.querySelector('.steps .now b').innerText") == (
            "Collect evidence"
        )
        site.store.add_progress(investigation_id, "collect", "<b>the last</b> line", key="last")
        await page.until(
            "document.getElementById('progress').lastElementChild.innerText.includes('<b>the "
            "last</b>')"
        )
        assert await page.value("document.querySelectorAll('#progress li').length") == 61
        write_sample_case(site.cases / investigation_id)
        site.store.finish(
            investigation_id,
            "done",
            verdict="cause_found",
            confidence=0.86,
            headline=REPORT.headline,
        )
        await page.until("document.getElementById('F1')")
        # The browser keeps what is in view where it is, so that the number may change a little.
        assert await page.value("window.stayed && window.scrollY") > 200
        assert await page.value("document.querySelector('h1').innerText") == REPORT.headline
        assert await page.value("document.title.startsWith('Likely cause')")
        await page.value("document.getElementById('F1').open = true")
        await page.value("document.querySelector('#F1 [data-chart]').click()")
        await page.until("document.querySelector('#F1 canvas')")
        assert page.messages == []

    in_browser(visit)


def test_the_list_follows_new_investigations_by_itself(in_browser: InBrowser, site: Site) -> None:
    async def visit(page: Page) -> None:
        await page.open(site.url + "/")
        assert await page.value("document.body.innerText.includes('Nothing has alerted yet')")
        site.investigate(ALERT)
        await page.until(
            "document.body.innerText.includes('checkout p99 latency above 800\u00a0ms')"
        )
        assert page.messages == []

    in_browser(visit)


def test_the_answer_is_on_the_first_screen_and_the_rest_is_folded(
    in_browser: InBrowser, site: Site, sample: str
) -> None:
    bottom = "document.querySelector('.answer > :last-child').getBoundingClientRect().bottom"

    async def visit(page: Page) -> None:
        for width, height in ((1440, 900), (390, 844)):
            await page.open(f"{site.url}/investigations/{sample}", width=width, height=height)
            assert await page.value(bottom) < height
            pictures = "document.querySelector('.pictures').getBoundingClientRect().bottom"
            assert width < 1000 or await page.value(pictures) < height
            assert await page.value("document.querySelectorAll('.folds details[open]').length") == 0
        # Answer, map, chart, and a line for each fold.
        assert await page.value("document.documentElement.scrollHeight") < 2200

    in_browser(visit)


def test_a_link_to_a_finding_opens_its_fold_and_printing_opens_all(
    in_browser: InBrowser, site: Site, sample: str
) -> None:
    async def visit(page: Page) -> None:
        await page.open(f"{site.url}/investigations/{sample}#F2")
        assert await page.value("document.getElementById('F2').open")
        assert await page.value("document.getElementById('evidence').open")
        await page.call("Emulation.setEmulatedMedia", media="print")
        hidden = "[...document.querySelectorAll('.sentence')].filter((e) => !e.checkVisibility())"
        assert await page.value(f"{hidden}.length") == 0
        await page.call("Emulation.setEmulatedMedia", media="")

    in_browser(visit)
