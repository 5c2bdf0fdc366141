"""Logs of containers: the last lines of a crash, and lines of a few pods of each service."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from faultline.analysis.case.folder import read_case
from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.shared.rows.log_windows import SOURCE
from faultline.connectors.vendors.kubernetes import CONNECTOR
from faultline.connectors.vendors.kubernetes.container_logs import (
    LINES,
    MOST_RUNS,
    PODS_OF_SERVICE,
    read_lines,
)
from faultline.connectors.vendors.kubernetes.crash_lines import LONGEST, telling_line
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.connectors.kubernetes_objects import (
    LOG_PARAMETERS,
    Object,
    container,
    listed,
    node,
    pod,
    refused,
    utc,
    written_log,
)
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins import kubernetes as stand_in
from tests.connectors.stand_ins.kubernetes import LOG, NEW_SET, SECRET_VALUE
from tests.connectors.test_kubernetes import diagnosed
from tests.connectors.test_kubernetes_states import document

CRASHED = f"{NEW_SET}-x2x4b"
PODS = "/api/v1/namespaces/shop/pods"


@pytest.fixture
def cluster(server: LocalServer) -> LocalServer:
    """The cluster of the incident."""
    stand_in.serve(server)
    return server


def collect(server: LocalServer, folder: Path, **kubernetes: Any) -> Collected:
    """What is collected for an alert about checkout."""
    given = stand_in.settings(server.url)
    given["kubernetes"] |= kubernetes
    connector = CONNECTOR.configured(Settings.model_validate(given))
    assert connector is not None
    alert = Alert(source="x", title="Checkout fails", started_at=ALERT_AT, service="checkout")
    request = request_for(folder, services=("checkout", "cart"), alert=alert)
    return asyncio.run(collect_from(connector, request))


def lines(found: Collected) -> pl.DataFrame:
    """The rows of logs that containers wrote."""
    logs = conform(found.tables["logs"], "logs", "logs")
    return logs.filter(pl.col("attributes").str.contains(SOURCE, literal=True))


def asked_logs(server: LocalServer) -> list[tuple[str, dict[str, str]]]:
    """The pods whose logs were asked for, and how."""
    found = []
    for one in server.asked:
        if one.path.endswith("/log"):
            name = one.path.split("/")[-2]
            found.append((name, {key: values[0] for key, values in one.query.items()}))
    return found


def test_the_last_lines_of_a_crash_are_evidence_with_their_own_query(
    cluster: LocalServer, tmp_path: Path
) -> None:
    found = collect(cluster, tmp_path)
    assert found.missing == ()
    query = f"kubectl logs -n shop {CRASHED} -c app --timestamps --previous --tail=100"
    (item,) = [one for one in found.items if one.query == query]
    assert item.services == ("checkout",)
    assert item.link == f"https://headlamp.example.com/c/main/pods/shop/{CRASHED}"
    assert item.details["last lines"].startswith("loading catalogue into memory\nTraceback")
    states = conform(found.tables["states"], "states", "states")
    row = states.filter(name=CRASHED, fact="killed_for_memory").row(0, named=True)
    assert row["query"] == query
    assert 'its last line says "MemoryError: no room' in row["value"]
    assert (CRASHED, "true") in [(name, how.get("previous")) for name, how in asked_logs(cluster)]


def test_running_containers_are_asked_since_the_window_began(
    cluster: LocalServer, tmp_path: Path
) -> None:
    found = lines(collect(cluster, tmp_path)).filter(service="cart")
    assert found["message"].to_list()[:2] == ["GET /cart/0 200", "GET /cart/1 200"]
    assert json.loads(found["attributes"][0])["pod"] == "cart-0"
    # Some lines are later than the incident's end.
    assert 1 < found.height < len(stand_in.SERVED)
    (how,) = [how for name, how in asked_logs(cluster) if name == "cart-0"]
    assert how["tailLines"] == str(LINES)
    assert datetime.now(UTC) - timedelta(seconds=int(how["sinceSeconds"])) < ONSET
    assert "previous" not in how


def test_of_a_long_log_the_beginning_is_read_too(cluster: LocalServer, tmp_path: Path) -> None:
    begun = ALERT_AT - timedelta(hours=2)
    long = [(begun + timedelta(seconds=n), f"GET /cart/{n} 200") for n in range(7_000)]
    cluster.on(LOG.format("cart-0"), written_log(long))
    collected = collect(cluster, tmp_path)
    found = lines(collected).filter(service="cart").sort("time")
    assert found["message"].is_unique().all()
    assert found["time"][0] < ALERT_AT - timedelta(hours=1)
    assert found["message"][-1] == "GET /cart/6999 200"
    (item,) = [one for one in collected.items if one.query.startswith("kubectl logs -n shop cart")]
    assert item.cut == "the first lines of the container, and its last 1,000"


def test_secrets_in_logs_are_masked_in_rows_details_and_states(
    cluster: LocalServer, tmp_path: Path
) -> None:
    found = collect(cluster, tmp_path)
    everything = repr(found.items) + "".join(repr(t.to_dicts()) for t in found.tables.values())
    assert "MemoryError" in everything
    assert "hunter2" in SECRET_VALUE
    assert "hunter2" not in everything


def test_a_cluster_that_forbids_it_is_one_gap_that_says_what_to_do(
    cluster: LocalServer, tmp_path: Path
) -> None:
    for name in (CRASHED, f"{NEW_SET}-k8l5m", "cart-0"):
        cluster.on(LOG.format(name), refused(403, "pods/log is forbidden"))
    (gap,) = collect(cluster, tmp_path).missing
    assert (gap.kind, gap.query) == ("logs", "kubectl logs -n shop")
    assert gap.reason.endswith(
        "add `get` on `pods/log` to its role, or set kubernetes.logs = false"
    )


def test_they_are_not_asked_for_where_that_is_switched_off(
    cluster: LocalServer, tmp_path: Path
) -> None:
    assert collect(cluster, tmp_path, logs=False).missing == ()
    assert asked_logs(cluster) == []


def test_the_finding_cites_the_log_that_it_quotes(cluster: LocalServer, tmp_path: Path) -> None:
    alert = Alert(source="x", title="Checkout fails", started_at=ALERT_AT, service="checkout")
    findings = diagnosed(cluster, tmp_path, alert).findings
    (finding,) = [one for one in findings if "its last line says" in one.sentence]
    assert finding.subject == "checkout"
    queries = {one.id: one.query for one in read_case(tmp_path / "case").evidence}
    cited = sorted(queries[one].split(" -c ")[0] for one in finding.evidence)
    assert cited == [f"kubectl logs -n shop {NEW_SET}-k8l5m", f"kubectl logs -n shop {CRASHED}"]


def crashed(name: str, ended: datetime, restarts: int = 1) -> Object:
    """A pod of checkout whose container ended once and runs again."""
    state = {"exitCode": 1, "reason": "Error", "finishedAt": utc(ended), "containerID": "c"}
    return pod(name, "checkout", "node-1", [container(restarts, ended=state)])


def test_a_crash_that_nothing_else_tells_of_is_a_fact(cluster: LocalServer, tmp_path: Path) -> None:
    ended = ONSET + timedelta(minutes=1)
    cluster.on(PODS, listed([crashed("checkout-1", ended), crashed("checkout-2", ONSET)]))
    for name in ("checkout-1", "checkout-2"):
        said = [
            (ended, "panic: nil map"),
            (ended, "goroutine 1 [running]:"),
            (ended, "main.main()"),
        ]
        cluster.on(LOG.format(name), written_log([], said))
    states = conform(collect(cluster, tmp_path).tables["states"], "states", "states")
    row = states.filter(name="checkout-1").row(0, named=True)
    assert (row["fact"], row["since"], row["service"]) == ("crashed", ended, "checkout")
    assert row["value"] == 'exit code 1; its last line says "panic: nil map"'


def test_few_pods_are_read_those_in_trouble_and_the_newest_first(
    cluster: LocalServer, tmp_path: Path
) -> None:
    pods = []
    for number in range(15):
        one = pod(f"checkout-{number}", "checkout", "node-1", [container()])
        one["metadata"]["creationTimestamp"] = utc(ALERT_AT - timedelta(hours=15 - number))
        pods.append(one)
    unready = pod("checkout-sick", "checkout", "node-1", [container(3)], ready=False)
    cluster.on(PODS, listed([*pods, unready]))
    collect(cluster, tmp_path)
    names = [name for name, _ in asked_logs(cluster)]
    assert sorted(names) == ["checkout-13", "checkout-14", "checkout-sick"]
    assert len(names) == PODS_OF_SERVICE <= MOST_RUNS


def test_a_kubelet_that_does_not_answer_is_asked_once(cluster: LocalServer, tmp_path: Path) -> None:
    gone = [crashed(f"checkout-{n}", ONSET) for n in range(3)]
    cluster.on(PODS, listed(gone))
    for one in gone:
        cluster.on(LOG.format(one["metadata"]["name"]), refused(500, "dial tcp: i/o timeout"))
    (gap,) = collect(cluster, tmp_path).missing
    assert gap.query.startswith("kubectl logs -n shop checkout-")
    assert len(asked_logs(cluster)) == 1
    cluster.on("/api/v1/nodes", listed([node("node-1", Ready="Unknown")]))
    (gap,) = collect(cluster, tmp_path).missing
    assert gap.reason == "node node-1 is not ready, and its kubelet holds the logs"
    assert len(asked_logs(cluster)) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("starting\nValueError: no such route", "ValueError: no such route"),
        (
            "panic: nil map\n\ngoroutine 1 [running]:\nmain.main()\n\t/a.go:5\nexit status 2",
            "panic: nil map",
        ),
        (
            'Exception in thread "main" x.StartException\n\tat x.A.b(A.java:3)\n'
            "Caused by: java.net.ConnectException: refused\n\tat x.C.d(C.java:9)\n\t... 3 more",
            "Caused by: java.net.ConnectException: refused",
        ),
        ("/app/i.js:5\n\nError: bad\n    at f (/app/i.js:5:1)\n\nNode.js v24.1.0", "Error: bad"),
        (
            "thread 'main' panicked at src/main.rs:4:5:\nboom\nnote: run with `RUST_BACKTRACE=1`",
            "boom",
        ),
        ('{"level":"fatal","msg":"no database","error":"dial tcp"}', "no database: dial tcp"),
        ("\x1b[31mFATAL\x1b[0m at startup: no\x07 key", "FATAL at startup: no key"),
        (
            "ERROR:  could not extend file\nPANIC:  No space left on device\n"
            "LOG:  database system is shut down",
            "PANIC: No space left on device",
        ),
        ("INFO loading\nINFO 91 % loaded", "INFO 91 % loaded"),
        ("  at a\n  at b", "at b"),
        ("", ""),
        ("x" * 9_000, "x" * (LONGEST - 1) + "…"),
    ],
)
def test_the_line_that_says_why_is_told(text: str, said: str) -> None:
    assert telling_line(text.split("\n")) == said


def test_a_secret_at_the_cut_is_masked_whole() -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    assert key[:8] not in telling_line(["x" * (LONGEST - 10) + f" {key}"])


def test_lines_without_a_time_are_dropped() -> None:
    text = "9Z cut off\n2026-03-02T11:50:00.5Z whole\n0001-01-01T00:00:00+23:59 old\n\nnone"
    assert [line for _, line in read_lines(text)] == ["whole"]


def test_the_calls_are_those_of_the_published_api(shared: Path) -> None:
    published = document(shared, "core-v1.json.gz")["paths"]
    log = published["/api/v1/namespaces/{namespace}/pods/{name}/log"]
    known = {one["name"] for one in (*log["parameters"], *log["get"].get("parameters", ()))}
    assert known >= LOG_PARAMETERS
    assert "text/plain" in log["get"]["responses"]["200"]["content"]
