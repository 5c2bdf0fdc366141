"""What a question is about: a service, a signal or a change of the case; or a kind of thing, such
as "the database".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.vocabulary import Window
from faultline.bot.intake.questions.words import listed, nearest, words

MAX_NAMES = 2_000
MAX_SUBJECT = 60


@dataclass(frozen=True)
class Thing:
    """A kind of thing that services have or use. `words` recognise it in questions, names and
    sentences; `classes` are the classes of signals that are about it."""

    called: str
    words: frozenset[str]
    classes: frozenset[SignalClass] = frozenset()


def _thing(called: str, keywords: str, *classes: SignalClass) -> Thing:
    return Thing(called, listed(keywords), frozenset(classes))


THINGS: Mapping[str, Thing] = {
    "database": _thing(
        "the database",
        "database databases db dbs sql postgres postgresql mysql mariadb mongo mongodb rds aurora "
        "dynamodb cockroach cassandra oracle sqlite deadlock deadlocks",
    ),
    "cache": _thing(
        "the cache", "cache caches caching redis memcached memcache valkey eviction evictions"
    ),
    "queue": _thing(
        "the queue",
        "queue queues kafka rabbitmq sqs broker backlog consumer lag pulsar nats celery",
        SignalClass.QUEUE,
    ),
    "network": _thing(
        "the network",
        "network networking dns tcp packet packets connectivity bandwidth nic infiniband ib",
        SignalClass.NETWORK,
    ),
    "cpu": _thing("CPU", "cpu cpus throttling throttled load_average", SignalClass.CPU),
    "memory": _thing("memory", "memory ram oom heap rss leak leaking swap", SignalClass.MEMORY),
    "disk": _thing(
        "the disk", "disk disks storage iops filesystem volume volumes", SignalClass.DISK
    ),
    "gpu": _thing("a GPU", "gpu gpus cuda xid nvlink ecc nccl accelerator"),
    "traffic": _thing(
        "traffic",
        "traffic load requests rps qps demand spike surge ddos throughput",
        SignalClass.TRAFFIC,
    ),
    "errors": _thing(
        "errors", "error errors exceptions 5xx 500s 502s 503s 504s", SignalClass.ERRORS
    ),
    "deploy": _thing("a deploy", "deploy deployment release rollout"),
    "dataloader": _thing(
        "data loading", "dataloader dataloading dataloaders loader loading data_loading"
    ),
}
_WORD_TO_THING = {word: name for name, thing in THINGS.items() for word in thing.words}
METRIC_WORDS: Mapping[str, SignalClass] = {
    **{
        word: signal_class
        for thing in THINGS.values()
        for word in thing.words
        for signal_class in thing.classes
    },
    "latency": SignalClass.LATENCY,
    "slower": SignalClass.LATENCY,
    "faster": SignalClass.LATENCY,
    "latencies": SignalClass.LATENCY,
    "failures": SignalClass.ERRORS,
    "availability": SignalClass.AVAILABILITY,
    "connections": SignalClass.CONNECTIONS,
    "restarts": SignalClass.RESTARTS,
    "loss": SignalClass.LOSS,
}
"""Words for what a class of signals measures. `p99` and its like are latency, too."""
_ABOUT = re.compile(
    r"\b(?:is|was|could|can|might|may|would) (?:it|this|that)(?: be)?(?: not)?(?: because of| due "
    r"to| caused by| from)?"
    r"(?: an?| the| our| my)? (?P<is>[\w./:-]+(?: [\w./:-]+){0,3})"
    r"|\b(?:what|how) (?:about|of)(?: an?| the| our)? (?P<about>[\w./:-]+(?: [\w./:-]+){0,3})"
    r"|\bwhy not(?: an?| the)? (?P<not>[\w./:-]+(?: [\w./:-]+){0,3})"
    r"|\b(?:check|look at|look into|include|add|examine)(?: an?| the| our)? "
    r"(?P<check>[\w./:-]+(?: [\w./:-]+){0,3})"
    r"|\b(?:is|are|was|were)(?: the| our)? (?P<ok>[\w./:-]+(?: [\w./:-]+){0,2}) "
    r"(?:ok|okay|fine|healthy|affected|broken|down|slow|failing|to blame|involved|the "
    r"cause|guilty)\b"
)
_QUANTILE = re.compile(r"p(?:50|75|90|95|99|999)")
_SINGLE_NAME = re.compile(r"[a-z][a-z0-9]+(?:[-_.][a-z0-9]+)*")
_FILLERS = listed(
    "it this that the a an our my again then now really still too also as well maybe perhaps "
    "actually just there here "
    "over ok okay fine going on or and not same one thing because of due to be been service job "
    "please"
)


@dataclass(frozen=True)
class Subject:
    """What a question is about. `names` are the case's own names for it, `thing` a kind of
    thing."""

    label: str
    names: tuple[str, ...] = ()
    thing: str | None = None

    @property
    def is_identified(self) -> bool:
        """Whether the case or the table knows it."""
        return bool(self.names or self.thing)

    @property
    def is_service(self) -> bool:
        """Whether it may be a service's name: one that is known, or one word that looks like it."""
        return bool(self.names) or (
            self.thing is None and _SINGLE_NAME.fullmatch(self.label) is not None
        )


