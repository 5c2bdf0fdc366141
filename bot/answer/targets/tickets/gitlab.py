"""GitLab: issues of one project, by its REST API v4.

Source: docs.gitlab.com, "Issues API". An issue is found again by a comment in its description that
is not shown, among those created since.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx

from faultline.bot.answer.targets.text_parts import TextParts
from faultline.bot.answer.targets.tickets.tickets import Tickets, marker, name_in, ref_of
from faultline.bot.answer.targets.vendor_message import asked_who, call, token_of
from faultline.bot.settings.tickets import GitLabIssuesSettings

MOST_LOOKED_AT = 100


class GitLabTickets(Tickets):
    """Issues of one project."""

    @classmethod
    async def who(cls, own: GitLabIssuesSettings) -> str:
        """The project, which the token can read."""
        who = await asked_who("GitLab", _call(own, "GET", ""))
        return str(who.get("path_with_namespace", own.project))

    async def find(self, address: str, key: str, since: datetime) -> str | None:
        """Among those created since."""
        params = {
            "scope": "all",
            "created_after": since.isoformat(),
            "per_page": str(MOST_LOOKED_AT),
        }
        for issue in (await _call(self.own, "GET", "/issues", params=params)).json():
            if marker(key) in (issue["description"] or ""):
                return _ref(issue)
        return None

    async def send(self, address: str, key: str, text: str) -> str:
        """Open it."""
        fields = _fields(text, key) | {
            "confidential": self.own.confidential,
            "labels": list(self.own.labels),
        }
        return _ref((await _call(self.own, "POST", "/issues", json=fields)).json())

    async def edit(self, address: str, ref: str, text: str) -> None:
        """Replace title and description."""
        path = f"/issues/{name_in(ref).removeprefix('#')}"
        await _call(self.own, "PUT", path, json=_fields(text, address))


def _fields(text: str, key: str) -> dict[str, Any]:
    ticket = TextParts.of(text)
    return {"title": ticket.title, "description": f"{ticket.markdown}\n\n{marker(key)}"}


async def _call(own: GitLabIssuesSettings, method: str, path: str, **more: Any) -> httpx.Response:
    headers = {"PRIVATE-TOKEN": token_of(own)}
    project = quote(own.project or "", safe="")
    return await call(f"{own.url}/api/v4/projects/{project}", headers, method, path, **more)


def _ref(issue: Any) -> str:
    return ref_of(f"#{issue['iid']}", issue["web_url"])
