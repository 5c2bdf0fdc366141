"""`python -m proving_ground.worlds --seeds 0:200 --out FOLDER`: writes a case folder per seed."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from proving_ground.worlds.seeds import WorldSeed
from proving_ground.worlds.world import World
from proving_ground.worlds.writing import write_world


def main(arguments: list[str] | None = None) -> int:
    """Write the worlds; returns the exit status."""
    options = _parser().parse_args(arguments)
    first, last = (int(part) for part in options.seeds.split(":"))
    make = partial(
        _make, out=options.out, test=options.test, size=options.size, fault=options.fault
    )
    stories: Counter[str] = Counter()
    if options.workers > 1:
        with ProcessPoolExecutor(options.workers) as pool:
            stories.update(pool.map(make, range(first, last), chunksize=4))
    else:
        stories.update(map(make, range(first, last)))
    for story, count in sorted(stories.items()):
        sys.stdout.write(f"{count:6d} {story}\n")
    return 0


def _make(number: int, *, out: Path, test: bool, size: int | None, fault: str | None) -> str:
    world = World.of(WorldSeed(number, test), size=size, fault=fault)
    write_world(world, out)
    return world.story


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m proving_ground.worlds", description=__doc__)
    parser.add_argument("--seeds", default="0:10", help="first:last, without the last")
    parser.add_argument("--out", type=Path, required=True, help="folder for the case folders")
    parser.add_argument("--test", action="store_true", help="the stream kept for measuring")
    parser.add_argument("--workers", type=int, default=1, help="processes side by side")
    parser.add_argument("--size", type=int, help="about this many units in every world")
    parser.add_argument("--fault", help="this kind of fault in every world")
    return parser


if __name__ == "__main__":
    sys.exit(main())
