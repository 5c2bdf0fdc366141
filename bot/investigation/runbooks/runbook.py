"""What a runbook's front matter may say, and how it is read. Every wrong key becomes one problem
with its line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from difflib import get_close_matches
from typing import Annotated, Any, Literal, NamedTuple, get_args
from zoneinfo import ZoneInfo

import yaml  # type: ignore[import-untyped]
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from faultline.analysis.errors import SettingsError
from faultline.connectors.vendors.datadog.monitor_queries import MetricMonitor, read_monitor
from faultline.connectors.vendors.prometheus.custom_queries import check_custom
from faultline.connectors.vendors.prometheus.default_queries import DEFAULTS

# The YAML between two lines of `---` at the top of a Markdown file, read as plain data with its
# line numbers.
#
# Only what a person writes by hand is taken: mappings, lists and text. Anchors, aliases and tags
# are refused, so that a file can neither grow when it is read nor name a Python object; so are keys
# that stand twice and deep nesting. Every scalar stays text: `no`, `02:00` and `0123` are what was
# written.

LONGEST_FRONT_MATTER = 16_384
"""Characters. A long runbook has its length in the text below."""
DEEPEST = 8
FENCE = "---"

Place = tuple[str | int, ...]
"""Where a value stands: the keys and list indices that lead to it."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a file, in a sentence that says what it should be. Lines count
    from 1."""

    line: int
    text: str


@dataclass
class FrontMatter:
    """`values` as plain dicts, lists and texts; `lines` says where each stands; `text` is the
    Markdown below."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[Place, int] = field(default_factory=dict)
    text: str = ""

    def line_of(self, place: Place) -> int:
        """The line of a value, or of the nearest that holds it."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


class _Refused(Exception):
    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.problem = Problem(line, text)


def read_front_matter(document: str) -> FrontMatter | Problem:
    """The parts of a Markdown file, or the first reason why it has none."""
    # Editors on Windows begin a file with a byte order mark.
    lines = document.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != FENCE:
        return Problem(1, f"has no front matter: the first line must be {FENCE}")
    end = next((n for n, line in enumerate(lines[1:], start=1) if line.rstrip() == FENCE), None)
    if end is None:
        return Problem(1, f"the front matter does not end: a second line of {FENCE} is missing")
    head = "\n".join(lines[1:end])
    if len(head) > LONGEST_FRONT_MATTER:
        phrase = (
            f"the front matter has {len(head)} characters; at most {LONGEST_FRONT_MATTER} are read"
        )
        return Problem(1, f"{phrase}: put the prose below it")
    read = FrontMatter(text="\n".join(lines[end + 1 :]).strip())
    try:
        root = _compose(head)
        if root is None:
            return read
        if not isinstance(root, yaml.MappingNode):
            raise _Refused(_line(root), "the front matter must be `key: value` lines")
        read.values = _mapping(root, (), read.lines)
    except _Refused as refused:
        return refused.problem
    return read


def _compose(head: str) -> yaml.Node | None:
    try:
        _only_plain(head)
        return yaml.compose(head, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(str(error.problem or error.context or "").split())[:160]
        # YAML counts lines from 0, and the fence before it is a line, too.
        raise _Refused((mark.line if mark else 0) + 2, f"is not valid YAML: {reason}") from None
    except yaml.YAMLError:
        raise _Refused(
            2, "is not valid YAML: it holds characters that YAML does not allow"
        ) from None


def _only_plain(head: str) -> None:
    """Refuse, before anything is built, what could grow or name a type; the depth is bounded here,
    too."""
    depth = 0
    for event in yaml.parse(head, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 2
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _Refused(
                line,
                "anchors and aliases (& and *) are not read; put text that begins so in quotes",
            )
        if getattr(event, "tag", None):
            raise _Refused(line, "tags (!) are not read; put text that begins so in quotes")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        if depth > DEEPEST:
            raise _Refused(line, f"is nested deeper than {DEEPEST} levels")


def _value(node: yaml.Node, place: Place, lines: dict[Place, int]) -> Any:
    lines[place] = _line(node)
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, place, lines)
    if isinstance(node, yaml.SequenceNode):
        return [_value(node, (*place, n), lines) for n, node in enumerate(node.value)]
    return None if node.tag == "tag:yaml.org,2002:null" else _visible(str(node.value))


def _mapping(node: yaml.MappingNode, place: Place, lines: dict[Place, int]) -> dict[str, Any]:
    values_by_name: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _Refused(_line(key), "a key must be text")
        name = _visible(str(key.value))
        if name in values_by_name:
            raise _Refused(_line(key), f"{name!r:.60} stands twice")
        values_by_name[name] = _value(value, (*place, name), lines)
        # A value may begin on a later line than its key.
        lines[(*place, name)] = _line(key)
    return values_by_name


def _visible(text: str) -> str:
    """Without what an escape like "\\u202e" or "\\ud800" could smuggle in: hidden, reordering or
    unfit to be stored."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


def _line(node: yaml.Node) -> int:
    """In the file: after the first fence, from 1."""
    return int(node.start_mark.line) + 2


