"""What fails, as texts that a change's own text can be held against: words, exact names, source
files, effects.

The texts are the alert's, the names of the first suspects' moved signals, their new or more
frequent warnings and errors with their attributes, and the operations whose spans got slower or
fail. Names of services are taken off: a change of a service always says its name.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import Windows, log_windows, span_windows
from faultline.analysis.changes.text import ChangeText, service_words, words_of
from faultline.analysis.kinds.finding_details import LineDetails, LogLineDetails, TraceDetails
from faultline.analysis.logs.counts import items_of
from faultline.analysis.logs.lines import ERROR_LEVELS
from faultline.analysis.logs.templates import UNKNOWN_SERVICE
from faultline.analysis.requests.topology import Topology
from faultline.analysis.suspects.suspect import Suspect
from faultline.analysis.vocabulary import Finding

# Troubled lines: warnings and errors that the incident has and the baseline has hardly, and
# operations that fail.
#
# Distinct lines are kept once with their count, so what is read afterwards does not grow with
# repetition.

MAX_DISTINCT = 1_500
MAX_TEXT = 600
BASELINE_SHARE = 1 / 3
"""A line is a symptom where the incident has it three times as often as the baseline, as in
`log_templates`."""
TROUBLED_LEVEL = r"(?i)^(warn|warning|" + "|".join(ERROR_LEVELS) + r")$"
TROUBLED_TEXT = (
    r"(?i)\b(warn(ing)?|error|fatal|critical|severe|panic|exception|traceback|fail(ed|ure|ing)?"
    r"|refused|denied|unavailable"
    r"|timed? ?out|deadline|exceeded|rejected|invalid|missing|cannot|could not|unable|no "
    r"space|oomkilled|throttl\w+"
    r"|slow)\b"
)
_LINE_COLUMNS = ("service", "text", "attributes", "n", "first", "items")
FAILED_STATUS = r"(?i)error|fail|^5\d\d$|cancel|deadline"


@dataclass(frozen=True)
class FailingLine:
    """A distinct line of a service, or a failing operation: how often and since when the incident
    has it."""

    service: str
    text: str
    attributes: str
    n: int
    first: datetime
    items: tuple[str, ...] = ()
    """Ids of what brought it, where that is known."""

    @property
    def whole(self) -> str:
        """The text with its attributes."""
        return f"{self.text} {self.attributes}"


def failing_lines(case: Case) -> list[FailingLine]:
    """Distinct warnings and errors, the most frequent first. Levels decide where they are given,
    else words."""
    if not case.logs.height:
        return []
    windows = log_windows(case)
    level, text = (
        pl.col("level").fill_null(""),
        pl.col("message").fill_null("").str.slice(0, MAX_TEXT),
    )
    rows = (
        _windowed(case.logs, windows, "time")
        .filter(
            level.str.contains(TROUBLED_LEVEL)
            | ((level == "") & pl.col("message").str.contains(TROUBLED_TEXT))
        )
        .with_columns(text.alias("text"))
    )
    return _distinct(rows, windows, "time")


def failing_operations(case: Case) -> list[FailingLine]:
    """Operations whose spans fail, as lines, the most frequent first."""
    if not case.spans.height:
        return []
    windows = span_windows(case)
    rows = _windowed(case.spans, windows, "start").filter(
        pl.col("status").fill_null("").str.contains(FAILED_STATUS)
    )
    return _distinct(
        rows.with_columns((pl.col("operation").str.slice(0, MAX_TEXT) + " failed").alias("text")),
        windows,
        "start",
    )


def _windowed(rows: pl.DataFrame, windows: Windows, time: str) -> pl.DataFrame:
    marked = rows.with_columns(
        windows.in_search(time).alias("now"), windows.in_baseline(time).alias("before")
    )
    return marked.filter(pl.col("now") | pl.col("before"))


def _distinct(rows: pl.DataFrame, windows: Windows, time: str) -> list[FailingLine]:
    """By service, text and attributes; lines whose shape (digits and hashes aside) the baseline has
    are left out."""
    # The windows differ in length: scale the baseline's counts to the incident's.
    share = windows.search.seconds / max(1.0, sum(w.seconds for w in windows.baseline))
    distinct_lines = (
        rows.with_columns(
            pl.col("attributes").fill_null("").str.slice(0, MAX_TEXT),
            pl.col("service").fill_null(UNKNOWN_SERVICE),
            # Ids, ports and times would make every repetition a line of another shape.
            pl.col("text").str.replace_all(r"[0-9a-fA-F]{6,}|\d+", "#").alias("shape"),
        )
        .with_columns(
            (pl.col("before") & ~pl.col("now")).sum().over("service", "shape").alias("shape_before")
        )
        .with_columns(pl.col("now").sum().over("service", "shape").alias("shape_now"))
        .filter(
            pl.col("now"), pl.col("shape_before") * share <= pl.col("shape_now") * BASELINE_SHARE
        )
        .group_by("service", "text", "attributes")
        .agg(
            pl.len().alias("n"),
            pl.col("shape_now").first(),
            pl.col(time).min().alias("first"),
            items_of(rows).alias("items"),
        )
        .sort(
            # Names break ties, so that the cut below keeps the same lines in every run.
            ["shape_now", "n", "service", "text", "attributes"],
            descending=[True, True, False, False, False],
        )
        .head(MAX_DISTINCT)
    )
    lines = []
    for service, text, attributes, n, first, items in distinct_lines.select(
        _LINE_COLUMNS
    ).iter_rows():
        lines.append(FailingLine(service, text, attributes, n, first, tuple(items)))
    return lines


SUSPECTS_CONSIDERED = 3
FINDINGS_CONSIDERED = 8
MAX_LINES = 60
"""Distinct lines that are read as symptoms, the most frequent first."""

EFFECTS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(words)
    for name, words in {
        "timeouts": r"time[sd]?[ _-]?out|deadline|cancell?ed|budget exceeded|took too long",
        "latency": r"latency|\bslow|\bp9\d|duration|response.?time|degraded|stall",
        "throttling": r"throttl|\b429\b|too many requests|rate.?limit|capacity|quota"
        r"|throughput ?exceeded",
        "memory": r"\boom|out of memory|memory|heap|\brss\b|gc (pause|overhead)|working.?set",
        "disk": r"no space|\bdisk|read-only file|inode|volume .*full",
        "cpu": r"\bcpu|load average|saturat",
        "connections": r"\bpool|too many (connections|clients)|connection limit|open files"
        r"|file descriptors|ephemeral",
        "unreachable": r"refused|unreachable|no such host|nxdomain|not resolve|name resol"
        r"|enotfound|no route"
        r"|\b50[234]\b|unavailable|\b404\b|no healthy|no endpoints|connection reset",
        "access": r"\b40[13]\b|unauthori[sz]|unauthenticated|forbidden|denied|password"
        r"|authentication failed"
        r"|\btoken|credential|signature|permission|login",
        "tls": r"x509|certificate|\btls\b|\bssl\b|handshake",
        "parse": r"deseriali|unmarshal|decod|pars(e|ing)|malformed|schema"
        r"|missing (required )?(field|key|property)"
        r"|missing column|invalid (json|format|value|character|field|type)|unknown field"
        r"|unexpected (token|field)|serializ|validation",
        "null": r"nil pointer|null ?(pointer|reference)|nonetype|undefined is not"
        r"|cannot read propert"
        r"|out of (range|bounds)|attributeerror|typeerror|keyerror|segfault|segmentation"
        r"|unwrap\(\)",
        "start": r"crash.?loop|fail(ed|s|ure|ing)? to start|start-?up|restart|exited|not set"
        r"|missing (env|config)"
        r"|missing setting|unknown (option|setting)|no such file|not ready",
        "locks": r"deadlock|lock[ _]wait|lock[ _]timeout|obtain lock|\blocked\b|contention"
        r"|waiting for .*lock",
        "database": r"\bsql|quer(y|ies)|database|\btable|\bcolumn|relation|\bdb[._ ]|statement"
        r"|dynamo|postgres|mysql"
        r"|mongo",
        "backlog": r"queue|backlog|\blag\b|oldest|pending|redeliver",
        "load": r"retry|retries|storm|overload|requests?[ _]per|request[ _]rate|\brps\b|\bqps\b"
        r"|load shed|shedding",
        "version": r"incompatib|version|nosuchmethod|no such method|importerror|module ?not ?found"
        r"|cannot find module"
        r"|undefined symbol|duplicate registration|unsupported class|\babi\b",
    }.items()
}
"""What an engineer would call the symptom, by words of signals and lines."""

_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:[._/:-][\w$]+)*")
_QUOTED = re.compile(r"[\"'`]([A-Za-z_][\w.:/-]{1,60})[\"'`]")
_TELLING = re.compile(r"[a-z][A-Z]|_|\w[./:-]\w|\d")
_FRAME = re.compile(
    r"([\w$-]+\.(?:go|py|java|kt|scala|rb|js|ts|jsx|tsx|cs|php|rs|cpp|cc|c|ex|exs|swift|lua|pl))"
    r"(?::|\", line |\()\d{1,6}"
)
_ANY_FILE = frozenset(
    {
        "main.go",
        "main.py",
        "index.js",
        "index.ts",
        "__init__.py",
        "main.java",
        "server.go",
        "server.js",
        "app.py",
    }
)
_ANY_NAME = frozenset(
    {"k8s.event", "http.route", "http.status_code", "db.statement", "log.level", "time.second"}
)
_USUAL_KEY = re.compile(
    r"(http|url|rpc|grpc|net|server|client|k8s|kubernetes|container|host|service|process|code"
    r"|thread|log|logger|otel|telemetry"
    r"|trace|span|messaging|cloud|user_agent|component|level|status|db\.(system|statement|name"
    r"|operation))(\W|_|$)",
    re.IGNORECASE,
)
"""Namespaces of OpenTelemetry's semantic conventions: that a line has a route says nothing, which
one does."""
_DIGITS = re.compile(r"[0-9a-fA-F]{6,}|\d+")
_JOINED = re.compile(r"[._/:-]+")
SHORTEST_NAME = 4
SHORTEST_PIECE, MAX_WORDS = 10, 8
"""A piece of a name stands for one thing from about this length on; longer names are paths."""


@dataclass(frozen=True)
class Symptoms:
    """Texts of what fails, and the services' names that are taken off them."""

    texts: tuple[str, ...]
    named: frozenset[str]
    written_texts: tuple[str, ...] = ()
    """Of the texts those that someone wrote: the alert's and log lines."""

    @cached_property
    def words(self) -> frozenset[str]:
        """Stemmed words, without those of the services' names."""
        return words_of(self.texts) - words_of(
            w for name in self.named for w in service_words(name)
        )

    @cached_property
    def names(self) -> frozenset[str]:
        """Exact names in lower case: quoted words, and names of code, tables, keys and hosts."""
        return exact_names(self.texts) - {n.lower() for n in self.named}

    @cached_property
    def pieces(self) -> frozenset[str]:
        """Neighbouring words of exact names, joined by `_`: `object_store` of
        `shard.read_object_store`."""
        return frozenset(piece for name in self.names for piece in _pieces(name))

    @cached_property
    def frames(self) -> frozenset[str]:
        """Source files that a stack trace or a logger names, without those that every service
        has."""
        file_names = {m.lower() for text in self.texts for m in _FRAME.findall(text)}
        return frozenset(file_names - _ANY_FILE)

    @cached_property
    def effects(self) -> frozenset[str]:
        """Which of `EFFECTS` the texts tell of."""
        return self._effects_in(self.texts)

    @cached_property
    def written_effects(self) -> frozenset[str]:
        """Those that the alert or a log line tells of: a moved signal alone may be a
        coincidence."""
        return self._effects_in(self.written_texts)

    def _effects_in(self, texts: Iterable[str]) -> frozenset[str]:
        text = "\n".join(texts).lower()
        # The longest first: `cart` would tear `cart-db` apart before it is found.
        for name in sorted((n.lower() for n in self.named), key=lambda n: (-len(n), n)):
            text = text.replace(name, " ")
        # An underscore is a letter to `\b`.
        text = text.replace("_", " ")
        return frozenset(effect for effect, pattern in EFFECTS.items() if pattern.search(text))


