"""Who uses a database, a pool or a cache, by its exporter's labels: services that call it, and one
that takes it over from the others."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from faultline.analysis.vocabulary import Window
from faultline.analysis.wording.phrases import number
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import (
    CallRow,
    CollectionBuilder,
    StateRow,
    nanoseconds,
)
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.prometheus.batch_jobs import BatchJob, jobs_by_name
from faultline.connectors.vendors.prometheus.evidence_items import EvidenceItems
from faultline.connectors.vendors.prometheus.exporter_facts import service_in
from faultline.connectors.vendors.prometheus.exporter_metrics import ExporterMetric
from faultline.connectors.vendors.prometheus.exporter_queries import ExporterAnswer
from faultline.connectors.vendors.prometheus.series import subject_of

MORE_SHARE = 0.25
"""By how much a user's part of the whole must have risen: below that it is one of many."""
OF_RISE = 0.5
"""Its part of what the whole took more: where all took more, none took it over."""
MINOR = 0.25
"""Who had a smaller part before, and now takes alone as much as all did, has taken over, however
long the others wait."""
ASKS_MORE = 1.5
PAST_PEAK = 1.5
"""Times the most that it took in the baseline: a job of every ten minutes is not new."""
LEAST_POINTS = 3
LEAST_PAST = 5
NONE = 0.005
"""A smaller share counts as none."""
SOURCE = "database_users"
UNKNOWN_USER = "taken_over_by_user"
"""The fact about a store whose user is no known service or job."""

SERVICE = "Service"


@dataclass(frozen=True)
class StoreUser:
    """Who a label of an exporter means. `kind` is "" where that is no known service or job."""

    name: str
    kind: str = ""
    namespace: str = ""


Course = dict[float, float]
"""What a user takes, by time in s."""


@dataclass(frozen=True)
class UserCatalogue:
    """The services and jobs by whose names users may be called."""

    services: Collection[str]
    jobs: Mapping[str, BatchJob]

    @classmethod
    def of(cls, services: Collection[str], jobs: Iterable[BatchJob]) -> UserCatalogue:
        return cls(services, jobs_by_name(jobs))

    def user(self, labels: Mapping[str, str], metric: ExporterMetric, store: str) -> StoreUser:
        """By the first label that names somebody who is known, else by the last that is filled."""
        last = ""
        for label in metric.users:
            value = labels.get(f"exported_{label}") or labels.get(label) or ""
            last = value or last
            # Users are called `reports_rw` or `svc-reports`.
            match = service_in(value, {*self.services, *self.jobs})
            if match and match != store:
                # Of a job's containers there are metrics too, as of a service's.
                job = self.jobs.get(match)
                if job is not None:
                    return StoreUser(job.name, job.kind, job.namespace)
                return StoreUser(match, SERVICE)
        return StoreUser(last)


