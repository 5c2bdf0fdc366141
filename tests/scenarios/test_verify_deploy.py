"""`faultline verify-deploy` from a pipeline, against a real Prometheus: a deploy that makes things
worse, one that does not, one with too little traffic, a canary, and trouble that a deploy only
happened to meet."""

from __future__ import annotations

import io
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import yaml  # type: ignore[import-untyped]
from rich.console import Console

from faultline.bot.cli.verify_command import watch
from faultline.bot.policy.values import DeployToCheck
from faultline.bot.settings.loading import settings_of
from faultline.connectors.registry import build_connectors
from tests.connectors.conftest import OpenMetrics, RunningPrometheus, running_prometheus
from tests.scenarios.test_ask import environment

PROGRAM = (sys.executable, "-m", "faultline.bot.cli.main", "verify-deploy")
ACTION = Path(__file__).parents[2] / "infra/github/verify-deploy/action.yml"
DEPLOYED = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
STEP_S = 30
HOURS = 7
WITHIN_S = 120.0
BOUNDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Instance:
    """The counters of one process of a service."""

    def __init__(self, labels: str, rng: np.random.Generator) -> None:
        self._labels, self._rng = labels, rng
        self._codes = {"200": 0, "500": 0}
        self._buckets = np.zeros(len(BOUNDS) + 1)

    def serve(
        self, series: OpenMetrics, t: int, rate: float, failing: float, median: float
    ) -> None:
        """Serve for one step, and be scraped."""
        count = int(self._rng.poisson(rate * STEP_S))
        failed = int(self._rng.binomial(count, failing))
        self._codes["500"] += failed
        self._codes["200"] += count - failed
        took = median * np.exp(self._rng.normal(0, 0.5, count))
        self._buckets += np.bincount(np.searchsorted(BOUNDS, took), minlength=len(BOUNDS) + 1)
        for code, number in self._codes.items():
            labels = f'{self._labels},code="{code}"'
            series.add("http_requests_total", "counter", labels, number, t)
        for le, number in zip((*BOUNDS, math.inf), np.cumsum(self._buckets), strict=True):
            bound = "+Inf" if math.isinf(le) else f"{le}"
            labels = f'{self._labels},le="{bound}"'
            series.add("http_request_duration_seconds_bucket", "unknown", labels, number, t)


def add_service(
    series: OpenMetrics,
    name: str,
    rate: float,
    after: Callable[[], tuple[float, float]] | None = None,
    version: str = "",
    *,
    until: datetime = DEPLOYED + timedelta(minutes=20),
    since: datetime | None = None,
    at: datetime = DEPLOYED,
) -> None:
    """One service of which 0.5 % of the requests fail and which takes 40 ms; from `at` on as
    `after` says."""
    rng = np.random.default_rng(len(name) + len(version))
    labels = f'service="{name}"' + (f',version="{version}"' if version else "")
    one = Instance(labels, rng)
    first = since or at - timedelta(hours=HOURS)
    for t in range(int(first.timestamp()), int(until.timestamp()), STEP_S):
        late = t >= at.timestamp() and after is not None
        failing, median = after() if late and after is not None else (0.005, 0.04)
        # Every hour has its own pace.
        pace = 1 + 0.1 * math.sin(t / 1800)
        one.serve(series, t, rate * pace, failing, median)


def worse() -> tuple[float, float]:
    return 0.06, 0.09


def samples() -> str:
    series = OpenMetrics()
    add_service(series, "checkout", 20, worse)
    add_service(series, "search", 20)
    add_service(series, "invoices", 0.02)
    add_service(series, "cart", 20, version="v1")
    add_service(series, "cart", 4, worse, version="v2", since=DEPLOYED)
    add_service(series, "stock", 20, worse, version="v1")
    add_service(series, "stock", 4, worse, version="v2", since=DEPLOYED)
    return series.finished()


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPrometheus]:
    with running_prometheus(tmp_path_factory.mktemp("deploys"), samples()) as server:
        yield server


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def verify(metrics: RunningPrometheus, folder: Path, service: str, *more: str) -> dict[str, object]:
    """The verdict as JSON, with the exit code."""
    asked = (service, "--since", DEPLOYED.isoformat(), "--prometheus", metrics.url, "--json")
    told = run(folder, *asked, *more)
    assert told.returncode in (0, 3, 4), told.stderr
    return {"exit": told.returncode, **json.loads(told.stdout)}


def test_a_deploy_that_makes_things_worse_is_rolled_back_with_evidence(
    metrics: RunningPrometheus, tmp_path: Path
) -> None:
    comment = tmp_path / "comment.md"
    verdict = verify(metrics, tmp_path, "checkout", "--markdown", str(comment))
    assert (verdict["exit"], verdict["decision"]) == (4, "roll_back")
    checks = verdict["checks"]
    assert isinstance(checks, list)
    bad = [one for one in checks if one["worse"]]
    assert {"errors", "latency"} <= {one["group"] for one in bad}
    errors = next(one for one in bad if one["signal"] == "error_ratio")
    assert errors["before"] == pytest.approx(0.005, rel=0.3)
    assert errors["after"] == pytest.approx(0.06, rel=0.3)
    assert errors["p"] < errors["needed_p"]
    evidence = verdict["evidence"]
    assert isinstance(evidence, list)
    cited = {one["id"]: one for one in evidence}
    assert "http_requests_total" in cited[errors["evidence"][0]]["query"]
    written = comment.read_text()
    assert "### Roll back: checkout" in written
    assert "http\\_requests\\_total" in written
    assert metrics.url in written, "a link to each query"


