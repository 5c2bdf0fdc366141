"""The signals of GPUs and their links: one name and one unit each, whatever exporter they came
from.

Which vendor's metric is which signal stands in `faultline.connectors.shared.training.gpu_metrics`.
In the table `metrics` a row's labels say whose it is: host, gpu (its number on the host), mig,
uuid, model, pod, namespace, container, device, port, xid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

SignalKind = Literal["gauge", "counter", "bitmask", "code", "flag"]
"""A gauge's level counts; of a counter its steps up; a code is the number of the last error; a flag
is 0 or 1."""


@dataclass(frozen=True)
class GpuSignal:
    """What one signal measures."""

    kind: SignalKind
    unit: str


SM_CLOCK, EVENT_REASONS = "gpu_sm_clock_mhz", "gpu_clock_event_reasons"
XID, XID_EVENTS = "gpu_xid", "gpu_xid_events"
ECC_DBE, ECC_SBE = "gpu_ecc_dbe", "gpu_ecc_sbe"
ROW_REMAP_PENDING, ROW_REMAP_FAILURE = "gpu_row_remap_pending", "gpu_row_remap_failure"
ROWS_REMAPPED = "gpu_rows_remapped_uncorrectable"
NVLINK_ERRORS, NVLINK_CRC, PCIE_REPLAYS = (
    "gpu_nvlink_errors",
    "gpu_nvlink_crc_errors",
    "gpu_pcie_replays",
)
TEMPERATURE, MEMORY_TEMPERATURE = "gpu_temperature_c", "gpu_memory_temperature_c"
SLOWDOWN_TEMPERATURE = "gpu_slowdown_temperature_c"
POWER, UTILIZATION, SM_ACTIVE = "gpu_power_w", "gpu_utilization_percent", "gpu_sm_active"
TENSOR_ACTIVE, MEMORY_USED = "gpu_tensor_active", "gpu_memory_used_bytes"
THROTTLED_BY_HEAT, THROTTLED_BY_POWER = "gpu_held_back_by_heat_s", "gpu_held_back_by_power_s"
THROTTLED_BY_BRAKE, THROTTLED_BY_BOARD = (
    "gpu_held_back_by_power_brake_s",
    "gpu_held_back_by_board_s",
)
THROTTLED_BY_RELIABILITY = "gpu_held_back_by_reliability_s"
IB_LINK_DOWNED, IB_SYMBOL_ERRORS = "ib_link_downed", "ib_symbol_errors"
IB_LINK_RECOVERIES, IB_RECEIVE_ERRORS = "ib_link_error_recoveries", "ib_receive_errors"
CARRIER_DOWN = "net_carrier_down"

SIGNALS: Mapping[str, GpuSignal] = {
    SM_CLOCK: GpuSignal("gauge", "MHz"),
    EVENT_REASONS: GpuSignal("bitmask", "bits"),
    XID: GpuSignal("code", "code"),
    XID_EVENTS: GpuSignal("counter", "events"),
    ECC_DBE: GpuSignal("counter", "errors"),
    ECC_SBE: GpuSignal("counter", "errors"),
    ROW_REMAP_PENDING: GpuSignal("flag", ""),
    ROW_REMAP_FAILURE: GpuSignal("flag", ""),
    ROWS_REMAPPED: GpuSignal("counter", "rows"),
    NVLINK_ERRORS: GpuSignal("counter", "errors"),
    NVLINK_CRC: GpuSignal("counter", "errors"),
    PCIE_REPLAYS: GpuSignal("counter", "replays"),
    TEMPERATURE: GpuSignal("gauge", "°C"),
    MEMORY_TEMPERATURE: GpuSignal("gauge", "°C"),
    SLOWDOWN_TEMPERATURE: GpuSignal("gauge", "°C"),
    POWER: GpuSignal("gauge", "W"),
    UTILIZATION: GpuSignal("gauge", "percent"),
    SM_ACTIVE: GpuSignal("gauge", "ratio"),
    TENSOR_ACTIVE: GpuSignal("gauge", "ratio"),
    MEMORY_USED: GpuSignal("gauge", "bytes"),
    THROTTLED_BY_HEAT: GpuSignal("counter", "s"),
    THROTTLED_BY_POWER: GpuSignal("counter", "s"),
    THROTTLED_BY_BRAKE: GpuSignal("counter", "s"),
    THROTTLED_BY_BOARD: GpuSignal("counter", "s"),
    THROTTLED_BY_RELIABILITY: GpuSignal("counter", "s"),
    IB_LINK_DOWNED: GpuSignal("counter", "times"),
    IB_SYMBOL_ERRORS: GpuSignal("counter", "errors"),
    IB_LINK_RECOVERIES: GpuSignal("counter", "times"),
    IB_RECEIVE_ERRORS: GpuSignal("counter", "errors"),
    CARRIER_DOWN: GpuSignal("counter", "times"),
}
"""By name. Rows of these signals are judged GPU by GPU and against other GPUs, not as series by
themselves."""
OF_A_GPU = tuple(name for name in SIGNALS if name.startswith("gpu_"))
OF_A_HOST = tuple(name for name in SIGNALS if name not in OF_A_GPU)

CLOCK_EVENTS: Mapping[int, str] = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
    0x100: "display clocks",
}
"""What the bits of the clock-event reasons mean (DCGM, dcgm_fields.h: DCGM_CLOCKS_EVENT_REASON_*;
NVML's the same)."""
HARMFUL_EVENTS = 0x8 | 0x20 | 0x40 | 0x80
"""The bits that DCGM's diagnostics fail on (nvvs, DcgmRecorder::CheckForClocksEvent). A power cap
is how GPUs under full load run; sync boost says that another GPU of the group is the slow one."""
THERMAL_EVENTS, POWER_BRAKE = 0x20 | 0x40, 0x80
BLANK = float(0x7FFFFFF0)
"""DCGM's values from here on stand for "no value" (dcgm_structs.h: DCGM_INT32_BLANK; INT64 and FP64
lie above)."""


def clock_events(bits: int) -> tuple[str, ...]:
    """The names of the bits that are set, the idle and clock-setting ones left out."""
    # Idle and set clocks are no reason for a GPU to be slow.
    return tuple(
        name for bit, name in CLOCK_EVENTS.items() if bits & bit and bit not in (0x1, 0x2, 0x100)
    )
