"""Cases that callers work on: read once, with the model's own tools over them, and forgotten again.

What a caller looks up is kept in a scratch folder: the stored case stays as it is.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faultline.analysis.vocabulary import Diagnosis
from faultline.bot.answer.exports.answered import ExportedAnswer, read_answered
from faultline.bot.answer.writer.payload import Redactor
from faultline.bot.investigation.analyzing import analyze_case
from faultline.bot.investigation.model.model_session import ModelSession
from faultline.bot.investigation.model.toolbox import TOOL_S, Toolbox, ToolOutcome
from faultline.bot.investigation.model.tools.bounded_query import query_tool
from faultline.bot.investigation.model.tools.changes import CHANGES
from faultline.bot.investigation.model.tools.contract import Tool, askable
from faultline.bot.investigation.model.tools.logs import LOGS
from faultline.bot.investigation.model.tools.queries import collect_tool
from faultline.bot.investigation.model.tools.series import SERIES
from faultline.bot.investigation.model.tools.spans import REQUEST, TRACES
from faultline.bot.investigation.model.tools.topology import TOPOLOGY
from faultline.bot.investigation.model.turns import ToolCall
from faultline.bot.mcp.callers import Caller
from faultline.bot.mcp.investigations import InvestigationHandle, Investigations
from faultline.bot.mcp.outgoing import outgoing
from faultline.bot.runtime.threads import in_thread
from faultline.bot.web.replaying import HeavyWork
from faultline.connectors.shared.contract.base import Connector
from faultline.connectors.shared.queries.querying import answering

MOST_OPEN = 4
"""Cases held at once. One holds its tables: a large one some hundred MB."""
IDLE_S = 600.0
"""A case that nobody looked at for this long is closed."""
STORE = "mcp"
READ = (SERIES, LOGS, TRACES, REQUEST, CHANGES, TOPOLOGY)


def case_tools(connectors: Sequence[Connector]) -> tuple[Tool, ...]:
    """The tools over a case; those that ask a source where there is one to be asked."""
    tools: list[Tool] = list(READ)
    if askable(connectors):
        tools.append(collect_tool(connectors))
    if able := answering(connectors):
        tools.append(query_tool(able))
    return tuple(tools)


@dataclass
class OpenCase:
    """One answered investigation as one caller works on it."""

    handle: InvestigationHandle
    folder: Path
    answered: ExportedAnswer
    model_session: ModelSession
    toolbox: Toolbox
    redactor: Redactor = field(repr=False)
    work: HeavyWork
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the redactor counts its placeholders, or the bench its rows."""
    used_at: float = 0.0
    _recomputed: Diagnosis | None = None

    async def recomputed(self) -> Diagnosis:
        """What today's code makes of the stored rows. Raises FaultlineError."""
        if self._recomputed is None:
            self._recomputed = await self.work.run(analyze_case, self.folder)
        return self._recomputed

    async def run(self, name: str, arguments: str) -> ToolOutcome:
        """Run one of the tools; `arguments` are JSON."""
        async with self.lock:
            return await self.toolbox.run(ToolCall("", name, arguments), within_s=TOOL_S)

    async def outgoing(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """The value as it may leave, with the placeholders of this case."""
        async with self.lock:
            return await in_thread(outgoing, value, self.redactor)


class OpenCases:
    """The cases that are open, those used last."""

    def __init__(
        self,
        investigations: Investigations,
        connectors: Sequence[Connector],
        scratch: Path,
        idle_s: float = IDLE_S,
    ) -> None:
        self._idle_s = idle_s
        self._investigations = investigations
        self._connectors = connectors
        self._tools = case_tools(connectors)
        self._scratch = scratch
        self._open: OrderedDict[tuple[object, ...], OpenCase] = OrderedDict()
        self._opening = asyncio.Lock()
        self._closing: set[asyncio.Future[None]] = set()
        self.work = HeavyWork()
        """Analyses cases, in a process beside this one."""

    def close(self) -> None:
        """End the process that analyses."""
        self.work.close()

    async def open(self, caller: Caller, investigation_id: str) -> OpenCase:
        """The case of an answered investigation. Raises FaultlineError."""
        handle, folder = await self._investigations.folder(caller, investigation_id)
        investigation = handle.investigation
        # Two callers share nothing, and an investigation that ran again is another case.
        key = (caller.who, investigation.id, investigation.runs, investigation.finished_at)
        # One at a time: two first calls would read the same case twice.
        async with self._opening:
            if key not in self._open:
                self._open[key] = await in_thread(self._read, handle, folder)
            case = self._open[key]
            case.used_at = time.monotonic()
            self._open.move_to_end(key)
            while len(self._open) > MOST_OPEN:
                await self._close(next(iter(self._open)))
        asyncio.get_running_loop().call_later(self._idle_s, self._close_idle)
        return case

    def _close_idle(self) -> None:
        idle = time.monotonic() - self._idle_s
        for key in [key for key, case in self._open.items() if case.used_at <= idle]:
            # The event loop keeps only weak references, so hold the task until it ends.
            self._closing.add(task := asyncio.ensure_future(self._close(key)))
            task.add_done_callback(self._closing.discard)

    async def _close(self, key: tuple[object, ...]) -> None:
        case = self._open.pop(key, None)
        if case is not None:
            await in_thread(shutil.rmtree, case.model_session.work.parent, True)

    def _read(self, handle: InvestigationHandle, folder: Path) -> OpenCase:
        work = Path(tempfile.mkdtemp(dir=self._scratch))
        answered = read_answered(folder)
        settings = self._investigations.settings
        model_session = ModelSession(
            folder=folder,
            work=work / "case",
            diagnosis=answered.diagnosis,
            run=self.work.run,
            store=STORE,
            keep=_keep_nothing,
            connectors=self._connectors,
            more_services=tuple(settings.services),
        )
        services = frozenset(map(str.casefold, model_session.services()))
        redactor = Redactor(services=services)
        toolbox = Toolbox(model_session, redactor, self._tools)
        return OpenCase(handle, folder, answered, model_session, toolbox, redactor, self.work)


def _keep_nothing(_name: str, _content: bytes) -> None:
    """What somebody looks up becomes no part of the case."""
