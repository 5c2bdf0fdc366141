"""What an alert watches: from its rule's expression where it is known, else from what it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from faultline.analysis.alert_signal.datadog import read_datadog_query
from faultline.analysis.alert_signal.promql import read_logql, read_promql
from faultline.analysis.alert_signal.rule_texts import (
    MetricSelection,
    QueryReading,
    alertmanager_note,
    class_of,
    is_exporter,
    normalized,
    quantile_in,
    queries_in,
    query_of_url,
    threshold_in,
    window_in,
    without_threshold,
)
from faultline.analysis.alert_signal.subjects import (
    Naming,
    keeps_service,
    kubernetes_object,
    literal_service,
    naming_label,
    namings,
    place_in,
    service_in,
)
from faultline.analysis.kinds.signals import AlertQuery, SignalClass, SignalSource, WatchedSignal
from faultline.analysis.vocabulary import Alert

_ROW_LANGUAGES = frozenset({"nrql", "kql", "mql"})
"""Languages that compute with rows: the words of the query say what it is about."""
_NAMED = re.compile(
    r"(?i)(?:name|service|app|host|role|entity)[\w.]*[`\"\])]*\s*(?:[=!<>~]+|in|has|contains|like)\s*"
    r"\(?\s*(?:'[^']*'|\"[^\"]*\")"
)
"""Whose rows count: such a name tells nothing of what is measured."""
_ABSENT = frozenset({"absent", "absent_over_time"})
_WEAK = frozenset(
    {SignalClass.OTHER, SignalClass.LIMIT, SignalClass.TRAFFIC, SignalClass.AVAILABILITY}
)
"""Classes of words that any metric may have: a title that says something else counts more."""
_SHARING_TIME = frozenset({*_WEAK, SignalClass.NETWORK, SignalClass.QUEUE})
"""Classes of what takes time as well: how long it takes is latency."""
MOST_METRICS = 12
_ERROR_TRACKERS = frozenset({"sentry"})
_OF_ERROR_TRACKERS = frozenset(
    {SignalClass.LATENCY, SignalClass.AVAILABILITY, SignalClass.JOB, SignalClass.ERRORS}
)
"""What error trackers watch besides errors: transactions, uptime, scheduled jobs."""
_DONE = re.compile(r"_(success\w*|complet\w*|backup\w*|save\w*|finish\w*|run|snapshot\w*)_")
_EXPIRES = re.compile(r"_(expir\w*|not_after|cert\w*)_")
_TIME = re.compile(r"_(seconds|milliseconds|ms|us|time|duration|latency|ns)_")
_UNITS = (
    ("ms", re.compile(r"_(milliseconds|millis|ms)_")),
    ("s", re.compile(r"_seconds_")),
    ("bytes", re.compile(r"_bytes_")),
    ("%", re.compile(r"_(percent|percentage|pct)_")),
    ("ratio", re.compile(r"_ratio_")),
)
_COMPLEMENT = re.compile(r"(?<![\w.])(?:1|100)(?:\.0*)?\s*-")
_TIMES_100 = re.compile(r"\*\s*100\b|(?<![\w.])100(?:\.0*)?\s*\*")
_UP = re.compile(r"(?:^|[_:.])up$")
_COUNTING = frozenset({"rate", "irate", "increase", "delta"})
_COUNTED = re.compile(r"_(total|count|requests?|calls|queries)_")
_SUCCESS = re.compile(r"_(success\w*|ok|2xx|availability|available)_")


def watched_signal(alert: Alert) -> WatchedSignal:
    """What the alert watches. Never fails: what nothing tells is left open."""
    reading = reading_of(alert.query)
    if alert.no_data:
        # Its rule could not be evaluated, so no signal crossed anything.
        watched = WatchedSignal()
    elif alert.query is not None and reading is not None:
        watched = _from_query(alert, alert.query, reading)
    else:
        watched = _from_texts(alert)
    selectors: dict[str, str] = {}
    for selection in reading.measured if reading is not None else ():
        for label, value in selection.equal.items():
            selectors.setdefault(label, value)
    in_text = kubernetes_object(f"{alert.title}\n{alert.summary or ''}")
    named_place = {"namespace": in_text.namespace} if in_text is not None else {}
    place = place_in(alert.labels, selectors, named_place)
    return watched.model_copy(update={"place": place})


def reading_of(query: AlertQuery | None) -> QueryReading | None:
    """The query taken apart; None where there is none, or it cannot be read."""
    if query is None:
        return None
    reader = _READERS.get(query.language)
    if reader is not None:
        return reader(query.text)
    if query.language in _ROW_LANGUAGES:
        return QueryReading(
            comparison=query.comparison, threshold=query.threshold, window_s=query.window_s
        )
    # A metric, a statistic and a threshold, as CloudWatch has them, or an expression of metrics.
    statistic = query.statistic or ""
    names: tuple[str, ...] = (query.text,)
    below = ""
    if query.metrics:
        above, _, below = query.text.partition("/")
        names = tuple(name for name in query.metrics if name in above) or query.metrics
    return QueryReading(
        measured=tuple(MetricSelection(name, query.dimensions) for name in names),
        divisors=tuple(MetricSelection(name) for name in query.metrics if name in below),
        complement=bool(query.metrics) and _COMPLEMENT.search(query.text) is not None,
        percent=bool(query.metrics) and _TIMES_100.search(query.text) is not None,
        quantile=quantile_in(statistic),
        grouped=tuple(query.dimensions),
        comparison=query.comparison,
        threshold=query.threshold,
        window_s=query.window_s,
    )


def _from_query(alert: Alert, query: AlertQuery, reading: QueryReading) -> WatchedSignal:
    if reading.threshold is None:
        reading = replace(reading, threshold=query.threshold)
    signal_class, source = _chosen(alert, query, reading)
    metric = ""
    if reading.measured:
        metric = reading.measured[0].metric
    service: str | None = None
    # Dimensions name resources, which the catalogue knows; selectors name services.
    if query.language != "metric":
        service = literal_service(reading)
    return WatchedSignal(
        signal_class=signal_class,
        source=source,
        metric=metric or None,
        quantile=reading.quantile or quantile_in(alert.title),
        service=service,
        service_label=naming_label(reading),
        keeps_labels=keeps_service(reading),
        comparison=query.comparison or reading.comparison,
        threshold=reading.threshold,
        unit=query.unit or _unit(metric, reading),
        window_s=reading.window_s or query.window_s,
        holds_for_s=query.holds_for_s,
    )


def _chosen(
    alert: Alert, query: AlertQuery, reading: QueryReading
) -> tuple[SignalClass, SignalSource]:
    """The class by the query, unless the title tells more, and where it was read."""
    signal_class, source = class_of_query(reading), SignalSource.EXPRESSION
    if query.language in _ROW_LANGUAGES:
        signal_class = class_of(_NAMED.sub("", query.text))
    if query.language == "metric":
        source = SignalSource.METRIC
    by_title = class_of(without_threshold(alert.title))
    # A title only says of what `up` is the state.
    if not _is_up(reading) and _title_tells_more(signal_class, by_title):
        signal_class, source = by_title, SignalSource.TITLE
    return _or_by_sender(alert, signal_class, source)


def _or_by_sender(
    alert: Alert, signal_class: SignalClass, source: SignalSource
) -> tuple[SignalClass, SignalSource]:
    """The class by who sends the alert, or by its description, where nothing better says it."""
    if alert.source in _ERROR_TRACKERS and signal_class not in _OF_ERROR_TRACKERS:
        return SignalClass.ERRORS, SignalSource.SENDER
    if signal_class is not SignalClass.OTHER:
        return signal_class, source
    by_summary = class_of(without_threshold(alert.summary or ""))
    if by_summary is SignalClass.OTHER:
        return by_summary, SignalSource.UNKNOWN
    return by_summary, SignalSource.TEXT


def _is_up(reading: QueryReading) -> bool:
    """Whether it watches `up` or an exporter's like: a title then says of what."""
    return any(_UP.search(selection.metric) for selection in reading.measured[:1])


