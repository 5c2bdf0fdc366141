"""GitHub and GitLab on loopback, as far as reverts go, with their documented answers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.bot.answer.targets.fake_trackers import TOKEN

MERGED = "a" * 40
CONFLICT = (
    "Sorry, we cannot revert this commit automatically. This commit may already have been "
    "reverted, or a more recent commit may have updated some of its content."
)
"""GitLab's words (gitlab-org/gitlab, lib/gitlab/git and the Commits API's documentation)."""


@dataclass
class FakeCodeHosts:
    """Both. Each has change 12, which was merged. `lose_answers` drafts, and answers 502."""

    drafts: list[dict[str, Any]] = field(default_factory=list)
    branches: dict[str, str] = field(default_factory=dict)
    """GitLab's: name to the message of its tip."""
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    merged: bool = True
    merge_commit: str | None = MERGED
    squash_commit: str | None = None
    commits: int = 1
    conflict: bool = False
    lose_answers: int = 0
    refuse_with: int | None = None
    home: str = "acme/shop"
    """The repository of a draft's branch."""
    url: str = ""

    @property
    def app(self) -> Starlette:
        """The server."""
        methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        return Starlette(
            routes=[
                Route("/api/graphql", self._graphql, methods=["POST"]),
                Route("/api/v3/repos/acme/shop{rest:path}", self._github, methods=methods),
                Route("/api/v4/{rest:path}", self._gitlab, methods=methods),
            ]
        )

    def sections(self) -> dict[str, dict[str, Any]]:
        """Settings that lead here."""
        return {
            "github_reverts": {
                "url": f"{self.url}/api/v3",
                "repositories": ["acme/shop"],
                "token": TOKEN,
            },
            "gitlab_reverts": {"url": self.url, "projects": ["acme/shop"], "token": TOKEN},
        }

    def link(self, target: str) -> str:
        """The address of change 12."""
        path = {"github_reverts": "pull", "gitlab_reverts": "-/merge_requests"}[target]
        return f"{self.url}/acme/shop/{path}/12"

    @property
    def texts(self) -> list[str]:
        """What each draft says now."""
        return [one.get("body") or one["description"] for one in self.drafts]

    async def _given(self, request: Request, header: str, proof: str) -> Any:
        body = await request.body()
        given = json.loads(body) if body else None
        self.requests.append((request.method, request.scope["raw_path"].decode(), given))
        if request.headers.get(header) != proof:
            return JSONResponse({"message": "Unauthorized"}, 401)
        if self.refuse_with is not None:
            return JSONResponse({"message": "no"}, self.refuse_with)
        return given

    def _answered(self, answer: Any, status: int) -> Response:
        if self.lose_answers:
            self.lose_answers -= 1
            return JSONResponse({"message": "bad gateway"}, 502)
        return JSONResponse(answer, status)

    async def _graphql(self, request: Request) -> Response:
        given = await self._given(request, "authorization", f"Bearer {TOKEN}")
        if isinstance(given, Response):
            return given
        asked = given["variables"]["input"]
        assert asked["pullRequestId"] == "PR_12"
        if self.conflict:
            error = {"type": "UNPROCESSABLE", "message": "The pull request could not be reverted."}
            return JSONResponse({"data": {"revertPullRequest": None}, "errors": [error]})
        self.drafts.append({"number": 13 + len(self.drafts), **asked})
        made = {"number": self.drafts[-1]["number"], "url": self._page(self.drafts[-1])}
        return self._answered({"data": {"revertPullRequest": {"revertPullRequest": made}}}, 200)

    def _page(self, draft: dict[str, Any]) -> str:
        return f"https://github.com/acme/shop/pull/{draft['number']}"

    async def _github(self, request: Request) -> Response:
        given = await self._given(request, "authorization", f"Bearer {TOKEN}")
        if isinstance(given, Response):
            return given
        path = request.path_params["rest"]
        pull = {
            "number": 12,
            "node_id": "PR_12",
            "merged": self.merged,
            "merged_at": "2026-09-14T10:10:00Z" if self.merged else None,
            "merge_commit_sha": self.merge_commit,
        }
        if path == "":
            return JSONResponse({"full_name": "acme/shop"})
        if path == "/pulls/12":
            return JSONResponse(pull)
        if re.fullmatch("/commits/[0-9a-f]{40}/pulls", path):
            return JSONResponse([pull])
        if path == "/pulls":
            found = []
            for one in reversed(self.drafts):
                head = {"repo": {"full_name": self.home}}
                page = self._page(one)
                found.append(
                    {"number": one["number"], "html_url": page, "body": one["body"], "head": head}
                )
            return JSONResponse(found)
        assert request.method == "PATCH", path
        self.drafts[int(path.rpartition("/")[2]) - 13] |= given
        return JSONResponse({})

    async def _gitlab(self, request: Request) -> Response:
        given = await self._given(request, "private-token", TOKEN)
        if isinstance(given, Response):
            return given
        raw = request.scope["raw_path"].decode().removeprefix("/api/v4/projects/acme%2Fshop")
        method, path = request.method, raw.partition("?")[0]
        if path == "":
            known = {"path_with_namespace": "acme/shop", "default_branch": "main"}
            return JSONResponse(known)
        if path.startswith("/repository/branches"):
            return self._branch(method, path, given)
        if path.endswith("/revert"):
            return self._revert(path, given)
        if path.startswith("/repository/commits/"):
            return JSONResponse({"id": path.rpartition("/")[2], "title": "Charge in cents"})
        if path.startswith("/merge_requests/12"):
            return self._merged(path)
        if method == "PUT":
            self.drafts[int(path.rpartition("/")[2]) - 13] |= given
            return JSONResponse({})
        if method == "POST":
            assert self.branches[given["source_branch"]], "there is nothing to merge"
            self.drafts.append({"iid": 13 + len(self.drafts), **given})
            return self._answered(self._about(self.drafts[-1]), 201)
        branch = request.query_params["source_branch"]
        found = [self._about(one) for one in self.drafts if one["source_branch"] == branch]
        return JSONResponse(found)

    def _about(self, draft: dict[str, Any]) -> dict[str, Any]:
        page = f"https://gitlab.com/acme/shop/-/merge_requests/{draft['iid']}"
        return {
            "iid": draft["iid"],
            "web_url": page,
            "source_project_id": 7 if self.home == "acme/shop" else 8,
            "target_project_id": 7,
        }

    def _merged(self, path: str) -> Response:
        if path.endswith("/commits"):
            return JSONResponse([{"id": str(n)} for n in range(self.commits)])
        return JSONResponse(
            {
                "iid": 12,
                "title": "Charge in cents",
                "state": "merged" if self.merged else "opened",
                "target_branch": "main",
                "merge_commit_sha": self.merge_commit,
                "squash_commit_sha": self.squash_commit,
                "sha": "b" * 40,
            }
        )

    def _branch(self, method: str, path: str, given: Any) -> Response:
        if method == "POST":
            assert given["ref"] == "main"
            self.branches[given["branch"]] = ""
            return JSONResponse({"name": given["branch"]}, 201)
        name = path.rpartition("/")[2].replace("%2F", "/")
        if name not in self.branches:
            return JSONResponse({"message": "404 Branch Not Found"}, 404)
        if method == "DELETE":
            del self.branches[name]
            return Response(status_code=204)
        return JSONResponse({"name": name, "commit": {"message": self.branches[name]}})

    def _revert(self, path: str, given: Any) -> Response:
        if self.conflict:
            return JSONResponse({"message": CONFLICT, "error_code": "conflict"}, 400)
        commit = path.split("/")[-2]
        assert not self.branches[given["branch"]], "reverted twice"
        self.branches[given["branch"]] = f'Revert "x"\n\nThis reverts commit {commit}'
        return self._answered({"id": "c" * 40}, 201)
