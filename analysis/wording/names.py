"""What people call signals and services: "p99 latency", not `http_server_duration_p99_ms`.

A name that says no more than its family does gets the family's word; of any other its own words
stay, without what only tells the unit or the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from faultline.analysis.kinds.signals import SignalClass, classify, is_headroom
from faultline.analysis.wording.phrases import plain

LONGEST = 60
_TOTAL_TIME = ("requests_seconds_sum", "request_duration_seconds_sum", "request_seconds_sum")
"""Ends of counters that add up how long requests took."""
SHORT_COMMIT = 7
_FAMILIES: Mapping[SignalClass, str] = {
    SignalClass.LATENCY: "latency",
    SignalClass.ERRORS: "error rate",
    SignalClass.AVAILABILITY: "availability",
    SignalClass.RESTARTS: "restarts",
    SignalClass.QUEUE: "queue length",
    SignalClass.CPU: "CPU use",
    SignalClass.MEMORY: "memory use",
    SignalClass.DISK: "disk use",
    SignalClass.NETWORK: "network traffic",
    SignalClass.TRAFFIC: "request rate",
    SignalClass.HIT_RATIO: "cache hit ratio",
    SignalClass.CONNECTIONS: "connections in use",
    SignalClass.LOSS: "loss",
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_GENERIC = _words(
    """
    http https grpc rpc server client request requests response responses time times duration
    durations seconds second sec ms milliseconds us ns total count rate ratio percent pct per
    usage used use utilization utilisation util sum bucket value current bytes byte container
    process system target service app application latency lat error errors err failed failure
    failures availability success cpu cpum mem memory queue length depth traffic rps qps hit
    hits cache gets get connections connection active number quantile mean avg average max
    maximum min minimum median elapsed trace traces span spans metrics calls call code target
    of
    """
)
"""Words that tell the family, the protocol, the unit or the statistic, and no more."""
_NO_OPERATION = frozenset({"handle", "handler", "request", "requests", "process", "call"})
_VENDORS: Mapping[str, str] = {
    "postgresql": "PostgreSQL",
    "postgres": "PostgreSQL",
    "mysql": "MySQL",
    "redis": "Redis",
    "mongodb": "MongoDB",
    "rabbitmq": "RabbitMQ",
    "kafka": "Kafka",
    "nginx": "nginx",
    "envoy": "Envoy",
    "elasticsearch": "Elasticsearch",
}
_OF_A_VENDOR = _VENDORS.keys() | {"stats", "info"}
_COUNTS: Mapping[str, str] = {"error rate": "errors", "request rate": "requests"}
_UNIT_WORDS = _words(
    """
    s seconds second sec ms milliseconds us ns percent pct total bytes mb gb mib gib lps
    """
)
_PROTOCOL = _words(
    """
    http https grpc rpc trace server client kube k8s kubernetes
    """
)
"""Words that say where a metric was taken, and not what it is."""
_STATISTICS: Mapping[str, str] = {
    "mean": "mean",
    "avg": "mean",
    "average": "mean",
    "max": "max",
    "maximum": "max",
    "min": "min",
    "minimum": "min",
    "median": "p50",
}
_SHORT: Mapping[str, str] = {
    "syswrite": "disk writes",
    "sysread": "disk reads",
    "netrx": "received network traffic",
    "nettx": "sent network traffic",
    "netreceive": "received network traffic",
    "nettransmit": "sent network traffic",
    "step_time": "time per step",
    "step_time_ms": "time per step",
    "data_ms": "time spent loading data",
    "forward_ms": "time in the forward pass",
    "backward_ms": "time in the backward pass",
    "optimizer_ms": "time in the optimizer",
    "hikaricp_connections_active": "connections in use (HikariCP)",
    "hikaricp_connections_pending": "waits for a connection (HikariCP)",
    "tomcat_threads_busy_threads": "busy threads (Tomcat)",
    "mfu": "model FLOPs utilization (MFU)",
    "ttft": "time to first token",
}
"""Abbreviations of exporters that no rule could spell out."""
_ACRONYMS = _words(
    """
    cpu gpu http https grpc db sql api tcp udp tls ssl dns ip jvm gc oom io iops nccl ecc pcie
    sm rds sqs ebs nat hbm id
    """
)
_QUANTILE = re.compile(
    r"(?:(?<![a-z])p|lat|latency_?|quantile_?|(?<=_))(50|75|90|95|98|99|999)(?:p|th)?(?=_|$)"
)
_PER_TIME = re.compile(r"_per_(?:sec|second|min|minute|hour)s?(?=_|$)")
_CODE = re.compile(r"(?:^|_)([45](?:xx|\d\d))(?=_|$)")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NAMESPACE = "namespace/"
_PART_OF_JOB = re.compile(r"^(?P<whole>[^/]+)/(?P<kind>rank|gpu) ?(?P<number>\d+)$")
_CALL = re.compile(r"^call to (?P<callee>\S+) (?P<operation>.+)$")
_LINE = re.compile(r"^line (?P<text>.+?)(?: at \S+)?$")
_NO_WORD = re.compile(r"\*|TRACE|DEBUG|INFO|WARN|ERROR|(?:Trace|Span|Request)ID:?", re.IGNORECASE)
_COMMIT = re.compile(r"[0-9a-f]{10,64}")
_GRPC = re.compile(r"^/?(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*/(?P<method>[A-Za-z_]\w*)\.?$")
_OF_VENDOR = re.compile(r"^(?P<name>.+?)_(?P<kind>[A-Z][A-Za-z]*(?:::[A-Za-z][A-Za-z0-9]*)+)$")


@lru_cache(maxsize=4096)
def signal_name(signal: str) -> str:
    """The signal in words, to be used as "{service}'s {name}" or "{name} of {service}"."""
    # Every joint becomes an underscore, so that the patterns below need one form only.
    text = re.sub(r"[.\-/ ]+", "_", _CAMEL.sub("_", signal)).lower().strip("_")
    short_name = _SHORT.get(text)
    if short_name is not None:
        return short_name
    family = classify(signal)
    if text.endswith(_TOTAL_TIME):
        return "time spent on requests"
    text = _PER_TIME.sub("", text)
    statistic = _statistic(text)
    words = _telling_words(text)
    vendor = _vendor(words) if family in _FAMILIES else ""
    # A vendor's name is enough only where the family says the rest.
    if vendor:
        return plain(f"{vendor} {_family_name(signal, text, family)}", LONGEST)
    if words or family not in _FAMILIES:
        return plain(f"{statistic} {words or text.replace('_', ' ')}".strip(), LONGEST)
    return plain(f"{statistic} {_family_name(signal, text, family)}".strip(), LONGEST)


def counted_name(name: str) -> str:
    """The name of a signal whose values are counts in an interval: "errors", no "error rate"."""
    return _COUNTS.get(name, name.removeprefix("rate of "))


def is_plural(name: str) -> bool:
    """Whether a signal's name takes a verb in the plural: "restarts", "connections in use"."""
    noun = name.split(" in ")[0].split(" of ")[0].split(" seen by ")[0]
    # Words such as `access` and `status` are singular.
    return noun.endswith("s") and not noun.endswith(("ss", "us"))


