"""What does one answer cost: processor time, answers per second, and disk?

    python benchmarks/answer_cost.py [--answers 60] [--case DIR]

The real bot on SQLite with Slack on loopback answers alerts about a recorded case: the small one of
the tests, or that of `--case`. Prints

- CPU s an answer, of all processes and by process, less what the idle bot costs in that time
  (target .3), beside the floor: the same analysis, wording and picture called in a loop in this
  process, and a DBOS workflow with as many steps that do nothing;
- answers a second of a batch that comes in at once (target 6, alone on two cores);
- the bytes on disk of one case folder, by file (target 300,000).

CPU seconds depend little on what else the machine does, answers a second do.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.idle_cost import Usage, total_cpu_s, usages
from faultline.analysis.case.folder import json_bytes, read_case
from faultline.bot.answer.writer.built_in import word
from faultline.bot.answer.writer.guard import keep_supported
from faultline.bot.investigation.analyzing import analyze_with_leads, render_chart
from tests.scenarios.bot_story import Story, bot_story
from tests.scenarios.small_case import write_small_case

WARM_UP = 8
IDLE_S = 5.0
AFTER_S = 1.5
FLOOR_TIMES = 20
STEPS = 9
"""Of an investigation that asks one connector and no model, with its reply."""
TARGET_CPU_S, TARGET_RATE, TARGET_BYTES = 0.3, 6.0, 300_000
BLOCK = 512


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--answers", type=int, default=60)
    parser.add_argument("--case", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        case = options.case.absolute() if options.case else write_small_case(folder / "case")
        floor, empty = analysis_alone(case, folder), steps_alone(folder)
        with bot_story(folder, case, "sqlite", FAULTLINE_PAGERDUTY__API_TOKEN="") as story:
            answer_all(story, options.answers, floor + empty)
            print_folder(max(folder.rglob("cases/*/report.json")).parent)
    print(f"floor: {floor:.3f} CPU s analysis, wording and picture alone; ", end="")
    print(f"{empty:.3f} CPU s DBOS with {STEPS} empty steps")


def answer_all(story: Story, count: int, floor: float) -> None:
    """Print CPU seconds by process, and answers a second."""
    roots = {"web": story.bot.pid}
    answer(story, "W", WARM_UP)
    time.sleep(2.0)
    rested, began = usages(roots), time.monotonic()
    time.sleep(IDLE_S)
    before = usages(roots)
    idle = (total_cpu_s(before) - total_cpu_s(rested)) / (time.monotonic() - began)
    began = time.monotonic()
    answer(story, "T", count)
    took = time.monotonic() - began
    time.sleep(AFTER_S)
    after = usages(roots)
    for name, spent in by_name(before, after).items():
        print(f"  {name:<16}{spent / count:7.3f} CPU s an answer")
    spent = total_cpu_s(after) - total_cpu_s(before) - idle * (took + AFTER_S)
    per_answer = spent / count
    print(
        f"all: {per_answer:.3f} CPU s an answer (target {TARGET_CPU_S:g}), "
        f"{per_answer / floor:.1f} x floor"
    )
    print(f"{count / took:.1f} answers a second (target {TARGET_RATE:g})")


def answer(story: Story, prefix: str, count: int) -> None:
    """Page out that many incidents at once, and wait for their answers."""
    total = len(story.answers()) + count
    for number in range(count):
        story.page_out(f"{prefix}{number:05d}")
    story.wait_for(lambda: len(story.answers()) >= total, within_s=600, what="all answered")


def by_name(before: Mapping[int, Usage], after: Mapping[int, Usage]) -> dict[str, float]:
    """CPU seconds that processes of each name spent, with those that they waited for."""
    spent_by_name: dict[str, float] = {}
    for pid, now in after.items():
        was = before.get(pid)
        spent = now.cpu_s + now.waited_for_s
        if was is not None:
            spent -= was.cpu_s + was.waited_for_s
        spent_by_name[now.name] = spent_by_name.get(now.name, 0.0) + spent
    return spent_by_name


def print_folder(folder: Path) -> None:
    """Print what one case folder takes on disk."""
    taken = {
        str(file.relative_to(folder)): file.stat().st_blocks * BLOCK
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
    for name, size in sorted(taken.items(), key=lambda item: -item[1]):
        print(f"  {size:>10,} {name}")
    print(f"case folder: {sum(taken.values()):,} bytes on disk (target {TARGET_BYTES:,})")


def analysis_alone(case: Path, scratch: Path) -> float:
    """CPU seconds of one analysis with its report and picture, after a first one."""
    folder = scratch / "alone"
    shutil.copytree(case, folder)

    def once() -> None:
        diagnosis = analyze_with_leads(folder).diagnosis
        (folder / "findings.json").write_bytes(json_bytes(diagnosis))
        read = read_case(folder)
        keep_supported(
            word(diagnosis, read.alert, read.gaps), diagnosis, read.alert, gaps=read.gaps
        )
        render_chart(folder)

    once()
    with spent_s() as spent:
        for _ in range(FLOOR_TIMES):
            once()
    return spent[0] / FLOOR_TIMES


def steps_alone(scratch: Path) -> float:
    """CPU seconds of a DBOS workflow whose steps do nothing."""
    from dbos import DBOS

    url = f"sqlite:///{scratch}/alone.sqlite"
    DBOS(config={"name": "alone", "system_database_url": url, "log_level": "ERROR"})

    async def nothing() -> None:
        return None

    @DBOS.workflow(name="empty")
    async def empty() -> None:
        for number in range(STEPS):
            await DBOS.run_step_async({"name": str(number)}, nothing)

    async def some(times: int) -> None:
        for _ in range(times):
            handle = await DBOS.start_workflow_async(empty)
            await handle.get_result()

    DBOS.launch()
    try:
        asyncio.run(some(3))
        with spent_s() as spent:
            asyncio.run(some(FLOOR_TIMES))
    finally:
        DBOS.destroy()
    return spent[0] / FLOOR_TIMES


@contextmanager
def spent_s() -> Iterator[list[float]]:
    """The CPU seconds of this process inside the block, once that has ended."""
    spent: list[float] = []
    began = time.process_time()
    yield spent
    spent.append(time.process_time() - began)


if __name__ == "__main__":
    main()
