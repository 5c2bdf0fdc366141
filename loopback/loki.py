"""Loki on loopback: lines of JSON files in a folder, answered as Loki answers the bot's queries.

It understands selectors by labels (`=` and `=~`), line filters by level or by words, and counts by
level. Shapes: grafana.com/docs/loki/latest/reference/loki-http-api.
"""

from __future__ import annotations

import json
import re
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

MAX_LINES = 300_000
"""Of all services together; the oldest go first."""
_MATCHER = re.compile(r'(\w+)(=~|=)"((?:[^"\\]|\\.)*)"')
_SELECTOR = re.compile(rf"\{{({_MATCHER.pattern}(?:,{_MATCHER.pattern})*)\}}")
_LEVELS = re.compile(r'detected_level=~"((?:[^"\\]|\\.)*)"')
_WORDS = re.compile(r'\|~ "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class LoggedLine:
    """One line of a file."""

    ns: int
    service: str
    level: str
    message: str
    labels: tuple[tuple[str, str], ...]
    trace_id: str


class LoopbackLoki:
    """The server. Files are read on when it is asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._lines: list[LoggedLine] = []
        self._lock = threading.Lock()
        self.app = Starlette(
            routes=[
                Route("/loki/api/v1/labels", self._labels),
                Route("/loki/api/v1/label/{name}/values", self._values),
                Route("/loki/api/v1/query_range", self._query),
                Route("/loki/api/v1/status/buildinfo", self._build),
            ]
        )

    def lines(self) -> list[LoggedLine]:
        """All lines so far, oldest first."""
        with self._lock:
            new: list[LoggedLine] = []
            for file in sorted(self._folder.glob("*.jsonl")):
                new += self._new_lines(file)
            if new:
                # Files are written by many processes, so their lines interleave in time.
                merged = sorted((*self._lines, *new), key=lambda line: line.ns)
                self._lines = merged[-MAX_LINES:]
            return self._lines

    def _new_lines(self, file: Path) -> list[LoggedLine]:
        with file.open("rb") as opened:
            opened.seek(self._read.get(file, 0))
            text = opened.read()
        # The last line may still be on its way.
        whole = text[: text.rfind(b"\n") + 1]
        self._read[file] = self._read.get(file, 0) + len(whole)
        return [_line(line) for line in whole.splitlines()]

    async def _labels(self, _: Request) -> JSONResponse:
        return _success(["cluster", "pod", "service_name"])

    async def _values(self, request: Request) -> JSONResponse:
        lines = await run_in_threadpool(self.lines)
        name = request.path_params["name"]
        selector = request.query_params.get("query")
        if selector is not None:
            lines = [line for line in lines if _is_selected(line, selector)]
        if name == "service_name":
            return _success(sorted({line.service for line in lines}))
        return _success(sorted({dict(line.labels).get(name, "") for line in lines}))

    async def _build(self, _: Request) -> JSONResponse:
        return JSONResponse({"version": "3.5.1-loopback"})

    async def _query(self, request: Request) -> JSONResponse:
        return await run_in_threadpool(self._answer, dict(request.query_params))

    def _answer(self, query: dict[str, str]) -> JSONResponse:
        lines = [line for line in self.lines() if _is_selected(line, query["query"])]
        start, end = int(query["start"]), int(query["end"])
        if "count_over_time" in query["query"]:
            return _counts(lines, start, end, int(query["step"].rstrip("s")))
        first = bisect_left(lines, start, key=lambda line: line.ns)
        last = bisect_left(lines, end, key=lambda line: line.ns)
        return _streams(lines[first:last][: int(query.get("limit", "100"))])


def _line(text: bytes) -> LoggedLine:
    fields = json.loads(text)
    labels = tuple((name, fields[name]) for name in ("cluster", "pod") if name in fields)
    return LoggedLine(
        fields["ts"],
        fields["service"],
        fields["level"],
        fields["message"],
        labels,
        fields.get("trace_id", ""),
    )


def _is_selected(line: LoggedLine, query: str) -> bool:
    selector = _SELECTOR.search(query)
    if selector is None:
        return False
    for label, operator, text in _MATCHER.findall(selector[1]):
        # LogQL doubles backslashes in quoted text.
        requested_text = text.replace("\\\\", "\\")
        value = line.service if label == "service_name" else dict(line.labels).get(label, "")
        if operator == "=" and value != requested_text:
            return False
        if operator == "=~" and not re.fullmatch(requested_text, value):
            return False
    levels, words = _LEVELS.search(query), _WORDS.search(query)
    if levels and not re.fullmatch(levels[1].replace("\\\\", "\\"), line.level):
        return False
    return words is None or bool(re.search(words[1].replace("\\\\", "\\"), line.message))


def _streams(lines: Sequence[LoggedLine]) -> JSONResponse:
    streams: dict[tuple[str, tuple[tuple[str, str], ...]], list[Any]] = {}
    for line in lines:
        metadata = {"detected_level": line.level}
        if line.trace_id:
            metadata["trace_id"] = line.trace_id
        # Loki gives time stamps as text.
        value = [str(line.ns), line.message, {"structuredMetadata": metadata}]
        streams.setdefault((line.service, line.labels), []).append(value)
    result = []
    for (service, labels), values in streams.items():
        result.append({"stream": {"service_name": service, **dict(labels)}, "values": values})
    return _success(
        {"resultType": "streams", "result": result, "encodingFlags": ["categorize-labels"]}
    )


def _counts(lines: Sequence[LoggedLine], start_s: int, end_s: int, step_s: int) -> JSONResponse:
    """The count at a moment is of the step that ends there, that moment included."""
    counts: dict[str, Counter[int]] = {}
    for line in lines:
        # Rounded up: the moment at the end of a step counts what came before it.
        steps = -(-(line.ns // 1_000_000_000 - start_s) // step_s)
        moment = start_s + steps * step_s
        if start_s <= moment <= end_s:
            counts.setdefault(line.level, Counter())[moment] += 1
    result = []
    for level, by_moment in counts.items():
        points = [[moment, str(count)] for moment, count in sorted(by_moment.items())]
        result.append({"metric": {"detected_level": level}, "values": points})
    return _success({"resultType": "matrix", "result": result})


def _success(data: Any) -> JSONResponse:
    return JSONResponse({"status": "success", "data": data})
