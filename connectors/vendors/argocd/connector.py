"""Argo CD: syncs of applications, with revision, time and author; applications that are unhealthy
or out of sync; and syncs that failed.

As its published description has it (argoproj/argo-cd, assets/swagger.json): GET
/api/v1/applications alone, which holds the history of each application.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from urllib.parse import quote, urlencode

import msgspec

from faultline.analysis.errors import SettingsError
from faultline.analysis.vocabulary import ChangeKind, EvidenceKind, Window
from faultline.connectors.shared.changes.change_feeds import (
    USUAL_LIMITS,
    ChangeFeed,
    ChangeFeeds,
    FeedAnswer,
    VendorChange,
    moment,
    person,
)
from faultline.connectors.shared.http.linked_pages import LinkedSession, query_of
from faultline.connectors.shared.rows.collection_builder import StateRow
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.argocd import ArgoCDSettings

APPLICATIONS = "/api/v1/applications"
FAILED = {"Failed": "failed", "Error": "failed", "Running": "still running"}
AT_FAULT = frozenset({"Degraded", "Missing", "Unknown"})
SHORT_HASH = 12
LONGEST_ADDRESS = 300
_RETRYING = re.compile(r"[. ]*Retrying attempt #.*")


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Source(msgspec.Struct):
    repoURL: str = ""
    path: str = ""
    chart: str = ""


class _Initiator(msgspec.Struct):
    username: str = ""
    automated: bool = False


class _Destination(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class SyncedRevision(msgspec.Struct):
    """One entry of an application's history, the oldest first. Several sources have several
    revisions."""

    deployedAt: str = ""
    revision: str = ""
    revisions: list[str] = msgspec.field(default_factory=list)
    source: _Source = msgspec.field(default_factory=_Source)
    sources: list[_Source] = msgspec.field(default_factory=list)
    initiatedBy: _Initiator = msgspec.field(default_factory=_Initiator)

    @property
    def named(self) -> str:
        """The revision, or those of all sources."""
        return self.revision or ", ".join(revision for revision in self.revisions if revision)


class _Sync(msgspec.Struct):
    status: str = ""
    revision: str = ""


class _Health(msgspec.Struct):
    status: str = ""
    message: str = ""
    lastTransitionTime: str | None = None


class _Operation(msgspec.Struct):
    initiatedBy: _Initiator = msgspec.field(default_factory=_Initiator)


class _SyncResult(msgspec.Struct):
    revision: str = ""


class SyncOperation(msgspec.Struct):
    """The latest sync of an application."""

    phase: str = ""
    message: str = ""
    startedAt: str | None = None
    operation: _Operation = msgspec.field(default_factory=_Operation)
    syncResult: _SyncResult | None = None


class _Automated(msgspec.Struct):
    selfHeal: bool = False


class _SyncPolicy(msgspec.Struct):
    automated: _Automated | None = None


class _Repository(msgspec.Struct):
    """Where an application's manifests or its chart are kept."""

    repoURL: str | None = None
    chart: str | None = None


class _Spec(msgspec.Struct):
    source: _Repository | None = None
    sources: list[_Repository] | None = None
    syncPolicy: _SyncPolicy = msgspec.field(default_factory=_SyncPolicy)
    destination: _Destination = msgspec.field(default_factory=_Destination)
    project: str = ""


class _Status(msgspec.Struct):
    history: list[SyncedRevision] | None = None
    sync: _Sync = msgspec.field(default_factory=_Sync)
    health: _Health = msgspec.field(default_factory=_Health)
    operationState: SyncOperation | None = None


class Application(msgspec.Struct):
    """The fields of an application that are read."""

    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def restores_as(self) -> str:
        """What restores the state in Git where somebody changes the cluster by hand; without
        self-healing, the next sync does."""
        automated = self.spec.syncPolicy.automated
        return (
            "Argo CD with self-heal" if automated is not None and automated.selfHeal else "Argo CD"
        )

    @property
    def repository(self) -> str:
        """Where its manifests are kept, "" where it is a chart."""
        for source in (self.spec.source, *(self.spec.sources or ())):
            if source is not None and source.repoURL and not source.chart:
                return short(source.repoURL, LONGEST_ADDRESS)
        return ""

    def failing_sync(self) -> Iterable[StateRow]:
        """A row where the latest sync failed: what is in Git does not reach the cluster."""
        latest = self.status.operationState
        if latest is None or FAILED.get(latest.phase) != "failed":
            return
        # "one or more objects failed to apply, reason: ... Retrying attempt #5 at 9:14AM."
        reason = _RETRYING.sub("", latest.message.partition("reason: ")[2] or latest.message)
        name = short(self.metadata.name, 100)
        yield StateRow(
            kind="Application",
            name=name,
            fact="sync_failed",
            service=name,
            field="status.operationState",
            value=short(reason, 300) or None,
            since=moment(latest.startedAt),
        )


class ApplicationList(msgspec.Struct):
    """GET /api/v1/applications. Without any application `items` is null."""

    items: list[Application] | None


