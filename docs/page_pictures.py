"""Takes the documentation's pictures of the list, an answer on a phone, a finding and the accuracy
page: made-up investigations, real pages.

python docs/page_pictures.py    needs chromium on PATH
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.pictures import IMAGES, photograph
from faultline.bot.store.listing import Labels
from tests.bot.web.browser import browser_page
from tests.bot.web.sample_case import ALERT, REPORT
from tests.bot.web.serving import Server, Site, serving
from tests.bot.web.traced_case import write_traced_case

INCIDENTS = (
    (
        "checkout",
        "checkout p99 latency above 800 ms",
        "payment v412 shrank its database pool to 5 connections",
    ),
    (
        "search",
        "search error rate above 2 %",
        "search-index 7 lost its keys after the failover of its cache",
    ),
    ("ledger", "ledger queue is growing", "ledger's disk was filled by debug logs since config-88"),
    (
        "pretrain-ranker",
        "step time above objective",
        "rank 2 delays every step: its data loading reads a remote shard",
    ),
    ("cart", "cart 5xx above 1 %", "cart waits for inventory, whose certificate has expired"),
)
VERDICTS = ("cause_found",) * 5 + ("recovered", "no_active_incident", "insufficient_evidence")


def fill(site: Site) -> str:
    """Four months of investigations, two of three judged; gives the id of the one with a whole
    case."""
    # Invented figures.
    rnd, labels, now = random.Random(7), Labels(site.store.engine), datetime.now(UTC)  # noqa: S311
    for n in range(240):
        at = now - timedelta(hours=11 * n + rnd.random() * 9 + 1)
        service, title, headline = rnd.choice(INCIDENTS)
        source = rnd.choice(("pagerduty", "datadog", "alertmanager"))
        about = {
            "service": service,
            "title": title,
            "source": source,
            "labels": {"fingerprint": str(n)},
        }
        id_ = site.store.accept(ALERT.model_copy(update=about), now=at).investigation_id or ""
        verdict, confidence = rnd.choice(VERDICTS), round(min(0.97, rnd.gauss(0.75, 0.15)), 2)
        phrase = headline if verdict == "cause_found" else f"{service}: {verdict.replace('_', ' ')}"
        site.store.finish(id_, "done", verdict=verdict, confidence=confidence, headline=phrase)
        if n % 3:
            right = rnd.random() < confidence
            labels.write(
                id_,
                right=right,
                cause="" if right else rnd.choice(("a change of DNS", "the database's disk", "")),
            )
    whole = site.investigate(ALERT)
    write_traced_case(site.cases / whole)
    site.store.finish(
        whole, "done", verdict="cause_found", confidence=0.86, headline=REPORT.headline
    )
    return whole


async def photograph_phone(url: str, scratch: Path) -> None:
    """An answer on a phone: a window of Chromium's own would be wider than one."""
    async with browser_page(Path("/usr/bin/chromium"), scratch / "profile") as page:
        await page.open(url, width=390, height=844)
        await page.screenshot(IMAGES / "investigation-phone.png")


def main() -> None:
    """All of them."""
    server = Server()
    with tempfile.TemporaryDirectory() as scratch, serving(server, Path(scratch)) as site:
        whole = fill(site)
        taken = (
            ("/?verdict=cause_found&confidence=70-90", "list-page.png", 900),
            (f"/investigations/{whole}/findings/F8", "finding-page.png", 1000),
            ("/accuracy", "accuracy-page.png", 1150),
        )
        for path, name, height in taken:
            photograph(site.url + path, name, 1440, height, scale=1)
        asyncio.run(photograph_phone(f"{site.url}/investigations/{whole}", Path(scratch)))
    server.stop()


if __name__ == "__main__":
    main()
