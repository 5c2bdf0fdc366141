"""Which process group a collective belongs to, where its event does not say."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from faultline.analysis.traces.across_ranks.matching import matched_collectives
from faultline.analysis.traces.across_ranks.rank_summary import summarise
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.written_traces import document, job, write_trace


def test_ranks_of_a_further_group_share_the_unnamed_collectives_with_all_others(
    tmp_path: Path,
) -> None:
    """Gloo's events name no group; ranks 0 and 1 declare a second one."""
    everyone = {"pg_name": "0", "ranks": [0, 1, 2, 3]}
    pair = {"pg_name": "1", "ranks": [0, 1]}
    ranks = []
    for rank, events in enumerate(job(ranks=4, steps=8)):
        content = document(events, rank=rank)
        content["distributedInfo"]["pg_config"] = [everyone, pair] if rank < 2 else [everyone]
        ranks.append(summarise(read_trace(write_trace(tmp_path / f"rank{rank}.json", content))))
    (group,) = matched_collectives(ranks).groups
    assert np.array_equal(group.places, [0, 1, 2, 3])
    assert len(group) == 8
