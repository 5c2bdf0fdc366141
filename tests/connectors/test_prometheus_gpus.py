"""GPU series from a real Prometheus that holds what dcgm-exporter and node_exporter write."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.case.folder import Case
from faultline.analysis.case.tables import conform
from faultline.analysis.gpus.health import gpu_health
from faultline.analysis.metrics import series as gs
from faultline.analysis.vocabulary import Alert, JobIdentity
from faultline.connectors.shared.contract.base import Collected, Request, collect_from
from faultline.connectors.shared.training.gpu_metrics import (
    DATADOG,
    LABELS,
    LEAST_POINTS,
    MOST_GPUS,
    PROMETHEUS,
    about_gpus,
    named,
)
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from faultline.connectors.vendors.prometheus.gpu_matchers import host_pattern
from faultline.connectors.vendors.prometheus.gpu_outliers import STANDING_OUT
from tests.connectors.conftest import (
    ALERT_AT,
    ONSET,
    OpenMetrics,
    RunningPrometheus,
    request_for,
    running_prometheus,
)
from tests.connectors.local_http import LocalServer, Reply

JOB = "llm-1"
EVIL_POD = 'chat-"}\\u202e<!channel>-{x}'
START = int(ALERT_AT.timestamp()) - 3 * 3600
END = int(ALERT_AT.timestamp()) + 60


def labels(**given: str) -> str:
    """The inside of an exposition's braces."""
    escaped = {
        k: v.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for k, v in given.items()
    }
    return ",".join(f'{k}="{v}"' for k, v in escaped.items())


def gpu_labels(host: str, gpu: int, **more: str) -> dict[str, str]:
    """What dcgm-exporter writes for a GPU (internal/pkg/rendermetrics)."""
    return {
        "gpu": str(gpu),
        "UUID": f"GPU-{host}-{gpu}",
        "pci_bus_id": f"00000000:{gpu}B:00.0",
        "device": f"nvidia{gpu}",
        "modelName": "NVIDIA H100 80GB HBM3",
        "Hostname": host,
        "DCGM_FI_DRIVER_VERSION": "550.54.15",
        "instance": "10.0.0.9:9400",
        "job": "dcgm-exporter",
        **more,
    }


def exposition() -> str:
    """A job on gpu-0 and gpu-1, whose GPU 2 of gpu-1 gets hot from ONSET on; other hosts, a chat
    service, MIG."""
    text = OpenMetrics()
    for t in range(START, END, 30):
        late = t >= ONSET.timestamp()
        for host in ("gpu-0", "gpu-1"):
            new = host == "gpu-1"
            for gpu in range(4):
                slow = late and host == "gpu-1" and gpu == 2
                own = gpu_labels(
                    host,
                    gpu,
                    exported_pod=f"{JOB}-worker-{host[-1]}",
                    pod="dcgm-exporter-x",
                    hpc_job="4711",
                )
                reasons = (
                    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
                    if new
                    else "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"
                )
                _gpu(text, own, t, slow=slow, reasons=reasons)
                held = 3_600_000_000_000 + slow * (t - int(ONSET.timestamp())) * 700_000_000
                text.add("DCGM_FI_DEV_THERMAL_VIOLATION", "unknown", labels(**own), held, t)
                code = "79" if slow and t >= ONSET.timestamp() + 600 else "0"
                text.add(
                    "DCGM_FI_DEV_XID_ERRORS",
                    "gauge",
                    labels(**own, err_code=code, err_msg="x"),
                    int(code),
                    t,
                )
                link = {
                    "nvlink": "3",
                    "gpu": str(gpu),
                    "gpu_uuid": f"GPU-{host}-{gpu}",
                    "hostname": host,
                }
                name = "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"
                text.add(name, "unknown", labels(**link), 5, t)
                text.add(name, "unknown", labels(**{**link, "nvlink": "4"}), 7, t)
            ib = {"device": "mlx5_0", "port": "1", "instance": f"{host}.cluster.local:9100"}
            text.add("node_infiniband_link_downed_total", "counter", labels(**ib), 1, t)
            text.add("node_infiniband_symbol_error_total", "counter", labels(**ib), 0, t)
        _gpu(text, gpu_labels("gpu-10", 0, hpc_job="99"), t)
        _gpu(text, gpu_labels("inference-1", 0, exported_pod=EVIL_POD, exported_namespace="a b"), t)
        _gpu(
            text,
            gpu_labels(
                "inference-1", 0, GPU_I_PROFILE="1g.10gb", GPU_I_ID="3", exported_pod="chat-x2x9l"
            ),
            t,
        )
        ib = {"device": "mlx5_0", "port": "1", "instance": "gpu-10:9100"}
        text.add("node_infiniband_link_downed_total", "counter", labels(**ib), 9, t)
    return text.finished()


