"""Answers cases with analyzers or rules added: the file of each and the list that names it lie in a
folder.

Run as `python -m tests.docs.answer_with_analyzer CASE... -- PACKAGE=FOLDER...`. A folder comes
before its package, `faultline.analysis` for an analyzer, so that the list in it is the one that
everything reads. Prints one JSON object a line, for each case.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

DASHES = sys.argv.index("--")
for addition in sys.argv[DASHES + 1 :]:
    package, _, folder = addition.partition("=")
    import_module(package).__path__.insert(0, folder)

import httpx  # noqa: E402

from faultline.analysis.case.folder import write_json  # noqa: E402
from faultline.analysis.vocabulary import Assertion, Claim, Report  # noqa: E402
from faultline.bot.answer.lines import answer_lines  # noqa: E402
from faultline.bot.answer.replay import Replayed, as_json, replay  # noqa: E402
from faultline.bot.answer.writer.guard import keep_supported  # noqa: E402
from faultline.bot.conversation.measured import how  # noqa: E402
from tests.bot.web.serving import Server, serving  # noqa: E402


def pages(replayed: Replayed) -> list[str]:
    """The page of the answer and that of its first cause's first finding, as a browser gets
    them."""
    server = Server()
    with tempfile.TemporaryDirectory() as directory, serving(server, Path(directory)) as site:
        found = site.investigate(replayed.case.alert)
        folder = site.cases / found
        write_json(folder / "alert.json", replayed.case.alert)
        write_json(folder / "findings.json", replayed.diagnosis)
        write_json(folder / "report.json", replayed.report)
        headline = replayed.report.headline
        site.store.start(found)
        site.store.finish(found, "done", verdict="cause_found", confidence=0.5, headline=headline)
        finding = replayed.diagnosis.causes[0].findings[0]
        paths = (f"/investigations/{found}", f"/investigations/{found}/findings/{finding}")
        with httpx.Client(base_url=site.url, headers={"accept": "text/html"}) as browser:
            texts = [browser.get(path).raise_for_status().text for path in paths]
    server.stop()
    return texts


def said_by_a_model(replayed: Replayed) -> Report:
    """What stands of a model's report that names the first cause's finding: the words for it are
    those of the fault's entry."""
    finding = replayed.diagnosis.causes[0].findings[0]
    shows = Assertion(relation="shows", findings=(finding,))
    claim = Claim(text="", findings=(finding,), asserted=(shows,))
    report = Report(headline="", claims=(claim,), written_by="a model")
    return keep_supported(report, replayed.diagnosis, replayed.case.alert)


def main() -> None:
    """Print the answer to each case in all of its forms."""
    for case in sys.argv[1:DASHES]:
        sys.stdout.write(json.dumps(answer_to(Path(case))) + "\n")


def answer_to(case: Path) -> dict[str, Any]:
    """The answer in all of its forms."""
    replayed = replay(case)
    lines = answer_lines(replayed.view, page_url="http://bot/case")
    by_a_model = said_by_a_model(replayed)
    return {
        "answer": as_json(replayed),
        "headline": lines.headline,
        "step": lines.steps[0],
        "how": how(replayed.diagnosis.findings[0]),
        "pages": pages(replayed),
        "said": [claim.text for claim in by_a_model.claims],
        "dropped": by_a_model.dropped,
    }


if __name__ == "__main__":
    main()
