"""The page of `--html`: it loads nothing, runs only its own code, and takes no text of a trace for
markup."""

from __future__ import annotations

import asyncio
import base64
import gzip
import html
import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from tests.analysis.traces.written_traces import document, event, job, write_trace
from tests.bot.web.browser import Page, browser_page
from tests.debian_tools import debian_binary
from tests.trace_report.command import STRAGGLER, trace, write_job

EVIL = (
    "</script><script>window.broken=1</script><img src=x onerror='window.broken=1'>\"'`{{7*7}} "
    "\u2028\ud800 漢字"
)
OUTSIDE = re.compile(r"""(?:src|href)\s*=\s*["']?([^"'#\s>]+)""")


@pytest.fixture(scope="session")
def chromium() -> Path:
    """A real browser; where none can be had the test is skipped, but never in CI."""
    try:
        return debian_binary("chromium", "/usr/bin/chromium")
    except pytest.skip.Exception as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(
                f"browser tests need chromium on PATH (apt-get install -y chromium): {reason}"
            )
        raise


def page_of(folder: Path, *options: object) -> Path:
    target = folder.parent / f"{folder.name}.html"
    done = trace(folder, "--html", target, *options)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def straggler_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a job with a straggler."""
    return page_of(write_job(tmp_path_factory.mktemp("straggler") / "job", STRAGGLER))


def hostile_job(folder: Path) -> Path:
    """Every text that a trace can carry is an attack."""
    folder.mkdir()
    for rank, events in enumerate(
        job(ranks=2, late_us={(1, s): 8_000.0 for s in range(8)}, late_in=EVIL)
    ):
        content = document(events, rank, 2, EVIL)
        content["deviceProperties"] = [{"name": EVIL}]
        write_trace(folder / f"rank{rank} <img src=x onerror=alert(1)>.json", content)
    return folder


def test_the_page_says_first_what_is_wrong_and_holds_every_section(straggler_page: Path) -> None:
    text = straggler_page.read_text()
    assert text.index("straggler") < text.index('id="ranks"')
    for part in (
        "rank 2",
        'id="ranks"',
        'id="communication"',
        'id="rank"',
        'id="read"',
        "Critical path",
        "all_reduce",
    ):
        assert part in text
    assert len(text) < 3_000_000


def test_the_page_refers_to_nothing_outside_itself(straggler_page: Path) -> None:
    text = straggler_page.read_text()
    body = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", text, flags=re.DOTALL)
    assert OUTSIDE.findall(body) == []
    assert "url(" not in text
    assert "default-src &#39;none&#39;" in text
    assert "unsafe" not in text.split("</head>")[0].split("<style>")[0]


def test_texts_of_a_trace_are_no_markup(tmp_path: Path) -> None:
    text = page_of(hostile_job(tmp_path / "job")).read_text(encoding="utf-8")
    assert "<script>window" not in text
    assert "<img" not in text
    assert text.count("<script") == text.count("</script>")
    assert "49" not in re.findall(r"aten::mm.{0,40}", text)


def test_a_deep_link_selects_the_event_in_the_times_of_its_file(straggler_page: Path) -> None:
    text = straggler_page.read_text()
    window, view = re.findall(r'data-window="([^"]+)" data-view="([^"]+)"', text)[0]
    told = {key: int(ns) for key, ns in parse_qsl(html.unescape(view))}
    packed = re.search(rf'id="{window}">"([^"]+)"<', text)
    assert packed is not None
    events = json.loads(gzip.decompress(base64.b64decode(packed[1])))["traceEvents"]
    selected = [
        event
        for event in events
        if event.get("ph") == "X"
        and (round(event["ts"] * 1000), round(event["dur"] * 1000)) == (told["ts"], told["dur"])
    ]
    assert "all_reduce" in {event["name"].split(":")[-1] for event in selected}
    assert told["visStart"] < told["ts"] < told["ts"] + told["dur"] < told["visEnd"]


def test_windows_hold_the_events_that_diagnoses_point_to(straggler_page: Path) -> None:
    text = straggler_page.read_text()
    windows = dict(re.findall(r'id="(window-\d+)">(.*?)</script>', text))
    assert windows
    cropped = [
        json.loads(gzip.decompress(base64.b64decode(json.loads(w)))) for w in windows.values()
    ]
    assert all({"traceEvents", "croppedBy"} <= set(window) for window in cropped)
    assert any(
        "gloo:all_reduce" in {e.get("name") for e in window["traceEvents"]} for window in cropped
    )
    assert set(re.findall(r'data-window="(window-\d+)"', text)) == set(windows)


def seen(
    chromium: Path, file: Path, folder: Path, look: str, *, width: int = 1200, dark: bool = False
) -> Page:
    """Open the page, evaluate `look` until it holds, and give what the browser said."""

    async def visit() -> Page:
        async with browser_page(chromium, folder / "profile") as page:
            await page.open(file.as_uri(), width=width, dark=dark)
            await page.until(look)
            return page

    return asyncio.run(visit())


def test_the_page_runs_without_a_complaint_and_asks_for_nothing(
    tmp_path: Path, straggler_page: Path, chromium: Path
) -> None:
    page = seen(
        chromium, straggler_page, tmp_path, "document.querySelectorAll('.uplot').length > 0"
    )
    assert page.messages == []
    assert page.requested == [straggler_page.as_uri()]


ATTACKED = """(() => {
  for (const pick of document.querySelectorAll('.picker button')) pick.click();
  const ready = document.documentElement.classList.contains('js') && document.querySelectorAll('.panel').length === 2;
  return ready && window.broken === undefined;
})()"""  # noqa: E501


def test_an_attack_in_a_trace_does_not_run(tmp_path: Path, chromium: Path) -> None:
    file = page_of(hostile_job(tmp_path / "job"))
    page = seen(chromium, file, tmp_path, ATTACKED)
    assert page.messages == []
    assert page.requested == [file.as_uri()]


WITHOUT_OVERFLOW = (
    "document.documentElement.scrollWidth <= innerWidth && "
    "document.querySelectorAll('.uplot').length"
)


SCREENS = ((390, True), (768, False), (1920, True))


def test_the_page_fits_small_and_large_screens(
    tmp_path: Path, straggler_page: Path, chromium: Path
) -> None:
    async def visit() -> Page:
        async with browser_page(chromium, tmp_path / "profile") as page:
            for width, dark in SCREENS:
                await page.open(straggler_page.as_uri(), width=width, dark=dark)
                await page.until(WITHOUT_OVERFLOW)
            return page

    assert asyncio.run(visit()).messages == []


WHOLE_TABLE = """(() => {
  const table = [...document.querySelectorAll('.scroll')].find((s) => s.ariaLabel === 'Collectives');
  return table.scrollWidth <= table.clientWidth;
})()"""  # noqa: E501
NAMED_ROWS = """(() => {
  const table = [...document.querySelectorAll('.scroll')].find((s) => s.ariaLabel === 'Collectives');
  table.scrollLeft = 200;
  const left = (place) => place.getBoundingClientRect().left;
  return table.scrollLeft === 200 && left(table.querySelector('td')) === left(table);
})()"""  # noqa: E501


def test_a_wide_table_fits_a_large_screen_and_keeps_its_names_on_a_small_one(
    tmp_path: Path, straggler_page: Path, chromium: Path
) -> None:
    async def visit() -> list[Any]:
        async with browser_page(chromium, tmp_path / "profile") as page:
            found = []
            for width, look in ((1440, WHOLE_TABLE), (390, NAMED_ROWS)):
                await page.open(straggler_page.as_uri(), width=width)
                await page.until("true")
                found.append(await page.value(look))
            return found

    assert asyncio.run(visit()) == [True, True]


PANELS = (
    "[...document.querySelectorAll('.panel')].map((p) => [p.dataset.rank, p.checkVisibility()])"
)


def test_other_ranks_are_in_the_page_once_someone_looks_at_them_or_prints(
    tmp_path: Path, straggler_page: Path, chromium: Path
) -> None:
    async def visit() -> list[Any]:
        async with browser_page(chromium, tmp_path / "profile") as page:
            await page.open(straggler_page.as_uri())
            await page.until("true")
            found = [await page.value(PANELS)]
            await page.value("document.querySelector('.picker [data-rank=\"3\"]').click()")
            found.append(await page.value(PANELS))
            await page.call("Page.printToPDF")
            found.append(await page.value(PANELS))
            return found

    first, picked, printed = asyncio.run(visit())
    assert first == [["2", True]]
    assert picked == [["2", False], ["3", True]]
    assert sorted(printed) == [["0", False], ["1", False], ["2", False], ["3", True]]


def test_without_scripts_all_ranks_are_shown(
    tmp_path: Path, straggler_page: Path, chromium: Path
) -> None:
    async def visit() -> Any:
        async with browser_page(chromium, tmp_path / "profile") as page:
            await page.call("Emulation.setScriptExecutionDisabled", value=True)
            await page.open(straggler_page.as_uri())
            return await page.value(PANELS)

    assert sorted(asyncio.run(visit())) == [[str(rank), True] for rank in range(4)]


SORTED_LATER = """(() => {
  document.querySelector('.picker [data-rank="3"]').click();
  const table = document.querySelector('.panel:not([hidden]) details table'), head = table.querySelector('th.n');
  table.closest('details').open = true;
  head.querySelector('button').click();
  return head.getAttribute('aria-sort') === 'descending';
})()"""  # noqa: E501


def test_tables_of_a_rank_that_came_later_sort_too(
    tmp_path: Path, straggler_page: Path, chromium: Path
) -> None:
    assert seen(chromium, straggler_page, tmp_path, SORTED_LATER).messages == []


HEIGHTS = """(async () => {
  const table = [...document.querySelectorAll('.scroll.many')].filter((one) => one.offsetHeight).at(-1);
  const heights = () => [table.offsetHeight, document.body.scrollHeight];
  const skipped = !table.querySelector('td').checkVisibility({ contentVisibilityAuto: true }), before = heights();
  table.scrollIntoView();
  await new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)));
  const shown = table.querySelector('td').checkVisibility({ contentVisibilityAuto: true });
  return [skipped, shown, before.join() === heights().join()];
})()"""  # noqa: E501


def test_a_long_table_is_laid_out_as_it_comes_near_and_moves_nothing(
    tmp_path: Path, chromium: Path
) -> None:
    kernels = [event(f"kernel {n}", 10.0 * n, 5, cat="kernel", tid=7, stream=7) for n in range(60)]
    folder = tmp_path / "job"
    for rank in range(40):
        write_trace(folder / f"rank{rank}.json", document(kernels, rank, 40))
    file = page_of(folder)

    async def visit() -> Any:
        async with browser_page(chromium, tmp_path / "profile") as page:
            await page.open(file.as_uri(), height=300)
            await page.until("true")
            return await page.value(HEIGHTS)

    assert asyncio.run(visit()) == [True, True, True]


SORTED = """(() => {
  const table = document.querySelector('#ranks table');
  const heads = [...table.querySelectorAll('th')], at = heads.findIndex((h) => h.textContent === 'blame %');
  heads[at].querySelector('button').click();
  return table.tBodies[0].rows[0].cells[0].textContent === '2' && heads[at].getAttribute('aria-sort') === 'descending';
})()"""  # noqa: E501


def test_a_table_sorts_by_the_column_that_is_clicked(
    tmp_path: Path, straggler_page: Path, chromium: Path
) -> None:
    assert seen(chromium, straggler_page, tmp_path, SORTED).messages == []


ANOTHER_RANK = """(() => {
  const pick = document.querySelector('.picker button[data-rank="3"]');
  pick.click();
  const shown = [...document.querySelectorAll('.panel')].filter((p) => !p.hidden).map((p) => p.dataset.rank);
  return pick.getAttribute('aria-pressed') === 'true' && shown.join() === '3';
})()"""  # noqa: E501


def test_another_rank_can_be_looked_at(
    tmp_path: Path, straggler_page: Path, chromium: Path
) -> None:
    assert seen(chromium, straggler_page, tmp_path, ANOTHER_RANK).messages == []


HANDSHAKE = """new Promise((done) => {
  const sent = [], frame = document.body.appendChild(document.createElement('iframe')), perfetto = frame.contentWindow;
  perfetto.postMessage = (message, origin) => sent.push([message, origin]);
  window.open = (url) => { sent.push(['open', url]); return perfetto; };
  document.querySelector('button[data-window][data-title]').click();
  const say = (data, origin, source) => dispatchEvent(new MessageEvent('message', { data, origin, source }));
  setTimeout(() => {
    const hint = document.querySelector('.said').textContent.includes('python3 -m http.server');
    say('PONG', 'https://evil.example', perfetto);
    say('PONG', 'https://ui.perfetto.dev', window);
    const before = sent.filter(([m]) => m.perfetto).length;
    say('PONG', 'https://ui.perfetto.dev', perfetto);
    const [message, origin] = sent.find(([m]) => m.perfetto);
    const head = [...new Uint8Array(message.perfetto.buffer).slice(0, 2)].join();
    const asked = sent.filter(([m]) => m === 'PING').every(([, o]) => o === 'https://ui.perfetto.dev');
    done(/^open,https:\\/\\/ui\\.perfetto\\.dev\\/#!\\/\\?ts=\\d+&dur=\\d+&visStart=\\d+&visEnd=\\d+$/.test(sent[0].join()) && hint && before === 0 && asked && head === '31,139'
      && origin === 'https://ui.perfetto.dev' && message.perfetto.title.startsWith('rank 2'));
  }, 350);
})"""  # noqa: E501


def test_a_window_is_handed_to_perfetto_and_to_nobody_else(
    tmp_path: Path, straggler_page: Path, chromium: Path
) -> None:

    async def visit() -> bool:
        async with browser_page(chromium, tmp_path / "profile") as page:
            await page.open(straggler_page.as_uri())
            return bool(await page.value(HANDSHAKE))

    assert asyncio.run(visit())