def subject_of(text: str, names: Collection[str]) -> Subject | None:
    """The subject of a question, or None when it names none. `names` are those of the case and the
    catalogue."""
    tokens = words(text)
    matches = _named(tokens, names)
    if matches:
        return Subject(matches[0], matches)
    thing = next((_WORD_TO_THING[w] for w in tokens if w in _WORD_TO_THING), None)
    if thing is not None:
        return Subject(THINGS[thing].called, (), thing)
    match = _ABOUT.search(" ".join(tokens))
    if match is None:
        return None
    rest = [w for w in next(filter(None, match.groups())).split() if w not in _FILLERS]
    if not rest:
        return None
    # A short name is too near to other words to guess that it was misspelt.
    close = nearest(rest[0], {n.casefold() for n in names if len(n) >= 6})
    guessed = tuple(n for n in names if n.casefold() == close)
    return Subject(" ".join(rest)[:MAX_SUBJECT], guessed)


def asks_about(text: str) -> bool:
    """Whether a text has the form of "is it ...?", "what about ...?", "check ... too"."""
    match = _ABOUT.search(" ".join(words(text)))
    return match is not None and any(
        w not in _FILLERS for w in next(filter(None, match.groups())).split()
    )


def _named(tokens: Iterable[str], names: Collection[str]) -> tuple[str, ...]:
    """Names that stand in the text as whole words, in their order there; `rank 2` is such a name
    too."""
    # Spaces at both ends let a name match only as whole words.
    text = f" {' '.join(tokens)} "
    places = []
    for name in list(names)[:MAX_NAMES]:
        folded = " ".join(words(name))
        place = text.find(f" {folded} ") if folded else -1
        if place >= 0:
            # Earliest first, and of names that begin at the same place the longest.
            places.append((place, -len(folded), name))
    return tuple(dict.fromkeys(name for _, _, name in sorted(places)))


def metric_classes(tokens: Sequence[str]) -> frozenset[SignalClass]:
    """The classes of signals that the words of a text name."""
    metric_words = {METRIC_WORDS[word] for word in tokens if word in METRIC_WORDS}
    if quantile_in(tokens) or ("response", "time") in pairwise(tokens):
        metric_words.add(SignalClass.LATENCY)
    return frozenset(metric_words)


def quantile_in(tokens: Iterable[str]) -> str | None:
    """`p99`, where a text names a quantile."""
    return next((word for word in tokens if _QUANTILE.fullmatch(word)), None)


def names_metric(text: str) -> bool:
    """Whether a text names something that is measured."""
    return bool(metric_classes(words(text)))


# What a question wants looked at beyond the case: a longer time ("the last 6 hours"), or more
# services.

SHORTEST, LONGEST = timedelta(minutes=5), timedelta(days=7)
"""A further investigation's window; a longer one asks more than the vendors give within their
limits."""
WIDER = 3.0
"""How many times longer "a wider window" is."""
COMPARED = listed("yesterday week month day compare compared comparison normal usual")
HOURS = listed("hour hours minutes earlier")
WEEKDAYS = listed("monday tuesday wednesday thursday friday saturday sunday")
_LENGTH = re.compile(
    r"\b(?:last|past|previous) (?P<length>(?:half an |a couple of |couple of |a few |few |an? |"
    r"[a-z0-9]+ )?(?:\d+)?(?:m|mins?|minutes?|h|hrs?|hours?|d|days?|weeks?))\b"
)
_SINCE = re.compile(
    r"\b(?:since|from|after|starting at|back to)(?: about| around)? "
    r"(?P<clock>\d{1,2}[:.]\d\d|\d{1,2} ?[ap]m|noon|midnight)\b"
)
_WIDER = re.compile(
    r"\b(?:wider|longer|larger|bigger) (?:window|time|range|period)\b|\b(?:go )?further back\b"
    r"|\bback further\b"
)
_COUNTS = (("half an hour", "30 minutes"), ("couple of", "2"), ("few", "3"))
_LOOK = r"(?:check|look at|look into|include|add|investigate|examine|query)"
_ALSO = re.compile(rf"\b{_LOOK}\b.*\b(?:too|also|as well)\b|\b(?:also|please) {_LOOK}\b")


