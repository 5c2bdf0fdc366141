"""VictoriaLogs: checkout logs an order every ten seconds, and from ONSET on errors of a separate
kind. It evaluates the LogsQL that a query of ours may hold, and refuses all else with 400."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins.loki import LINES, TRACE_ID

READING_POSTS: frozenset[str] = frozenset()
SELECT = "/select/logsql"
QUERY, HITS = f"{SELECT}/query", f"{SELECT}/hits"
FIELDS, VALUES = f"{SELECT}/field_names", f"{SELECT}/field_values"
_PIPE = re.compile(r"(.*) \| sort by \(_time\) limit (\d+)", re.DOTALL)
_STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(
    rf"\s*(?:(?P<any>\*)|(?P<open>\()|(?P<close>\))|(?P<either>or)\b"
    rf"|(?P<field>{_STRING}|_msg):(?:=(?P<exact>{_STRING})|~(?P<pattern>{_STRING})"
    rf"|in\((?P<values>{_STRING}(?:, {_STRING})*)\)))"
)

Line = dict[str, str]
Holds = Callable[[Line], bool]


def settings(url: str) -> dict[str, Any]:
    """With a tenant."""
    return {"victorialogs": {"url": url, "token": "t", "account_id": 12, "project_id": 34}}


def line(at: datetime, level: str, text: str) -> Line:
    """As the OpenTelemetry endpoint stores it; the time has nanoseconds."""
    return {
        "_time": f"{at:%Y-%m-%dT%H:%M:%S}.000000000Z",
        "_msg": text,
        "_stream": '{service.name="checkout"}',
        "_stream_id": "0000000c00000022106955b1744a71b78bd3a88c755751e8",
        "service.name": "checkout",
        "severity_text": level.upper(),
        "trace_id": TRACE_ID,
        "k8s.cluster.name": "prod-eu",
        "k8s.namespace.name": "shop",
        "host.name": "node-7",
    }


STORED = [line(*one) for one in LINES]


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    for path, find in ((QUERY, lines), (HITS, hits), (FIELDS, names), (VALUES, values)):
        server.on(path, _refusing(find))


def _refusing(find: Callable[[Asked], Reply]) -> Callable[[Asked], Reply]:
    def answered(asked: Asked) -> Reply:
        try:
            return find(asked)
        except (SyntaxError, ValueError) as error:
            return Reply(f"cannot parse query: {error}\n".encode(), status=400)

    return answered


def lines(asked: Asked) -> Reply:
    """JSON lines, in the order of their times."""
    piped = _PIPE.fullmatch(asked.query["query"][0])
    if piped is None:
        raise SyntaxError("no sort pipe")
    found = sorted(_found(asked, piped[1]), key=lambda one: one["_time"])[: int(piped[2])]
    body = "".join(f"{json.dumps(one, separators=(',', ':'))}\n" for one in found)
    return Reply(body.encode(), headers={"Content-Type": "application/stream+json"})


def hits(asked: Asked) -> Reply:
    """Counts in steps that are multiples of the step; one that has none is left out."""
    step = int(asked.query["step"][0].removesuffix("s"))
    by = asked.query.get("field", [])
    counted: dict[tuple[str, ...], Counter[int]] = {}
    for one in _found(asked, asked.query["query"][0]):
        second = int(_at(one["_time"]).timestamp())
        group = tuple(one.get(field, "") for field in by)
        counted.setdefault(group, Counter())[second // step * step] += 1
    series = []
    for group, counts in counted.items():
        steps = sorted(counts)
        series.append(
            {
                "fields": dict(zip(by, group, strict=True)),
                "timestamps": [
                    f"{datetime.fromtimestamp(s, UTC):%Y-%m-%dT%H:%M:%SZ}" for s in steps
                ],
                "values": [counts[s] for s in steps],
                "total": counts.total(),
            }
        )
    return Reply({"hits": series})


def names(asked: Asked) -> Reply:
    """Fields of the lines."""
    counts = Counter(name for one in _found(asked, asked.query["query"][0]) for name in one)
    return Reply(_values(counts))


def values(asked: Asked) -> Reply:
    """Values of a field."""
    field = asked.query["field"][0]
    counts = Counter(one.get(field, "") for one in _found(asked, asked.query["query"][0]))
    return Reply(_values(counts))


def _values(counts: Counter[str]) -> dict[str, Any]:
    return {"values": [{"value": name, "hits": count} for name, count in counts.most_common()]}


def _found(asked: Asked, query: str) -> list[Line]:
    """Lines from the start on, up to before the end."""
    holds, rest = _all_of(query, 0)
    if query[rest:].strip():
        raise SyntaxError(query[rest:])
    start, end = (_at(asked.query[name][0]) for name in ("start", "end"))
    return [one for one in STORED if start <= _at(one["_time"]) < end and holds(one)]


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _all_of(query: str, at: int) -> tuple[Holds, int]:
    """Filters one after another must all hold; `or` binds less."""
    groups: list[list[Holds]] = [[]]
    while found := _TOKEN.match(query, at):
        if found["close"]:
            break
        at = found.end()
        if found["either"]:
            groups.append([])
        elif found["open"]:
            inside, at = _all_of(query, at)
            closing = _TOKEN.match(query, at)
            if closing is None or not closing["close"]:
                raise SyntaxError("a bracket is not closed")
            at = closing.end()
            groups[-1].append(inside)
        else:
            groups[-1].append(_filter(found))
    if not all(groups):
        raise SyntaxError("an empty filter")
    return lambda one: any(all(holds(one) for holds in group) for group in groups), at


def _filter(found: re.Match[str]) -> Holds:
    if found["any"]:
        return lambda _: True
    field = found["field"] if found["field"] == "_msg" else json.loads(found["field"])
    if found["pattern"]:
        pattern = re.compile(json.loads(found["pattern"]))
        return lambda one: pattern.search(one.get(field, "")) is not None
    wanted = json.loads(f"[{found['exact'] or found['values']}]")
    return lambda one: one.get(field, "") in wanted