def _title_tells_more(by_query: SignalClass, by_title: SignalClass) -> bool:
    if by_query is SignalClass.OTHER:
        return by_title is not SignalClass.OTHER
    if by_query is SignalClass.CONNECTIONS and by_title is SignalClass.ERRORS:
        return True
    # What runs on a network is often called after it, whatever is wrong with it.
    return by_query in _WEAK and by_title not in (*_WEAK, SignalClass.NETWORK)


def class_of_query(reading: QueryReading) -> SignalClass:
    """The class by what the query does with which metrics."""
    if reading.functions & _ABSENT:
        return SignalClass.AVAILABILITY
    words = normalized(" ".join(selection.words for selection in reading.measured[:MOST_METRICS]))
    by_words = _class_of_most(reading)
    if reading.until:
        return SignalClass.CERTIFICATE if _EXPIRES.search(words) else by_words
    if reading.since and by_words in _WEAK:
        return SignalClass.JOB if _DONE.search(words) else by_words
    if _measures_time(reading, words) and by_words in _SHARING_TIME:
        return SignalClass.LATENCY
    if _is_success_share(reading, words) and by_words in _WEAK:
        return SignalClass.ERRORS
    if "_uptime_" in words and (reading.comparison or "").startswith("<"):
        return SignalClass.RESTARTS
    return by_words