@lru_cache(maxsize=4096)
def subject_name(subject: str) -> str:
    """A service, rank, GPU or queue as people name it: what a vendor adds to tell its kind stands
    in parentheses."""
    shown = plain(subject, LONGEST + 20)
    if shown.startswith(_NAMESPACE):
        return f"namespace {shown.removeprefix(_NAMESPACE)}"
    part = _PART_OF_JOB.match(shown)
    if part is not None:
        return f"{'GPU' if part['kind'] == 'gpu' else 'rank'} {part['number']} of {part['whole']}"
    match = _OF_VENDOR.match(shown)
    if match is None:
        return shown
    # The rest of the name already tells the cloud.
    parts = [part for part in match["kind"].split("::") if part not in ("AWS", "Azure", "GCP")]
    words = [" ".join(_CAMEL.split(part)) for part in dict.fromkeys(parts)]
    return f"{match['name']} ({' '.join(words)})" if words else match["name"]


@lru_cache(maxsize=4096)
def operation_name(operation: str) -> str:
    """A method or route as people name it: of `package.Service/Method` the method."""
    shown = plain(operation, LONGEST)
    method = _GRPC.match(shown)
    return method["method"] if method else shown


def operation_of(service: str, operation: str) -> str:
    """An operation beside its service's name, which it does not repeat; empty where it says no more
    than that a request was handled."""
    text = operation_name(operation)
    for joint in ("/", " ", ".", ":"):
        text = text.removeprefix(f"{service}{joint}")
    return "" if text.casefold() in _NO_OPERATION or text == service else text


def call_of(event: str) -> tuple[str, str] | None:
    """Callee and operation of a step that is a call; the operation is empty where it says no
    more."""
    call = _CALL.match(event)
    if call is None:
        return None
    return call["callee"], operation_of(call["callee"], call["operation"])


def step_name(event: str) -> str:
    """A step of a request: of a log line its own words, of a call the operation."""
    call = _CALL.match(event)
    if call is not None:
        callee = call["callee"]
        return f"{subject_name(callee)} {operation_of(callee, call['operation'])}".strip()
    line = _LINE.match(event)
    if line is None:
        return operation_name(event)
    # Levels and ids do not say what the line says.
    words = [word for word in line["text"].split() if not _NO_WORD.fullmatch(word)]
    return plain(" ".join(words), LONGEST)


def change_name(change: str) -> str:
    """A commit by its first characters, as git shortens it; any other id whole."""
    return change[:SHORT_COMMIT] if _COMMIT.fullmatch(change) else plain(change, 40)


def _vendor(name_words: str) -> str:
    """The product whose metric it is, where the name says nothing beside that."""
    words = [word.lower() for word in name_words.split() if word.lower() not in _GENERIC]
    if not words or not _OF_A_VENDOR.issuperset(words):
        return ""
    return next((_VENDORS[word] for word in words if word in _VENDORS), "")


def _statistic(text: str) -> str:
    quantile = _QUANTILE.search(text)
    if quantile is not None:
        number = quantile[1]
        # 999 is 99.9 by convention.
        return "p99.9" if number == "999" else f"p{number}"
    statistics = [_STATISTICS[word] for word in text.split("_") if word in _STATISTICS]
    return statistics[0] if statistics else ""


def _family_name(signal: str, text: str, family: SignalClass) -> str:
    code = _CODE.search(text)
    if family is SignalClass.ERRORS and code is not None:
        return f"rate of {code[1]} responses"
    if is_headroom(signal):
        return f"free {_FAMILIES[family].removesuffix(' use')}"
    if family is SignalClass.LATENCY and "client" in text:
        return "latency seen by callers"
    return _FAMILIES[family]


def _telling_words(text: str) -> str:
    """The words that say more than the family does; empty where there are none."""
    words = [word for word in _QUANTILE.sub("", text).split("_") if word]
    telling = [word for word in words if word not in _GENERIC and word not in _PROTOCOL]
    telling = [word for word in telling if not re.fullmatch(r"\d+|[45]xx", word)]
    if not any(len(word) > 2 or word in _ACRONYMS for word in telling):
        return ""
    dropped = _UNIT_WORDS | _PROTOCOL | _STATISTICS.keys()
    return " ".join(
        (word.upper() if word in _ACRONYMS else word) for word in words if word not in dropped
    )
