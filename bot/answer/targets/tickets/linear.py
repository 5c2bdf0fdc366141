"""Linear: its GraphQL API with a personal API key.

Source: Linear's published schema. The id of an issue may be chosen by whoever creates it, so a
second attempt can make no second issue.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

import httpx

from faultline.bot.answer.targets.message_target import call, identity_of, token_of
from faultline.bot.answer.targets.plain_message import TextParts
from faultline.bot.answer.targets.tickets.tickets import Tickets, ref_of
from faultline.bot.settings.reply_targets import LinearIssuesSettings

VIEWER = "query Viewer { viewer { name } }"
FIND = (
    "query Find($id: ID!) { issues(filter: {id: {eq: $id}}, first: 1, includeArchived: true) "
    "{ nodes { identifier url } } }"
)
CREATE = (
    "mutation Create($input: IssueCreateInput!) "
    "{ issueCreate(input: $input) { success issue { identifier url } } }"
)
UPDATE = (
    "mutation Update($id: String!, $input: IssueUpdateInput!) "
    "{ issueUpdate(id: $id, input: $input) { success } }"
)
NAMESPACE = uuid.UUID("6d2a9c1e-5f0b-4c7e-9a53-0f4f8f7e2b11")


class LinearTickets(Tickets):
    """Issues of one team."""

    @classmethod
    async def who(cls, settings: LinearIssuesSettings) -> str:
        """The name of the key's owner."""
        who = await identity_of("Linear", _post(settings, VIEWER, {}))
        viewer = (who.get("data") or {}).get("viewer") or {}
        return str(viewer.get("name", "an account"))

    async def find(self, address: str, key: str, since: datetime) -> str | None:
        """By its id."""
        matches = await self._query(FIND, {"id": issue_id(key)})
        nodes = matches["issues"]["nodes"]
        return ref_of(nodes[0]["identifier"], nodes[0]["url"]) if nodes else None

    async def send(self, address: str, key: str, text: str) -> str:
        """Create it under an id of ours."""
        fields = _fields(text) | {"id": issue_id(key), "teamId": self.vendor_settings.team}
        made = (await self._query(CREATE, {"input": fields}))["issueCreate"]["issue"]
        return ref_of(made["identifier"], made["url"])

    async def edit(self, address: str, ref: str, text: str) -> None:
        """Replace title and description."""
        await self._query(UPDATE, {"id": issue_id(address), "input": _fields(text)})

    async def _query(self, query: str, variables: dict[str, Any]) -> Any:
        """The data of an answer. Raises ValueError where it holds errors instead."""
        body = (await _post(self.vendor_settings, query, variables)).json()
        # GraphQL answers errors with status 200.
        if body.get("errors") or not body.get("data"):
            raise ValueError("errors instead of data")
        return body["data"]


def issue_id(key: str) -> str:
    """A UUID of version 4 in form, which Linear asks for, that is the same for the same key."""
    return str(uuid.UUID(bytes=uuid.uuid5(NAMESPACE, key).bytes, version=4))


async def _post(settings: LinearIssuesSettings, query: str, variables: Any) -> httpx.Response:
    headers = {"Authorization": token_of(settings)}
    body = {"query": query, "variables": variables}
    return await call(settings.url, headers, "POST", "", json=body)


def _fields(text: str) -> dict[str, Any]:
    ticket = TextParts.of(text)
    return {"title": ticket.title, "description": ticket.markdown}