def symptoms_of(
    case: Case, suspects: Sequence[Suspect], topology: Topology, lines: Sequence[FailingLine]
) -> Symptoms:
    """What the case says of the first suspects' symptoms."""
    first = suspects[:SUSPECTS_CONSIDERED]
    alert = case.alert
    subjects = {s.subject for s in first} | ({alert.service} if alert.service else set())
    written_texts = [
        alert.title,
        alert.summary or "",
        alert.signal or "",
        *_subject_lines(subjects, lines),
    ]
    # Only what the first suspect depends on belongs to its symptoms.
    shown = [
        s for s in first if s is first[0] or s.subject in topology.downstream(first[0].subject)
    ]
    texts = [
        *written_texts,
        *(
            text
            for suspect in shown
            for text in _of_findings(suspect.findings[:FINDINGS_CONSIDERED])
        ),
    ]
    named = frozenset(subjects | set(topology.services))
    return Symptoms(_texts(texts), named, _texts(written_texts))


def _subject_lines(subjects: Collection[str], lines: Sequence[FailingLine]) -> list[str]:
    """The subjects' lines with their attributes, each shape (digits aside) once."""
    shapes: dict[tuple[str, str], str] = {}
    for line in lines:
        if line.service in subjects:
            shapes.setdefault(
                (line.service, _DIGITS.sub("#", line.text)),
                f"{line.text} {_attribute_text(line.attributes)}",
            )
    return [text.strip() for text in shapes.values()][:MAX_LINES]