class ArgoCD(ChangeFeeds[ArgoCDSettings]):
    """Syncs of a server's applications."""

    name = "argocd"
    kinds: tuple[EvidenceKind, ...] = ("changes", "states")
    title = "Argo CD"
    needs = "`applications, get` in its RBAC"
    required = ("url",)
    usual_limits = replace(USUAL_LIMITS, max_bytes=64 * 1024 * 1024)
    """An application takes some 10 KB, with hundreds of resources 100 KB."""

    def __init__(self, section: ArgoCDSettings, names: ServiceNames) -> None:
        if section.username is not None:
            raise SettingsError("argocd.username", "is not used: Argo CD takes tokens alone")
        super().__init__(section, names)

    def feeds(self) -> Sequence[ChangeFeed]:
        """The applications with their histories."""
        return [ChangeFeed("applications", self._read)]

    async def _read(self, session: LinkedSession, window: Window) -> FeedAnswer:
        params = [("projects", project) for project in self._section.projects]
        answer = await session.get(APPLICATIONS, params, type=ApplicationList)
        counted = [application for application in answer.items or () if self._counts(application)]
        changes = [change for application in counted for change in self._syncs(application)]
        link = f"{self._http.base_url}/applications"
        if self._section.projects:
            link += f"?{urlencode({'proj': ','.join(self._section.projects)})}"
        details = {}
        for application in counted:
            if words := _state_of(application):
                details[short(application.metadata.name, 100)] = words
        repositories = {}
        for application in counted:
            if address := application.repository:
                repositories[short(application.metadata.name, 100)] = address
        return FeedAnswer(
            changes,
            query_of(APPLICATIONS, params),
            link,
            details=details,
            repositories=repositories,
            states=[row for application in counted for row in application.failing_sync()],
        )

    def _counts(self, application: Application) -> bool:
        """Whether its cluster or its namespace is one that counts."""
        target = application.spec.destination
        places = [target.name, target.namespace]
        # The settings may name clusters or namespaces, so one match is enough.
        if self._environments:
            return any(self.counts(place) for place in places)
        return all(self.counts(place) for place in (*places, application.metadata.name))

    def _syncs(self, application: Application) -> Iterable[VendorChange]:
        """Each sync that is kept, with the revision before it; then a sync that did not end
        well."""
        name, history = application.metadata.name, application.status.history or []
        link = self._link(application)
        # The history is oldest first, so each sync follows the revision that it replaced.
        for before, sync in pairwise((None, *history)):
            if sync is not None and (at := moment(sync.deployedAt)) and sync.named:
                title = f"Argo CD synced {short(name, 80)}{_step(before, sync)}"
                by = sync.initiatedBy
                author = person(by.username) or ("automated sync" if by.automated else None)
                yield VendorChange(
                    at, "deploy", sync.named, title, author, link, about=name, owner=name,
                    before=_short(before.named) if before is not None else "",
                    after=_short(sync.named), restored_by=application.restores_as,
                )  # fmt: skip
        # The history holds syncs that succeeded; the latest operation tells of one that did not.
        latest = application.status.operationState
        if latest is not None and latest.phase in FAILED and (at := moment(latest.startedAt)):
            revision = (latest.syncResult and latest.syncResult.revision) or name
            phrase = f"{FAILED[latest.phase]}: {short(latest.message, 100)}"
            title = f"Argo CD sync of {short(name, 60)} {phrase}"
            author = person(latest.operation.initiatedBy.username)
            # What could not be applied is in Git and not in the cluster, as a merge is.
            kind: ChangeKind = "deploy" if latest.phase == "Running" else "merge"
            yield VendorChange(at, kind, revision, title, author, link, about=name, owner=name)

    def _link(self, application: Application) -> str:
        metadata = application.metadata
        parts = [quote(part, safe="") for part in (metadata.namespace, metadata.name) if part]
        return "/".join((self._http.base_url, "applications", *parts))


def _step(before: SyncedRevision | None, after: SyncedRevision) -> str:
    """The revisions before and after, and the chart or path."""
    new = _short(after.named)
    # An application with several sources has lists of sources and revisions.
    source = after.source if after.revision else next(iter(after.sources), _Source())
    what = f" ({short(source.chart or source.path, 60)})" if source.chart or source.path else ""
    if before is None or not before.named:
        return f": {new}{what}"
    if before.named == after.named:
        return f" again: {new}{what}"
    return f": {_short(before.named)} -> {new}{what}"


def _short(revision: str) -> str:
    parts = [short(part, SHORT_HASH + 1).rstrip("…") for part in revision.split(", ")[:3]]
    return ", ".join(part[:SHORT_HASH] for part in parts)


def _state_of(application: Application) -> str | None:
    """What is wrong with it now; None where nothing is."""
    health, sync = application.status.health, application.status.sync
    problems = []
    if health.status in AT_FAULT:
        since = (
            f" since {short(health.lastTransitionTime, 30)}" if health.lastTransitionTime else ""
        )
        message = f": {short(health.message, 120)}" if health.message else ""
        problems.append(f"{health.status}{since}{message}")
    if sync.status == "OutOfSync":
        problems.append("out of sync")
    return "; ".join(problems) or None
