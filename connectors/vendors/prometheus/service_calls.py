"""Who calls whom, and how the calls go as their callers see them, from metrics that name both
sides."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from faultline.analysis.case.addresses import AddressBook
from faultline.analysis.case.alert_place import place_labels
from faultline.analysis.errors import FaultlineError
from faultline.analysis.kinds.signals import PEER
from faultline.analysis.vocabulary import Scope, Window
from faultline.connectors.shared.contract.base import Item, Missing
from faultline.connectors.shared.rows.collection_builder import (
    CallRow,
    CollectionBuilder,
    nanoseconds,
    sampled_windows,
)
from faultline.connectors.shared.vendor_text import first_of, short
from faultline.connectors.vendors.prometheus.call_metrics import (
    FIXED,
    INTERFACES,
    MAY_NAME_THE_OTHER_SIDE,
    CallMetric,
    client_metrics,
)
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.promql import (
    PromQuery,
    duration,
    quoted,
    selector,
    spelt,
    written,
)
from faultline.connectors.vendors.prometheus.query_choice import QueryChoice
from faultline.connectors.vendors.prometheus.range_queries import ask_all
from faultline.connectors.vendors.prometheus.request_metrics import (
    mean_latency,
    request_templates,
)
from faultline.connectors.vendors.prometheus.series import (
    PrometheusSelection,
    PrometheusSeries,
    subject_of,
)
from faultline.connectors.vendors.prometheus.templates import PromTemplate

MOST_CALLS = 5_000
LONGEST = timedelta(hours=6)
"""A longer range than that costs the server more than it tells."""
MOST_MEASURED = 400
"""Of more pairs only those of callers in scope are measured."""
LONGEST_NAME = 253
"""Of a host name (RFC 1035)."""
NOBODY = frozenset({"", "unknown", "user", "none", "PassthroughCluster", "BlackHoleCluster"})
"""What stands for a side that is not known: Istio's `unknown` and clusters, Tempo's client `user`,
Micrometer's `none`."""
CERTAINTY_OF_INTERFACE = 0.6
"""Of a callee that is known by the interface alone: another service may implement it too."""
_FQDN = re.compile(r"^([a-z0-9-]+)\.[a-z0-9-]+\.svc\b")
_HOST = re.compile(r"[\w-]+(\.[\w-]+)*\.[a-z]{2,}")
_PROVIDER = re.compile(r"@[a-z]+$")
_POD = re.compile(r"(.+?)(?:-[a-z0-9]{6,10})?-(?:[a-z0-9]{5}|\d+)")
"""A pod of a Deployment, a DaemonSet or a StatefulSet."""


@dataclass(frozen=True)
class CallAnswer:
    """What the server has of one metric: the labels of each series that counted a call."""

    metric: CallMetric
    promql: str
    window: Window
    series: Sequence[Mapping[str, str]] = ()
    failed: str | None = None

    @property
    def callees(self) -> Iterator[str]:
        """What its labels name as callees."""
        for labels in self.series:
            yield from (labels[label] for label in self.metric.callees if labels.get(label))


async def ask_calls(
    api: PrometheusApi,
    names: frozenset[str],
    scope: Scope,
    place: Mapping[str, str],
    spans: Sequence[Window],
) -> list[CallAnswer]:
    """The pairs of caller and callee that the server's metrics name, in the alert's place."""
    # From the nearest baseline's start to the incident's end.
    start = min(window.start for window in sampled_windows(scope))
    end = scope.incident.end
    window = Window(start=max(start, end - LONGEST), end=end)
    fixed = [metric for metric in FIXED if metric.metric in names]
    # A mesh counts twice what its two metrics count.
    metrics = [*fixed, *(await client_metrics(api, names, spans))]

    async def ask(metric: CallMetric) -> CallAnswer | None:
        try:
            labels = await api.labels_of([selector(metric.metric)], spans)
        # Without labels this metric is left out. The others stand.
        except FaultlineError:
            return None
        promql = query_of(metric, spelt(labels), place, window)
        if promql is None:
            return None
        answer = CallAnswer(metric, promql, window)
        try:
            series = await api.instant(promql, window.end)
        except FaultlineError as error:
            return replace(answer, failed=str(error))
        return replace(answer, series=[_plain_labels(pair.metric) for pair in series])

    answers = await asyncio.gather(*(ask(metric) for metric in metrics))
    return [answer for answer in answers if answer is not None]


def query_of(
    metric: CallMetric, labels: Mapping[str, str], place: Mapping[str, str], window: Window
) -> str | None:
    """The query for a metric that carries these labels (as they are spelt, by their plain names);
    None where they do not name both sides."""
    callers, callees = labels.keys() & metric.callers, labels.keys() & metric.callees
    is_other = metric.marked_by and metric.marked_by not in labels
    if is_other or not callees or not (callers or metric.caller):
        return None
    namespaces = (*metric.caller_namespaces, *metric.callee_namespaces)
    by = dict.fromkeys((*metric.callers, *metric.callees, *namespaces))
    sides = ", ".join(written(labels[label]) for label in by if label in labels)
    chosen = _selector(metric, labels, place)
    over = duration(round(window.seconds))
    # A counter of a call that nobody made any more is still there.
    counted = f"sum by ({sides}) (increase({chosen}[{over}]))"
    if metric.is_native:
        counted = f"histogram_count({counted})"
    elif metric.is_gauge:
        # An idle connection is one, too.
        return f"group by ({sides}) (last_over_time({chosen}[{over}]))"
    return f"{counted} > 0"


