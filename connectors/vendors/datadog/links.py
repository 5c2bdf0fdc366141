"""Pages of Datadog's app that a person can open at the query and window that was asked.

The app's host goes by the site (docs.datadoghq.com, "Getting Started with Datadog Sites");
explorers take their state from the address: `query`, and `from_ts`/`to_ts` or `start`/`end` in ms.
The metric explorer's graph stands behind the `#`, as the JSON of a widget packed by lz-string.
Datadog documents that part nowhere; it is what its own address bar shows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote, urlencode

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.vendors.datadog.lz_string import packed

APP_HOSTS: Mapping[str, str] = {
    "datadoghq.com": "app.datadoghq.com",
    "us3.datadoghq.com": "us3.datadoghq.com",
    "us5.datadoghq.com": "us5.datadoghq.com",
    "ap1.datadoghq.com": "ap1.datadoghq.com",
    "ap2.datadoghq.com": "ap2.datadoghq.com",
    "uk1.datadoghq.com": "uk1.datadoghq.com",
    "datadoghq.eu": "app.datadoghq.eu",
    "ddog-gov.com": "app.ddog-gov.com",
    "us2.ddog-gov.com": "us2.ddog-gov.com",
}
"""The app's host by site; these are the sites there are."""
_METRIC = re.compile(
    r"[a-z0-9]{2,8}:[A-Za-z][\w.]{0,300}\{[^{}]{0,1000}\}(?:\s*by\s*\{[^{}]{0,200}\})?"
    r"(?:\.[a-z_]{1,40}\([^()]{0,200}\)){0,5}"
)
"""One query of a formula, with the functions that belong to it, such as `.as_count()`."""


class AppLinks:
    """Links into one organisation's app. `host` is the app's, or one of the organisation's own."""

    def __init__(self, host: str) -> None:
        self._base = f"https://{host}"

    def metrics(self, query: str, window: Window) -> str:
        """The metric explorer at the graph of a query, which may compute with several metrics."""
        # Paused, because a live page would move on to the present.
        params = {"start": _ms(window.start), "end": _ms(window.end), "paused": "true"}
        return f"{self._base}/metric/explorer?{urlencode(params)}#{packed(_widget(query))}"

    def logs(self, query: str, window: Window) -> str:
        """The log explorer."""
        return self._live("/logs", query, window)

    def events(self, query: str, window: Window) -> str:
        """The event explorer."""
        return self._live("/event/explorer", query, window)

    def spans(self, query: str, window: Window) -> str:
        """The trace explorer."""
        return self._paused("/apm/traces", query, window)

    def pipelines(self, query: str, window: Window) -> str:
        """The CI pipeline executions."""
        return self._paused("/ci/pipeline-executions", query, window)

    def trace(self, trace_id: str) -> str:
        """One trace."""
        return f"{self._base}/apm/trace/{quote(trace_id, safe='')}"

    def monitor(self, monitor_id: int, window: Window) -> str:
        """A monitor's page with its history."""
        params = {"from_ts": _ms(window.start), "to_ts": _ms(window.end), "live": "false"}
        return f"{self._base}/monitors/{monitor_id}?{urlencode(params)}"

    def monitors(self, query: str) -> str:
        """The list of monitors."""
        return f"{self._base}/monitors/manage?{urlencode({'q': query})}"

    def issues(self, query: str, window: Window) -> str:
        """Error tracking."""
        params = {"query": query, "from_ts": _ms(window.start), "to_ts": _ms(window.end)}
        return f"{self._base}/error-tracking?{urlencode(params)}"

    def issue(self, issue_id: str) -> str:
        """One issue of error tracking."""
        return f"{self._base}/error-tracking/issue/{quote(issue_id, safe='')}"

    def service(self, service: str) -> str:
        """A service's entry in the catalogue."""
        return f"{self._base}/services?{urlencode({'selectedService': service})}"

    def deployments(self, window: Window) -> str:
        """The deployments of DORA metrics."""
        return (
            f"{self._base}/ci/"
            f"dora?{urlencode({'start': _ms(window.start), 'end': _ms(window.end)})}"
        )

    def _live(self, path: str, query: str, window: Window) -> str:
        params = {
            "query": query,
            "from_ts": _ms(window.start),
            "to_ts": _ms(window.end),
            "live": "false",
        }
        return f"{self._base}{path}?{urlencode(params)}"

    def _paused(self, path: str, query: str, window: Window) -> str:
        params = {
            "query": query,
            "start": _ms(window.start),
            "end": _ms(window.end),
            "paused": "true",
        }
        return f"{self._base}{path}?{urlencode(params)}"


def in_formula(query: str) -> tuple[list[dict[str, str]], str]:
    """Each metric of a query as one with a name, and the formula that computes with the names."""
    queries: list[dict[str, str]] = []

    def named(metric: re.Match[str]) -> str:
        # The explorer's formula refers to its queries by name.
        name = f"query{len(queries) + 1}"
        queries.append({"name": name, "data_source": "metrics", "query": metric[0]})
        return name

    return queries, _METRIC.sub(named, query)


def _widget(query: str) -> str:
    """The graph as the explorer keeps it."""
    queries, formula = in_formula(query)
    request = {
        "response_format": "timeseries",
        "queries": queries,
        "formulas": [{"formula": formula}],
    }
    widget = {
        "layout": {"x": 1, "y": 1, "width": 1, "height": 1},
        "definition": {"type": "timeseries", "requests": [request]},
    }
    return msgspec.json.encode({"widget": widget, "splitConfig": None}).decode()


def _ms(at: datetime) -> str:
    return str(round(at.timestamp() * 1000))
