"""Dynolog's RPC: asks the daemon of a host to let its training processes record a trace.

One TCP connection per request: a 4-byte length (int32, the machine's own byte order: little-endian
on x86 and ARM) and JSON, in both directions; a request that the daemon does not understand is
answered by closing. Source: facebookincubator/dynolog, `dynolog/src/rpc` and `cli/src`.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faultline.analysis.errors import ConnectorError

PORT = 1778
MAX_REPLY_BYTES = 1 << 20
MAX_HOST_PROCESSES = 1000
"""`process_limit`: the daemon's own default; the tool's default of 3 leaves out ranks on hosts with
more GPUs."""
WARM_UP_SECONDS = 2
START_MARGIN_SECONDS = 12.0
"""How far ahead a common start must lie: libkineto asks its daemon only every few seconds (6 were
measured with PyTorch 2.13), then drops a request whose start is nearer than its warm-up, 5 s by
default, with a line in the job's own log."""
_LENGTH = struct.Struct("<i")


@dataclass(frozen=True)
class DaemonAddress:
    """Where a host's daemon listens."""

    host: str
    port: int = PORT

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class CaptureOptions:
    """What is recorded; each is one line of libkineto's configuration."""

    duration_ms: int = 500
    """Length of the recording, where no iterations are asked for."""
    iterations: int = 0
    """Record this many iterations from the next one on, instead of a duration."""
    record_shapes: bool = True
    with_stack: bool = False
    profile_memory: bool = False

    def text(self, output: str, start: datetime | None) -> str:
        """libkineto's configuration. `start`: the same moment on all hosts; ignored when iterations
        are counted."""
        lines = {"ACTIVITIES_LOG_FILE": output}
        if self.iterations:
            lines |= {
                # Iteration 0 rounded up to a multiple of 1 is the next one.
                "PROFILE_START_ITERATION": "0",
                "PROFILE_START_ITERATION_ROUNDUP": "1",
                "ACTIVITIES_ITERATIONS": str(self.iterations),
            }
        else:
            at = int(start.timestamp() * 1000) if start else 0
            lines |= {
                "PROFILE_START_TIME": str(at),
                "ACTIVITIES_DURATION_MSECS": str(self.duration_ms),
                "ACTIVITIES_WARMUP_PERIOD_SECS": str(WARM_UP_SECONDS),
            }
        lines |= {
            "PROFILE_REPORT_INPUT_SHAPES": _flag(self.record_shapes),
            "PROFILE_PROFILE_MEMORY": _flag(self.profile_memory),
            "PROFILE_WITH_STACK": _flag(self.with_stack),
            "PROFILE_WITH_FLOPS": "false",
            "PROFILE_WITH_MODULES": "false",
        }
        # A line break would add a line, and so a key, to the configuration.
        if any("\n" in value or "\r" in value for value in lines.values()):
            raise ValueError("a configuration value holds a line break")
        return "\n".join(f"{key}={value}" for key, value in lines.items())


@dataclass(frozen=True)
class Triggered:
    """What the daemon says of one request."""

    matched: tuple[int, ...]
    """Process ids of the job on this host."""
    triggered: tuple[int, ...]
    """Those that will record."""
    busy: int
    """Processes that are recording already."""


class DynologClient:
    """One host's daemon. Every failure is a ConnectorError that names the host and the call."""

    def __init__(self, address: DaemonAddress, *, timeout: float = 5.0) -> None:
        self.address = address
        self._timeout = timeout

    async def version(self) -> str:
        """The daemon's version."""
        return str((await self._call({"fn": "getVersion"})).get("version", ""))[:64]

    async def status(self) -> int:
        """1 where the daemon is well but sees no DCGM, as on hosts without NVIDIA's tools."""
        status = (await self._call({"fn": "getStatus"})).get("status")
        return status if isinstance(status, int) else 0

    async def trigger(
        self, config: str, *, job_id: int = 0, process_limit: int = MAX_HOST_PROCESSES
    ) -> Triggered:
        """Ask the processes of a job to record. `job_id`: the Slurm job, 0 outside Slurm."""
        request = {
            "fn": "setKinetOnDemandRequest",
            "config": config,
            "job_id": job_id,
            # Without process ids the daemon asks all processes of the job.
            "pids": [],
            "process_limit": process_limit,
        }
        reply = await self._call(request)
        if reply.get("status") == "failed":
            raise self._error("setKinetOnDemandRequest", "the daemon refused the request")
        # A number, or in older daemons the list of those counted.
        value = reply.get("activityProfilersBusy")
        if isinstance(value, bool):
            count = 0
        else:
            count = value if isinstance(value, int) else len(_pids(value))
        return Triggered(
            matched=_pids(reply.get("processesMatched")),
            triggered=_pids(reply.get("activityProfilersTriggered")),
            busy=count,
        )

    async def _call(self, request: Mapping[str, Any]) -> dict[str, Any]:
        call = str(request["fn"])
        try:
            async with asyncio.timeout(self._timeout):
                return await self._exchange(call, json.dumps(request).encode())
        except TimeoutError:
            raise self._error(
                call, f"no answer within {self._timeout:g} s", retryable=True
            ) from None
        except asyncio.IncompleteReadError:
            raise self._error(call, "the daemon closed the connection without an answer") from None
        except OSError as error:
            raise self._error(
                call,
                (os.strerror(error.errno) if error.errno else type(error).__name__),
                retryable=True,
            ) from error

    async def _exchange(self, call: str, body: bytes) -> dict[str, Any]:
        reader, writer = await asyncio.open_connection(self.address.host, self.address.port)
        try:
            writer.write(_LENGTH.pack(len(body)) + body)
            await writer.drain()
            (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
            if not 0 < length <= MAX_REPLY_BYTES:
                raise self._error(call, f"the answer says it is {length} bytes long")
            return self._object(call, await reader.readexactly(length))
        finally:
            writer.close()

    def _object(self, call: str, raw: bytes) -> dict[str, Any]:
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            raise self._error(call, "the answer is no JSON") from None
        if not isinstance(value, dict):
            raise self._error(call, "the answer is no object")
        return value

    def _error(self, call: str, problem: str, *, retryable: bool = False) -> ConnectorError:
        return ConnectorError("dynolog", f"{call} at {self.address}", problem, retryable=retryable)


def output_of(config_output: str, pid: int) -> str:
    """The file that a process writes: its id stands before the last suffix, before `.pt.trace.json`
    as a whole.

    libkineto puts it before the first of these endings; the tool of the daemon prints another name
    for `.pt.trace.json.gz`.
    """
    for ending in (".pt.trace.json.gz", ".pt.trace.json", ".json.gz", ".json"):
        if config_output.endswith(ending):
            return f"{config_output.removesuffix(ending)}_{pid}{ending}"
    return f"{config_output}_{pid}.json"


def _flag(on: bool) -> str:
    return "true" if on else "false"


def _pids(value: Any) -> tuple[int, ...]:
    return (
        tuple(pid for pid in value if isinstance(pid, int))[:10_000]
        if isinstance(value, Sequence)
        else ()
    )
