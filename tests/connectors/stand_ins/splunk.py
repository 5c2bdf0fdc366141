"""Splunk: checkout logs an order every ten seconds, and from ONSET on errors of a separate kind. It
answers the searches that are asked, and refuses any other."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins.loki import LINES, TRACE_ID

JOBS = "/services/search/jobs"
INFO = "/services/server/info"
READING_POSTS = frozenset({JOBS})
TOKEN = "splunk-token-5f2c19"


def settings(url: str) -> dict[str, Any]:
    """With a token and links to Splunk Web."""
    own = {"url": url, "token": TOKEN, "indexes": ["app", "k8s_*"]}
    return {"splunk": {**own, "web_url": "https://splunk.example.com"}}


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    content = {"version": "9.4.1", "build": "e3bdab203ac8", "serverName": "sh-1"}
    server.on(INFO, Reply({"entry": [{"name": "server-info", "content": content}]}))
    server.on(JOBS, answer)


def stamp(at: datetime) -> str:
    """A time as Splunk writes `_time`."""
    return at.isoformat(timespec="milliseconds")


def answer(asked: Asked) -> Reply:
    """What a search finds."""
    form = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
    assert (form["exec_mode"], form["output_mode"]) == ("oneshot", "json")
    search = form["search"]
    if search.endswith("| head 1"):
        return found([record(*LINES[0])])
    start, end = (
        datetime.fromtimestamp(float(form[name]), UTC) for name in ("earliest_time", "latest_time")
    )
    inside = [one for one in LINES if start <= one[0] < end and '"checkout"' in search]
    if "stats count" in search:
        return found(counted(inside, int(re.findall(r"span=(\d+)s", search)[0])))
    if " IN (" in search:
        inside = [one for one in inside if one[1] == "error"]
    limit = int(re.findall(r"\| sort (\d+) _time$", search)[0])
    return found([record(*one) for one in inside[:limit]])


def found(results: list[dict[str, Any]], *messages: tuple[str, str]) -> Reply:
    """The answer of a oneshot search."""
    said = [{"type": kind, "text": text} for kind, text in messages]
    return Reply({"preview": False, "init_offset": 0, "messages": said, "results": results})


def record(at: datetime, level: str, said: str) -> dict[str, Any]:
    """An event with the fields that Splunk extracted of its JSON."""
    own = {"message": said, "level": level.upper(), "service.name": "checkout"}
    return {
        "_time": stamp(at),
        "_raw": json.dumps(own),
        "_cd": "12:345",
        "index": "app",
        "sourcetype": "_json",
        "host": "node-7",
        "trace_id": TRACE_ID,
        **own,
    }


def counted(lines: list[Any], step_s: int) -> list[dict[str, str]]:
    """Rows of `stats count by _time, faultline_level`; counts are text."""
    counts = Counter((round(at.timestamp()) // step_s * step_s, level) for at, level, _ in lines)
    return [
        {"_time": stamp(datetime.fromtimestamp(at, UTC)), "faultline_level": level, "count": str(n)}
        for (at, level), n in sorted(counts.items())
    ]
