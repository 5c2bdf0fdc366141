"""The service that a failing line says it was calling, where nothing else knows the name.

Providers outside, host names and databases often appear nowhere but in the lines of those who
call them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import polars as pl

from faultline.analysis.case.addresses import AddressBook

_NAME = r"[A-Za-z][A-Za-z0-9]*(?:[._-][A-Za-z0-9]+)*"
_URL = re.compile(rf"\b[a-z][a-z0-9+]{{1,15}}://(?:[^\s/@]*@)?({_NAME})", re.IGNORECASE)
_ADDRESS = re.compile(rf"(?<![\w./:-])({_NAME}):\d{{2,5}}\b")
_SERVER = re.compile(
    rf"\b(?:server (?:at|on)|(?:translate|resolve) host name|host) [\"']({_NAME})[\"']"
)
"""As libpq and MySQL's clients name the server: `connection to server at "db" (10.0.0.7), port 5432
failed`, `Can't connect to MySQL server on 'db'`, `could not translate host name "db"`."""
_ADDRESSES = (_URL, _ADDRESS, _SERVER)
_CALL_TO = re.compile(
    r"\b(?:call(?:s|ing)?|request(?:s|ing)?|connect(?:ion|ions|ing)?|talk(?:ing)?|send(?:ing)?"
    r"|post(?:ing)?|dial(?:ing)?|reach(?:ing)?|publish(?:ing)?|resolv(?:e|ing)|lookup|upstream"
    r"|certificate|rate limit|quota|response|answer|reply|host(?:name)?|dependency|ENOTFOUND)\s+"
    rf"(?:tcp\s+|to\s+|of\s+|from\s+|for\s+|with\s+|host\s+|service\s+|upstream\s+|name\s+)*"
    rf"[\"'`]?({_NAME})",
    re.IGNORECASE,
)
_FAILED_THEN = re.compile(
    rf"\b({_NAME})[\"'`]?\s+(?:returned|answered|responded|refused|timed out|is (?:down|unreachable"
    r"|unavailable)|rate limit)\b",
    re.IGNORECASE,
)
_FILE = re.compile(r"\.(?:java|py|go|js|ts|rb|kt|scala|cs|php|rs|cpp|c|h|jar|so|html?|json|ya?ml)$")
_ENGLISH = """
a an and are be been being by call client connect connection database down error failed
failing for from got had has have host in is it no not of on or peer refused remote request
response returned reset server service that the this timed timeout to unavailable unknown
upstream was were which with
"""
NO_NAMES = frozenset(_ENGLISH.split())
"""Words that stand where a name could, and are none."""
MAX_NAMES = 3
ENOUGH_LINES = 3
"""Fewer failing lines that give an address are an accident, as in `changes.alternative_lines`."""
MOST_ADDRESSED = 5_000
"""More lines are sampled evenly: each of them says who calls whom."""
MAX_TEXT = 400
MAX_LINES = 200_000
"""More failing lines than these are sampled evenly: their share in time is what counts."""
FAILING = ("error", "critical", "fatal", "err", "severe", "emergency", "alert", "panic")
WRITTEN_LEVEL = (
    r"^(?:\S{1,40} ){0,4}?\W?(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC)\b"
    r"|(?i)\blevel\"?[=:]\s?\"?(?:error|fatal|critical|panic)\b"
)
"""A level near a line's begin, behind its time and the name of its thread, or as a key."""


def named_peers(text: str) -> tuple[str, ...]:
    """Names of hosts or services that the line speaks of calling; at most three, in their order.

    A bare word is one only where it stands both as what was called and as what failed: most are
    plain English.
    """
    matches = [m for pattern in _ADDRESSES for m in pattern.findall(text)]
    requested_matches = set(_CALL_TO.findall(text))
    failed = set(_FAILED_THEN.findall(text))
    for name in requested_matches | failed:
        if _is_name(name) or (name in requested_matches & failed and name.lower() not in NO_NAMES):
            matches.append(name)
    names = [name for name in dict.fromkeys(matches) if not _FILE.search(name.lower())]
    return tuple(sorted(names)[:MAX_NAMES])


def _is_name(word: str) -> bool:
    """Whether it is made like the name of a host or a service."""
    has_parts = any(sign in word for sign in "-_.")
    return has_parts or any(letter.isdigit() for letter in word)


def failing_rows(logs: pl.DataFrame) -> pl.DataFrame:
    """time (s), service and text of the lines that say they fail."""
    level = pl.col("level").str.to_lowercase()
    # Containers' own logs have no column for it: there the line says its level.
    written = (level.fill_null("") == "") & pl.col("message").str.contains(WRITTEN_LEVEL)
    fails = level.is_in(list(FAILING)) | written
    rows = logs.filter(fails, pl.col("service").is_not_null()).select(
        pl.col("time").dt.epoch("us") / 1e6,
        "service",
        pl.col("message").fill_null("").str.slice(0, MAX_TEXT),
    )
    if rows.height > MAX_LINES:
        rows = rows.gather_every(rows.height // MAX_LINES + 1)
    return rows


def addressed_calls(logs: pl.DataFrame, book: AddressBook) -> dict[tuple[str, str], datetime]:
    """Writer and callee of the calls to addresses that failing lines give, in a URL or before a
    port, with the time of the last line."""
    rows = failing_rows(logs)
    if rows.height > MOST_ADDRESSED:
        rows = rows.gather_every(rows.height // MOST_ADDRESSED + 1)
    callees: dict[str, list[str]] = {}
    times: dict[tuple[str, str], list[float]] = {}
    for seconds, writer, text in rows.iter_rows():
        # Lines repeat, so look for addresses once for each text.
        if text not in callees:
            hosts = (
                host for pattern in (_URL, _ADDRESS, _SERVER) for host in pattern.findall(text)
            )
            named = {book.service_at(host) for host in hosts if not _FILE.search(host.lower())}
            # `status:500` looks like an address too.
            callees[text] = [
                name for name in named if name and (name in book.services or "." in name)
            ]
        for callee in callees[text]:
            times.setdefault((writer, callee), []).append(seconds)
    return {
        pair: datetime.fromtimestamp(max(seconds_of), UTC)
        for pair, seconds_of in times.items()
        if len(seconds_of) >= ENOUGH_LINES
    }