def test_a_healthy_deploy_may_go(metrics: RunningPrometheus, tmp_path: Path) -> None:
    verdict = verify(metrics, tmp_path, "search")
    assert (verdict["exit"], verdict["decision"]) == (0, "go"), verdict["headline"]
    checks = verdict["checks"]
    assert isinstance(checks, list)
    assert {"errors", "latency", "throughput"} <= {one["group"] for one in checks}


def test_too_little_traffic_is_said_and_held(metrics: RunningPrometheus, tmp_path: Path) -> None:
    verdict = verify(metrics, tmp_path, "invoices")
    assert (verdict["exit"], verdict["decision"]) == (3, "hold")
    missing = verdict["missing"]
    assert isinstance(missing, list)
    assert any("Too little traffic" in one and "at least 100" in one for one in missing), missing


def test_a_canary_is_compared_with_the_version_beside_it(
    metrics: RunningPrometheus, tmp_path: Path
) -> None:
    verdict = verify(metrics, tmp_path, "cart")
    assert (verdict["exit"], verdict["decision"]) == (4, "roll_back"), verdict["headline"]
    checks = verdict["checks"]
    assert isinstance(checks, list)
    beside = [one for one in checks if one["comparison"] == "rest" and one["worse"]]
    assert beside
    assert all(one["against"] == "version v1" for one in beside)


def test_trouble_that_the_old_version_has_too_is_not_the_deploys(
    metrics: RunningPrometheus, tmp_path: Path
) -> None:
    verdict = verify(metrics, tmp_path, "stock")
    assert (verdict["exit"], verdict["decision"]) == (3, "hold"), verdict["headline"]
    reasons = verdict["reasons"]
    assert isinstance(reasons, list)
    assert any("without the deploy moved alike" in one for one in reasons), reasons


def test_an_unknown_service_is_held_and_a_source_that_is_away_is_named(
    metrics: RunningPrometheus, tmp_path: Path
) -> None:
    unknown = verify(metrics, tmp_path, "no-such-service")
    assert unknown["exit"] == 3
    asked = ("search", "--since", DEPLOYED.isoformat(), "--prometheus", "http://127.0.0.1:9")
    told = run(tmp_path, *asked)
    assert told.returncode == 3
    assert "Not collected: metrics from prometheus" in told.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("search", "--wait", "soon"), "--wait"),
        (("search", "--wait", "3m"), "wait"),
        (("search", "--canary", "colour=blue"), "canary"),
        (("search", "--since", "2099-01-01"), "since"),
        (("search",), "--prometheus http://localhost:9090"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], named: str, tmp_path: Path
) -> None:
    sources = () if arguments == ("search",) else ("--prometheus", "http://127.0.0.1:9")
    told = run(tmp_path, *arguments, *sources)
    assert (told.returncode, told.stdout) == (2, "")
    assert named in told.stderr
    assert told.stderr.count("\n") == 1


def test_a_clear_roll_back_is_decided_early_and_a_go_takes_the_whole_time(tmp_path: Path) -> None:
    # In this process: another one may take longer to start than there is left to wait.
    began = datetime.now(UTC)
    deployed = began - timedelta(minutes=14, seconds=10)
    series, until = OpenMetrics(), began + timedelta(minutes=3)
    add_service(series, "checkout", 20, worse, at=deployed, until=until)
    add_service(series, "search", 20, at=deployed, until=until)
    progress = io.StringIO()
    console = Console(file=progress, width=200)
    with running_prometheus(tmp_path, series.finished()) as server:
        sources = settings_of({"prometheus": {"url": server.url}}, {})
        connectors = build_connectors(sources)
        good = DeployToCheck(service="search", deployed_at=deployed)
        bad = DeployToCheck(service="checkout", deployed_at=deployed, wait=timedelta(minutes=60))
        went = watch(good, connectors, console)
        early = watch(bad, connectors, console)
    assert (went.decision, went.look, went.looks) == ("go", 5, 5)
    assert "look 4 of 5: Hold search" in progress.getvalue()
    assert "look 5 of 5 at" in progress.getvalue()
    assert (early.decision, early.final, early.look, early.looks) == ("roll_back", True, 1, 5)


def action_step(name: str) -> tuple[str, dict[str, str]]:
    """The shell of a step of the GitHub Action, and the defaults of its inputs."""
    action = yaml.safe_load(ACTION.read_text())
    step = next(one for one in action["runs"]["steps"] if one["name"] == name)
    defaults = {key: str(one.get("default", "")) for key, one in action["inputs"].items()}
    given = {}
    for variable, text in step["env"].items():
        key = re.fullmatch(r"\$\{\{ inputs\.([a-z-]+) \}\}", text)
        if key is not None:
            given[variable] = defaults[key[1]]
    return step["run"], given


@pytest.mark.parametrize(
    ("service", "decision", "code"),
    [("checkout", "roll_back", "4"), ("search", "go", "0"), ("invoices", "hold", "0")],
)
def test_the_action_writes_decision_summary_and_comment(
    metrics: RunningPrometheus, tmp_path: Path, service: str, decision: str, code: str
) -> None:
    script, given = action_step("Verify")
    output, summary = tmp_path / "output", tmp_path / "summary"
    variables = {
        **environment(tmp_path),
        **given,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(summary),
        "SERVICE": service,
        "SINCE": DEPLOYED.isoformat(),
        "PROMETHEUS": metrics.url,
    }
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script]
    done = subprocess.run(
        command,
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = dict(line.split("=", 1) for line in output.read_text().splitlines())
    assert (told["decision"], told["code"]) == (decision, code)
    assert f": {service}" in summary.read_text()
    assert Path(told["comment"]).read_text() == summary.read_text()
    assert json.loads(Path(told["verdict"]).read_text())["decision"] == decision
