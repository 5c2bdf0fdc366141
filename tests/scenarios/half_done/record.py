"""Records an investigation that was killed in its midst, for the test that a later version finishes
it.

    cd <checkout of the version to record> && python <this file> <folder to write to>

Writes the dumps of both embedded databases, `engine.sql` and `store.sql`, and the case store as
`cases.json` (path to base64 text). Nothing in them depends on where they were made.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, os.getcwd())

from tests.scenarios.bot_story import Story, bot_story
from tests.scenarios.small_case import write_small_case

LAST_STAGE = "memory"
"""The case is assembled, and not analysed yet."""


def stand_still(story: Story) -> str:
    """Kill all of the bot right after that stage."""
    assert story.page_out("P0001").status_code == 202
    while True:
        for one in story.store.latest():
            if any(line.stage == LAST_STAGE for line in story.store.progress(one.id)):
                story.bot.kill()
                return one.id
        time.sleep(0.002)


def record(folder: Path) -> None:
    """Write the three files."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        with bot_story(directory, write_small_case(directory / "case"), "sqlite") as story:
            found = story.store.get(stand_still(story))
            assert found is not None
            assert found.status == "running"
        state = directory / "state"
        for name, database in (("engine", "engine.sqlite"), ("store", "faultline.sqlite")):
            connection = sqlite3.connect(state / database)
            (folder / f"{name}.sql").write_text("\n".join(connection.iterdump()) + "\n")
            connection.close()
        files = sorted(path for path in (state / "cases").rglob("*") if path.is_file())
        cases = {
            str(p.relative_to(state / "cases")): base64.b64encode(p.read_bytes()).decode()
            for p in files
        }
        (folder / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
