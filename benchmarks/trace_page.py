"""How long does Chromium take to open the page of many ranks?

    python benchmarks/trace_page.py [--ranks 64] [--mb 4] [--source TRACE] [--keep FILE]

Writes the traces of `benchmarks/trace_memory.py`, runs `faultline trace --html`, and opens the page
in a fresh Chromium three times. Printed are the page's size, its elements, the medians from the
start of the navigation to the first paint, to the end of loading (scripts included) and until the
curves are drawn, and the CPU time of the page's main thread until then.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.trace_memory import DEMO, make_ranks
from tests.bot.web.browser import browser_page
from tests.debian_tools import debian_binary

TIMES = 3
MEASURE = """(() => {
  const [navigation] = performance.getEntriesByType('navigation');
  const paint = performance.getEntriesByName('first-contentful-paint')[0];
  const drawn = performance.getEntriesByName('curves drawn')[0];
  return [paint ? paint.startTime : 0, navigation.loadEventEnd, drawn ? drawn.startTime : 0,
    document.querySelectorAll('*').length];
})()"""
CPU = ("TaskDuration", "ScriptDuration", "RecalcStyleDuration", "LayoutDuration")


def main() -> None:
    """Print one line for each number of ranks."""
    options = _options()
    source = options.source or sorted(DEMO.glob("*.json*"))[0]
    for count in options.ranks:
        with tempfile.TemporaryDirectory() as folder:
            page = options.keep or Path(folder) / "page.html"
            make_ranks(source, Path(folder), count, options.mb)
            command = [sys.executable, "-m", "faultline.bot.cli.main", "trace", folder, "--quiet"]
            subprocess.run([*command, "--html", page], stdout=subprocess.DEVNULL, check=True)
            opened = [asyncio.run(open_page(page)) for _ in range(TIMES)]
            size = page.stat().st_size / 1e6
        paint, loaded, drawn, elements, task, script, style, layout = map(
            statistics.median, zip(*opened, strict=True)
        )
        print(
            f"{count} ranks: {size:.2f} MB, {elements:,.0f} elements; first paint {paint:.0f} ms, "
            f"loaded {loaded:.0f} ms, curves drawn {drawn:.0f} ms; CPU {task:.0f} ms (scripts "
            f"{script:.0f}, style {style:.0f}, layout {layout:.0f})"
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--ranks", default=[64], type=lambda text: [int(part) for part in text.split(",")]
    )
    parser.add_argument("--mb", type=int, default=4)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--keep", type=Path, help="where the page is written")
    return parser.parse_args()


async def open_page(page: Path) -> list[float]:
    """What `MEASURE` says of the page in a fresh browser, and `CPU`, ms."""
    chromium = debian_binary("chromium", "/usr/bin/chromium")
    with tempfile.TemporaryDirectory() as profile:
        async with browser_page(chromium, Path(profile) / "profile") as opened:
            await opened.call("Performance.enable", timeDomain="threadTicks")
            await opened.open(page.absolute().as_uri())
            await opened.until("performance.getEntriesByName('curves drawn').length > 0")
            metrics = (await opened.call("Performance.getMetrics"))["metrics"]
            seconds = {metric["name"]: metric["value"] for metric in metrics}
            values: list[float] = await opened.value(MEASURE)
            return values + [1000 * seconds[name] for name in CPU]


if __name__ == "__main__":
    main()
