"""What a question is about: a service, a signal or a change of the case; or a kind of thing, such
as "the database"."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from faultline.analysis.kinds.signals import SignalClass
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