def _selector(metric: CallMetric, labels: Mapping[str, str], place: Mapping[str, str]) -> str:
    """The series of a metric in the alert's place."""
    matchers = [f'{written(labels[name])}="{quoted(value)}"' for name, value in metric.where]
    for label, value in place_labels(place, labels).items():
        matchers.append(f'{written(labels[label])}="{quoted(value)}"')
    name = selector(metric.metric)
    if name.startswith("{"):
        # A name that is not plain is a matcher itself.
        return f"{{{', '.join((name[1:-1], *matchers))}}}"
    return f"{name}{{{','.join(matchers)}}}" if matchers else name


def call_rows(
    answers: Iterable[CallAnswer], book: AddressBook, link_to: Callable[[str], str]
) -> CollectionBuilder:
    """The calls as rows of the table `topology`."""
    builder = CollectionBuilder()
    for answer in answers:
        if answer.failed is not None:
            builder.missing.append(Missing("topology", answer.promql, answer.failed))
            continue
        calls: dict[tuple[str, str], float | None] = {}
        for caller, callee, certainty in calls_of(answer.metric, answer.series, book):
            # None is the certainty of the source, which is above that of an interface.
            if calls.setdefault((caller, callee), certainty) is not None and certainty is None:
                calls[caller, callee] = None
        at = nanoseconds(answer.window.end)
        rows = []
        for pair, certainty in list(calls.items())[:MOST_CALLS]:
            rows.append(CallRow(*pair, answer.metric.source, at, certainty=certainty))
        cut = None
        if len(calls) > MOST_CALLS:
            cut = f"{len(calls) - MOST_CALLS} of {len(calls)} left out"
        count = builder.add("topology", rows)
        link = link_to(answer.promql)
        item = Item("topology", answer.promql, answer.window, link, rows=count, cut=cut)
        builder.items.append(item)
    return builder


def calls_of(
    metric: CallMetric, series: Iterable[Mapping[str, str]], book: AddressBook
) -> Iterator[tuple[str, str, float | None]]:
    """Caller, callee and certainty (None: that of the source) of each series that names two
    services."""
    for labels in series:
        namespace = _first(labels, metric.caller_namespaces)
        if metric.queue == "caller":
            caller = _queue(labels, metric.callers)
        else:
            caller = metric.caller or caller_of(metric, labels, namespace, book)
        if metric.queue == "callee":
            callee, certainty = _queue(labels, metric.callees), None
        else:
            callee, certainty = callee_of(metric, labels, book)
        if caller and callee and caller != callee:
            yield caller, callee, certainty


def caller_of(
    metric: CallMetric, labels: Mapping[str, str], namespace: str, book: AddressBook
) -> str | None:
    """The service in that namespace that makes a series of calls."""
    name = _filled(labels, metric.callers)
    if name is None:
        return None
    # OpenTelemetry's job is the service after its namespace; Hubble's names are written alike.
    space, _, name = name.rpartition("/")
    name = book.service_at(_workload(name, book)) or ""
    return book.service_in(name, namespace or space) if name else None


def callee_of(
    metric: CallMetric, labels: Mapping[str, str], book: AddressBook
) -> tuple[str | None, float | None]:
    """The service that a series of calls is about, and how certain that is."""
    for label in metric.callees:
        name = _filled(labels, (label,))
        if name is None:
            continue
        if label in INTERFACES:
            service = book.service_of_interface(name)
            return service, CERTAINTY_OF_INTERFACE
        service = service_named(metric, name, book)
        if label in MAY_NAME_THE_OTHER_SIDE and service not in book.services:
            # A database is named `orders_db` where its service is `orders-db`; Lettuce writes
            # `orders-cache/10.0.0.5:6379`.
            spellings = [name.replace("_", "-"), name.split("/")[0]]
            matches = [spelling for spelling in spellings if spelling in book.services]
            # Such a label may say anything, such as a path.
            is_host = service is not None and _HOST.fullmatch(service)
            service = matches[0] if matches else (service if is_host else None)
        if service is not None:
            space = _first(labels, metric.callee_namespaces) or name.rpartition("/")[0]
            return book.service_in(service, space), None
    return None, None


