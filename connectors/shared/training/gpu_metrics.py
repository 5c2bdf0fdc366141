"""Which metric of which exporter is which GPU signal: dcgm-exporter, Dynolog, node_exporter,
Datadog's `dcgm` check.

Prometheus names:
- dcgm-exporter, etc/default-counters.csv and etc/dcp-metrics-included.csv: the metric is the DCGM
  field's name. Fields were renamed in DCGM 3.3 (clock throttle to clock event reasons) and 4.6
  (aliases, go-dcgm's legacy fields); lower case are etc/1.x-compatibility-metrics.csv.
- Dynolog's own Prometheus page (PrometheusLogger.cpp) has processor and network metrics only; its
  GPU metrics leave by OTLP (OtlpMetricsLogger.cpp), and come to Prometheus through a collector,
  which may add the unit to the name.
- node_exporter, collector/infiniband_linux.go and netclass_linux.go.

Datadog names: integrations-core, dcgm/datadog_checks/dcgm/metrics.py and dcgm/metadata.csv;
Datadog's `count` metrics are increases per interval, unlike the counters of Prometheus.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from faultline.analysis.metrics import series as gs
from faultline.analysis.vocabulary import Alert

MIB = 1_048_576
NANOSECOND = 1e-9
"""Of the violation counters in seconds (dcgm_fields.h; dcgm-exporter's comments said microseconds
until pull request 589). In nanoseconds they would pass DCGM's values for "no value" after 2 s."""


@dataclass(frozen=True)
class GpuMetricNames:
    """The metrics of one kind of exporter that are one signal, all in one unit; `scale` turns it
    into the signal's.

    `how` joins the series of one GPU: labels that do not tell GPUs apart (a link, an error's text)
    are dropped.
    """

    signal: str
    metrics: tuple[str, ...]
    scale: float = 1.0
    how: str = "max"
    matcher: str = ""


_LEGACY = "dcgm_"


def _dcgm(signal: str, *fields: str, scale: float = 1.0, how: str = "max") -> GpuMetricNames:
    """Fields are given without `DCGM_FI_`; a name in lower case is a whole name of dcgm-exporter
    1.x."""
    names = tuple(field if field.startswith(_LEGACY) else f"DCGM_FI_{field}" for field in fields)
    return GpuMetricNames(signal, names, scale, how)


