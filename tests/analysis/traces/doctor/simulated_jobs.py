"""Training on several GPUs, simulated: what each rank's profiler would have recorded, with known
faults.

Every rank runs the same program. The host issues operators one after another; their kernels run in
order on a stream of computation, each when the host has launched it and the one before is done. A
collective runs on a stream of its own per process group: on each rank it begins when it was
launched and what it reads is computed, and it ends on all ranks of the group together, a transfer
after the last one has begun. So ranks wait for one another only as real ones do. A host blocks in a
launch when 1,024 kernels are outstanding. Durations vary by a few percent (lognormal). Times are in
microseconds; a fault is an array of steps x ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.across_ranks.rank_summary import summarise
from faultline.analysis.traces.doctor.job import TrainingJob, job_of
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.written_traces import BASE_NS

Floats = NDArray[np.float64]
Groups = NDArray[np.int64]
"""One row of ranks per process group; every rank is in one row."""

HOST, MAIN, AUTOGRAD, COMPUTE, NCCL = 4_000, 100, 101, 7, 20
"""Process and threads of the host, and streams; the n-th kind of process group has stream NCCL +
n."""
QUEUE = 1024
HOST_US, LAUNCH_US, START_US = 6.0, 4.0, 3.0
"""An operator on the host, a launch in it, and from a launch to the start on an idle stream."""
GB = 2**30
DEVICE_BYTES = 80 * GB
KERNELS = {"all_reduce": "AllReduce_Sum_bf16_RING_LL", "all_gather": "AllGather_RING_LL",
           "reduce_scatter": "ReduceScatter_Sum_bf16_RING_LL"}  # fmt: skip
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
GEMM_FP32 = "ampere_sgemm_128x64_nn"
LAYER = (
    ("aten::native_layer_norm", "vectorized_layer_norm_kernel<c10::BFloat16, float>", 0.08),
    ("aten::mm", GEMM, 1.0),
    (
        "aten::_flash_attention_forward",
        "flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4>>",
        0.6,
    ),
    ("aten::mm", GEMM, 0.9),
    ("aten::gelu", "vectorized_elementwise_kernel<4, GeluCUDAKernelImpl>", 0.12),
    ("aten::add_", "vectorized_elementwise_kernel<4, CUDAFunctor_add>", 0.05),
)
"""Operator, kernel, and its time in units of `SimulatedJob.unit_us`."""


@dataclass
class SimulatedJob:
    """What is trained and on what; the defaults are healthy."""

    shape: Literal["ddp", "fsdp", "tensor"] = "ddp"
    """Gradients reduced in buckets during the backward pass; parameters sharded; tensor parallel
    within rows of `tensor` ranks and data parallel across them."""
    ranks: int = 8
    steps: int = 6
    layers: int = 6
    seed: int = 0
    unit_us: float = 400.0
    jitter: float = 0.03
    tensor: int = 4
    hosts_of: int = 8
    """Ranks of one host."""
    clock_us: float = 0.0
    """Spread of the hosts' clocks."""
    transfer: float = 1.0
    """Time of a layer's collective, in units of `unit_us`."""
    overlap: bool = True
    """DDP: buckets are reduced during the backward pass, not after it."""
    prefetch: bool = True
    """FSDP: the next layer is gathered while this one computes."""
    pinned: bool = True
    copy_us: float = 150.0
    reads: int = 1
    """Values read out of the loss in each step, each a wait of the host for the stream."""
    tensor_cores: bool = True
    mallocs: int = 0
    """Calls of cudaMalloc in each step."""
    recompiled: int = 0
    """Versions of the compiled forward pass that the steps run through; 0 for code that is not
    compiled."""
    compile_us: float = 0.0
    held_bytes: int = 0
    """Bytes of each step that are never freed."""
    reserved_bytes: int = 40 * GB
    loader: str = "_MultiProcessingDataLoaderIter"
    pause_name: str = ""
    """What the profiler saw of `pause`; "" for nothing."""
    kernel_factor: Floats = field(init=False)
    host_factor: Floats = field(init=False)
    data_us: Floats = field(init=False)
    """In the data loader."""
    pause: Floats = field(init=False)
    """Nothing is issued for so long after the forward pass."""

    def __post_init__(self) -> None:
        size = (self.steps, self.ranks)
        self.kernel_factor, self.host_factor = np.ones(size), np.ones(size)
        self.data_us, self.pause = np.full(size, 200.0), np.zeros(size)