def service_named(metric: CallMetric, name: str, book: AddressBook) -> str | None:
    """The service that the value of a label names, in the manner of the metric."""
    if metric.callee_is == "cluster":
        # The service of Envoy's cluster: Istio's `outbound|9080||reviews.shop.svc.cluster.local`,
        # or a known service's name. Others are the proxy's own, such as `xds_cluster`.
        if name in book.services:
            return name
        # Inbound clusters lead to the service beside the proxy.
        host = name.rpartition("|")[2] if name.startswith("outbound|") else name
        return book.service_at(host) if _FQDN.match(host) else None
    if metric.callee_is == "route":
        # Traefik's `shop-cart-7070@kubernetes` or `cart@docker`: only a known service, since
        # namespaces and services may have hyphens.
        route = _PROVIDER.sub("", name)
        inside = [service for service in book.services if f"-{service}-" in f"-{route}-"]
        return min(inside, key=lambda service: (-len(service), service), default=None)
    if "://" not in name and metric.source == "network":
        name = name.rpartition("/")[2]
    return book.service_at(_workload(name, book))


def _workload(name: str, book: AddressBook) -> str:
    """The workload of a pod, where that is a known service."""
    pod = _POD.fullmatch(name)
    return pod[1] if pod and name not in book.services and pod[1] in book.services else name


def _filled(labels: Mapping[str, str], names: Sequence[str]) -> str | None:
    filled = {name: labels[name] for name in names if labels.get(name, "") not in NOBODY}
    name = first_of(filled, names)
    return short(name[: 2 * LONGEST_NAME], LONGEST_NAME) if name is not None else None


def _queue(labels: Mapping[str, str], names: Sequence[str]) -> str | None:
    """A queue or a topic by its name; None for those that a broker keeps for itself."""
    name = _filled(labels, names)
    return None if name is None or name.startswith("__") else name


def _first(labels: Mapping[str, str], names: Sequence[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _plain_labels(labels: Mapping[str, str]) -> dict[str, str]:
    return {plain: labels[label] for plain, label in spelt(labels).items()}


# The figures of the calls: rate, share of failures and durations of each pair, as the caller
# measures them. Where a caller waits and its callee is as fast as ever, the trouble lies between.


@dataclass(frozen=True)
class CallFigures:
    """One query about calls, with the metric that it is about."""

    metric: CallMetric
    selection: PrometheusSelection


async def ask_figures(
    api: PrometheusApi,
    choice: QueryChoice,
    names: frozenset[str],
    answers: Sequence[CallAnswer],
    scope: Scope,
    place: Mapping[str, str],
    spans: Sequence[Window],
) -> list[CallFigures]:
    """Rate, failures and durations of the calls that were seen."""
    figures: list[CallFigures] = []
    narrow = sum(len(answer.series) for answer in answers) > MOST_MEASURED
    services = scope.services if narrow else ()

    async def plan(metric: CallMetric) -> list[CallFigures]:
        templates = figure_templates(metric)
        queries = []
        for available in await choice.available(api, names, spans, templates):
            labels = spelt(available.labels)
            by = [labels[label] for label in metric.callees if label in labels]
            query = choice.default(available, scope, services, place, by) if by else None
            if query is not None:
                split_by = f"{query.split_by} of {metric.metric}"
                selection = PrometheusSelection(replace(query, split_by=split_by))
                queries.append(CallFigures(metric, selection))
        return queries

    measured = [answer.metric for answer in answers if answer.series and answer.metric.figures]
    for planned in await asyncio.gather(*(plan(metric) for metric in measured)):
        figures += planned
    selections = [figure.selection for figure in figures]
    await ask_all(api, selections, scope, spans, choice.step_s)
    return figures


def figure_templates(metric: CallMetric) -> list[PromTemplate]:
    """What is asked of the calls that a metric counts."""
    if metric.figures is None:
        return []
    source = metric.figures
    if not source.named_by:
        source = replace(source, named_by=metric.callers)
    templates = list(request_templates([source]))
    if not source.has_buckets and source.histogram:
        templates.append(mean_latency(source))
    return [replace(template, signal=f"client_{template.signal}") for template in templates]


def about_callees(figures: Iterable[CallFigures], book: AddressBook) -> list[PrometheusSelection]:
    """The answers with the callee of each series under the label `peer`; series without one, and
    those about a service itself, are left out."""
    selections = []
    for figure in figures:
        query = figure.selection.query
        series: dict[tuple[str, str], list[PrometheusSeries]] = {}
        for answer in figure.selection.series:
            callee, _ = callee_of(figure.metric, _plain_labels(answer.metric), book)
            caller = subject_of(answer.metric, query)
            if callee and caller and callee != caller:
                series.setdefault((caller, callee), []).append(answer)
        merged = []
        for (_, callee), parts in series.items():
            by = {label: parts[0].metric[label] for label in query.by if label in parts[0].metric}
            merged.append(PrometheusSeries({**by, PEER: callee}, together(parts, query)))
        selections.append(replace(figure.selection, series=merged))
    return selections


def together(parts: Sequence[PrometheusSeries], query: PromQuery) -> list[tuple[float, str]]:
    """One series of the calls to a service that answers at several addresses: their sum, or the
    worst of them."""
    if len(parts) == 1:
        return parts[0].values
    by_time: dict[float, list[float]] = {}
    for part in parts:
        for at, text in part.values:
            by_time.setdefault(at, []).append(float(text))
    is_rate = query.signal.endswith("_rate")
    return [
        (at, repr(sum(values) if is_rate else max(values)))
        for at, values in sorted(by_time.items())
    ]