@dataclass(frozen=True)
class StoreCourses:
    """What each user of one store took, and all together, before and in the incident."""

    users: Mapping[StoreUser, Course]
    whole: Course
    past: Sequence[float]
    now: Sequence[float]

    @classmethod
    def by_store(
        cls, answer: ExporterAnswer, catalogue: UserCatalogue, incident: Window
    ) -> dict[str, StoreCourses]:
        """Those of each store that an answer is about."""
        users: dict[str, dict[StoreUser, Course]] = defaultdict(dict)
        for series in answer.selection.series:
            store = subject_of(series.metric, answer.selection.query)
            user = catalogue.user(series.metric, answer.metric, store)
            if not store or not user.name:
                continue
            course = users[store].setdefault(user, {})
            for at, text in series.values:
                value = float(text)
                if math.isfinite(value):
                    course[at] = course.get(at, 0.0) + value
        return {store: cls.of(of_store, incident) for store, of_store in users.items()}

    @classmethod
    def of(cls, users: Mapping[StoreUser, Course], incident: Window) -> StoreCourses:
        start, end = incident.start.timestamp(), incident.end.timestamp()
        whole: Course = defaultdict(float)
        for course in users.values():
            for at, value in course.items():
                whole[at] += value
        times = sorted(at for at in whole if at <= end)
        past = [at for at in times if at < start]
        return cls(users, whole, past, times[len(past) :])

    def before(self, course: Course) -> float:
        """Its mean before the incident. Who does not stand there takes nothing."""
        return sum(course.get(at, 0.0) for at in self.past) / len(self.past)

    def share_before(self, course: Course) -> float:
        """Its part of the whole before the incident."""
        whole = self.before(self.whole)
        return self.before(course) / whole if whole > 0 else 0.0

    def taken_over(self, course: Course, least: float) -> list[float]:
        """When it took the store over, with at least so much."""
        least = max(least, PAST_PEAK * max(course.get(at, 0.0) for at in self.past))
        before, whole_before = self.before(course), self.before(self.whole)
        share_before = self.share_before(course)
        times = []
        for at in self.now:
            value = course.get(at, 0.0)
            rise = value - before
            has_more = value >= (share_before + MORE_SHARE) * self.whole[at]
            took_most = has_more and rise >= OF_RISE * (self.whole[at] - whole_before)
            took_as_much = share_before <= MINOR and rise >= whole_before > 0
            if value >= least and (took_most or took_as_much):
                times.append(at)
        return times

    def strongest(
        self, least: float, demand: StoreCourses | None
    ) -> tuple[StoreUser, list[float]] | None:
        """The user that took most more, with the times at which it had taken the store over."""
        most, strongest = 0.0, None
        for user, course in self.users.items():
            taken = self.taken_over(course, least)
            if len(taken) < LEAST_POINTS or not self.asks_more(course, demand, user, taken):
                continue
            more = sum(course[at] for at in taken) / len(taken) - self.before(course)
            if more > most:
                most, strongest = more, (user, taken)
        return strongest

    def words(self, course: Course, taken: Sequence[float]) -> str:
        """How much it took at these times, of what `{says}` names."""
        value, whole = sum(course[at] for at in taken), sum(self.whole[at] for at in taken)
        share_before = self.share_before(course)
        if value / whole < share_before + MORE_SHARE:
            times = number(value / len(taken) / self.before(self.whole), 2)
            return f"{times}x as much of {{says}} as all users before"
        earlier = "none" if share_before < NONE else f"{number(100 * share_before, 2)} %"
        return f"{number(100 * value / whole, 2)} % of {{says}} ({earlier} before)"

    def asks_more(
        self, course: Course, demand: StoreCourses | None, user: StoreUser, taken: Sequence[float]
    ) -> bool:
        """Whether it takes more because it asks for more: who waits for a busy database takes
        longer, and opens more connections."""
        if demand is None or not demand.past:
            return self.before(course) == 0
        requests = demand.users.get(user, {})
        now = sum(requests.get(at, 0.0) for at in taken) / len(taken)
        return now >= ASKS_MORE * demand.before(requests)


def add_store_users(
    answers: Iterable[ExporterAnswer],
    catalogue: UserCatalogue,
    incident: Window,
    topology: CollectionBuilder,
    evidence: EvidenceItems,
) -> list[StateRow]:
    """Add the calls of services to what they use; gives the users that took something over."""
    courses: dict[tuple[str, str], dict[str, StoreCourses]] = {}
    by_users = [answer for answer in answers if answer.metric.users]
    for answer in by_users:
        stores = StoreCourses.by_store(answer, catalogue, incident)
        courses[answer.metric.exporter, answer.metric.signal] = stores
        at = nanoseconds(incident.end)
        pairs = [(user, store) for store, of_store in stores.items() for user in of_store.users]
        calls = [
            CallRow(user.name, store, SOURCE, at) for user, store in pairs if user.kind == SERVICE
        ]
        if calls:
            query = answer.selection.query.promql
            count = topology.add("topology", calls)
            link = evidence.link(query)
            topology.items.append(Item("topology", query, incident, link, rows=count))
    rows: dict[tuple[str, str], StateRow] = {}
    for answer in by_users:
        metric = answer.metric
        demand = courses.get((metric.exporter, metric.demand), {})
        for store, of_store in courses[metric.exporter, metric.signal].items():
            row = taken_over_row(answer, store, of_store, demand.get(store))
            if row is not None:
                # The first entry that tells of it says it best.
                rows.setdefault((row.name, store), row)
    return list(rows.values())


def taken_over_row(
    answer: ExporterAnswer, store: str, courses: StoreCourses, demand: StoreCourses | None
) -> StateRow | None:
    """The user that took most more, where it took the store over."""
    metric = answer.metric
    if metric.beyond is None or len(courses.past) < LEAST_PAST:
        return None
    strongest = courses.strongest(metric.beyond, demand)
    if strongest is None:
        return None
    user, taken = strongest
    whose = f"{short(store, 120)}'s" if user.kind else "its"
    value = courses.words(courses.users[user], taken)
    value = value.replace("{says}", metric.says.replace("{whose}", whose))
    row = StateRow(
        kind=user.kind,
        name=short(user.name, 120),
        fact=metric.fact or "",
        namespace=short(user.namespace, 100) or None,
        service=short(store, 120),
        field=metric.signal,
        value=value,
        since=datetime.fromtimestamp(taken[0], UTC),
        query=answer.selection.query.promql,
    )
    if user.kind:
        return row
    # Nobody in the catalogue can be accused, so it is said of the store.
    return row._replace(
        kind=metric.object_kind,
        name=short(store, 120),
        fact=UNKNOWN_USER,
        value=f"{short(user.name, 100)} takes {value}",
    )