def _texts(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(t[:MAX_TEXT] for t in dict.fromkeys(texts) if t)


def exact_names(texts: Iterable[str]) -> frozenset[str]:
    """Names that stand for one thing: quoted, or with an underscore, a dot, inner capitals or a
    digit."""
    names: set[str] = set()
    for text in texts:
        names |= {m.lower() for m in _QUOTED.findall(text) if len(m) >= SHORTEST_NAME - 1}
        for whole in _NAME.findall(text):
            parts = {whole, *re.split(r"[./:-]", whole)} if _TELLING.search(whole) else set()
            names |= {p.lower() for p in parts if len(p) >= SHORTEST_NAME and _TELLING.search(p)}
    return frozenset(names - _ANY_NAME)


def plain_name(name: str) -> str:
    """With `_` between its words, however they were joined."""
    return "_".join(_JOINED.split(name))


def _pieces(name: str) -> list[str]:
    words = _JOINED.split(name)[:MAX_WORDS]
    # Two words at least: a single one stands for many things.
    runs = (words[i:j] for i in range(len(words)) for j in range(i + 2, len(words) + 1))
    return [piece for run in runs if len(piece := "_".join(run)) >= SHORTEST_PIECE]


def altered_names(text: ChangeText) -> frozenset[str]:
    """Exact names that one side holds more often than the other, and settings with another
    value."""
    # Count lines: a name that goes from three lines to one is altered, though it stays.
    before, after = (
        Counter(n for line in side for n in exact_names([line])) for side in text.altered
    )
    settings = {name for name in text.settings if len(name) >= SHORTEST_NAME}
    return frozenset((before - after) + (after - before)) | settings


def _attribute_text(attributes: str | None) -> str:
    """A line's attributes without the keys that every line has, as text."""
    try:
        pairs = json.loads(attributes or "{}")
    except (ValueError, RecursionError):
        return attributes or ""
    if not isinstance(pairs, dict):
        return attributes or ""
    # The usual keys say nothing, but their values do.
    return " ".join(
        f"{'' if _USUAL_KEY.match(key) else key} {value}".strip() for key, value in pairs.items()
    )


def _of_findings(findings: Sequence[Finding]) -> list[str]:
    texts: list[str] = []
    for finding in findings:
        details = finding.details
        # Improvements and harmless lines are not symptoms.
        if details.bad is False or (isinstance(details, LogLineDetails) and not details.is_error):
            continue
        texts.append(finding.signal or "")
        if isinstance(details, LineDetails):
            texts += [text for text in (details.template, details.example) if text]
        if isinstance(details, TraceDetails) and details.operation:
            texts.append(str(details.operation))
        if finding.signal:
            texts.append(f"{finding.signal} {details.direction or ''}")
    return texts