def _gpu(
    text: OpenMetrics,
    own: Mapping[str, str],
    t: int,
    *,
    slow: bool = False,
    reasons: str = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
) -> None:
    for name, value in {
        "DCGM_FI_DEV_SM_CLOCK": 900 if slow else 1755,
        "DCGM_FI_DEV_GPU_UTIL": 99,
        "DCGM_FI_DEV_GPU_TEMP": 91 if slow else 61,
        "DCGM_FI_DEV_POWER_USAGE": 380.5 if slow else 651.25,
        "DCGM_FI_DEV_FB_USED": 70_000,
        "DCGM_FI_PROF_SM_ACTIVE": 0.875,
        reasons: 0x44 if slow else 0x4,
    }.items():
        text.add(name, "gauge", labels(**own), value, t)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPrometheus]:
    """Prometheus with the exposition above."""
    with running_prometheus(tmp_path_factory.mktemp("fleet"), exposition()) as server:
        yield server


def collect(server: str, request: Request, **settings: Any) -> tuple[pl.DataFrame, Collected]:
    """The GPU rows, with their labels as columns, and all that came."""
    collected = asyncio.run(collect_from(PrometheusConnector(server, **settings), request))
    metrics = collected.tables.get("metrics")
    assert metrics is not None, collected.missing
    rows = conform(metrics, "metrics", "metrics").filter(pl.col("signal").is_in(list(gs.SIGNALS)))
    schema = pl.Struct(
        dict.fromkeys(
            ("host", "gpu", "mig", "uuid", "model", "pod", "namespace", "device"), pl.String
        )
    )
    return rows.with_columns(pl.col("labels").str.json_decode(schema)).unnest("labels"), collected


def training_request(folder: Path, **identity: Any) -> Request:
    """A request about the job."""
    request = request_for(folder, job=JOB)
    scope = request.scope.model_copy(update={"training": JobIdentity(name=JOB, **identity)})
    return Request(request.alert, scope, folder)


@pytest.mark.parametrize(
    "identity",
    [
        {"hosts": ("GPU-0.cluster.local", "gpu-1")},
        {"hosts": ("gpu-0", "gpu-1"), "ranks_per_host": 4},
        {"slurm_job_id": "4711"},
        {},
    ],
)
def test_a_jobs_gpus_are_found_by_host_by_slurm_number_or_by_pod(
    fleet: RunningPrometheus, tmp_path: Path, identity: dict[str, Any]
) -> None:
    rows, collected = collect(fleet.url, training_request(tmp_path, **identity))
    assert rows["service"].unique().to_list() == [JOB]
    assert set(rows["host"].drop_nulls().str.replace(r"\..*", "")) == {"gpu-0", "gpu-1"}
    clock = rows.filter(pl.col("signal") == gs.SM_CLOCK)
    assert clock.select("host", "gpu").unique().height == 8
    assert set(clock["uuid"]) == {f"GPU-gpu-{h}-{g}" for h in (0, 1) for g in range(4)}
    assert set(clock["pod"]) == {f"{JOB}-worker-0", f"{JOB}-worker-1"}
    assert not [m for m in collected.missing if "GPU" in m.query]