def _class_of_most(reading: QueryReading) -> SignalClass:
    """The class that most of the metrics have that are added up; of equally many, the first's."""
    classes = [class_of(selection.words) for selection in reading.measured[:MOST_METRICS]]
    telling_classes = [
        signal_class for signal_class in classes if signal_class is not SignalClass.OTHER
    ]
    return max(telling_classes, key=telling_classes.count, default=SignalClass.OTHER)


def _measures_time(reading: QueryReading, words: str) -> bool:
    """A quantile of times, or a sum of times by the number of them."""
    if reading.quantile is not None:
        # Where a monitor takes a quantile by itself, only times are worth it.
        of_buckets = "histogram_quantile" in reading.functions
        return not of_buckets or _TIME.search(words) is not None
    counted = any(divisor.metric.endswith("_count") for divisor in reading.divisors)
    return counted and "_sum_" in words and _TIME.search(words) is not None


def _is_success_share(reading: QueryReading, words: str) -> bool:
    """What succeeds, as a share of all that was tried: what lacks is what fails."""
    is_share = bool(reading.divisors or reading.complement)
    counts = bool(reading.functions & _COUNTING) or _COUNTED.search(words) is not None
    return is_share and counts and _SUCCESS.search(words) is not None


def _from_texts(alert: Alert) -> WatchedSignal:
    signal_class, source = class_of(alert.signal or ""), SignalSource.NAMED
    if signal_class is SignalClass.OTHER:
        signal_class, source = class_of(without_threshold(alert.title)), SignalSource.TITLE
    signal_class, source = _or_by_sender(alert, signal_class, source)
    phrase = f"{alert.title}\n{alert.summary or ''}"
    comparison, threshold, unit = threshold_in(phrase) or (None, None, None)
    quantile: float | None = None
    if signal_class is SignalClass.LATENCY:
        quantile = quantile_in(phrase)
    return WatchedSignal(
        signal_class=signal_class,
        source=source,
        quantile=quantile,
        keeps_labels=True,
        comparison=comparison,
        threshold=threshold,
        unit=unit,
        window_s=window_in(phrase),
    )


def _unit(metric: str, reading: QueryReading) -> str | None:
    """The unit of the threshold by the metric's name; a share where a metric is divided by
    another."""
    words = normalized(metric)
    # A comparison with another metric fires with the number on its left, not with their ratio.
    has_measured_limit = reading.comparison is not None and reading.threshold is None
    if not _measures_time(reading, words):
        if reading.divisors and not has_measured_limit:
            return "%" if reading.percent else "ratio"
        # Times 100, or as a rate, it is no longer in the metric's own unit.
        if reading.percent or reading.functions & _COUNTING:
            return None
    for unit, pattern in _UNITS:
        if pattern.search(words):
            return unit
    return None


