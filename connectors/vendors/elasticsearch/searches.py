"""The searches that are sent, and links to the same in Kibana's Discover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.collection_builder import epoch_ms
from faultline.connectors.shared.rows.log_windows import BAD_WORDS, FAILING, CountGrid
from faultline.connectors.vendors.elasticsearch.answers import MOST_LEVELS
from faultline.connectors.vendors.elasticsearch.fields import LogFields

SEARCH_TIMEOUT = "10s"
"""After that time shards give what they have found so far, and say so."""
NO_LEVEL = "none"
MOST_NAMES = 1000

Clause = dict[str, Any]


@dataclass(frozen=True)
class Search:
    """Lines to look for: clauses that all must hold, and the same in Kibana's language (KQL)."""

    clauses: tuple[Clause, ...]
    kql: str

    def also(self, clause: Clause, kql: str) -> Search:
        """The same with one more condition."""
        return Search((*self.clauses, clause), f"{self.kql} and {kql}")

    def lines(self, fields: LogFields, window: Window, limit: int, after_ms: int) -> Clause:
        """The first lines of a window, oldest first."""
        # In ns, whichever of the two types of dates an index has.
        order = {"order": "asc", "numeric_type": "date_nanos", "unmapped_type": "date"}
        return {
            "query": self._within(fields, after_ms, epoch_ms(window.end)),
            "size": limit,
            "sort": [{fields.time: order}],
            # `event.original` repeats the line.
            "_source": {"excludes": ["event.original"]},
            "timeout": SEARCH_TIMEOUT,
            "track_total_hits": False,
        }

    def counts(self, fields: LogFields, grid: CountGrid) -> Clause:
        """How many in each step, by level where lines have one."""
        end_s = grid.start_s + grid.steps * grid.step_s
        per_step = {
            "date_histogram": {
                "field": fields.time,
                "fixed_interval": f"{grid.step_s}s",
                "min_doc_count": 1,
            }
        }
        aggs: Clause = {"steps": per_step}
        if fields.level:
            # Lines without a level are counted, too.
            terms = {"field": fields.level, "size": MOST_LEVELS, "missing": NO_LEVEL}
            aggs = {"levels": {"terms": terms, "aggs": {"steps": per_step}}}
        return {
            "query": self._within(fields, grid.start_s * 1000, end_s * 1000),
            "size": 0,
            "aggs": aggs,
            "timeout": SEARCH_TIMEOUT,
            "track_total_hits": False,
        }

    def _within(self, fields: LogFields, start_ms: int, end_ms: int) -> Clause:
        return {"bool": {"filter": [between(fields, start_ms, end_ms), *self.clauses]}}


def between(fields: LogFields, start_ms: int, end_ms: int) -> Clause:
    """Times from start to before end."""
    bounds = {"gte": start_ms, "lt": end_ms, "format": "epoch_millis"}
    return {"range": {fields.time: bounds}}


def names_of_services(
    fields: LogFields, window: Window, names: Sequence[str], place: Mapping[str, str]
) -> Clause:
    """The values of the fields that may name a service: those given in any case, or all."""
    filters = [between(fields, epoch_ms(window.start), epoch_ms(window.end))]
    filters += [{"term": {name: {"value": value}}} for name, value in place.items()]
    if names:
        either = []
        for field in fields.services:
            for name in names:
                either.append({"term": {field: {"value": name, "case_insensitive": True}}})
        filters.append({"bool": {"should": either, "minimum_should_match": 1}})
    aggs = {}
    for number, field in enumerate(fields.services):
        aggs[f"names{number}"] = {"terms": {"field": field, "size": MOST_NAMES}}
    return {
        "query": {"bool": {"filter": filters}},
        "size": 0,
        "aggs": aggs,
        "timeout": SEARCH_TIMEOUT,
        "track_total_hits": False,
    }


def of_service(field: str, values: Sequence[str], place: Mapping[str, str]) -> Search:
    """The lines of a service, in a place where there is one: values by field."""
    search = Search(({"terms": {field: list(values)}},), _either(field, values))
    for name, value in place.items():
        search = search.also({"term": {name: {"value": value}}}, _either(name, [value]))
    return search


def errors(search: Search, fields: LogFields) -> Search:
    """Those of its lines that are errors."""
    if fields.level:
        # Terms match exactly, and levels come in three spellings.
        levels = []
        for level in sorted(FAILING):
            levels += [level, level.upper(), level.capitalize()]
        return search.also({"terms": {fields.level: levels}}, _either(fields.level, levels))
    return with_words(search, fields, BAD_WORDS)


def with_words(search: Search, fields: LogFields, words: Sequence[str]) -> Search:
    """Those of its lines that say one of the words."""
    either, kql = [], []
    for field in fields.messages or ("message",):
        either.append({"match": {field: {"query": " ".join(words), "operator": "or"}}})
        kql.append(_either(field, words))
    clause = {"bool": {"should": either, "minimum_should_match": 1}}
    return search.also(clause, f"({' or '.join(kql)})")


def _either(field: str, values: Sequence[str]) -> str:
    texts = []
    for value in values:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        texts.append(f'"{escaped}"')
    return f"{field}:{texts[0]}" if len(texts) == 1 else f"{field}:({' or '.join(texts)})"


def discover(base: str, data_view: str | None, kql: str, window: Window) -> str:
    """The lines in Kibana's Discover; OpenSearch Dashboards takes the same address."""
    view = f"index:{_rison(data_view)}," if data_view else ""
    start, end = (at.strftime("%Y-%m-%dT%H:%M:%S.%fZ") for at in (window.start, window.end))
    times = f"(time:(from:{_rison(start)},to:{_rison(end)}))"
    state = f"({view}query:(language:kuery,query:{_rison(kql)}))"
    safe = "():,!'*"
    return f"{base}/app/discover#/?_g={quote(times, safe=safe)}&_a={quote(state, safe=safe)}"


def _rison(text: str) -> str:
    return "'" + text.replace("!", "!!").replace("'", "!'") + "'"