PROMETHEUS: tuple[GpuMetricNames, ...] = (
    _dcgm(gs.SM_CLOCK, "DEV_SM_CLOCK", "dcgm_sm_clock"),
    GpuMetricNames(gs.SM_CLOCK, ("gpu_frequency_mhz", "gpu_frequency_mhz_MHz")),
    _dcgm(gs.EVENT_REASONS, "DEV_CLOCKS_EVENT_REASONS", "DEV_CLOCK_THROTTLE_REASONS"),
    _dcgm(gs.XID, "DEV_XID_ERRORS", "DEV_XID_ERROR", "dcgm_xid_errors"),
    GpuMetricNames(gs.XID_EVENTS, ("DCGM_EXP_XID_ERRORS_TOTAL", "DCGM_EXP_XID_ERRORS_COUNT")),
    _dcgm(gs.ECC_DBE, "DEV_ECC_DBE_VOL_TOTAL", "dcgm_ecc_dbe_volatile_total"),
    _dcgm(gs.ECC_SBE, "DEV_ECC_SBE_VOL_TOTAL", "dcgm_ecc_sbe_volatile_total"),
    _dcgm(gs.ROW_REMAP_PENDING, "DEV_ROW_REMAP_PENDING"),
    _dcgm(gs.ROW_REMAP_FAILURE, "DEV_ROW_REMAP_FAILURE"),
    _dcgm(gs.ROWS_REMAPPED, "DEV_UNCORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"),
    _dcgm(
        gs.NVLINK_ERRORS,
        "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
        "DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
        "DEV_NVLINK_REPLAY_ERROR_TOTAL",
        "DEV_NVLINK_RECOVERY_ERROR_TOTAL",
        "DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS",
        "dcgm_nvlink_replay_error_count_total",
        "dcgm_nvlink_recovery_error_count_total",
        how="sum",
    ),
    _dcgm(
        gs.NVLINK_CRC,
        "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        "DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
        "DEV_NVLINK_CRC_FLIT_ERROR_TOTAL",
        "DEV_NVLINK_CRC_DATA_ERROR_TOTAL",
        "dcgm_nvlink_flit_crc_error_count_total",
        "dcgm_nvlink_data_crc_error_count_total",
        how="sum",
    ),
    _dcgm(
        gs.PCIE_REPLAYS,
        "DEV_PCIE_REPLAY_COUNTER",
        "DEV_PCIE_REPLAY_TOTAL",
        "dcgm_pcie_replay_counter",
    ),
    _dcgm(gs.TEMPERATURE, "DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS", "dcgm_gpu_temp"),
    _dcgm(gs.MEMORY_TEMPERATURE, "DEV_MEMORY_TEMP", "DEV_MEMORY_TEMP_CELSIUS", "dcgm_memory_temp"),
    _dcgm(gs.SLOWDOWN_TEMPERATURE, "DEV_SLOWDOWN_TEMP", how="min"),
    _dcgm(gs.POWER, "DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS", "dcgm_power_usage"),
    GpuMetricNames(gs.POWER, ("gpu_power_draw", "gpu_power_draw_watts")),
    _dcgm(gs.UTILIZATION, "DEV_GPU_UTIL", "dcgm_gpu_utilization"),
    # Dynolog writes a ratio, and the signal is in percent.
    GpuMetricNames(
        gs.UTILIZATION, ("gpu_device_utilization", "gpu_device_utilization_ratio"), scale=100
    ),
    _dcgm(gs.SM_ACTIVE, "PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO", "dcgm_fi_prof_sm_active"),
    GpuMetricNames(gs.SM_ACTIVE, ("sm_active_ratio", "sm_active_ratio_ratio")),
    _dcgm(
        gs.TENSOR_ACTIVE,
        "PROF_PIPE_TENSOR_ACTIVE",
        "PROF_TENSOR_UTIL_RATIO",
        "dcgm_fi_prof_pipe_tensor_active",
    ),
    GpuMetricNames(gs.TENSOR_ACTIVE, ("tensorcore_active", "tensorcore_active_ratio")),
    # DCGM counts the frame buffer in MiB, the signal is in bytes.
    _dcgm(gs.MEMORY_USED, "DEV_FB_USED", "dcgm_fb_used", scale=MIB),
    _dcgm(gs.THROTTLED_BY_HEAT, "DEV_THERMAL_VIOLATION", scale=NANOSECOND),
    _dcgm(
        gs.THROTTLED_BY_HEAT,
        "DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS",
        "DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS",
        scale=NANOSECOND,
        how="sum",
    ),
    _dcgm(gs.THROTTLED_BY_POWER, "DEV_POWER_VIOLATION", scale=NANOSECOND),
    _dcgm(gs.THROTTLED_BY_POWER, "DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", scale=NANOSECOND),
    _dcgm(
        gs.THROTTLED_BY_BRAKE,
        "DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS",
        scale=NANOSECOND,
    ),
    _dcgm(gs.THROTTLED_BY_BOARD, "DEV_BOARD_LIMIT_VIOLATION", scale=NANOSECOND),
    _dcgm(gs.THROTTLED_BY_RELIABILITY, "DEV_RELIABILITY_VIOLATION", scale=NANOSECOND),
    GpuMetricNames(gs.IB_LINK_DOWNED, ("node_infiniband_link_downed_total",)),
    GpuMetricNames(gs.IB_SYMBOL_ERRORS, ("node_infiniband_symbol_error_total",)),
    GpuMetricNames(gs.IB_LINK_RECOVERIES, ("node_infiniband_link_error_recovery_total",)),
    GpuMetricNames(gs.IB_RECEIVE_ERRORS, ("node_infiniband_port_errors_received_total",)),
    GpuMetricNames(
        gs.CARRIER_DOWN,
        ("node_network_carrier_down_changes_total",),
        matcher=r'device=~"e(n|th).*|ib.*|hsn.*|roce.*|rdma.*"',
    ),
)
"""In order of preference: a signal's rows come from the first exporter that has any.
`gpu_sm_active` and `gpu_tensor_active` are ratios of 0 to 1. Time held back by sync boost or by low
utilization is not read: another GPU is the slow one, or there is no work. The matcher of network
interfaces leaves out what has no cable."""