def test_every_signal_has_its_unit_whatever_the_exporter_called_it(
    fleet: RunningPrometheus, tmp_path: Path
) -> None:
    rows, _ = collect(fleet.url, training_request(tmp_path, hosts=("gpu-0", "gpu-1")))
    levels = {
        (signal, host, gpu): value
        for signal, host, gpu, value in rows.filter(pl.col("time") < ONSET)
        .group_by("signal", "host", "gpu")
        .agg(pl.col("value").median())
        .iter_rows()
    }
    assert levels[gs.EVENT_REASONS, "gpu-0", "1"] == levels[gs.EVENT_REASONS, "gpu-1", "1"] == 4
    assert levels[gs.MEMORY_USED, "gpu-0", "0"] == 70_000 * 1024**2
    assert levels[gs.THROTTLED_BY_HEAT, "gpu-1", "2"] == 3_600
    assert levels[gs.NVLINK_ERRORS, "gpu-1", "3"] == 12
    assert levels[gs.SM_ACTIVE, "gpu-1", "3"] == 0.875
    assert levels[gs.IB_LINK_DOWNED, "gpu-1.cluster.local", None] == 1
    units = dict(rows.select("signal", "unit").unique().iter_rows())
    assert (units[gs.SM_CLOCK], units[gs.POWER], units[gs.MEMORY_USED]) == ("MHz", "W", "bytes")


def test_an_error_code_that_becomes_a_label_stays_one_series(
    fleet: RunningPrometheus, tmp_path: Path
) -> None:
    rows, _ = collect(fleet.url, training_request(tmp_path, hosts=("gpu-0", "gpu-1")))
    codes = rows.filter(
        pl.col("signal") == gs.XID, pl.col("host") == "gpu-1", pl.col("gpu") == "2"
    ).sort("time")
    assert codes["value"].unique().sort().to_list() == [0.0, 79.0]
    assert codes["value"][-1] == 79.0


def test_time_held_back_is_diagnosed_where_the_exporter_gives_no_clocks(
    fleet: RunningPrometheus, tmp_path: Path
) -> None:
    request = training_request(tmp_path, hosts=("gpu-0", "gpu-1"), ranks_per_host=4)
    without = {gs.SM_CLOCK: "", gs.EVENT_REASONS: ""}
    collected = asyncio.run(PrometheusConnector(fleet.url, queries=without).collect(request))
    case = Case(tmp_path, request.alert, request.scope)
    case.__dict__["metrics"] = conform(collected.tables["metrics"], "metrics", "metrics")
    found = {f.kind: f for f in gpu_health(case)}
    assert found["gpu_throttled"].subject == "rank 6"
    assert "was held back by heat for" in found["gpu_throttled"].sentence


def test_what_was_collected_is_diagnosed(fleet: RunningPrometheus, tmp_path: Path) -> None:
    request = training_request(tmp_path, hosts=("gpu-0", "gpu-1"), ranks_per_host=4)
    collected = asyncio.run(PrometheusConnector(fleet.url).collect(request))
    case = Case(tmp_path, request.alert, request.scope)
    case.__dict__["metrics"] = conform(collected.tables["metrics"], "metrics", "metrics")
    found = {f.kind: f for f in gpu_health(case)}
    assert set(found) == {"gpu_throttled", "gpu_xid"}
    assert all(f.subject == "rank 6" for f in found.values())
    assert "runs at 900 MHz (power cap, thermal (hardware))" in found["gpu_throttled"].sentence


def test_a_job_without_gpu_series_is_one_gap(fleet: RunningPrometheus, tmp_path: Path) -> None:
    request = request_for(tmp_path, job="other")
    rows, collected = collect(fleet.url, request, queries={"up_now": "vector(1)"})
    assert rows.height == 0
    (gap,) = [m for m in collected.missing if m.query == "GPU metrics"]
    assert "no GPU series belongs to the job other" in gap.reason