LONGEST_PATTERN = 200
LONGEST_SENTENCE = 400
"""A step or a reason of more characters is not read in an incident."""
LONGEST_QUERY = 2000
MOST_LISTED = 50
MOST_BEFORE_H, MOST_BASELINE_H = 24.0, 72.0
"""Longer windows cost every source of evidence more than an incident has time for."""
_DURATION = re.compile(r"(\d{1,4}(?:\.\d{1,3})?)\s*(m|min|h|d)")
# 24:00 is the end of a day, never the beginning of one.
_HOURS = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)\s*(?:-|to|–)\s*([01]?\d|2[0-4]):([0-5]\d)")
_SIGNAL = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}")
_MINUTES = {"m": 1, "min": 1, "h": 60, "d": 1440}
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[str, ...] = get_args(Day)


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _minutes(value: Any) -> Any:
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("must be a length of time like 90m, 2h or 1d")
    return float(match[1]) * _MINUTES[match[2]]


def zone_of(name: str) -> tzinfo:
    """A time zone by its name. Raises what `zoneinfo` raises; UTC is there without any files."""
    return UTC if name == "UTC" else ZoneInfo(name)


def _valid_zone(value: str) -> str:
    try:
        zone_of(value)
    except (
        ValueError,
        OSError,
        KeyError,
    ):  # zoneinfo raises each of them for one kind of name or another
        raise ValueError("is not the name of a time zone like Europe/Berlin or UTC") from None
    return value


Pattern = Annotated[str, Field(min_length=1, max_length=LONGEST_PATTERN)]
Patterns = Annotated[tuple[Pattern, ...], BeforeValidator(_listed), Field(max_length=MOST_LISTED)]
Sentence = Annotated[str, Field(min_length=1, max_length=LONGEST_SENTENCE)]
Sentences = Annotated[tuple[Sentence, ...], BeforeValidator(_listed), Field(max_length=10)]
Minutes = Annotated[float, BeforeValidator(_minutes)]
Queries = Mapping[str, Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY)]]
Days = Annotated[tuple[Day, ...], BeforeValidator(_listed)]


