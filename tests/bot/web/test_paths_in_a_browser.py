"""The ways people go through the pages, in a real browser: one browser and one site for all of
them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from analysis.vocabulary import Alert
from bot.store.labels import Labels
from tests.bot.web.browser import Page, browser_page
from tests.bot.web.sample_case import ALERT, REPORT
from tests.bot.web.serving import Server, Site, serving
from tests.bot.web.traced_case import write_traced_case

Visit = Callable[[Page], Awaitable[None]]

HOSTILE = "<img src=x onerror=alert(1)>\"'><script>alert(2)</script>\u202e"


@dataclass(frozen=True)
class Way:
    """A site with investigations, and a browser to visit it with."""

    site: Site
    traced: str
    run: Callable[[Visit], None]


@pytest.fixture(scope="module")
def way(chromium: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    """The site is filled once, the browser started once."""
    own, loop, scratch = Server(), asyncio.new_event_loop(), tmp_path_factory.mktemp("way")
    with serving(own, scratch) as site:
        traced = fill(site)
        browser = browser_page(chromium, scratch / "profile")
        page = loop.run_until_complete(browser.__aenter__())

        def run(visit: Visit) -> None:
            page.messages.clear()
            page.requested.clear()
            loop.run_until_complete(visit(page))
            assert page.messages == []
            assert [url for url in page.requested if not url.startswith((site.url, "data:"))] == []

        yield Way(site, traced, run)
        loop.run_until_complete(browser.__aexit__(None, None, None))
        loop.close()
    own.stop()


def fill(site: Site) -> str:
    """Sixty answered investigations, half of them judged, one with a whole case, one with hostile
    text."""
    now, labels = datetime.now(UTC), Labels(site.store.engine)
    for n in range(60):
        alert = ALERT.model_copy(
            update={"title": f"alert {n}", "service": ("cart", "bank", "search")[n % 3]}
        )
        id_ = accepted(site, alert, now - timedelta(hours=n + 2))
        site.store.finish(
            id_, "done", verdict="cause_found", confidence=0.5 + n / 130, headline=f"answer {n}"
        )
        if n % 2:
            labels.write(id_, right=n % 4 == 1, cause="another")
    hostile = ALERT.model_copy(update={"title": HOSTILE, "service": HOSTILE, "source": HOSTILE})
    site.store.finish(
        accepted(site, hostile, now), "done", verdict=HOSTILE, confidence=0.9, headline=HOSTILE
    )
    traced = accepted(site, ALERT, now)
    write_traced_case(site.cases / traced)
    site.store.finish(
        traced, "done", verdict="cause_found", confidence=0.86, headline=REPORT.headline
    )
    return traced


def accepted(site: Site, alert: Alert, at: datetime) -> str:
    given = site.store.accept(alert, now=at).investigation_id
    assert given is not None
    return given


async def press(page: Page, key: str, *, code: int = 0, text: str = "") -> None:
    """One key, as a keyboard sends it."""
    for kind in ("keyDown", "keyUp"):
        given = {"text": text} if text and kind == "keyDown" else {}
        await page.call(
            "Input.dispatchKeyEvent",
            type=kind,
            key=key,
            code=key,
            windowsVirtualKeyCode=code,
            **given,
        )


async def tab_to(page: Page, what: str) -> None:
    """Tab until the condition holds for the element in focus, which must show that it is."""
    for _ in range(120):
        await press(page, "Tab", code=9)
        if await page.value(f"Boolean(((e) => {what})(document.activeElement))"):
            assert (
                await page.value("getComputedStyle(document.activeElement).outlineStyle") != "none"
            )
            return
    raise AssertionError(f"no Tab leads to {what}")


async def enter(page: Page) -> None:
    await press(page, "Enter", code=13, text="\r")


def test_from_the_list_by_a_filter_to_a_finding_its_spans_a_judgement_and_the_accuracy(
    way: Way,
) -> None:
    async def visit(page: Page) -> None:
        await page.open(way.site.url + "/")
        await page.value("document.querySelector('.search details').open = true")
        await page.value("document.querySelector('[name=service]').value = 'checkout'")
        await page.value("document.querySelector('.filters button').click()")
        await page.until(
            "location.search.includes('service=checkout') && "
            "document.querySelectorAll('.row').length === 1"
        )
        await page.value("document.querySelector('.row').click()")
        await page.until("document.getElementById('F8') && document.readyState === 'complete'")
        await page.value("document.querySelector('#F8 .open').click()")
        await page.until(
            "location.pathname.endsWith('/findings/F8') && document.querySelector('.chart canvas')"
        )
        assert await page.value("document.querySelectorAll('.spans li').length") == 4
        await page.value("document.querySelector('.spans .subject summary').click()")
        assert await page.value("document.querySelector('.spans .subject details').open")
        await page.value("document.querySelector('.path a').click()")
        await page.until("location.hash === '#F8' && document.querySelector('.judgement form')")
        await page.value("document.querySelector('.judgement [name=cause]').value = 'the pool'")
        await page.value("document.querySelector('.judgement button[value=no]').click()")
        await page.until("document.querySelector('.judgement')?.innerText.includes('Marked wrong')")
        await page.value("document.querySelector('nav a[href=\"/accuracy\"]').click()")
        await page.until("location.pathname === '/accuracy' && document.readyState === 'complete'")
        assert await page.value("document.body.innerText.includes('The cause was: the pool')")

    way.run(visit)


def test_everything_on_the_way_can_be_reached_and_done_by_keyboard_alone(way: Way) -> None:
    async def visit(page: Page) -> None:
        await page.open(f"{way.site.url}/?service=checkout")
        await press(page, "Tab", code=9)
        assert await page.value("document.activeElement.className") == "skip"
        await tab_to(page, "e.classList.contains('row')")
        await enter(page)
        await page.until(
            "document.querySelector('.timeline .zoom button') && document.readyState === 'complete'"
        )
        await tab_to(page, "e.matches('#timeline-fold > summary')")
        await enter(page)
        await tab_to(page, "e.dataset.zoom === 'in'")
        await enter(page)
        await page.until("document.querySelector('[data-zoom=all]:not(:disabled)')")
        await tab_to(page, "e.matches('#evidence > summary')")
        await enter(page)
        await tab_to(page, "e.matches('#F1 > summary')")
        await enter(page)
        await tab_to(page, "e.matches('#F1 [data-chart]')")
        await enter(page)
        await page.until("document.querySelector('#F1 canvas')")
        await tab_to(page, "e.matches('#F3 > summary')")
        await enter(page)
        await tab_to(page, "e.matches('#F3 .open')")
        await enter(page)
        await page.until(
            "location.pathname.endsWith('/findings/F3') && document.querySelector('.lines')"
        )

    way.run(visit)


def test_the_timeline_zooms_keeps_what_is_in_view_and_goes_back(way: Way) -> None:
    async def visit(page: Page) -> None:
        await page.open(f"{way.site.url}/investigations/{way.traced}")
        await page.until("document.querySelector('.zoom button')")
        place = "document.querySelector('.timeline li.alert svg[data-x]').getAttribute('x')"
        before, labels = await page.value(place), "document.querySelector('.axis svg').textContent"
        told = await page.value(labels)
        for _ in range(3):
            await page.value("document.querySelector('[data-zoom=in]').click()")
        assert await page.value(labels) != told
        assert 0 < float((await page.value(place)).rstrip("%")) < 100
        assert (
            await page.value(
                "document.querySelectorAll('.timeline svg[data-x][visibility=hidden]').length"
            )
            > 0
        )
        assert await page.value(
            "[...document.querySelectorAll('.track rect')].every((r) => r.width.baseVal.value >= 0)"
        )
        await page.value("document.querySelector('[data-zoom=all]').click()")
        assert float((await page.value(place)).rstrip("%")) == pytest.approx(
            float(before.rstrip("%"))
        )

    way.run(visit)


def test_no_page_is_wider_than_a_phone_in_either_scheme(way: Way) -> None:
    one = f"/investigations/{way.traced}"
    paths = (
        "/?confidence=70-90&judged=wrong",
        "/accuracy",
        "/health",
        f"{one}/findings/F8",
        f"{one}/findings/F3",
        one,
    )

    async def visit(page: Page) -> None:
        for path, dark in itertools.product((*paths, f"{one}/replay"), (False, True)):
            await page.open(way.site.url + path, width=390, height=844, dark=dark)
            await page.value(
                "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
            )
            assert await page.value("document.documentElement.scrollWidth") <= 390, path

    way.run(visit)


CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


def test_every_text_stands_out_from_what_is_behind_it_as_wcag_aa_asks(way: Way) -> None:
    one = f"/investigations/{way.traced}"

    async def visit(page: Page) -> None:
        for path in (
            "/?judged=yes",
            "/accuracy",
            "/health",
            one,
            f"{one}/findings/F8",
            f"{one}/findings/F3",
        ):
            for dark in (False, True):
                await page.open(way.site.url + path, dark=dark)
                await page.value(
                    "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
                )
                assert await page.value(CONTRAST) == [], path

    way.run(visit)


def test_hostile_text_is_text_on_every_page(way: Way) -> None:
    async def visit(page: Page) -> None:
        for path in (
            "/",
            "/accuracy",
            "/?q=" + "%3Cscript%3Ealert(1)%3C/script%3E",
            "/?service=%3Cimg%20src%3Dx%3E",
        ):
            await page.open(way.site.url + path)
            assert (
                await page.value("document.querySelectorAll('img, script:not([src])').length") == 0
            )
        await page.open(way.site.url + "/")
        assert await page.value("document.body.innerText.includes('<script>alert(2)</script>')")

    way.run(visit)


def test_what_a_screen_reader_needs_is_there(way: Way) -> None:
    async def visit(page: Page) -> None:
        one = f"/investigations/{way.traced}"
        for path in ("/", "/accuracy", "/health", one, f"{one}/findings/F8"):
            await page.open(way.site.url + path)
            assert await page.value("document.querySelectorAll('h1').length") == 1
            named = (
                "[...document.querySelectorAll('a, button, summary')].map((e) => "
                "e.textContent.trim() || e.ariaLabel)"
            )
            assert await page.value(f"{named}.every(Boolean)")
            fields = "[...document.querySelectorAll('input:not([type=hidden]), select')]"
            assert (
                await page.value(f"{fields}.filter((e) => !e.labels.length && !e.ariaLabel).length")
                == 0
            )
            ids = "[...document.querySelectorAll('[id]')].map((e) => e.id)"
            assert await page.value(f"{ids}.length === new Set({ids}).size")

    way.run(visit)
