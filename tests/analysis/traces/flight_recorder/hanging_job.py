"""Training jobs of four ranks over gloo, each of which hangs in one way. Run by a Python with
torch, never imported.

    python hanging_job.py FOLDER SCENARIO...

Writes FOLDER/SCENARIO/fr/rank_<r> (flight recorder), http/rank<r>.dump_traceback.txt (faulthandler,
as the debug server answers) while it hangs, and log_rank<r>.txt. The ranks of all jobs are forked
from one process, so that PyTorch is loaded once.
"""

from __future__ import annotations

import datetime
import faulthandler
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path

os.environ["TORCH_FR_BUFFER_SIZE"] = "2000"
import torch
import torch._dynamo  # the first dump loads it, in every rank
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace

WORLD = 4
FAULT_STEP = 5
DUMP_AFTER = 3
"""Seconds after a rank has come to the step with the fault."""
PATIENCE = 80


def branch_without_collective() -> None:
    time.sleep(PATIENCE)


def rank_main(rank: int, scenario: str, folder: str, store: str) -> None:
    torch.set_num_threads(1)
    timeout = datetime.timedelta(seconds=PATIENCE)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD, timeout=timeout
    )
    halves = [dist.new_group([0, 1], group_desc="dp_0"), dist.new_group([2, 3], group_desc="dp_1")]
    half = halves[rank // 2]
    log = open(f"{folder}/log_rank{rank}.txt", "w", buffering=1)  # noqa: SIM115

    begun = threading.Event()
    dumps = WORLD - (scenario == "exit")

    def watch() -> None:
        begun.wait(PATIENCE)
        time.sleep(DUMP_AFTER)
        with open(f"{folder}/http/rank{rank}.dump_traceback.txt", "w") as file:
            faulthandler.dump_traceback(file)
        Path(f"{folder}/fr/rank_{rank}").write_bytes(_dump_fr_trace())
        until = time.monotonic() + PATIENCE
        while len(list(Path(folder, "fr").iterdir())) < dumps and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(1)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()

    def step(number: int) -> None:
        fault = number == FAULT_STEP
        if fault:
            begun.set()
        if fault and scenario == "exit" and rank == 1:
            os._exit(17)
        if fault and scenario == "wrong_operation" and rank == 0:
            dist.broadcast(torch.ones(4096), 0)
        else:
            dist.all_reduce(torch.ones(4096))
        if fault and scenario == "subgroup" and rank == 2:
            branch_without_collective()
        if fault and scenario == "left_out" and rank == 3:
            return
        dist.all_reduce(torch.ones(1000), group=half)

    try:
        for number in range(9):
            step(number)
            print(f"{time.time():.3f} step {number} done", file=log)
    except RuntimeError as error:
        print(f"{time.time():.3f} {type(error).__name__}: {error}", file=log)
    time.sleep(PATIENCE)


if __name__ == "__main__":
    folder, *scenarios = sys.argv[1:]
    context = multiprocessing.get_context("fork")
    ranks = []
    for scenario in scenarios:
        place = Path(folder, scenario)
        for name in ("fr", "http"):
            (place / name).mkdir(parents=True)
        arguments = [(rank, scenario, str(place), str(place / "store")) for rank in range(WORLD)]
        ranks += [context.Process(target=rank_main, args=a) for a in arguments]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
