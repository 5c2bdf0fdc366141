"""The ways people go through the pages, in a real browser: one browser and one site for all of
them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from faultline.analysis.vocabulary import Alert, Verdict
from faultline.bot.settings import ServerSettings, Settings
from faultline.bot.store.listing import Labels
from tests.bot.web.browser import Page, browser_page
from tests.bot.web.sample_case import ALERT, DIAGNOSIS, REPORT, write_sample_case
from tests.bot.web.serving import Server, Site, serving
from tests.bot.web.traced_case import write_traced_case
from tests.debian_tools import TOOLS

Visit = Callable[[Page], Awaitable[None]]

HOSTILE = "<img src=x onerror=alert(1)>\"'><script>alert(2)</script>\u202e"


@dataclass(frozen=True)
class Way:
    """A site with investigations, and a browser to visit it with."""

    site: Site
    traced: str
    states: tuple[str, ...]
    """Investigations in every state that a page shows."""
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

        yield Way(site, traced, in_every_state(site), run)
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


def in_every_state(site: Site) -> tuple[str, ...]:
    """Waiting, running, failed, and answers of every verdict and of little confidence."""
    waiting = site.investigate(ALERT.model_copy(update={"title": "waiting", "service": "a"}))
    running = site.investigate(ALERT.model_copy(update={"title": "running", "service": "b"}))
    site.store.start(running)
    for stage in ("scope", "collect loki"):
        site.store.add_progress(running, stage, f"line of {stage}", key=f"{running}{stage}")
    failed = site.investigate(ALERT.model_copy(update={"title": "failed", "service": "c"}))
    site.store.finish(failed, "failed", verdict=None, confidence=None, headline="no answer")
    ids = [waiting, running, failed]
    for verdict, confidence in (
        (Verdict.CAUSE_FOUND, 0.45),
        (Verdict.RECOVERED, 0.8),
        (Verdict.NO_ACTIVE_INCIDENT, 0.7),
        (Verdict.INSUFFICIENT_EVIDENCE, 0.2),
    ):
        about = {"title": verdict.value, "service": verdict.value}
        one = site.investigate(ALERT.model_copy(update=about))
        changed = {"verdict": verdict, "confidence": confidence, "missing": ("Spans of payment",)}
        write_sample_case(site.cases / one, diagnosis=DIAGNOSIS.model_copy(update=changed))
        site.store.finish(one, "done", verdict=verdict.value, confidence=confidence, headline="x")
        ids.append(one)
    return tuple(ids)


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
        await page.until("document.getElementById('F8')")
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
        await page.until("location.pathname === '/accuracy'")
        assert await page.value("document.body.innerText.includes('The cause was: the pool')")

    way.run(visit)


def test_everything_on_the_way_can_be_reached_and_done_by_keyboard_alone(way: Way) -> None:
    async def visit(page: Page) -> None:
        await page.open(f"{way.site.url}/?service=checkout")
        await press(page, "Tab", code=9)
        assert await page.value("document.activeElement.className") == "skip"
        await tab_to(page, "e.classList.contains('row')")
        await enter(page)
        await page.until("document.querySelector('.timeline .zoom button')")
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


AXE = TOOLS / "axe/node_modules/axe-core/axe.min.js"
"""axe-core, the rules of accessibility that browsers' own tools use."""
VIOLATIONS = """
axe.run(document).then((found) => found.violations.map(
  (one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).slice(0, 5).join(", ")}`
))
"""
OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"


@pytest.fixture(scope="module")
def axe_core() -> str:
    """The script; `./run test` installs it."""
    if not AXE.exists():
        pytest.skip("axe-core could not be installed from npm")
    return AXE.read_text(encoding="utf-8")


def test_axe_finds_nothing_and_no_page_is_wider_than_its_screen(
    way: Way, axe_core: str, tmp_path: Path
) -> None:
    one = f"/investigations/{way.traced}"
    pages = ["/?judged=yes", "/accuracy", "/health", "/settings", "/audit", "/account", "/nothing"]
    pages += [f"{one}/findings/F8", f"{one}/findings/F3", f"{one}/replay", one]
    addresses = [way.site.url + page for page in pages]
    states = [f"{way.site.url}/investigations/{state}" for state in way.states]
    login = Settings(server=ServerSettings(access_token=SecretStr("a token of some length")))

    async def visit(page: Page) -> None:
        added = await page.call("Page.addScriptToEvaluateOnNewDocument", source=axe_core)
        with serving(server, tmp_path, login) as locked:
            for address in [locked.url + "/login", *addresses]:
                await check(page, address, 1440)
                await check(page, address, 390, dark=True)
        await check(page, addresses[-1], 1440, dark=True)
        for address in states:
            await check(page, address, 390)
        for address in [*addresses, *states]:
            await page.open(address, width=320)
            await page.value(OPEN_ALL)
            assert await page.value("document.documentElement.scrollWidth") <= 320, address
        await page.call("Page.removeScriptToEvaluateOnNewDocument", **added)
        # What is not there is a page too, and the browser says so.
        page.messages.clear()
        page.requested.clear()

    server = Server()
    way.run(visit)
    server.stop()


ASK = """(() => {
  const field = document.getElementById("question");
  field.value = "roll back payment";
  field.form.requestSubmit();
})()"""


def test_a_question_is_asked_and_its_command_copied(way: Way, axe_core: str) -> None:
    async def visit(page: Page) -> None:
        for width, dark in ((1440, False), (390, True)):
            added = await page.call("Page.addScriptToEvaluateOnNewDocument", source=axe_core)
            await page.open(f"{way.site.url}/investigations/{way.traced}", width=width, dark=dark)
            await page.value(ASK)
            await page.until("document.querySelector('h1')?.innerText === 'roll back payment'")
            assert await page.value(VIOLATIONS) == []
            assert await page.value("document.documentElement.scrollWidth") <= width
            await page.value(
                "navigator.clipboard.writeText = async (text) => { window.copied = text; }"
            )
            await page.value("document.querySelector('button.copy').click()")
            await page.until("document.querySelector('[role=status]').innerText === 'Copied'")
            copied = await page.value("window.copied")
            assert copied == "kubectl rollout undo deployment/payment"
            await page.call("Page.removeScriptToEvaluateOnNewDocument", **added)

    way.run(visit)


async def check(page: Page, address: str, width: int, *, dark: bool = False) -> None:
    """One page, first folded up to its sections, then unfolded."""
    await page.open(address, width=width, dark=dark)
    await page.value("document.querySelectorAll('.fold').forEach((one) => { one.open = true; })")
    assert await page.value(VIOLATIONS) == [], (address, width)
    await page.value(OPEN_ALL)
    assert await page.value("document.documentElement.scrollWidth") <= width, address