def test_an_alert_about_a_gpu_asks_for_its_host(fleet: RunningPrometheus, tmp_path: Path) -> None:
    said = {"Hostname": "gpu-1", "gpu": "2"}
    alert = Alert(source="test", title="GPU is hot", started_at=ALERT_AT, labels=said)
    rows, _ = collect(fleet.url, request_for(tmp_path, alert=alert))
    assert rows.filter(pl.col("signal") == gs.TEMPERATURE)["service"].unique().to_list() == [
        "gpu-1"
    ]


def test_the_gpus_of_a_service_are_those_of_its_pods_whatever_their_names(
    fleet: RunningPrometheus, tmp_path: Path
) -> None:
    rows, collected = collect(fleet.url, request_for(tmp_path, services=("chat",)))
    assert set(rows["service"]) == {"chat"}
    assert set(rows["pod"].drop_nulls()) == {EVIL_POD, "chat-x2x9l"}
    assert set(rows["mig"]) == {None, "3"}
    rows, collected = collect(
        fleet.url, request_for(tmp_path, services=("ca.*",)), queries={"one": "vector(1)"}
    )
    assert rows.height == 0
    assert not [m for m in collected.missing if m.query == "GPU metrics"]


def test_a_configured_query_replaces_a_gpu_signal(fleet: RunningPrometheus, tmp_path: Path) -> None:
    rows, _ = collect(
        fleet.url, training_request(tmp_path, hosts=("gpu-0",)), queries={gs.POWER: ""}
    )
    assert gs.POWER not in set(rows["signal"])
    assert gs.SM_CLOCK in set(rows["signal"])


def large() -> str:
    """40 hosts of 8; one GPU is slow, one has an Xid."""
    text = OpenMetrics()
    for t in range(START, END, 240):
        late = t >= ONSET.timestamp()
        for host in range(40):
            for gpu in range(8):
                own = labels(
                    gpu=str(gpu), Hostname=f"n{host:03}", UUID=f"GPU-{host}-{gpu}", hpc_job=JOB
                )
                slow = late and (host, gpu) == (23, 4)
                text.add("DCGM_FI_DEV_SM_CLOCK", "gauge", own, 800 if slow else 1700 + host % 7, t)
                text.add("DCGM_FI_DEV_GPU_UTIL", "gauge", own, 99, t)
                for who, seconds in (("SW", 30), ("HW", 12)):
                    name = f"DCGM_FI_DEV_CLOCKS_EVENT_REASON_{who}_THERM_SLOWDOWN_NS"
                    if slow:
                        text.add(name, "unknown", own, seconds * 10**9, t)
                text.add("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge", own, 0x40 if slow else 0x4, t)
                text.add(
                    "DCGM_FI_DEV_XID_ERRORS",
                    "gauge",
                    own,
                    48 if late and (host, gpu) == (31, 0) else 0,
                    t,
                )
    return text.finished()


def test_of_very_many_gpus_those_that_stand_out_are_read_and_it_is_said(tmp_path: Path) -> None:
    with running_prometheus(tmp_path, large()) as server:
        request = training_request(
            tmp_path, ranks_per_host=8, hosts=tuple(f"n{h:03}" for h in range(40))
        )
        collected = asyncio.run(collect_from(PrometheusConnector(server.url), request))
        rows, _ = collect(server.url, request)
    hosts = set(rows["host"])
    assert {"n023", "n031"} <= hosts
    assert rows.filter(pl.col("signal") == gs.THROTTLED_BY_HEAT)["value"].unique().to_list() == [42]
    assert rows.select("host", "gpu").unique().height <= MOST_GPUS
    assert len(hosts) >= 10
    cuts = {i.cut for i in collected.items if i.cut}
    assert any("320 GPUs on 40 hosts: only those of" in cut for cut in cuts)
    case = Case(tmp_path, request.alert, request.scope)
    case.__dict__["metrics"] = conform(collected.tables["metrics"], "metrics", "metrics")
    assert {(f.kind, f.subject) for f in gpu_health(case)} == {
        ("gpu_throttled", "rank 188"),
        ("gpu_xid", "rank 248"),
    }