@dataclass
class Recording:
    """The traces of a job, and the truth about it."""

    documents: list[dict[str, Any]]
    step_us: Floats
    """How long each step took on the devices (the last rank's), one value per step."""

    def job(self, folder: Any) -> TrainingJob:
        """Written as the profiler does, and read back."""
        folder.mkdir(parents=True, exist_ok=True)
        summaries = []
        for document in self.documents:
            path = folder / f"rank{document['distributedInfo']['rank']}.pt.trace.json"
            path.write_bytes(msgspec.json.encode(document))
            summaries.append(summarise(read_trace(path)))
            path.unlink()
        return job_of(summaries)


class _Simulation:
    """One value per rank in every array."""

    def __init__(self, job: SimulatedJob) -> None:
        self.job = job
        self.random = np.random.default_rng(job.seed)
        hosts = -(-job.ranks // job.hosts_of)
        clocks = np.concatenate(([0.0], self.random.uniform(-job.clock_us, job.clock_us, hosts)))[
            :hosts
        ]
        self.clock = np.repeat(clocks, job.hosts_of)[: job.ranks]
        self.host = 1_000.0 + self.random.uniform(0, 50, job.ranks)
        self.compute = np.zeros(job.ranks)
        self.communication: dict[str, Floats] = {}
        self.sequence: dict[str, int] = {}
        self.begun: list[Floats] = []
        self.events: list[list[dict[str, Any]]] = [[] for _ in range(job.ranks)]
        self.correlation = 0
        self.thread = MAIN
        self.step = 0
        everyone = np.arange(job.ranks)
        width = job.tensor if job.shape == "tensor" else 1
        self.groups: dict[str, Groups] = {"0": everyone[None, :]} if width == 1 else {
            "1": everyone.reshape(-1, width), "2": everyone.reshape(-1, width).T,
        }  # fmt: skip

    def varied(self, us: float | Floats) -> Floats:
        return us * self.random.lognormal(0.0, self.job.jitter, self.job.ranks)

    def emit(self, name: str, cat: str, start: Floats, end: Floats, tid: int, **args: Any) -> None:
        on_device = cat in ("kernel", "gpu_memcpy", "gpu_user_annotation")
        begun, took = (start + self.clock).tolist(), (end - start).tolist()
        for rank, events in enumerate(self.events):
            own = {k: v[rank] if isinstance(v, list) else v for k, v in args.items()}
            own |= {"device": rank % self.job.hosts_of, "stream": tid} if on_device else {}
            process = rank % self.job.hosts_of if on_device else HOST
            events.append({"ph": "X", "cat": cat, "name": name, "pid": process, "tid": tid,
                "args": own,
                           "ts": round(begun[rank], 3), "dur": round(took[rank], 3)})  # fmt: skip

    @contextmanager
    def during(self, name: str, cat: str = "user_annotation") -> Iterator[None]:
        start, tid = self.host.copy(), self.thread
        yield
        self.emit(name, cat, start, self.host, tid)

    def issue(self, us: float) -> None:
        """The host is busy."""
        self.host = self.host + self.varied(us) * self.job.host_factor[self.step]

    def runtime(self, name: str, us: float, until: Floats | None = None) -> int:
        """A call of the runtime that returns at once, or not before `until`; its correlation."""
        start = self.host.copy()
        self.issue(us)
        if until is not None:
            self.host = np.maximum(self.host, until)
        self.correlation += 1
        self.emit(name, "cuda_runtime", start, self.host, self.thread, correlation=self.correlation)
        return self.correlation

    def kernel(self, op: str, name: str, units: float) -> None:
        """An operator with one kernel on the stream of computation."""
        us = self.varied(units * self.job.unit_us) * self.job.kernel_factor[self.step]
        grid = [int(max(units, 0.01) * 1000), 1, 1]
        with self.during(op, "cpu_op"):
            self.issue(HOST_US)
            full = self.begun[-QUEUE] if len(self.begun) >= QUEUE else None
            correlation = self.runtime("cudaLaunchKernel", LAUNCH_US, full)
            start = np.maximum(self.host + START_US, self.compute + 0.5)
            self.compute = start + us
            self.begun.append(start)
            self.emit(name, "kernel", start, self.compute, COMPUTE, correlation=correlation,
                grid=str(grid),
                      block="[256, 1, 1]")  # fmt: skip
            self.issue(HOST_US / 3)

    def collective(self, operation: str, group: str, units: float, elements: int) -> Floats:
        """Launched behind what has been launched on the stream of computation; when it ends."""
        groups = self.groups[group]
        seq = self.sequence[group] = self.sequence.get(group, 0) + 1
        told = {"Collective name": {"all_reduce": "allreduce", "all_gather": "_allgather_base",
                                    "reduce_scatter": "_reduce_scatter_base"}[operation],
                "dtype": "BFloat16", "In msg nelems": elements, "Out msg nelems": elements,
                "Group size": groups.shape[1], "Process Group Name": group, "Seq": seq,
                "Process Group Description": {"0": "default_pg", "1": "mesh_tp",
                "2": "mesh_dp"}[group],
                "Process Group Ranks": [str(groups[np.argwhere(groups == r)[0][0]].tolist())
                                        for r in range(self.job.ranks)]}  # fmt: skip
        with self.during(f"nccl:{operation}"), self.during("record_param_comms", "cpu_op"):
            self.issue(HOST_US)
            correlation = self.runtime("cudaLaunchKernelExC", LAUNCH_US)
        stream = self.communication.get(group, np.zeros(self.job.ranks))
        begun = np.maximum.reduce([self.host + START_US, self.compute, stream + 0.5])
        transfer = (
            units * self.job.unit_us * self.random.lognormal(0.0, self.job.jitter, len(groups))
        )
        end = np.empty(self.job.ranks)
        end[groups] = (begun[groups].max(axis=1) + transfer)[:, None]
        self.communication[group] = end
        name = f"ncclDevKernel_{KERNELS[operation]}(ncclDevKernelArgsStorage<4096ul>)"
        self.emit(name, "kernel", begun, end, NCCL + int(group), correlation=correlation, **told)
        self.emit(f"nccl:{operation}", "gpu_user_annotation", begun, end, NCCL + int(group))
        return end

    def wait(self, end: Floats) -> None:
        """The stream of computation waits."""
        self.compute = np.maximum(self.compute, end)

    def copy_batch(self) -> None:
        kind = "Pinned" if self.job.pinned else "Pageable"
        with self.during("aten::to", "cpu_op"), self.during("aten::copy_", "cpu_op"):
            self.issue(HOST_US)
            start = np.maximum(self.host + LAUNCH_US + START_US, self.compute)
            end = start + self.varied(self.job.copy_us)
            correlation = self.runtime(
                "cudaMemcpyAsync", LAUNCH_US, None if self.job.pinned else end
            )
            self.compute = end
            self.emit(f"Memcpy HtoD ({kind} -> Device)", "gpu_memcpy", start, end, COMPUTE,
                correlation=correlation,
                      bytes=2**24)  # fmt: skip
            if not self.job.pinned:
                self.runtime("cudaStreamSynchronize", LAUNCH_US, end)

    def read(self) -> None:
        """`loss.item()`."""
        with (
            self.during("aten::item", "cpu_op"),
            self.during("aten::_local_scalar_dense", "cpu_op"),
        ):
            correlation = self.runtime("cudaMemcpyAsync", LAUNCH_US)
            start = np.maximum(self.host + START_US, self.compute)
            self.compute = start + 1.5
            self.emit("Memcpy DtoH (Device -> Pageable)", "gpu_memcpy", start, self.compute,
                COMPUTE,
                      correlation=correlation, bytes=4)  # fmt: skip
            self.runtime("cudaStreamSynchronize", LAUNCH_US, self.compute + 3)

    def memory(self, allocated: int) -> None:
        for rank, events in enumerate(self.events):
            args = {
                "Device Type": 1,
                "Device Id": rank % self.job.hosts_of,
                "Addr": 1,
                "Bytes": 512,
                # Fmt: skip.
                "Total Allocated": allocated,
                "Total Reserved": self.job.reserved_bytes,
            }
            moment = round(float((self.host + self.clock)[rank]), 3)
            events.append({"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",
                "pid": HOST,
                           "tid": MAIN, "ts": moment, "args": args})  # fmt: skip

    def layer(self, factor: float, *, backward: bool = False) -> None:
        """The kernels of one layer; with tensor parallelism its result is reduced within the
        row."""
        for op, name, units in reversed(LAYER) if backward else LAYER:
            matrix = name == GEMM or "flash" in name
            kernel = GEMM_FP32 if matrix and not self.job.tensor_cores else name
            self.kernel(op, kernel.replace("fwd", "bwd") if backward else kernel, units * factor)
        if self.job.shape == "tensor":
            self.wait(self.collective("all_reduce", "1", 0.15, 2**20))

    def forward(self) -> None:
        fsdp = self.job.shape == "fsdp"
        gathered = self.gather(0) if fsdp else None
        for layer in range(self.job.layers):
            if fsdp and gathered is not None:
                self.wait(gathered)
                gathered = (
                    self.gather(layer + 1)
                    if self.job.prefetch and layer + 1 < self.job.layers
                    else None
                )
            with (
                self.during(f"FSDP::pre_forward (layers.{layer})")
                if fsdp
                else self.during("aten::linear", "cpu_op")
            ):
                self.layer(1.0)
            if fsdp and gathered is None and layer + 1 < self.job.layers:
                gathered = self.gather(layer + 1)

    def gather(self, layer: int) -> Floats:
        with self.during(f"FSDP::all_gather (layers.{layer})"):
            return self.collective("all_gather", "0", self.job.transfer, 2**21)

    def backward(self) -> None:
        """Gradients, and with sharded parameters their norm, which every rank needs."""
        self.thread = AUTOGRAD
        done: list[Floats] = []
        group = "2" if self.job.shape == "tensor" else "0"
        fsdp = self.job.shape == "fsdp"
        gathered = self.gather(self.job.layers - 1) if fsdp else None
        for layer in reversed(range(self.job.layers)):
            if gathered is not None:
                self.wait(gathered)
                gathered = self.gather(layer - 1) if self.job.prefetch and layer else None
            with self.during("autograd::engine::evaluate_function: MmBackward0", "cpu_op"):
                self.layer(2.0, backward=True)
                if fsdp:
                    with self.during(f"FSDP::post_backward_reduce (layers.{layer})"):
                        done.append(
                            self.collective("reduce_scatter", "0", self.job.transfer, 2**24)
                        )
                elif self.job.overlap:
                    done.append(self.collective("all_reduce", group, self.job.transfer, 2**24))
            if fsdp and gathered is None and layer:
                gathered = self.gather(layer - 1)
        self.thread = MAIN
        if not self.job.overlap and not fsdp:
            done = [
                self.collective("all_reduce", group, self.job.transfer, 2**24)
                for _ in range(self.job.layers)
            ]
        for end in done:
            self.wait(end)
        if fsdp:
            self.wait(self.collective("all_reduce", "0", 0.02, 1))

    def run_step(self, number: int) -> None:
        job, self.step = self.job, number
        with self.during(f"ProfilerStep#{number + 10}"):
            with self.during(f"enumerate(DataLoader)#{job.loader}.__next__"):
                self.host = self.host + self.varied(job.data_us[number])
            self.memory(10 * GB + number * job.held_bytes)
            self.copy_batch()
            for _ in range(job.mallocs):
                self.runtime("cudaMalloc", 400.0)
            version = min(number, job.recompiled - 1)
            if job.recompiled and number < job.recompiled and job.compile_us:
                with self.during("_compile.compile_inner (dynamo_timed)", "cpu_op"):
                    self.issue(job.compile_us)
            named = "DistributedDataParallel.forward" if job.shape == "ddp" else "model.forward"
            region = f"Torch-Compiled Region: 0/{version}" if job.recompiled else "model"
            with self.during(named), self.during(region, "cpu_op"):
                self.forward()
            if job.pause[number].any():
                paused = self.host.copy()
                self.host = self.host + job.pause[number]
                if job.pause_name:
                    self.emit(job.pause_name, "user_annotation", paused, self.host, MAIN)
            self.memory(30 * GB + number * job.held_bytes)
            self.backward()
            with self.during("Optimizer.step#AdamW.step"):
                for _ in range(4):
                    self.kernel(
                        "aten::_fused_adamw_",
                        "multi_tensor_apply_kernel<FusedAdamMathFunctor>",
                        0.5,
                    )
            for _ in range(job.reads):
                self.read()
                if job.reads > 1:
                    self.kernel(
                        "aten::add_", "vectorized_elementwise_kernel<4, CUDAFunctor_add>", 0.01
                    )

    def document(self, rank: int) -> dict[str, Any]:
        declared = [{"pg_name": name, "pg_desc": "", "pg_size": groups.shape[1],
                     "ranks": groups[np.argwhere(groups == rank)[0][0]].tolist()}
                    for name, groups in self.groups.items()]  # fmt: skip
        info = {
            "backend": "nccl",
            "rank": rank,
            "world_size": self.job.ranks,
            "pg_count": len(declared),
        }
        device = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": DEVICE_BYTES,
            "computeMajor": 8,
                  "computeMinor": 0, "warpSize": 32, "numSms": 108}  # fmt: skip
        return {"schemaVersion": 1, "deviceProperties": [device],
        "distributedInfo": info | {"pg_config": declared},
                "host_name": f"node-{rank // self.job.hosts_of}", "baseTimeNanoseconds": BASE_NS,
                "traceEvents": self.events[rank]}  # fmt: skip


def simulate(job: SimulatedJob) -> Recording:
    """Run the job. O(ranks x steps x layers)."""
    simulation = _Simulation(job)
    ends = [float(simulation.host.max())]
    for step in range(job.steps):
        simulation.run_step(step)
        ends.append(float(np.maximum(simulation.host, simulation.compute).max()))
    return Recording(
        [simulation.document(rank) for rank in range(job.ranks)], np.diff(np.asarray(ends))
    )
