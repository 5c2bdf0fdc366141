"""Jira Cloud: the platform's REST API v3, with an account's address and API token.

Source: Jira Cloud's OpenAPI document; for the search, which that document has as `/search`,
Atlassian's changelog CHANGE-2046 (`/search/jql`). An issue is found again by a label.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

import httpx

from faultline.bot.answer.targets.message_target import call, identity_of, token_of
from faultline.bot.answer.targets.plain_message import TextParts
from faultline.bot.answer.targets.tickets.tickets import Tickets, name_in, ref_of
from faultline.bot.settings.reply_targets import JiraIssuesSettings

API = "/rest/api/3"
Node = dict[str, Any]


class JiraTickets(Tickets):
    """Issues of one project."""

    @classmethod
    async def who(cls, settings: JiraIssuesSettings) -> str:
        """The account's name."""
        who = await identity_of("Jira", _call(settings, "GET", "/myself"))
        return f"{who.get('displayName', 'an account')} in {settings.project}"

    async def find(self, address: str, key: str, since: datetime) -> str | None:
        """By its label. The search is a few seconds behind."""
        jql = f'project = "{self.vendor_settings.project}" AND labels = "{_label(key)}"'
        params = {"jql": jql, "fields": "summary", "maxResults": "1"}
        issues = (await _call(self.vendor_settings, "GET", "/search/jql", params=params)).json()[
            "issues"
        ]
        return self._ref(issues[0]["key"]) if issues else None

    async def send(self, address: str, key: str, text: str) -> str:
        """Create it."""
        fields = _fields(text) | {
            "project": {"key": self.vendor_settings.project},
            "issuetype": {"name": self.vendor_settings.issue_type},
            "labels": [*self.vendor_settings.labels, _label(key)],
        }
        made = await _call(self.vendor_settings, "POST", "/issue", json={"fields": fields})
        return self._ref(made.json()["key"])

    async def edit(self, address: str, ref: str, text: str) -> None:
        """Replace title and description. Labels, status and the rest stay as people left them."""
        path = f"/issue/{name_in(ref)}"
        await _call(self.vendor_settings, "PUT", path, json={"fields": _fields(text)})

    def _ref(self, key: str) -> str:
        return ref_of(key, f"{self.vendor_settings.url}/browse/{key}")


async def _call(
    settings: JiraIssuesSettings, method: str, path: str, **more: Any
) -> httpx.Response:
    auth = httpx.BasicAuth(settings.email or "", token_of(settings))
    return await call(f"{settings.url}{API}", {}, method, path, auth=auth, **more)


def _label(key: str) -> str:
    """Labels hold no blanks."""
    return "faultline-" + hashlib.sha256(key.encode()).hexdigest()[:16]


def _fields(text: str) -> dict[str, Any]:
    ticket = TextParts.of(text)
    # Atlassian's document format, in which text is never markup.
    content: list[Node] = []
    for line in ticket.lines:
        if not line.startswith("- "):
            content.append(_paragraph(line, strong=line.endswith(":")))
            continue
        if not content or content[-1]["type"] != "bulletList":
            content.append({"type": "bulletList", "content": []})
        item = {"type": "listItem", "content": [_paragraph(line[2:])]}
        content[-1]["content"].append(item)
    if ticket.page:
        link = {"type": "link", "attrs": {"href": ticket.page}}
        content.append(_paragraph("The whole answer, with its evidence", marks=[link]))
    return {
        "summary": ticket.title,
        "description": {"type": "doc", "version": 1, "content": content},
    }


def _paragraph(line: str, *, strong: bool = False, marks: list[Node] | None = None) -> Node:
    # Atlassian's format allows no empty text.
    if not line:
        return {"type": "paragraph", "content": []}
    text: Node = {"type": "text", "text": line}
    marks = [*(marks or []), *([{"type": "strong"}] if strong else [])]
    if marks:
        text["marks"] = marks
    return {"type": "paragraph", "content": [text]}