@dataclass(frozen=True)
class QuestionSpan:
    """The time a question asks for: a length that ends now, a time of day (UTC) it begins at, or
    just a longer one."""

    length: timedelta | None = None
    since: tuple[int, int] | None = None


def span_in(text: str) -> QuestionSpan | None:
    """The span in a question, or None."""
    sentence = " ".join(words(text))
    since, length = _SINCE.search(sentence), _LENGTH.search(sentence)
    if since is not None:
        time = _read(since["clock"])
        return QuestionSpan(since=(time.hour, time.minute)) if time else None
    if length is not None:
        duration = _length(length["length"])
        return QuestionSpan(length=duration) if duration else None
    return QuestionSpan() if _WIDER.search(sentence) else None


def speaks_of_a_span(text: str) -> bool:
    """The same by its form alone, for processes that do without the library that reads times."""
    sentence = " ".join(words(text))
    return any(form.search(sentence) for form in (_SINCE, _LENGTH, _WIDER))


def asks_to_include(text: str) -> bool:
    """Whether a text asks to look at more: "check payments too"."""
    return _ALSO.search(" ".join(words(text))) is not None


def days_ago(text: str, time: datetime) -> int:
    """How many days before `time` a comparison means: "yesterday", "last tuesday", "a week ago". A
    day where it does not say, none where it means the same day. "Compare" alone means yesterday."""
    tokens = words(text)
    if HOURS & set(tokens) or (not COMPARED & set(tokens) and not WEEKDAYS & set(tokens)):
        return 0
    # On a Tuesday, "Tuesday" means the one a week ago.
    if "week" in tokens or f"{time:%A}".casefold() in tokens:
        return 7
    weekday = next((word for word in tokens if word in WEEKDAYS), None)
    meant = _read(weekday, time) if weekday else None
    return max(1, (time.date() - meant.date()).days) if meant else 1


def window_of(span: QuestionSpan, incident: Window, now: datetime, zone: tzinfo = UTC) -> Window:
    """The window that a span means: it ends now, or, of an incident long past, where its window
    ended. Times of day are of the `zone`."""
    now = now.astimezone(UTC)
    end = now if now - incident.end <= LONGEST else incident.end
    if span.since is not None:
        hour, minute = span.since
        local = end.astimezone(zone)
        start = local.replace(hour=hour, minute=minute, second=0, microsecond=0)
        # A time of day that is still to come was yesterday's.
        start -= timedelta(days=1) if start >= end else timedelta(0)
    elif span.length is not None:
        start = end - span.length
    else:
        start, end = incident.end - timedelta(seconds=WIDER * incident.seconds), incident.end
    return Window(start=end - min(max(end - start, SHORTEST), LONGEST), end=end)


def _length(text: str) -> timedelta | None:
    for word, count in _COUNTS:
        text = re.sub(rf"\b(?:a )?{word}\b", count, text)
    # "Hour" alone, as in "the last hour", is one hour.
    counted = text if re.match(r"\d|.* ", text) else f"1 {text}"
    noon = datetime(2000, 1, 1, 12, tzinfo=UTC)
    began = _read(f"{counted} ago", noon)
    return noon - began if began is not None and began < noon else None


def _read(text: str, now: datetime | None = None) -> datetime | None:
    # Late: the library takes a quarter of a second to load, and few questions name a time.
    import dateparser

    settings: dict[str, object] = {"PREFER_DATES_FROM": "past", "TIMEZONE": "UTC"}
    settings["RETURN_AS_TIMEZONE_AWARE"] = True
    if now is not None:
        settings["RELATIVE_BASE"] = now
    read = dateparser.parse(text, languages=["en"], settings=settings)
    return read if isinstance(read, datetime) else None
