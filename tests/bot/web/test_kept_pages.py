"""Every page of a site that holds three investigations, kept as the text that is read and a digest
of everything else.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from sqlalchemy import update

from faultline.analysis.case.folder import write_json
from faultline.analysis.vocabulary import Alert
from faultline.bot.answer.replay import replay
from faultline.bot.store.tables import InvestigationRow, ProgressRow
from tests.bot.web.sample_case import ALERT, ALERT_AT, REPORT, write_sample_case
from tests.bot.web.serving import Site
from tests.bot.web.traced_case import write_traced_case
from tests.kept import assert_kept
from tests.scenarios.small_case import write_small_case

FOLDER = Path(__file__).parent / "kept"
SHOWN = frozenset({"href", "src", "title", "alt", "aria-label", "value", "action", "datetime"})
SILENT = frozenset({"script", "style"})
LINKS = frozenset({"href", "src", "data-src", "data-url"})
RECENT = timedelta(days=2)
MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00| UTC)?")
DAY = re.compile(r"(\d{1,2} [A-Z][a-z]{2} \d{4}), \d\d:\d\d:\d\d UTC")
TOKEN = re.compile(r"[0-9a-f]{64}|(?<=value=)[0-9a-f]{32}$", re.MULTILINE)
AGE = re.compile(r"\d+(\.\d+)? ?(s|min|h|d) ago|^(under )?\d+ (min|h|d)$", re.MULTILINE)
LEFT_OUT = ("/health", "/accuracy")
"""They show this machine and the last measurement."""
FILE_VERSION = re.compile(r"\?v=[0-9a-f]{10}")
UNREAD = (".css", ".js", ".svg", ".zip")


class PageText(HTMLParser):
    """What is read of a page, line by line, and where it leads."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.rest: list[str] = []
        self.links: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in SILENT
        for name, value in attrs:
            if name in LINKS and value:
                self.links.append(value)
            line = f"{tag} {name}={value}"
            (self.lines if name in SHOWN else self.rest).append(line)

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in SILENT

    def handle_data(self, data: str) -> None:
        if data.strip() and not self._silent:
            self.lines.append(" ".join(data.split()))


@pytest.fixture
def names(site: Site) -> dict[str, str]:
    """The ids of the investigations, and how they are written here."""
    names = {}
    for name, title in (("SAMPLE", ALERT.title), ("TRACED", "a request"), ("SMALL", "a small")):
        alert = ALERT.model_copy(update={"title": title, "id": name})
        investigation_id = site.investigate(Alert.model_validate(alert.model_dump()))
        folder = site.cases / investigation_id
        if name == "SAMPLE":
            write_sample_case(folder)
        elif name == "TRACED":
            write_traced_case(folder)
        else:
            answered = replay(write_small_case(folder))
            write_json(folder / "findings.json", answered.diagnosis)
            write_json(folder / "report.json", answered.report)
        site.store.start(investigation_id)
        for stage, line in (("scope", "asking datadog"), ("collect datadog", "1248 rows")):
            site.store.add_progress(investigation_id, stage, line, key=stage)
        site.store.finish(
            investigation_id,
            "done",
            verdict="cause_found",
            confidence=0.86,
            headline=REPORT.headline,
        )
        names[investigation_id] = name
    waiting = site.investigate(ALERT.model_copy(update={"title": "waits", "id": "WAITING"}))
    # The pages say how long everything took, and list the newest first.
    times = {"accepted_at": 5, "started_at": 6, "finished_at": 46}
    with site.store.engine.begin() as connection:
        for minutes, investigation_id in enumerate(names):
            at = ALERT_AT + timedelta(minutes=minutes)
            values = {name: at + timedelta(seconds=seconds) for name, seconds in times.items()}
            row = InvestigationRow.id == investigation_id
            connection.execute(update(InvestigationRow).where(row).values(**values))
        connection.execute(update(ProgressRow).values(at=ALERT_AT + timedelta(seconds=9)))
    return {**names, waiting: "WAITING"}


def page_text(response: httpx.Response, names: dict[str, str]) -> tuple[list[str], list[str]]:
    """What is read of a page, and the links of it."""
    kind = response.headers["content-type"].partition(";")[0]
    if kind != "text/html":
        return [kind, *response.text.splitlines()], []
    page = PageText()
    page.feed(response.text)
    digest = hashlib.sha256(stable("\n".join(page.rest), names).encode()).hexdigest()[:12]
    return [*page.lines, f"other attributes: {digest}"], page.links


def stable(text: str, names: dict[str, str]) -> str:
    """Without what is new each time."""
    for investigation_id, name in names.items():
        text = text.replace(investigation_id, name)

    def moment(match: re.Match[str]) -> str:
        notation = "%Y-%m-%d" if match[1][4] == "-" else "%d %b %Y"
        age = datetime.now(UTC) - datetime.strptime(match[1], notation).replace(tzinfo=UTC)
        return "NOW" if abs(age) < RECENT else match[0]

    text = TOKEN.sub("TOKEN", FILE_VERSION.sub("", AGE.sub("AGE", text)))
    return DAY.sub(moment, MOMENT.sub(moment, text))


def pages_of(site: Site, browser: httpx.Client, names: dict[str, str]) -> dict[str, str]:
    """The text of every page to which a link leads, by path."""
    waiting = ["/", *(f"/investigations/{name}/series/F1.json" for name in names)]
    pages: dict[str, str] = {}
    while waiting:
        path = waiting.pop()
        if path in pages or path in LEFT_OUT or urlsplit(path).path.endswith(UNREAD):
            continue
        response = browser.get(path)
        if response.headers["content-type"].endswith("json"):
            lines, links = ["json", json.dumps(response.json(), indent=1, sort_keys=True)], []
        else:
            lines, links = page_text(response, names)
        pages[path] = stable("\n".join([f"status {response.status_code}", *lines]), names)
        for link in links:
            target = urlsplit(urljoin(f"{site.url}{path}", link))
            if f"{target.scheme}://{target.netloc}" == site.url:
                waiting.append(target.path + (f"?{target.query}" if target.query else ""))
    return {stable(path, names): pages[path] for path in pages}


def test_the_pages_read_as_they_are_kept(
    site: Site, names: dict[str, str], browser: httpx.Client
) -> None:
    pages = pages_of(site, browser, names)
    texts = {"SITE": ""} | dict.fromkeys(names.values(), "")
    for path in sorted(pages):
        place = path.split("/")[2] if path.startswith("/investigations/") else "SITE"
        texts[place if place in texts else "SITE"] += f"## {path}\n{pages[path]}\n\n"
    for name, text in texts.items():
        assert_kept(FOLDER / f"{name.lower()}.txt", text)
