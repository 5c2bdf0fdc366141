"""GitHub: draft pull requests that revert a merged one, by its GraphQL API.

Sources: the mutation `revertPullRequest` of GitHub's GraphQL schema, which takes `draft`; for the
rest GitHub's OpenAPI document. GitHub reverts merge and squash commits alike, and pull requests
alone: a commit counts only where it is the merge of one. A draft is found again by a comment in its
body that is not shown, among the newest of the repository.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import httpx

from faultline.bot.answer.targets.tickets.revert_target import BlamedChange
from faultline.bot.answer.targets.tickets.reverts import Reverts, body_of, mark_of
from faultline.bot.answer.targets.tickets.tickets import name_in, ref_of
from faultline.bot.answer.targets.vendor_message import asked_who, call, token_of
from faultline.bot.settings.tickets import GitHubRevertsSettings

REVERT = (
    "mutation Revert($input: RevertPullRequestInput!) "
    "{ revertPullRequest(input: $input) { revertPullRequest { number url } } }"
)
MOST_LOOKED_AT = 100


class GitHubReverts(Reverts):
    """Pull requests of the named repositories."""

    @classmethod
    async def who(cls, own: GitHubRevertsSettings) -> str:
        """The repositories, which the token can read."""
        names = []
        for name in own.repositories:
            who = await asked_who(f"GitHub {name}", _call(own, "GET", f"/repos/{name}"))
            names.append(str(who.get("full_name", name)))
        return ", ".join(names)

    async def find(self, address: str, key: str, since: datetime) -> str | None:
        """Among the newest. Only who may push to the repository can open one that counts."""
        project = self._change(address).project
        params = {
            "state": "all",
            "sort": "created",
            "direction": "desc",
            "per_page": str(MOST_LOOKED_AT),
        }
        answer = await _call(self.own, "GET", f"/repos/{project}/pulls", params=params)
        for one in answer.json():
            is_ours = mark_of(address) in (one["body"] or "")
            home = (one["head"].get("repo") or {}).get("full_name")
            if is_ours and home == project:
                return ref_of(f"#{one['number']}", one["html_url"])
        return None

    async def send(self, address: str, key: str, text: str) -> str:
        """Draft it."""
        change = self._change(address)
        pull = await self._pull(change)
        given = {"pullRequestId": pull["node_id"], "draft": True, "body": body_of(text, address)}
        body = {"query": REVERT, "variables": {"input": given}}
        url = self.own.url.removesuffix("/v3") + "/graphql"
        said = (await call(url, _headers(self.own), "POST", "", json=body)).json()
        if said.get("errors"):
            why = str(said["errors"][0].get("message", "no reason given"))
            by_hand = f"revert #{pull['number']} by hand. GitHub says: {why}"
            raise self._refused(by_hand, unchanged=False)
        made = said["data"]["revertPullRequest"]["revertPullRequest"]
        return ref_of(f"#{made['number']}", made["url"])

    async def edit(self, address: str, ref: str, text: str) -> None:
        """Replace the body."""
        path = f"/repos/{self._change(address).project}/pulls/{name_in(ref).removeprefix('#')}"
        await _call(self.own, "PATCH", path, json={"body": body_of(text, address)})

    async def _pull(self, change: BlamedChange) -> Any:
        """The merged pull request to revert. Raises ConnectorError."""
        home = f"/repos/{change.project}"
        if change.number is not None:
            pull = (await _call(self.own, "GET", f"{home}/pulls/{change.number}")).json()
            if not pull["merged"]:
                raise self._refused(f"#{change.number} is not merged")
            return pull
        path = f"{home}/commits/{change.commit}/pulls"
        for pull in (await _call(self.own, "GET", path)).json():
            if pull["merged_at"] and pull["merge_commit_sha"] == change.commit:
                return pull
        raise self._refused(
            f"commit {(change.commit or '')[:12]} is not the merge of a pull request, and GitHub "
            "reverts those alone. Use git revert"
        )


def _headers(own: GitHubRevertsSettings) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {token_of(own)}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }


async def _call(own: GitHubRevertsSettings, method: str, path: str, **more: Any) -> httpx.Response:
    return await call(own.url, _headers(own), method, path, **more)
