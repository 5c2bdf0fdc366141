"""The alert with what it watches: its rule's query, service and threshold, wherever they stand."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from faultline.analysis.alert_signal.deriving import service_of, watched_signal
from faultline.analysis.alert_signal.query_reading import is_exporter
from faultline.analysis.alert_signal.rule_texts import alertmanager_note, queries_in, query_of_url
from faultline.analysis.alert_signal.series import alerting_series, in_unit
from faultline.analysis.kinds.watched_signals import SignalSource
from faultline.analysis.vocabulary import Alert

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
        update["service"] = service_of(watched, alert.labels) or alert.service
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
    return alert.source == "pagerduty" and alert.query is not None


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


def with_alerting_series(alert: Alert, metrics: pl.DataFrame) -> Alert:
    """The alert with the name of its signal among the metrics that were collected, where it names
    none itself, and with the rule's threshold in that series' unit."""
    watched = alert.watches
    if watched is None or alert.service is None or alert.signal is not None:
        return alert
    series = alerting_series(metrics, alert.service, watched, alert.title)
    if series is None:
        return alert
    update: dict[str, object] = {"signal": series.signal, "signal_source": watched.source}
    if alert.threshold is None and watched.threshold is not None:
        update["threshold"] = in_unit(watched, series)
    return alert.model_copy(update=update)
