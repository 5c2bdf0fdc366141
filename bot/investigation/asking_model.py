"""The model's turn in an investigation: what it leaves is put into the case whole, or not at all.

Its result is stored beside its transcript before any file of the case is replaced. A worker that
takes over finds either the transcript, and continues with it, or the result, and puts it in place;
nothing is paid for twice.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.analysis.case.folder import Case, json_bytes, read_case, read_diagnosis, read_report
from faultline.analysis.case.observations import OBSERVATIONS_FILE, Observations
from faultline.analysis.vocabulary import Diagnosis, Report
from faultline.bot.answer.guidance import with_guidance
from faultline.bot.answer.view import answer_view
from faultline.bot.answer.writer.markdown import to_markdown
from faultline.bot.answer.writer.model_use import model_use_line
from faultline.bot.investigation.analyzing import CHART, render_chart
from faultline.bot.investigation.model.budget import day_budget
from faultline.bot.investigation.model.investigating import STORE, investigate
from faultline.bot.policy.reply_targets import reply_channel
from faultline.bot.runtime.threads import in_store, in_thread

if TYPE_CHECKING:
    from faultline.bot.investigation.worker_context import WorkerContext

Say = Callable[[str, str], Awaitable[None]]
SETTLED = f"{STORE}/settled"
RESULT = f"{STORE}/result.json"
"""Names the files that are to be replaced; they lie under `SETTLED`."""


async def ask_model(context: WorkerContext, case_id: str, say: Say) -> tuple[Diagnosis, Report]:
    """The final diagnosis and report; the built-in one, where the model gave none."""
    if await in_thread(context.cases.get, case_id, RESULT) is None:
        await _investigated(context, case_id, say)
    await in_thread(_put_in_place, context, case_id)
    async with context.checkout(case_id) as folder:
        case, diagnosis, report = await in_thread(_read, folder)
        view = answer_view(case.alert, diagnosis, report, gaps=case.gaps, evidence=case.evidence)
        markdown = to_markdown(view)
        chart = await context.pool.run(render_chart, folder)
    await context.put(case_id, "report.md", markdown.encode())
    if chart is not None:
        await context.put(case_id, CHART, chart)
    use = report.model_use
    if use is not None:
        await say("model: done", model_use_line(use))
    return diagnosis, report


def forget_earlier(context: WorkerContext, case_id: str) -> None:
    """What a model left in an earlier run of the same investigation: the case was collected
    again."""
    context.cases.delete(case_id, STORE)
    if context.cases.get(case_id, OBSERVATIONS_FILE) is not None:
        context.cases.put(case_id, OBSERVATIONS_FILE, json_bytes(Observations()))


async def _investigated(context: WorkerContext, case_id: str, say: Say) -> None:
    """Let the model investigate, and store what is to be replaced in the case."""
    count = 0

    async def progress(line: str) -> None:
        nonlocal count
        count += 1
        # Each stage is kept once, so every line needs its own number.
        await say(f"model: {count}", line)

    keep = partial(context.cases.put, case_id)
    about = await in_store(context.store.get, case_id)
    day = day_budget(
        context.settings.model,
        context.store.engine,
        reply_channel(about.alert, about.alert.service, about.reply_to, context.settings)
        if about is not None
        else None,
    )
    async with context.checkout(case_id) as folder:
        done = await investigate(
            folder,
            context.settings,
            connectors=context.connectors,
            keep=keep,
            run=context.pool.run,
            progress=progress,
            day=day,
        )
        runbooks = (await in_thread(read_case, folder)).runbooks
    files = {**done.changed, "report.json": json_bytes(with_guidance(done.report, runbooks))}
    for name, content in files.items():
        await in_thread(keep, f"{SETTLED}/{name}", content)
    # Stored last: a worker that finds it also finds every file that it names.
    await in_thread(keep, RESULT, json.dumps(sorted(files)).encode())


def _put_in_place(context: WorkerContext, case_id: str) -> None:
    """Can be done again: the files stay where they were stored."""
    names = json.loads(context.cases.get(case_id, RESULT) or b"[]")
    for name in names:
        content = context.cases.get(case_id, f"{SETTLED}/{name}")
        if content is not None:
            context.cases.put(case_id, name, content)


def _read(folder: Path) -> tuple[Case, Diagnosis, Report]:
    return read_case(folder), read_diagnosis(folder), read_report(folder)
