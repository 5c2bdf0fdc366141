"""docs/training-systems.md: its links lead somewhere, it misses no system, and what it says is not
read is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from faultline.connectors.registry import CONNECTORS
from tests.trace_report.command import trace

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "training-systems.md"
SYSTEMS = """
PyTorch Profiler, Kineto, CUPTI, HTA, Dynolog, dyno gputrace, Nsight Systems, Nsight Compute, NVTX,
TensorBoard, Perfetto, Chrome trace viewer, torch.compile, Dynamo, Inductor, Chakra, memory snapshots,
Flight Recorder, NVRx, NCCL, NCCL tests, MPI, DDP, FSDP, SyncBatchNorm, DataLoader, DistributedSampler,
TorchTitan, TraceML, torchrun, wandb, Neptune, Jupyter, Streamlit, Rich, pdb, DCGM, nvidia-smi, Prometheus,
Grafana, NetFlow, eBPF, S3, NFS, Slack, PagerDuty, Datadog, CloudWatch, Sentry, Azure, Struct,
GitHub Actions, debug server, Slurm
"""  # noqa: E501
NOT_READ = {
    "kernel.ncu-rep": b"NVR\0\1\2\3",
    "system.pftrace": b"\x0a\x10\x08\x01\x12\x02\x08\x03",
    "events.out.tfevents.1700000000.host": b"\x18\0\0\0\0\0\0\0\xa3\x7fK\x22brain.Event:2",
    "rank0.et": b"\x12\x08\x0a\x05chakra\0",
    "run.parquet": b"PAR1\x15\x04\x15\0PAR1",
    "nccl-tests.log": b"# nThread 1 nGpus 8\n#  size  count  type  redop\n  8  2  float  sum  -1  41.40  0.00\n",  # noqa: E501
    "mpirun.log": b"mpirun detected that one or more processes exited with non-zero status. Exit code: 17\n",  # noqa: E501
    "timeline.html": b"<!doctype html><html><body>memory timeline</body></html>",
}


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def test_no_system_is_missed() -> None:
    text = PAGE.read_text()
    assert [name for name in re.split(r",\s+", SYSTEMS.strip()) if name not in text] == []


def test_links_lead_to_pages_and_headings() -> None:
    for link in re.findall(r"\]\(([^)]+)\)", PAGE.read_text()):
        name, _, anchor = link.partition("#")
        page = (PAGE.parent / name).resolve()
        assert page.exists(), link
        if anchor:
            assert anchor in {
                slug(h) for h in re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
            }, link


@pytest.mark.parametrize(
    "name", ["prometheus", "datadog", "aws", "azure_monitor", "sentry", "pagerduty", "wandb"]
)
def test_what_a_connector_reads_of_a_system_is_linked(name: str) -> None:
    assert name in CONNECTORS
    assert f"connectors/{name}.md" in PAGE.read_text()


@pytest.mark.parametrize("name", NOT_READ)
def test_what_is_said_not_to_be_read_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(NOT_READ[name])
    done = trace(tmp_path / name)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
