"""GitHub: the checkout service, whose last deployment lowered the number of its database
connections.

Deployed at 11:48, one minute later in production. It carries the squashed pull request 41 (the
readme), the merged pull request 42 (the pool) and a commit that nobody proposed (a setting). Pull
request 43 was merged after it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.connectors import github_shapes as shapes
from tests.connectors.conftest import ALERT_AT
from tests.connectors.local_http import Asked, LocalServer, Reply

READING_POSTS: frozenset[str] = frozenset()
REPOSITORY = shapes.NAME
OLD, README, BRANCH, POOL, SETTING, LATER = (letter * 40 for letter in "abcdef")
"""What was in production; the three changes deployed, and a commit of the pool's branch; one merged
later."""
POOL_FILE = "src/checkout/pool.py"
POOL_PATCH = (
    "@@ -1,4 +1,4 @@\n import queue\n-connections = "
    "queue.Queue(maxsize=64)\n-acquire_timeout_s = 30\n"
    "+connections = queue.Queue(maxsize=4)\n+acquire_timeout_s = 2\n"
)
POOL_TEXT = "\n".join(
    [
        "import queue",
        *(f"# line {n}" for n in range(2, 12)),
        "connection = connections.get()",
        "# end",
    ]
)
DEPLOYED = ALERT_AT - timedelta(minutes=11)


def settings(url: str) -> dict[str, Any]:
    """One service with one repository."""
    return {
        "github": {"token": "t", "api_url": url, "app_url": shapes.WEB},
        "services": {
            "checkout": {"github_repository": [REPOSITORY]},
            "cart": {"github_repository": [REPOSITORY]},
        },
    }


def serve(server: LocalServer) -> None:
    """The repository with its deployments, merges, runs and one file."""
    base = f"/repos/{REPOSITORY}"
    began, old = DEPLOYED - timedelta(minutes=1), ALERT_AT - timedelta(days=2)
    server.on(base, Reply(shapes.repository(), headers={"X-OAuth-Scopes": ""}))
    server.on(
        f"{base}/deployments",
        Reply(
            [
                shapes.deployment(13, SETTING, "production", began, "deploy-bot"),
                shapes.deployment(12, SETTING, "staging", began - timedelta(minutes=20)),
                shapes.deployment(11, OLD, "production", old),
            ]
        ),
    )
    done = [shapes.status("success", DEPLOYED), shapes.status("in_progress", began)]
    server.on(f"{base}/deployments/13/statuses", Reply(done))
    server.on(
        f"{base}/deployments/12/statuses",
        Reply([shapes.status("success", began - timedelta(minutes=19))]),
    )
    gone = [
        shapes.status("inactive", DEPLOYED),
        shapes.status("success", old + timedelta(minutes=1)),
    ]
    server.on(f"{base}/deployments/11/statuses", Reply(gone))
    server.on(f"{base}/releases", Reply([shapes.release("v41", old)]))
    server.on(f"{base}/compare/{OLD}...{SETTING}", Reply(_compared()))
    server.on(f"{base}/pulls", _pulls)
    server.on(
        f"{base}/pulls/41/files",
        Reply([shapes.changed("README.md", "@@ -1 +1 @@\n-Chekout\n+Checkout\n")]),
    )
    files = [shapes.changed(POOL_FILE, POOL_PATCH), shapes.changed("logo.png")]
    server.on(f"{base}/pulls/42/files", Reply(files))
    server.on(
        f"{base}/pulls/43/files",
        Reply([shapes.changed("src/checkout/later.py", "@@ -1 +1 @@\n-a\n+b\n")]),
    )
    server.on(f"{base}/commits/{SETTING}/pulls", Reply([]))
    at = ALERT_AT - timedelta(minutes=25)
    setting = shapes.commit(SETTING, "Raise the log level\n\nNobody asked.", at, (POOL,), "erin")
    patch = "@@ -1 +1 @@\n-level: info\n+level: warning\n"
    server.on(
        f"{base}/commits/{SETTING}",
        Reply({**setting, "files": [shapes.changed("config/logging.yaml", patch)]}),
    )
    runs = [
        shapes.run(72, "Deploy", SETTING, DEPLOYED, "success"),
        shapes.run(71, "Tests", README, ALERT_AT - timedelta(minutes=50), "failure"),
    ]
    server.on(f"{base}/actions/runs", Reply({"total_count": 2, "workflow_runs": runs}))
    server.on(
        f"{base}/contents/{POOL_FILE.replace('/', '%2F')}",
        Reply(shapes.content(POOL_FILE, POOL_TEXT)),
    )
    server.on(f"{base}/contents/{POOL_FILE}", Reply(shapes.content(POOL_FILE, POOL_TEXT)))
    server.on(f"{base}/commits", Reply([setting]))


def _compared() -> dict[str, Any]:
    at = ALERT_AT - timedelta(hours=2)
    commits = [
        shapes.commit(OLD, "Before", at, ("9" * 40,)),
        shapes.commit(README, "Reword the readme (#41)", at, (OLD,)),
        shapes.commit(BRANCH, "try fewer connections", at, (OLD,)),
        shapes.commit(POOL, "Merge pull request #42 from shop/pool", at, (README, BRANCH)),
        shapes.commit(SETTING, "Raise the log level", at, (POOL,), "erin"),
    ]
    files = [
        shapes.changed("README.md"),
        shapes.changed(POOL_FILE),
        shapes.changed("config/logging.yaml"),
    ]
    return shapes.comparison(commits, files)


def _pulls(asked: Asked) -> Reply:
    """Two pages; the second is the one that the first one's link names."""
    pulls = [
        shapes.pull(43, "Tidy up", LATER, ALERT_AT - timedelta(minutes=5)),
        shapes.pull(
            42, "Lower the number of pooled connections", POOL, ALERT_AT - timedelta(minutes=40)
        ),
    ]
    if asked.query.get("page") == ["2"]:
        return Reply(
            [shapes.pull(41, "Reword the readme", README, ALERT_AT - timedelta(minutes=90))]
        )
    page = "https://api.github.com/repositories/1/pulls?state=closed&base=main&per_page=100&page=2"
    following = f'<{page}>; rel="next"'
    return Reply(
        pulls, headers={"Link": f'{following}, <https://api.github.com/x?page=2>; rel="last"'}
    )
