"""GitLab: draft merge requests that revert a change, by its REST API v4.

Source: docs.gitlab.com, "Commits API" (revert a commit), "Branches API" and "Merge requests API". A
merge commit is reverted as a whole, as GitLab does on its pages. A merge request without one is
reverted by its squash commit, or where it brought a single commit. The draft has a branch whose
name follows from the change, by which it is found again.
"""

from __future__ import annotations

import contextlib
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from faultline.bot.answer.foreign_text import single_line
from faultline.bot.answer.targets.message_target import call, identity_of, token_of
from faultline.bot.answer.targets.tickets.revert_target import BlamedChange
from faultline.bot.answer.targets.tickets.tickets import Reverts, body_of, name_in, ref_of
from faultline.bot.settings.reply_targets import GitLabRevertsSettings

TITLE = 200
SHOWN = 12


class GitLabReverts(Reverts):
    """Merge requests of the named projects."""

    @classmethod
    async def who(cls, settings: GitLabRevertsSettings) -> str:
        """The projects, which the token can read."""
        names = []
        for name in settings.projects:
            who = await identity_of(f"GitLab {name}", _call(settings, "GET", name, ""))
            names.append(str(who.get("path_with_namespace", name)))
        return ", ".join(names)

    async def find(self, address: str, key: str, since: datetime) -> str | None:
        """By its branch."""
        change = self._change(address)
        params = {"source_branch": _branch_for(change), "state": "all"}
        for merge_request in (
            await self._call("GET", change, "/merge_requests", params=params)
        ).json():
            # A fork may use the same branch name.
            if merge_request["source_project_id"] == merge_request["target_project_id"]:
                return _ref(merge_request)
        return None

    async def send(self, address: str, key: str, text: str) -> str:
        """Draft it."""
        change = self._change(address)
        commit, target, title = await self._reverted(change)
        await self._revert(change, commit, target)
        json = {
            "source_branch": _branch_for(change),
            "target_branch": target,
            "title": f'Draft: Revert "{single_line(title, TITLE)}"',
            "description": body_of(text, address),
            "remove_source_branch": True,
        }
        return _ref((await self._call("POST", change, "/merge_requests", json=json)).json())

    async def edit(self, address: str, ref: str, text: str) -> None:
        """Replace the description."""
        path = f"/merge_requests/{name_in(ref).removeprefix('!')}"
        json = {"description": body_of(text, address)}
        await self._call("PUT", self._change(address), path, json=json)

    async def _reverted(self, change: BlamedChange) -> tuple[str, str, str]:
        """The commit to revert, the branch it is on, and the title. Raises ConnectorError."""
        if change.number is None:
            body = (await self._call("GET", change, f"/repository/commits/{change.commit}")).json()
            project = (await self._call("GET", change, "")).json()
            return str(body["id"]), str(project["default_branch"]), str(body["title"])
        path = f"/merge_requests/{change.number}"
        merge = (await self._call("GET", change, path)).json()
        if merge["state"] != "merged":
            raise self._refused(f"!{change.number} is not merged")
        commit = merge["merge_commit_sha"] or merge["squash_commit_sha"]
        if commit is None:
            # Fast-forward: the head is the whole change only where it is the one commit.
            if len((await self._call("GET", change, f"{path}/commits")).json()) != 1:
                raise self._refused(
                    f"!{change.number} was merged as several commits without a merge commit. "
                    "Revert them by hand"
                )
            commit = merge["sha"]
        return str(commit), str(merge["target_branch"]), str(merge["title"])

    async def _revert(self, change: BlamedChange, commit: str, target: str) -> None:
        """Commit the revert on a dedicated branch, unless an earlier attempt has.
        Raises ConnectorError."""
        name = _branch_for(change)
        branch = f"/repository/branches/{quote(name, safe='')}"
        try:
            tip = (await self._call("GET", change, branch)).json()["commit"]["message"]
        except httpx.HTTPStatusError as error:
            if error.response.status_code != HTTPStatus.NOT_FOUND:
                raise
            json = {"branch": name, "ref": target}
            await self._call("POST", change, "/repository/branches", json=json)
            tip = ""
        # An earlier attempt has reverted it: a second revert would bring the change back.
        if f"This reverts commit {commit}" in tip or "This reverts merge request" in tip:
            return
        path = f"/repository/commits/{commit}/revert"
        try:
            await self._call("POST", change, path, json={"branch": name})
        except httpx.HTTPStatusError as error:
            # GitLab answers 400 where the revert conflicts.
            if error.response.status_code != HTTPStatus.BAD_REQUEST:
                raise
            # Leave no empty branch behind; the conflict is reported even if this fails.
            with contextlib.suppress(httpx.HTTPError):
                await self._call("DELETE", change, branch)
            why = error.response.json().get("message", "no reason given")
            phrase = f"revert {commit[:SHOWN]} by hand. GitLab says: {why}"
            raise self._refused(phrase) from error

    async def _call(
        self, method: str, change: BlamedChange, path: str, **more: Any
    ) -> httpx.Response:
        return await _call(self.vendor_settings, method, change.project, path, **more)


async def _call(
    settings: GitLabRevertsSettings, method: str, project: str, path: str, **more: Any
) -> httpx.Response:
    headers = {"PRIVATE-TOKEN": token_of(settings)}
    home = f"{settings.url}/api/v4/projects/{quote(project, safe='')}"
    return await call(home, headers, method, path, **more)


def _branch_for(change: BlamedChange) -> str:
    what = f"mr-{change.number}" if change.number else (change.commit or "")[:SHOWN]
    return f"faultline/revert-{what}"


def _ref(merge: Any) -> str:
    return ref_of(f"!{merge['iid']}", merge["web_url"])