DATADOG: Mapping[str, tuple[str, ...]] = {
    gs.SM_CLOCK: ("dcgm.sm_clock",),
    gs.EVENT_REASONS: ("dcgm.clock_throttle_reasons",),
    gs.XID: ("dcgm.xid_errors",),
    gs.ROW_REMAP_FAILURE: ("dcgm.row_remap_failure",),
    gs.ROWS_REMAPPED: ("dcgm.uncorrectable_remapped_rows.count",),
    gs.PCIE_REPLAYS: ("dcgm.pcie_replay.count",),
    gs.TEMPERATURE: ("dcgm.temperature",),
    gs.MEMORY_TEMPERATURE: ("dcgm.mem.temperature",),
    gs.SLOWDOWN_TEMPERATURE: ("dcgm.slowdown_temperature",),
    gs.POWER: ("dcgm.power_usage",),
    gs.UTILIZATION: ("dcgm.gpu_utilization",),
    gs.SM_ACTIVE: ("dcgm.sm_active",),
    gs.TENSOR_ACTIVE: ("dcgm.pipe.tensor_active",),
    gs.MEMORY_USED: ("dcgm.frame_buffer.used",),
}
"""By signal. The check maps no ECC and no NVLink error counters; `frame_buffer.used` is in MiB (see
DATADOG_SCALE)."""
DATADOG_SCALE: Mapping[str, float] = {gs.MEMORY_USED: MIB}
DATADOG_INCREASES = frozenset({gs.ROWS_REMAPPED, gs.PCIE_REPLAYS})
"""Signals that Datadog has as increases: their rows must be summed up before they are counters."""

LABELS: Mapping[str, tuple[str, ...]] = {
    "host": (
        "Hostname",
        "hostname",
        "host_name",
        "node",
        "kubernetes_node",
        "nodename",
        "host",
        "instance",
    ),
    "gpu": ("gpu", "gpu_id", "hw_id"),
    "mig": ("GPU_I_ID",),
    "uuid": ("UUID", "gpu_uuid", "uuid"),
    "model": ("modelName", "model_name"),
    "pod": ("exported_pod", "pod", "pod_name"),
    "namespace": ("exported_namespace", "namespace", "pod_namespace"),
    "container": ("exported_container", "container", "container_name"),
    "xid": ("xid",),
    "port": ("port",),
}
"""Labels that say whose a series is, by what they are called in a case; of several the first that
is set counts.

dcgm-exporter writes `Hostname` and `UUID` for a GPU, `hostname` and `gpu_uuid` for a link
(rendermetrics); `exported_` stands before labels that clash with Prometheus's own, which then name
the exporter's pod. On hosts `device` is a network device."""
EXPORTER_PODS = (
    "dcgm-exporter",
    "nvidia-dcgm-exporter",
    "gpu-operator-node-exporter",
    "node-exporter",
)
"""A "host" that begins so is the exporter's own pod; another label names the machine (dcgm-exporter
issue 188)."""


def named(metric: Mapping[str, str], *, network: bool = False) -> dict[str, str]:
    """A series' labels by what they are called in a case, empty ones left out."""
    devices = {}
    for name, labels in LABELS.items():
        values = [metric[label] for label in labels if metric.get(label)]
        if name == "host":
            machines = [value for value in values if not value.startswith(EXPORTER_PODS)]
            # The exporter's pod is a poor host name, but better than none.
            values = [_machine(value) for value in machines] or values
        if values:
            devices[name] = values[0]
    if network and metric.get("device"):
        devices["device"] = metric["device"]
    return devices


def _machine(value: str) -> str:
    """The host of `host:port`; a bare v6 address stays."""
    host, _, port = value.rpartition(":")
    # In `host:port` a v6 address stands in brackets.
    is_bare_v6 = ":" in host and not host.startswith("[")
    if not host or not port.isdigit() or is_bare_v6:
        return value
    return host.strip("[]")


# Whether an alert is about GPUs, and how much is asked about them; the same for every vendor.

MOST_GPUS = 128
"""Up to that many GPUs all are asked: 16 machines of 8."""
ROWS_PER_WINDOW = 5000
"""Rows of one signal in one window; the step grows with the number of GPUs."""
LEAST_POINTS = 20
ABOUT_GPUS = re.compile(r"(?i)(?:\b|_)(?:gpus?|dcgm|xid|nvlink|ecc|cuda|nccl|infiniband)(?:\b|_)")
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")


def about_gpus(alert: Alert) -> bool:
    """Whether the alert is about a GPU, by its labels or its words."""
    if any(alert.labels.get(label) for label in (*LABELS["gpu"], *LABELS["uuid"])):
        return True
    for text in (alert.title, alert.signal or "", alert.labels.get("alertname", "")):
        # Alerts are often called like GpuTemperatureHigh.
        words = _CAMEL_CASE.sub(" ", text[:500])
        if ABOUT_GPUS.search(words):
            return True
    return False