class RunbookPart(BaseModel):
    """A table of the front matter."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Criterion(NamedTuple):
    """One thing that must match: by a key of `match`, or by a label of the alert."""

    name: str
    is_label: bool
    patterns: tuple[str, ...]


class RunbookMatch(RunbookPart):
    """Alerts that the runbook is for: each key that is given must match, by any of its patterns."""

    services: Patterns = ()
    alerts: Patterns = ()
    jobs: Patterns = ()
    severity: Patterns = ()
    source: Patterns = ()
    labels: Annotated[Mapping[str, Patterns], Field(max_length=20)] = Field(default_factory=dict)

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """What must match."""
        plain = [
            (name, False, getattr(self, name))
            for name in ("services", "alerts", "jobs", "severity", "source")
        ]
        labels = [(name, True, patterns) for name, patterns in self.labels.items()]
        return tuple(Criterion(*label) for label in (*plain, *labels) if label[2])


class LookAt(RunbookPart):
    """What is looked at besides what would be anyway. Times are in minutes."""

    services: Annotated[tuple[Pattern, ...], BeforeValidator(_listed), Field(max_length=10)] = ()
    prometheus: Queries = Field(default_factory=dict)
    datadog: Queries = Field(default_factory=dict)
    log_words: Annotated[
        tuple[Annotated[str, Field(min_length=3, max_length=80)], ...], BeforeValidator(_listed)
    ] = ()
    before_alert: Annotated[Minutes, Field(gt=0, le=60 * MOST_BEFORE_H)] | None = None
    baseline: Annotated[Minutes, Field(gt=0, le=60 * MOST_BASELINE_H)] | None = None

    @property
    def queries(self) -> tuple[tuple[str, str, str], ...]:
        """(connector, signal, query)."""
        both = (("prometheus", self.prometheus), ("datadog", self.datadog))
        return tuple(
            (connector, signal, query)
            for connector, signal_queries in both
            for signal, query in signal_queries.items()
        )


class Hours(RunbookPart):
    """Hours of the day in which something is expected; over midnight where the end is before the
    beginning."""

    hours: str
    days: Days = ()
    timezone: Annotated[str, Field(max_length=60), AfterValidator(_valid_zone)] = "UTC"

    @property
    def minutes(self) -> tuple[int, int]:
        """Beginning and end in minutes of the day."""
        match = _HOURS.fullmatch(self.hours.strip())
        assert match is not None, "checked when it was read"
        return int(match[1]) * 60 + int(match[2]), int(match[3]) * 60 + int(match[4])


def _in_hours(value: Any) -> Any:
    value = {"hours": value} if isinstance(value, str) else value
    hours = value.get("hours") if isinstance(value, dict) else None
    if isinstance(hours, str) and not _HOURS.fullmatch(hours.strip()):
        raise ValueError("must be hours of the day like 02:00-02:30")
    return value


class ExpectedWhen(RunbookPart):
    """A known benign reason for the alert, where it is limited to some hours with those."""

    because: Sentence
    between: Annotated[Hours, BeforeValidator(_in_hours)] | None = None


class Dashboard(RunbookPart):
    """A page to look at."""

    title: Annotated[str, Field(min_length=1, max_length=80)]
    url: Annotated[str, Field(max_length=600)]


class RunbookKeys(RunbookPart):
    """The front matter."""

    name: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    owner: Annotated[str, Field(max_length=120)] = ""
    match: RunbookMatch | None = None
    include: Patterns = ()
    look_at: LookAt = LookAt()
    expected: Annotated[
        tuple[ExpectedWhen, ...],
        BeforeValidator(lambda v: [v] if isinstance(v, dict) else v),
        Field(max_length=10),
    ] = ()
    next_steps: Sentences = ()
    links: Annotated[tuple[Dashboard, ...], Field(max_length=10)] = ()


@dataclass(frozen=True)
class Runbook:
    """One file that could be read. `path` is relative to its directory, with forward slashes."""

    directory: str
    path: str
    digest: str
    keys: RunbookKeys
    text: str
    lines: Mapping[Place, int]

    @property
    def name(self) -> str:
        """What people call it."""
        return self.keys.name or self.path.removesuffix(".md")


def read_keys(front: FrontMatter) -> tuple[RunbookKeys, list[Problem]]:
    """The keys that are right, and one problem for each that is not. Only wrong keys are left
    out."""
    values, problems = front.values, []
    # Each pass leaves out the keys with faults, and the next one finds what those hid.
    for _ in range(MOST_LISTED):
        try:
            keys = RunbookKeys.model_validate(values)
            break
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False)
            # Reversed, so that of several faults in one place the first is kept.
            places = {_place(front, fault["loc"]): fault for fault in reversed(faults)}
            problems += [
                Problem(front.line_of(p), _problem_text(p, f["type"], f["msg"]))
                for p, f in places.items()
            ]
            values = _without(values, {p[:1] for p in places})
    else:
        keys = RunbookKeys()
    return keys, sorted(problems + _query_problems(keys, front), key=lambda p: (p.line, p.text))


def usable_queries(keys: RunbookKeys) -> tuple[tuple[str, str, str], ...]:
    """(connector, signal, query) of those queries that can be asked."""
    return tuple(query for query in keys.look_at.queries if _query_fault(*query) is None)


def _query_problems(keys: RunbookKeys, front: FrontMatter) -> list[Problem]:
    problems = []
    for connector, signal, query in keys.look_at.queries:
        fault = _query_fault(connector, signal, query)
        if fault:
            place = ("look_at", connector, signal)
            problems.append(Problem(front.line_of(place), f"{'.'.join(place)}: {fault}"))
    return problems


_DEFAULT_SIGNALS = frozenset(template.signal for template in DEFAULTS)


def _query_fault(connector: str, signal: str, query: str) -> str | None:
    if not _SIGNAL.fullmatch(signal):
        return "a signal's name is letters, digits, _ and ."
    if signal in _DEFAULT_SIGNALS:
        return "is a signal that is asked anyway; give this one another name"
    if connector == "prometheus":
        try:
            check_custom({signal: query})
        except SettingsError as error:
            return error.problem
    elif not isinstance(read_monitor(query, "query alert"), MetricMonitor):
        return "must be a metric query like avg:queue.depth{service:checkout}"
    return None


def _place(front: FrontMatter, loc: tuple[str | int, ...]) -> Place:
    """Where a fault stands: pydantic names steps that no file has (`function-before`, an index of
    one value)."""
    place: Place = ()
    for part in loc:
        if (*place, part) in front.lines:
            place = (*place, part)
    return place


def _problem_text(place: Place, kind: str, message: str) -> str:
    name = (
        # People count from 1.
        ".".join(str(part + 1 if isinstance(part, int) else part) for part in place)
        or "front matter"
    )
    if kind == "extra_forbidden":
        near = get_close_matches(str(place[-1]), _siblings(place), n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(_siblings(place))}"
        return f"{name}: no such key; {hint}"
    if kind == "missing":
        return f"{name}: a key is missing"
    # pydantic puts this before the text of a ValueError.
    message = message.removeprefix("Value error, ")
    return f"{name}: {message[:1].lower()}{message[1:]}"


_TABLES: Mapping[Place, type[RunbookPart]] = {
    (): RunbookKeys,
    ("match",): RunbookMatch,
    ("look_at",): LookAt,
    ("expected",): ExpectedWhen,
    ("between",): Hours,
    ("links",): Dashboard,
}


def _siblings(place: Place) -> list[str]:
    above = [part for part in place[:-1] if isinstance(part, str)]
    return list(_TABLES.get(tuple(above[-1:]), RunbookKeys).model_fields)


def _without(values: Any, places: set[Place]) -> Any:
    """The top-level keys that hold no fault."""
    return (
        {key: value for key, value in values.items() if (key,) not in places}
        if () not in places
        else {}
    )
