"""Revisions of Cloud Run services as changes: who deployed them, what differs from the one before,
and why one did not become ready.

`projects.locations.services.revisions.list` of the Cloud Run Admin API v2, the newest first. It
takes no region for all, so the regions are those that series, lines and audit entries name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.collection_builder import nanoseconds, time_of
from faultline.connectors.shared.rows.log_windows import Row
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kubernetes.pod_templates import Facts, TemplateDifference, facts

MOST_REVISIONS, MOST_PLACES = 50, 10
DEPLOYED_WITHIN_S = (-5, 120)
"""An audit entry is from when the call began, and its revision is made within seconds of that. The
longer end is our choice."""

RunPlace = tuple[str, str]
"""A service's name at Google, and its region."""


class _RunCondition(msgspec.Struct):
    type: str = ""
    state: str = ""
    message: str = ""


class _RunScaling(msgspec.Struct):
    minInstanceCount: int | None = None
    maxInstanceCount: int | None = None


class RunRevision(msgspec.Struct):
    """The fields of a revision that are read."""

    name: str = ""
    createTime: str = ""
    creator: str = ""
    containers: list[dict[str, Any]] = []
    conditions: list[_RunCondition] = []
    scaling: _RunScaling | None = None
    maxInstanceRequestConcurrency: int | None = None
    timeout: str | None = None
    serviceAccount: str | None = None

    @property
    def short_name(self) -> str:
        """Such as `checkout-00042-abc`."""
        return short(self.name.rpartition("/")[2], 100)

    @property
    def trouble(self) -> str | None:
        """Why it did not become ready."""
        for condition in self.conditions:
            if condition.type == "Ready" and condition.state == "CONDITION_FAILED":
                return short(condition.message, 160) or "no reason given"
        return None

    @property
    def facts(self) -> Facts:
        """What it says, as that of a pod template; values of variables are never shown."""
        template_facts = facts({"spec": {"containers": self.containers}})
        scaling = self.scaling or _RunScaling()
        settings = {
            "minInstances": scaling.minInstanceCount,
            "maxInstances": scaling.maxInstanceCount,
            "concurrency": self.maxInstanceRequestConcurrency,
            "timeout": self.timeout,
            "serviceAccount": self.serviceAccount,
        }
        for key, value in settings.items():
            if value is not None:
                template_facts[key] = (short(str(value), 120), str(value))
        return template_facts


class RevisionsAnswer(msgspec.Struct):
    """What the call answers."""

    revisions: list[RunRevision] = []
    nextPageToken: str = ""


def revisions_path(project: str, place: RunPlace) -> str:
    """Where the revisions of a service are listed; `-` stands for any service."""
    name, region = (quote(part[:100], safe="") for part in place)
    return f"/v2/projects/{quote(project, safe=':')}/locations/{region}/services/{name}/revisions"


def revisions_link(console: str, project: str, place: RunPlace) -> str:
    """The same in the console."""
    name, region = (quote(part[:100], safe="") for part in place)
    return f"{console}/run/detail/{region}/{name}/revisions?project={project}"


def revision_rows(
    run_revisions: Sequence[RunRevision],
    service: str,
    region: str,
    window: Window,
    link: str,
    has_all: bool,
) -> list[Row]:
    """Rows of the table `changes`, of the revisions that were made in the window."""
    rows: list[Row] = []
    start, end = nanoseconds(window.start), nanoseconds(window.end)
    # The newest comes first, so its predecessor is the next in the list.
    for run_revision, before in zip(run_revisions, (*run_revisions[1:], None), strict=False):
        at = time_of(run_revision.createTime)
        # The last of a cut list has a predecessor that was not read.
        if at is None or not start <= at < end or (before is None and not has_all):
            continue
        difference = TemplateDifference(before.facts if before else None, run_revision.facts)
        title = f"Cloud Run revision {run_revision.short_name} in {region}: {difference.summary()}"
        if run_revision.trouble:
            title += f"; not ready: {run_revision.trouble}"
        author, diff = (
            short(run_revision.creator, 120) or None,
            "\n".join(difference.lines()) or None,
        )
        identity = f"{run_revision.short_name} {short(region, 40)}"
        cells = ("deploy", identity, short(title, 400), author, link, None, diff)
        rows.append((at, service, *cells, *difference.versions))
    return rows


def without_duplicates(
    audited: Iterable[Row], of_run: frozenset[str], revisions: Iterable[Row]
) -> list[Row]:
    """The rows of the audit log without those that a revision tells of. `of_run` holds the ids of
    the rows that are about Cloud Run."""
    made: dict[str, list[int]] = {}
    for at, service, *_ in revisions:
        made.setdefault(service, []).append(at)
    earliest, latest = DEPLOYED_WITHIN_S
    rows = []
    for row in audited:
        at, service, _, identity = row[:4]
        delays = [(made_at - at) / 1_000_000_000 for made_at in made.get(service, ())]
        # The audit entry comes first: it is written when the call begins.
        is_duplicate = any(earliest <= delay <= latest for delay in delays)
        if not (is_duplicate and identity in of_run):
            rows.append(row)
    return rows
