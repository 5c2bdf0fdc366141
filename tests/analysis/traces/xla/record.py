"""Records the profiles in `recorded/`: a small data-parallel job of JAX on two CPU devices.

    pip install jax && python tests/analysis/traces/xla/record.py

JAX writes both files of `recorded/training`. `events.json.gz` is what JAX's own reader of XPlane
files (`jax.profiler.ProfileData`) finds in the first: what our reader is compared with.
"""

import gzip
import json
import os
import shutil
import tempfile
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import jax.numpy as jnp
from jax.profiler import ProfileData, StepTraceAnnotation, TraceAnnotation
from jax.sharding import NamedSharding, PartitionSpec

# Paths of this machine stay out of the files.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
RECORDED = Path(__file__).parent / "recorded"
STEPS = 3


def loss(weights, inputs, wanted):
    for weight in weights:
        inputs = jnp.tanh(inputs @ weight)
    return jnp.mean((inputs - wanted) ** 2)


@jax.jit
def train_step(weights, inputs, wanted):
    gradients = jax.grad(loss)(weights, inputs, wanted)
    return [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)]


def train(folder: str) -> None:
    mesh = jax.make_mesh((2,), ("data",))
    split, copied = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("data",), ()))
    weights = [jax.device_put(jnp.full((64, 64), 0.01), copied) for _ in range(2)]
    batch = jax.device_put(jnp.ones((32, 64)), split)
    weights = jax.block_until_ready(train_step(weights, batch, batch))
    weights = jax.block_until_ready(train_step(weights, batch, batch))
    with jax.profiler.trace(folder):
        for number in range(STEPS):
            with StepTraceAnnotation("train", step_num=number):
                with TraceAnnotation("load batch"):
                    batch = jax.device_put(jnp.ones((32, 64)), split)
                weights = jax.block_until_ready(train_step(weights, batch, batch))


def events_of(file: Path) -> list[list[object]]:
    """[plane, line, name, start in ns, length in ns] of all events, in the order of the file."""
    found = []
    for plane in ProfileData.from_file(str(file)).planes:
        for line in plane.lines:
            for event in line.events:
                length = round(event.duration_ns)
                found.append([plane.name, line.name, event.name, round(event.start_ns), length])
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        train(folder)
        target = RECORDED / "training"
        target.mkdir(parents=True, exist_ok=True)
        for file in Path(folder).glob("plugins/profile/*/*"):
            shutil.copy(file, target / f"host.{file.name.partition('.')[2]}")
    events = events_of(target / "host.xplane.pb")
    text = json.dumps(events, separators=(",", ":")).encode()
    (RECORDED / "events.json.gz").write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    main()
