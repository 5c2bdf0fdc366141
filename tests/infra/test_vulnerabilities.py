"""`./run audit` says what is known of the real lock, and without a network that none was asked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from faultline.loopback.server import serve_in_thread
from infra.release.vulnerabilities import NO_DATABASE, NOT_AUDITED, VULNERABLE

ROOT = Path(__file__).parents[2]
UV = ROOT / ".tools/uv/bin/uv"
AT = "2026-01-01T00:00:00Z"
pytestmark = pytest.mark.skipif(not UV.exists(), reason="./run has not fetched uv")


class FakeOsv:
    """osv.dev as far as uv asks it (https://google.github.io/osv.dev/api)."""

    def __init__(self) -> None:
        self.vulnerable: set[str] = set()
        self.asked: set[str] = set()

    @property
    def app(self) -> Starlette:
        """The server."""
        batch = Route("/v1/querybatch", self._batch, methods=["POST"])
        return Starlette(routes=[batch, Route("/v1/vulns/{name}", self._one)])

    async def _batch(self, request: Request) -> Response:
        results = []
        for query in (await request.json())["queries"]:
            name = query["package"]["name"]
            self.asked.add(name)
            known = [{"id": f"PYSEC-{name}", "modified": AT}]
            results.append({"vulns": known} if name in self.vulnerable else {})
        return JSONResponse({"results": results})

    async def _one(self, request: Request) -> Response:
        about = {"id": request.path_params["name"], "summary": "reads too far", "affected": []}
        return JSONResponse({**about, "modified": AT, "published": AT})


@pytest.fixture
def osv() -> Iterator[tuple[FakeOsv, str]]:
    fake = FakeOsv()
    url, stop = serve_in_thread(fake.app)
    yield fake, url
    stop()


def audited(url: str) -> subprocess.CompletedProcess[str]:
    """As `./run audit` does it, asking that service, once."""
    command = [sys.executable, "-m", "infra.release.vulnerabilities", str(UV), "--service-url", url]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "UV_HTTP_RETRIES": "0"}
    return subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120, check=False
    )


def test_what_is_known_of_a_package_fails_the_audit_and_names_it(osv: tuple[FakeOsv, str]) -> None:
    fake, url = osv
    assert audited(url).returncode == 0
    assert {"httpx", "sqlalchemy", "dbos"} <= fake.asked
    assert "pytest" not in fake.asked, "a release does not install it"
    fake.vulnerable = {"httpx"}
    ended = audited(url)
    assert ended.returncode == VULNERABLE
    assert "PYSEC-httpx: reads too far" in ended.stderr


def test_without_a_network_it_says_that_nothing_was_audited() -> None:
    ended = audited("http://127.0.0.1:9/")
    assert (ended.returncode, ended.stderr) == (NOT_AUDITED, f"{NO_DATABASE}\n")


def test_run_audit_ends_with_it() -> None:
    script = (ROOT / "run").read_text()
    audit = script[script.index("\naudit)") : script.index("\nbuild)")]
    assert audit.rstrip().endswith(
        'exec .venv/bin/python -m infra.release.vulnerabilities "$uv"\n    ;;'
    )
