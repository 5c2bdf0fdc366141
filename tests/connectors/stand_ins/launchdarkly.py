"""LaunchDarkly: a flag of checkout is turned on in production three minutes before the onset,
beside one in staging and a description that was edited."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.connectors.conftest import ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply

AUDIT_LOG = "/api/v2/auditlog"
FLIPPED = ONSET - timedelta(minutes=3)
PAGE = 2
ME = {"self": {"href": "/api/v2/auditlog/5f1", "type": "application/json"}}


def settings(url: str) -> dict[str, Any]:
    """One account."""
    return {"launchdarkly": {"url": url, "token": "api-0a1b2c3d"}}


def entry(
    at: datetime, action: str, resource: str, verb: str, said: str = "", **more: Any
) -> dict[str, Any]:
    """An entry as the specification has it."""
    made = {
        "_links": ME,
        "_id": f"5f{at:%d%H%M%S}",
        "_accountId": "57be1db38b75bf0772d11383",
        "date": int(at.timestamp() * 1000),
        "accesses": [{"action": action, "resource": resource}],
        "kind": "flag",
        "name": "New payment flow",
        "description": "",
        "shortDescription": said,
        "comment": "",
        "member": {
            "_links": ME,
            "_id": "569f183514f4432160000007",
            "email": "dana@example.com",
            "firstName": "Dana",
            "lastName": "Ng",
        },
        "titleVerb": verb,
        "title": f"Dana Ng {verb} New payment flow",
        "target": {"_links": ME, "name": "New payment flow", "resources": [resource]},
    }
    return made | more


ENTRIES = [
    entry(
        FLIPPED + timedelta(minutes=1),
        "updateDescription",
        "proj/shop:env/*:flag/checkout-new-payment",
        "updated the description of the flag",
    ),
    entry(
        FLIPPED,
        "updateOn",
        "proj/shop:env/production:flag/checkout-new-payment;beta",
        "turned on the flag",
    ),
    entry(
        FLIPPED - timedelta(minutes=5),
        "updateOn",
        "proj/shop:env/staging:flag/checkout-new-payment",
        "turned on the flag",
    ),
    entry(
        FLIPPED - timedelta(hours=2),
        "updateFallthrough",
        "proj/shop:env/production:flag/search-ranking",
        "updated the flag",
        "Default rule: 10 % of users get v2",
        member=None,
        token={"_links": ME, "_id": "61", "name": "terraform", "ending": "2345"},
    ),
]


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(AUDIT_LOG, answer)


def answer(asked: Asked) -> Reply:
    """The entries of a window, two a page, the newest first."""
    after, before = int(asked.query["after"][0]), int(asked.query["before"][0])
    found = [one for one in ENTRIES if after < one["date"] < before]
    shown = found[:PAGE]
    links = {"self": {"href": AUDIT_LOG, "type": "application/json"}}
    if len(found) > PAGE:
        spec, oldest = asked.query["spec"][0], shown[-1]["date"]
        href = f"{AUDIT_LOG}?after={after}&before={oldest}&limit=20&spec={spec}"
        links["next"] = {"href": href, "type": "application/json"}
    return Reply({"items": [_without_none(one) for one in shown], "_links": links})


def _without_none(one: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in one.items() if value is not None}
