"""Lines of logs that name a failure, with what they mean.

Every pattern is linear in the line's length: no repetition of a repetition, all repetitions bounded. `words` are
searched first, so that most lines cost a few substring searches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

SignatureKind = Literal["timeout", "memory", "hardware", "network", "crash", "data"]


@dataclass(frozen=True)
class Signature:
    """A failure as logs write it."""

    name: str
    kind: SignatureKind
    words: tuple[str, ...]
    """One of them must be in the line."""
    pattern: re.Pattern[str]
    meaning: str
    action: str
    source: str


@dataclass(frozen=True)
class Xid:
    """What an NVIDIA driver's error number means."""

    meaning: str
    action: str
    is_hardware: bool


_XID_SOURCE = "NVIDIA, XID Errors (docs.nvidia.com/deploy/xid-errors)"

XIDS: dict[int, Xid] = {
    13: Xid("graphics engine exception, mostly a kernel's illegal access", "debug the kernel first", is_hardware=False),
    31: Xid("GPU memory page fault, mostly a kernel's illegal address", "debug the kernel first", is_hardware=False),
    43: Xid("GPU stopped processing, the application's fault", "debug the application", is_hardware=False),
    45: Xid("preemptive cleanup after another error", "look for the error before it", is_hardware=False),
    48: Xid("double-bit ECC error", "drain the node, reset the GPU, run diagnostics", is_hardware=True),
    62: Xid("internal micro-controller halt", "drain the node, reset the GPU", is_hardware=True),
    63: Xid("a memory page was retired or a row remapped", "reset the GPU when the job ends", is_hardware=True),
    64: Xid("page retirement or row remapping failed", "drain the node, reset the GPU", is_hardware=True),
    74: Xid("NVLink error", "check the NVLink and its bridge, reset the GPU", is_hardware=True),
    79: Xid("GPU has fallen off the bus", "drain the node, restart it, check power and PCIe", is_hardware=True),
    92: Xid("high rate of single-bit ECC errors", "run diagnostics", is_hardware=True),
    94: Xid("contained ECC error", "restart the job; reset the GPU when it ends", is_hardware=True),
    95: Xid("uncontained ECC error", "drain the node, reset the GPU", is_hardware=True),
    119: Xid("GSP firmware timeout", "reset the GPU or restart the node", is_hardware=True),
    120: Xid("GSP firmware error", "reset the GPU or restart the node", is_hardware=True),
    145: Xid("NVLink error (RLW)", "check NVLink, reset the GPU", is_hardware=True),
}
XID = re.compile(r"NVRM: Xid \(([^)]{1,40})\): (\d{1,4})\b")


def _signature(
    name: str, kind: SignatureKind, words: tuple[str, ...], pattern: str, meaning: str, action: str, source: str
) -> Signature:
    return Signature(name, kind, words, re.compile(pattern), meaning, action, source)


