"""What a connector did against its vendor's stand-in, as text: what it sent, what it brought."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import polars as pl

from faultline.analysis.case.tables import ORIGIN
from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Alert
from faultline.connectors.shared.contract.base import Collected, Item, collect_from
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import Asked, LocalServer
from tests.connectors.pagerduty_server import INCIDENT

MOST_ROWS = 12
"""Of a table that are written out; of the others only a digest."""
HEADERS = frozenset({"Authorization", "Accept", "Content-Type", "X-Api-Version", "X-Scope-Orgid"})
SIGNATURE = re.compile(r"Credential=.*")
"""AWS signs the time of the request."""
DAY_S = 86_400
RECENT_S = 40 * DAY_S
NUMBER = re.compile(r"(?<![\w.])\d{8,19}(?:\.\d+)?(?![\w.])")
MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?")
PYTHON_MOMENT = re.compile(r"datetime\.datetime\((\d+), (\d+), (\d+)[^)]*\)")


def collected_text(connector: Any, server: LocalServer, folder: Path) -> str:
    """Everything a connector offers, line by line. Requests made at once come in any order."""
    folder.mkdir()
    alert = Alert(source="pagerduty", id=INCIDENT, title="t", started_at=ALERT_AT)
    request = request_for(folder, services=("checkout", "cart"), job="llm-1", alert=alert)
    collected = asyncio.run(collect_from(connector, request))
    asked = list(server.asked)
    check = _outcome(connector.check())
    enriched = _outcome(connector.enrich(alert)) if hasattr(connector, "enrich") else ""
    lines = ["# requests", *_requests(asked, server)]
    lines += ["# requests of the check", *_requests(server.asked[len(asked) :], server)]
    lines += ["# check", _stable(check, server), "# enriched", _stable(enriched, server)]
    lines += _brought(collected, server)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    lines += ["# files", *(f"{p.relative_to(folder)} {p.stat().st_size}" for p in files)]
    text = "\n".join(lines) + "\n"
    return text.replace(str(folder), "FOLDER")


def _outcome(call: Coroutine[Any, Any, object]) -> str:
    """Its result, or the error with which it ended."""
    try:
        return str(asyncio.run(call))
    except FaultlineError as error:
        return f"{type(error).__name__}: {error}"


def _stable(text: str, server: LocalServer) -> str:
    """Checks ask for the last minutes or the last month: those moments are written `NOW`, in
    whichever notation, and the time from the incident until now is `AGE`."""
    for address in (server.url, quote(server.url, safe="")):
        text = text.replace(address, "http://vendor")
    text = text.replace(server.url.removeprefix("http://"), "vendor")
    now = time.time()
    age = now - ALERT_AT.timestamp()

    def number(match: re.Match[str]) -> str:
        value = float(match[0])
        for unit in (1, 1e3, 1e6, 1e9):
            if abs(value / unit - now) < RECENT_S:
                return "NOW"
        return "AGE" if abs(value - age) < DAY_S else match[0]

    def moment(match: re.Match[str]) -> str:
        at = datetime.fromisoformat(match[0]).replace(tzinfo=UTC)
        return "NOW" if abs(at.timestamp() - now) < RECENT_S else match[0]

    def python_moment(match: re.Match[str]) -> str:
        at = datetime(int(match[1]), int(match[2]), int(match[3]), tzinfo=UTC)
        return "NOW" if abs(at.timestamp() - now) < RECENT_S else match[0]

    return NUMBER.sub(number, MOMENT.sub(moment, PYTHON_MOMENT.sub(python_moment, text)))


def _requests(asked: list[Asked], server: LocalServer) -> list[str]:
    counts = Counter(_stable(_request(request), server) for request in asked)
    return [f"{count} x {text}" for text, count in sorted(counts.items())]


def _request(asked: Asked) -> str:
    query = urlencode(sorted(asked.query.items()), doseq=True, safe="/:,{}[]()=|~*\"' ")
    headers = {name: SIGNATURE.sub("", text) for name, text in asked.headers.items()}
    shown = " ".join(f"{name}={headers[name]}" for name in sorted(HEADERS & headers.keys()))
    body = asked.body.decode("utf-8", "replace")
    return f"{asked.method} {asked.path}?{query} {shown} {body}".replace("\n", " ").rstrip()


def _brought(collected: Collected, server: LocalServer) -> Iterator[str]:
    for name, table in sorted(collected.tables.items()):
        yield f"# {name}: {table.height} rows"
        rows = sorted(_stable(row, server) for row in _rows(table))
        yield from rows[:MOST_ROWS]
        if len(rows) > MOST_ROWS:
            digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]
            yield f"... all rows: {digest}"
    yield "# items"
    yield from sorted(_stable(_item(item), server) for item in collected.items)
    yield "# details"
    # Of two queries at once that bring the same object, whichever ends first describes it.
    details = (f"{name}: {text}" for item in collected.items for name, text in item.details.items())
    yield from sorted(_stable(line, server) for line in details)
    yield "# missing"
    yield from sorted(_stable(str(missing), server) for missing in collected.missing)


def _rows(table: pl.DataFrame) -> Iterator[str]:
    # A row that several queries brought cites the one that ended first.
    for row in table.drop(ORIGIN, strict=False).iter_rows():
        yield json.dumps(row, default=str, ensure_ascii=False)


def _item(item: Item) -> str:
    parts = []
    for field in fields(item):
        value = getattr(item, field.name)
        if field.repr and value != field.default and field.name != "details":
            parts.append(f"{field.name}={value}")
    return " | ".join(parts)