# A group of thousands of alerts has few rules.
_READERS: Mapping[str, Callable[[str], QueryReading | None]] = {
    "promql": lru_cache(maxsize=256)(read_promql),
    "logql": lru_cache(maxsize=256)(read_logql),
    "datadog": lru_cache(maxsize=256)(read_datadog_query),
}


def service_of(watched: WatchedSignal, labels: Mapping[str, str]) -> str | None:
    """Whose signal it is: by the labels of the alert that fired, else by the rule's selectors."""
    if watched.service_label and labels.get(watched.service_label):
        return service_in(labels, watched.service_label)
    return watched.service or service_in(labels, None)


def alert_namings(alert: Alert) -> Iterator[Naming]:
    """Who the alert may be about by its labels, its rule and its text, the best evidence first."""
    text = f"{alert.title}\n{alert.summary or ''}"
    # Dimensions name resources, which the catalogue knows; selectors name services.
    of_dimensions = alert.query is not None and alert.query.language == "metric"
    return namings(alert.labels, None if of_dimensions else reading_of(alert.query), text)


# The alert with what it watches: its rule's query, service and threshold, wherever they stand.

NOTE_LABELS = (
    "firing",
    "details.firing",
    "custom_details.firing",
    "description",
    "body",
    "details",
)
"""Details under which tools keep Alertmanager's text: its PagerDuty receiver calls it `firing`."""


def with_watched_signal(alert: Alert, catalogue: Collection[str] = ()) -> Alert:
    """The alert with its rule's query where any text of it holds one, and with what it watches.

    `catalogue` are the names of the service catalogue: such a service is never replaced.
    """
    alert = with_query(alert)
    watched = watched_signal(alert)
    update: dict[str, object] = {"watches": watched}
    if alert.service not in catalogue and _is_doubtful(alert):
        candidates = list(alert_namings(alert))
        catalogued = (naming for naming in candidates if naming.service in catalogue)
        naming = next(catalogued, candidates[0] if candidates else None)
        if naming is not None:
            update |= {"service": naming.service, "service_from": naming.source}
        elif is_exporter(alert.service or ""):
            update |= {"service": None, "service_from": None}
    if alert.signal and alert.signal_source is None:
        update["signal_source"] = SignalSource.NAMED
    return alert.model_copy(update=update)


def _is_doubtful(alert: Alert) -> bool:
    """Whether the sender names no service, or one that may not be what the rule is about.

    Labels such as `job` name the exporter where it measures for others. PagerDuty's service is the
    one that it pages, often a team.
    """
    if alert.service is None or is_exporter(alert.service):
        return True
    return alert.source == "pagerduty"


def with_query(alert: Alert) -> Alert:
    """The alert with the query that its labels, text or links hold, and with the labels of an
    Alertmanager note in them."""
    alert = _with_note(alert)
    if alert.query is not None:
        return alert
    for link in alert.links:
        query = query_of_url(link.url)
        if query is not None:
            return alert.model_copy(update={"query": query})
    query = next(queries_in(alert.summary or ""), None)
    return alert.model_copy(update={"query": query}) if query is not None else alert


def _with_note(alert: Alert) -> Alert:
    texts = [alert.labels[name] for name in NOTE_LABELS if name in alert.labels]
    for text in (*texts, alert.summary or ""):
        note = alertmanager_note(text)
        if note is None:
            continue
        # The sender's own labels win: a note in its text only adds to them.
        labels = {**_new(note.labels), **alert.labels}
        summary = alert.summary or note.annotations.get("summary")
        summary = summary or note.annotations.get("description")
        update = {"labels": labels, "summary": summary, "query": alert.query or note.query}
        return alert.model_copy(update=update)
    return alert


def _new(labels: Mapping[str, str]) -> dict[str, str]:
    # These decide which investigation an alert belongs to: its sender alone sets them.
    return {
        name: value for name, value in labels.items() if name not in ("fingerprint", "incident_key")
    }
