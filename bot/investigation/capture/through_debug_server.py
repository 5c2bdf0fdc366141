"""A capture through PyTorch's debug servers: stacks, then a profile of all ranks at once, then the
flight recorders."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from faultline.analysis.errors import ConnectorError
from faultline.bot.investigation.capture.captured import (
    CapturedFile,
    CaptureGap,
    FileKind,
    MethodResult,
)
from faultline.bot.investigation.capture.debug_server import MAX_TRACE_BYTES, DebugServerClient
from faultline.bot.investigation.capture.outputs import KEEP_FREE_BYTES
from faultline.bot.investigation.capture.plan import CapturePlan
from faultline.bot.runtime.threads import in_thread

QUICK_SECONDS = 15.0
"""How long a rank may take for stacks and flight recorder: it writes down what it has in memory."""
MAX_ALL_BYTES = 32 << 30
"""Of all ranks' profiles together."""

Ask = Callable[[int, str, Path], Awaitable[Path]]


async def capture_through_debug_servers(
    plan: CapturePlan, folder: Path, say: Callable[[str], None] = lambda _: None
) -> MethodResult | str:
    """Ask every rank and write its answers into `folder`; or, where no rank can be found, why."""
    assert plan.debug_server is not None
    quick = _client(plan, QUICK_SECONDS)
    patient = _client(plan, plan.wait_seconds)
    try:
        servers = await quick.discover(plan.debug_server)
    except ConnectorError as error:
        return str(error)
    if not servers.by_rank:
        return (
            f"the settings (debug_hosts, debug_ports) do not allow the job's debug servers "
            f"({', '.join(servers.refused[:3])})"
        )
    ranks = dict(sorted(servers.by_rank.items()))
    most = await in_thread(_most_bytes, plan, folder, len(ranks))
    gaps = [
        CaptureGap(where, "debug_hosts and debug_ports do not allow it")
        for where in servers.refused
    ]
    for rank in range(plan.ranks or 0):
        if rank not in ranks:
            gaps.append(CaptureGap(f"rank {rank}", "has no debug server that may be spoken to"))
    requests: list[tuple[FileKind, str, Ask]] = [
        ("stacks", "rank{}_stacks.txt", lambda _, server, target: quick.stacks(server, target)),
        (
            "trace",
            "rank{}_trace.json",
            lambda _, server, target: patient.profile(server, plan.seconds, target, max_bytes=most),
        ),
        (
            "flight_recorder",
            "rank{}.fr_trace.json",
            lambda _, server, target: quick.flight_recorder(server, target, max_bytes=most),
        ),
    ]
    files: list[CapturedFile] = []
    start = datetime.now(UTC)
    for kind, name, ask in requests:
        say(f"asking {len(ranks)} ranks: {kind.replace('_', ' ')}")
        if kind == "trace":
            # The stacks came first, so the trace begins only now.
            start = datetime.now(UTC)
        # All ranks at once, so that their profiles cover the same steps.
        asking = [
            _fetch_file(rank, server, kind, folder, name, ask) for rank, server in ranks.items()
        ]
        for result in await asyncio.gather(*asking):
            if isinstance(result, CapturedFile):
                files.append(result)
            else:
                gaps.append(result)
    return MethodResult(tuple(files), tuple(gaps), counts=True, start=start)


def _client(plan: CapturePlan, timeout: float) -> DebugServerClient:
    return DebugServerClient(plan.debug_hosts, ports=plan.debug_ports, timeout=timeout)


def _most_bytes(plan: CapturePlan, folder: Path, ranks: int) -> int:
    """Of one file: every rank writes a profile and a flight recorder, and the disk must not run
    full."""
    room = max(0, shutil.disk_usage(folder).free - KEEP_FREE_BYTES)
    return min(MAX_TRACE_BYTES, plan.max_file_bytes, min(MAX_ALL_BYTES, room) // (2 * ranks))


async def _fetch_file(
    rank: int, server: str, kind: FileKind, folder: Path, name: str, ask: Ask
) -> CapturedFile | CaptureGap:
    host, taken = urlsplit(server).hostname or "", datetime.now(UTC)
    where = f"rank {rank} on {host}"
    try:
        path = await ask(rank, server, folder / name.format(rank))
    except ConnectorError as error:
        return CaptureGap(where, str(error))
    except OSError as error:
        return CaptureGap(where, f"its {kind} cannot be written here ({error.strerror})")
    return CapturedFile(path, kind, host, None, rank, taken)
