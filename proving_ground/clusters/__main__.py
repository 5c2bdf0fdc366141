"""`python -m proving_ground.clusters --seeds 0:200 --out FOLDER`: worlds with their clusters."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from proving_ground.clusters.collecting import cluster_world, write_cluster_world


def main(arguments: list[str] | None = None) -> int:
    """Write the worlds; returns the exit status."""
    options = _parser().parse_args(arguments)
    first, last = (int(part) for part in options.seeds.split(":"))
    stories: Counter[str] = Counter()
    for number in range(first, last):
        world = cluster_world(number, test=options.test, fault=options.fault, size=options.size)
        write_cluster_world(world, options.out)
        stories[world.fault.kind.name if world.fault else world.story] += 1
    for story, count in sorted(stories.items()):
        sys.stdout.write(f"{count:6d} {story}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m proving_ground.clusters", description=__doc__)
    parser.add_argument("--seeds", default="0:10", help="first:last, without the last")
    parser.add_argument("--out", type=Path, required=True, help="folder for the case folders")
    parser.add_argument("--test", action="store_true", help="the stream kept for measuring")
    parser.add_argument("--size", type=int, help="about this many units in every world")
    parser.add_argument("--fault", help="this kind of fault in every world")
    return parser


if __name__ == "__main__":
    sys.exit(main())
