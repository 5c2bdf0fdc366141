"""What does the first answer about a plain Prometheus cost, in processor time?

    python benchmarks/first_answer.py [--seeds 1,3] [--kinds KIND ...] [--processes]

Incidents of the plain rig (docs/proving-ground.md) are written into a real Prometheus. The whole
bot gets the alert of each by Alertmanager's webhook, and answers in Slack on loopback. Prints the
CPU seconds of all of the bot's processes from the alert to the answer, with all rounds (target
2.5 at the median), and with `--processes` those of each process.

The bot has its modules loaded, as one that has run for a while, and answers an alert of another
incident before, so that nothing is loaded for the first time. CPU seconds depend little on what
else the machine does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.answer_cost import by_name
from benchmarks.idle_cost import total_cpu_s, usages
from faultline.analysis.errors import FaultlineError
from proving_ground.plain.__main__ import seeds_of
from proving_ground.plain.asking import WITHIN_S, RunningServer, running_server, write_settings
from proving_ground.plain.generator.kinds import KINDS
from proving_ground.plain.generator.rules import NoSignal, make_incidents
from proving_ground.plain.history import alert_of, webhook_of
from proving_ground.plain.playing import running_incident

CHOSEN = (
    "slow callee",
    "callee's errors",
    "own deploy breaks it",
    "provider fails",
    "lock held in a database",
    "flapping",
    "recovered",
    "daily peak",
)
"""Kinds of incident, and of nothing, that lead to one, two and three rounds."""
SEEDS = "1"
AFTER_S = 1.5
"""The last files of a case are written a moment after its answer."""
TARGET_S = 2.5


def main() -> None:
    """Print a line for each incident, and the median."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default=SEEDS, help="odd ones are to develop on")
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=CHOSEN)
    parser.add_argument("--processes", action="store_true", help="the seconds of each process")
    options = parser.parse_args()
    spent = []
    for seed in seeds_of(options.seeds):
        for kind in options.kinds:
            with tempfile.TemporaryDirectory(prefix="first-answer-") as scratch:
                try:
                    cpu_s, rounds = cost_of(kind, seed, Path(scratch), options.processes)
                except NoSignal as problem:
                    print(f"   -    {kind} {seed}: {problem}")
                    continue
            spent.append(cpu_s)
            print(f"{cpu_s:6.2f} CPU s  {rounds} rounds  {kind} {seed}", flush=True)
    if spent:
        spent.sort()
        print(
            f"median {spent[len(spent) // 2]:.2f} CPU s of {len(spent)} answers, most "
            f"{spent[-1]:.2f} (target {TARGET_S:g})"
        )


def cost_of(kind: str, seed: int, scratch: Path, by_process: bool) -> tuple[float, int]:
    """CPU seconds of the second of two equal alerts about one incident, and its rounds. Raises
    NoSignal."""
    for incident, rule in make_incidents(KINDS[kind], seed):
        folder = scratch / str(incident.attempt)
        with running_incident(incident, folder) as running:
            try:
                alert = alert_of(incident, rule, running.url, running.end)
            except NoSignal:
                continue
            webhook = webhook_of(rule, alert)
            asking = running.asking("serve", webhook)
            write_settings(asking, folder / "bot")
            # Each alert has an investigation, although both are about the same.
            with (folder / "bot" / "faultline.toml").open("a") as settings:
                settings.write('\n[alerts]\ngroups = "off"\n')
            with running_server(asking, folder / "bot") as server:
                answered(server, webhook, folder / "bot", 1)
                roots = {"web": server.bot.pid}
                before = usages(roots)
                repeated = {**webhook, "alerts": [{**webhook["alerts"][0]}]}
                repeated["alerts"][0]["labels"] = {**alert.labels, "alertname": f"{rule.name}Again"}
                case = answered(server, repeated, folder / "bot", 2)
                after = usages(roots)
                if by_process:
                    for name, process_s in by_name(before, after).items():
                        print(f"  {process_s:6.2f} {name}")
                spent = total_cpu_s(after) - total_cpu_s(before)
                rounds = case.joinpath("rounds.json").read_text().count('"number"')
                return spent, 1 + rounds
    raise NoSignal("no rule fires")


def answered(server: RunningServer, webhook: dict[str, object], folder: Path, count: int) -> Path:
    """Post the alert, and wait for the last files of that many cases; gives the last one."""
    server.post(webhook)
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        cases = sorted((folder / "state" / "cases").glob("*/answered.json"))
        if len(cases) >= count:
            time.sleep(AFTER_S)
            return max(cases, key=lambda file: file.stat().st_mtime_ns).parent
        time.sleep(0.1)
    raise FaultlineError(f"no answer within {WITHIN_S:g} s")


if __name__ == "__main__":
    main()