SIGNATURES: tuple[Signature, ...] = (
    _signature(
        "xid", "hardware", ("Xid",), XID.pattern, "the NVIDIA driver reports an error", "see the number", _XID_SOURCE
    ),
    _signature(
        "cuda_out_of_memory", "memory", ("out of memory", "OutOfMemoryError"),
        r"CUDA out of memory|CUDA error: out of memory|HIP out of memory|OutOfMemoryError",
        "an allocation on the GPU did not fit",
        "A smaller batch, activation checkpointing or sharding; expandable_segments where much is reserved but free.",
        "PyTorch, CUDA semantics: memory management",
    ),
    _signature(
        "host_out_of_memory", "memory", ("oom", "OOM", "Out of memory", "Out Of Memory"),
        r"OOMKilled|oom-kill|oom_kill event|Out of memory: Killed process|Memory cgroup out of memory|Out Of Memory",
        "the kernel killed a process because memory ran out",
        "More memory for the task, fewer DataLoader workers, or less kept in memory.",
        "Linux kernel log; slurmstepd; Kubernetes reason OOMKilled",
    ),
    _signature(
        "nccl_watchdog_timeout", "timeout", ("timeout", "timed out"),
        r"Watchdog caught collective operation timeout|collective operation timed out|WorkNCCL\(.{0,400}ran for \d",
        "a collective did not end within its timeout",
        "Find the rank that did not join: flight recorder dumps and stacks.",
        "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
    ),
    _signature(
        "gloo_timeout", "timeout", ("Timed out waiting",),
        r"Timed out waiting \d{1,12}ms for (?:recv|send) operation",
        "a collective did not end within its timeout",
        "Find the rank that did not join: flight recorder dumps and stacks.",
        "gloo/transport/tcp/unbound_buffer.cc",
    ),
    _signature(
        "peer_connection_lost", "network", ("Connection closed by peer", "Connection reset by peer", "Broken pipe",
                                            "remote process has terminated", "remote process exited", "pair closure"),
        r"Connection (?:closed|reset) by peer|Broken pipe|remote process (?:has terminated|exited)"
        r"|Application timeout caused pair closure",
        "another rank's process ended",
        "Read the log of the rank that ended first.",
        "gloo/transport/tcp/pair.cc; NCCL ncclRemoteError",
    ),
    _signature(
        "nccl_error", "network", ("ncclSystemError", "ncclInternalError", "ncclRemoteError", "ncclUnhandledCudaError",
                                  "unhandled cuda error", "NCCL WARN"),
        r"ncclSystemError|ncclInternalError|ncclRemoteError|ncclUnhandledCudaError|unhandled cuda error"
        r"|NCCL WARN .{0,80}(?:failed|error|timeout)",
        "NCCL failed",
        "Read the NCCL WARN line before it; NCCL_DEBUG=INFO.",
        "NVIDIA NCCL, Troubleshooting",
    ),
    _signature(
        "ib_error", "network", ("IBV_WC", "ibv_", "mlx5"),
        r"IBV_WC_[A-Z_]{3,40}ERR|NET/IB : Got completion .{0,80}error|ibv_[a-z_]{3,30}.{0,60}failed"
        r"|mlx5_\d{1,3}.{0,80}(?:link down|Link down|port error)",
        "the InfiniBand or RoCE link failed",
        "Check the link, its cable and switch port on that host.",
        "NVIDIA NCCL, Troubleshooting; rdma-core",
    ),
    _signature(
        "device_assert", "crash", ("device-side assert",), r"device-side assert triggered",
        "a kernel's assertion failed, often an index out of range",
        "Run with CUDA_LAUNCH_BLOCKING=1 to see the line.",
        "PyTorch, CUDA error messages",
    ),
    _signature(
        "illegal_memory_access", "crash", ("illegal memory access",), r"an illegal memory access was encountered",
        "a kernel read or wrote outside its memory",
        "Run with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer; look for Xid lines too.",
        "PyTorch, CUDA error messages",
    ),
    _signature(
        "ecc_error", "hardware", ("ECC",), r"uncorrectable ECC error|double bit ECC",
        "the GPU's memory is faulty", "Drain the node, reset the GPU, run diagnostics.", _XID_SOURCE,
    ),
    _signature(
        "segmentation_fault", "crash", ("Segmentation fault", "SIGSEGV", "Bus error", "SIGBUS"),
        r"Segmentation fault|SIGSEGV|Bus error|SIGBUS",
        "a process crashed in native code",
        "Read the stack beneath it; a bus error is often /dev/shm that is full.",
        "faulthandler; PyTorch, multiprocessing best practices",
    ),
    _signature(
        "collective_size_mismatch", "crash", ("collective mismatch", "op.preamble.length"),
        r"Is there a distributed collective mismatch|op\.preamble\.length <= op\.nbytes",
        "ranks passed tensors of different sizes to one collective",
        "All ranks must pass tensors of one size: look for an uneven last batch, or pad.",
        "gloo/transport/tcp/pair.cc",
    ),
    _signature(
        "native_abort", "crash", ("terminate called",), r"terminate called (?:after throwing|without an active)",
        "a process was ended by an exception in native code",
        "Read the what() line beneath it.",
        "libstdc++",
    ),
    _signature(
        "dataloader_worker", "data", ("DataLoader worker",),
        r"DataLoader worker \(pid.{0,40}\) (?:is killed|exited unexpectedly)|DataLoader timed out",
        "a DataLoader worker died or hangs",
        "Its own log first; then memory and /dev/shm.",
        "torch/utils/data/dataloader.py",
    ),
    _signature(
        "disk_full", "data", ("No space left",), r"No space left on device",
        "the disk is full", "Free space, or write checkpoints elsewhere.", "errno ENOSPC",
    ),
)  # fmt: skip


def match(line: str) -> Signature | None:
    """The first signature that a line shows."""
    for signature in SIGNATURES:
        if any(word in line for word in signature.words) and signature.pattern.search(line):
            return signature
    return None
