"""Sentry: a release of checkout brought an error that was not there before, beside one that was
always there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply

READING_POSTS: frozenset[str] = frozenset()
ORGANIZATION, PROJECT = "/api/0/organizations/acme", "/api/0/projects/acme/checkout"
NEW, OLD, RELEASE, COMMIT = (
    "4001",
    "4002",
    "checkout@2.4.1",
    "9f2c1d7e5b3a48f0c6d1e2f3a4b5c6d7e8f90123",
)
DEPLOYED = ONSET - timedelta(minutes=2)
EVENT, OLD_EVENT = "0f1e2d3c4b5a69788796a5b4c3d2e1ff", "11112d3c4b5a69788796a5b4c3d2e1ff"
TITLE = "PoolTimeout: no connection to the payments database within 50 ms"
PER_MINUTE = {NEW: 9, OLD: 1}
START = ALERT_AT - timedelta(hours=3)


def settings(url: str) -> dict[str, Any]:
    """One project."""
    sentry = {
        "organization": "acme",
        "base_url": url,
        "token": "sntrys_1",
        "environments": ["production"],
    }
    return {"sentry": sentry, "services": {"checkout": {"sentry_project": "checkout"}}}


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(
        "/api/0/",
        Reply(
            {
                "version": "0",
                "auth": {"scopes": ["event:read", "org:read", "project:read"]},
                "user": None,
            }
        ),
    )
    server.on(f"{ORGANIZATION}/issues/", _listed)
    server.on(f"{ORGANIZATION}/events-timeseries/", _series)
    for issue in (NEW, OLD):
        server.on(f"{ORGANIZATION}/issues/{issue}/", Reply(_details(issue)))
        server.on(f"{ORGANIZATION}/issues/{issue}/events/latest/", Reply(_latest(issue)))
        server.on(f"{ORGANIZATION}/issues/{issue}/events/", _events(issue))
    server.on(
        f"{PROJECT}/releases/",
        Reply([_release(RELEASE, DEPLOYED), _release("checkout@2.4.0", START - timedelta(days=9))]),
    )
    quoted = f"{ORGANIZATION}/releases/checkout%402.4.1"
    server.on(f"{quoted}/deploys/", Reply([_deploy()]))
    server.on(f"{quoted}/commits/", Reply([_commit()]))
    server.on(
        f"{quoted}/commitfiles/",
        Reply([_file("checkout/payments/pool.py"), _file("checkout/settings.py")]),
    )
    committers = {
        "committers": [
            {"author": {"name": "Dana", "email": "dana@example.com"}, "commits": [_commit()]}
        ]
    }
    server.on(f"{PROJECT}/events/{EVENT}/committers/", Reply(committers))
    server.on(
        f"{PROJECT}/events/{OLD_EVENT}/committers/",
        Reply({"detail": "No committers found"}, status=404),
    )


def times(issue: str) -> list[datetime]:
    """When the issue's events came: the new one's from the onset on, a few a minute."""
    start = ONSET if issue == NEW else START
    step = timedelta(minutes=1) / PER_MINUTE[issue]
    return [start + n * step for n in range(round((ALERT_AT - start) / step))]


def _within(asked: Asked, issue: str) -> list[datetime]:
    start, end = (
        _time(asked.query.get(k, [d])[0])
        for k, d in (("start", "2000-01-01"), ("end", "2100-01-01"))
    )
    return [t for t in times(issue) if start <= t < end]


def _listed(asked: Asked) -> Reply:
    counts = {issue: len(_within(asked, issue)) for issue in (NEW, OLD)}
    return Reply([_issue(issue, count) for issue, count in counts.items() if count])


def _series(asked: Asked) -> Reply:
    start, end = (
        _time(asked.query.get(k, [d])[0])
        for k, d in (("start", "2026-03-02T11:00"), ("end", "2026-03-02T12:00"))
    )
    values = []
    while start < end:
        count = sum(
            start <= t < start + timedelta(minutes=1) for issue in (NEW, OLD) for t in times(issue)
        )
        values.append({"timestamp": start.timestamp() * 1000, "value": count, "incomplete": False})
        start += timedelta(minutes=1)
    meta = {"valueUnit": None, "valueType": "integer", "interval": 60_000}
    return Reply({"timeSeries": [{"values": values, "yAxis": "count()", "meta": meta}]})


def _events(issue: str) -> Any:
    def answer(asked: Asked) -> Reply:
        most = int(asked.query["per_page"][0])
        found = _within(asked, issue)
        return Reply(
            [_event(issue, t, n) for n, t in enumerate(found[:: max(1, -(-len(found) // most))])]
        )

    return answer


def _issue(issue: str, count: int = 1) -> dict[str, Any]:
    title = TITLE if issue == NEW else "KeyError: 'coupon'"
    first = times(issue)[0]
    return {
        "id": issue,
        "shareId": None,
        "shortId": f"CHECKOUT-{issue[-1]}",
        "title": title,
        "culprit": "checkout.payments.pool in acquire",
        "permalink": f"https://acme.sentry.io/issues/{issue}/",
        "logger": None,
        "level": "error",
        "status": "unresolved",
        "statusDetails": {},
        "substatus": "new" if issue == NEW else "ongoing",
        "isPublic": False,
        "platform": "python",
        "priority": "high",
        "priorityLockedAt": None,
        "seerFixabilityScore": None,
        "seerAutofixLastTriggered": None,
        "seerExplorerAutofixLastTriggered": None,
        "project": {"id": "2", "name": "checkout", "slug": "checkout", "platform": "python"},
        "type": "error",
        "issueType": "error",
        "issueCategory": "error",
        "metadata": {"type": title.split(":")[0]},
        "numComments": 0,
        "assignedTo": None,
        "isBookmarked": False,
        "isSubscribed": False,
        "subscriptionDetails": None,
        "hasSeen": False,
        "annotations": [],
        "isUnhandled": True,
        "count": str(count),
        "userCount": 3,
        "firstSeen": _utc(first),
        "lastSeen": _utc(times(issue)[-1]),
        "derivedData": {
            "blocker": "",
            "progress": "",
            "status": "",
            "viewCount": 0,
            "hasOpenFixPr": False,
        }
        | {
            "isAssigned": False,
            "hasRootCause": False,
            "lastCompletedAutofixStep": "",
            "lastProgressedAt": None,
        },
        "stats": {},
        "lifetime": {},
        "filtered": None,
        "sessionCount": 0,
        "inbox": {"reason": 0, "reason_details": None, "date_added": _utc(first)},
        "owners": {"type": "user", "owner": "1", "date_added": _utc(first)},
    }


def _details(issue: str) -> dict[str, Any]:
    only_listed = {"stats", "lifetime", "filtered", "sessionCount", "inbox", "owners"}
    return {k: v for k, v in _issue(issue, 500).items() if k not in only_listed} | {
        "activity": [],
        "seenBy": [],
        "userReportCount": 0,
        "participants": [],
        "firstRelease": None,
        "lastRelease": None,
        "tags": [],
        "stats": {},
    }


def _tags() -> list[dict[str, str]]:
    said = {
        "environment": "production",
        "level": "error",
        "release": RELEASE,
        "transaction": "/pay",
    }
    return [{"key": k, "value": v} for k, v in said.items()]


def _event(issue: str, at: datetime, number: int) -> dict[str, Any]:
    return {
        "id": f"{number:032x}",
        "event.type": "error",
        "groupID": issue,
        "eventID": f"{number:032x}",
        "projectID": "2",
        "message": "",
        "title": _issue(issue)["title"],
        "location": "checkout/payments/pool.py",
        "culprit": "checkout.payments.pool in acquire",
        "user": None,
        "tags": _tags(),
        "platform": "python",
        "dateCreated": _utc(at),
        "crashFile": None,
        "metadata": {},
    }


def _frame(function: str, filename: str, line: int, *, in_app: bool) -> dict[str, Any]:
    return {
        "function": function,
        "filename": filename,
        "lineNo": line,
        "inApp": in_app,
        "context": [],
    }


def _latest(issue: str) -> dict[str, Any]:
    frames = [
        _frame("dispatch", "django/views.py", 84, in_app=False),
        _frame("pay", "checkout/orders/views.py", 42, in_app=True),
        _frame("acquire", "checkout/payments/pool.py", 88, in_app=True),
        _frame("wait", "threading.py", 327, in_app=False),
    ]
    raised = {"type": "PoolTimeout", "value": "no connection", "stacktrace": {"frames": frames}}
    crumb: dict[str, Any] = {
        "type": "http",
        "category": "httplib",
        "level": "info",
        "timestamp": _utc(ONSET),
    }
    crumb["data"] = {"method": "POST", "url": "https://payments/charge", "status_code": 503}
    deploy = {"id": "1", "environment": "production", "dateFinished": _utc(DEPLOYED), "name": "d"}
    return {
        "id": EVENT,
        "groupID": issue,
        "eventID": EVENT if issue == NEW else OLD_EVENT,
        "projectID": "2",
        "message": "",
        "title": _issue(issue)["title"],
        "location": None,
        "user": None,
        "tags": [*_tags(), {"key": "user", "value": "id:7"}],
        "platform": "python",
        "dateReceived": _utc(ALERT_AT),
        "dateCreated": _utc(ALERT_AT),
        "contexts": {},
        "size": 1,
        "entries": [
            {"type": "exception", "data": {"values": [raised]}},
            {"type": "breadcrumbs", "data": {"values": [crumb]}},
        ],
        "dist": None,
        "sdk": None,
        "context": {},
        "packages": {},
        "type": "error",
        "metadata": {},
        "errors": [],
        "occurrence": None,
        "_meta": {},
        "release": {"version": RELEASE, "lastDeploy": deploy},
        "userReport": None,
        "sdkUpdates": [],
        "resolvedWith": [],
        "nextEventID": None,
        "previousEventID": None,
    }


def _release(version: str, at: datetime) -> dict[str, Any]:
    deploy = {"id": "1", "environment": "production", "dateFinished": _utc(at), "name": "d"}
    return {
        "id": 11,
        "version": version,
        "newGroups": 1,
        "status": "open",
        "shortVersion": version.split("@")[1],
        "versionInfo": None,
        "data": {},
        "commitCount": 1,
        "deployCount": 1,
        "authors": [],
        "projects": [],
        "dateCreated": _utc(at),
        "dateReleased": None,
        "lastDeploy": deploy,
    }


def _deploy() -> dict[str, Any]:
    times = {"dateStarted": _utc(DEPLOYED - timedelta(minutes=1)), "dateFinished": _utc(DEPLOYED)}
    return {"id": "1", "environment": "production", "name": "d", "url": None} | times


def _commit() -> dict[str, Any]:
    return {
        "id": COMMIT,
        "message": "Wait 50 ms for a connection of the payments pool\n\nIt was 5 s.",
        "dateCreated": _utc(DEPLOYED - timedelta(hours=1)),
        "pullRequest": None,
        "suspectCommitType": "via commit in release",
        "author": {"name": "Dana", "email": "dana@example.com"},
        "releases": [],
    }


def _file(name: str) -> dict[str, Any]:
    said = {"id": "1", "orgId": 1, "repoName": "acme/checkout", "author": {}, "type": "M"}
    return said | {"filename": name, "commitMessage": _commit()["message"]}


def _time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def _utc(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