def test_a_server_that_refuses_questions_about_gpus_gives_a_gap_and_the_rest_stands(
    server: LocalServer, tmp_path: Path
) -> None:
    server.on("/api/v1/label/__name__/values", Reply({"data": ["DCGM_FI_DEV_GPU_UTIL", "up"]}))
    server.on("/api/v1/labels", Reply({"data": ["job"]}))
    server.on("/api/v1/query_range", Reply(status=422, body={"status": "error", "error": "no"}))
    collected = asyncio.run(
        collect_from(PrometheusConnector(server.url), request_for(tmp_path, job=JOB))
    )
    assert [m.query for m in collected.missing if m.query == "GPU metrics"] == ["GPU metrics"]
    assert server.methods == {"GET"}


@pytest.mark.parametrize(
    ("title", "given_labels", "about"),
    [
        ("GPU temperature high", {}, True),
        ("GpuXidErrors", {}, True),
        ("Checkout is slow", {}, False),
        ("Checkout is slow", {"gpu": "3"}, True),
        ("gputting", {}, False),
        ("dcgm_xid", {}, True),
    ],
)
def test_an_alert_is_about_gpus_by_its_words_or_labels(
    title: str, given_labels: dict[str, str], about: bool
) -> None:
    assert (
        about_gpus(Alert(source="t", title=title, started_at=ALERT_AT, labels=given_labels))
        is about
    )


def test_the_label_that_names_the_machine_is_told_from_the_exporters_pod() -> None:
    own = {
        "Hostname": "dcgm-exporter-6ldbb",
        "node": "gpu-7",
        "instance": "10.1.1.1:9400",
        "gpu": "0",
        "pod": "",
    }
    assert named(own) == {"host": "gpu-7", "gpu": "0"}
    assert named({"instance": "10.1.1.1:9400"}) == {"host": "10.1.1.1"}
    assert named({"instance": "[fe80::1]:9400"}) == {"host": "fe80::1"}
    assert named({"hostname": "a", "device": "mlx5_0"}, network=True) == {
        "host": "a",
        "device": "mlx5_0",
    }


HOST = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)


@given(st.lists(HOST, min_size=1, max_size=5), st.text(max_size=10))
def test_a_pattern_of_hosts_matches_them_with_and_without_domain_and_port(
    hosts: list[str], other: str
) -> None:
    text = host_pattern(hosts)
    assert text is not None
    pattern = re.compile(text.replace("\\\\", "\\"))
    for host in hosts:
        short = host if re.fullmatch(r"[\d.]+", host) else host.partition(".")[0]
        for spelling in (short, short.upper(), f"{short}.example.com", f"{short}:9400"):
            assert pattern.fullmatch(spelling), (spelling, text)
    starts = {h.partition(".")[0] for h in hosts}
    if not any(other.lower().startswith(s) for s in starts):
        assert not pattern.fullmatch(other)


def test_very_many_hosts_make_no_pattern_that_is_too_long() -> None:
    assert host_pattern([f"very-long-name-of-a-host-{n:04}" for n in range(512)]) is not None
    assert host_pattern([f"{n * 7919:012x}-{n}" for n in range(4000)]) is None


def test_every_signal_has_a_metric_and_names_are_given_once() -> None:
    assert {n.signal for n in PROMETHEUS} == set(gs.SIGNALS)
    every = [m for n in PROMETHEUS for m in n.metrics]
    assert len(every) == len(set(every))
    assert set(DATADOG) <= set(gs.SIGNALS)
    assert json.dumps(sorted(DATADOG))


def test_the_page_names_every_metric_label_and_limit() -> None:
    text = (
        Path(__file__).resolve().parents[2] / "docs" / "connectors" / "prometheus.md"
    ).read_text()
    for names in PROMETHEUS:
        assert f"`{names.signal}`" in text, names.signal
        assert not [m for m in names.metrics if f"`{m}`" not in text], names.signal
    assert not [label for label in (*LABELS["host"], *LABELS["pod"]) if f"`{label}`" not in text]
    assert f"up to {MOST_GPUS} GPUs" in text
    assert f"at least {LEAST_POINTS} points" in text
    assert f"({STANDING_OUT} GPUs for each)" in text
