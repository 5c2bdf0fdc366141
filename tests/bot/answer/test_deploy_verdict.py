"""A verdict on a deploy in words: hostile text stays text, numbers are those of people."""

from __future__ import annotations

from pathlib import Path

from faultline.bot.answer.deploy_verdict import as_json, lines, to_markdown
from tests.analysis.deploys.service_rows import Service, case_of, judged
from tests.analysis.deploys.test_verifying import restarts


def test_the_comment_holds_decision_levels_and_evidence(tmp_path: Path) -> None:
    bad = Service(failing=(0.004, 0.03))
    verdict = judged(case_of(tmp_path, [bad], restarts(9)))
    said = to_markdown(verdict)
    assert said.startswith("### Roll back: checkout\n")
    assert "| S1 worse | Error rate | 27 quiet windows before | 0.4 % | 3 % |" in said
    assert "0 a minute" in said
    assert "At most 2 % of healthy deploys" in said
    assert "- **E1** metrics" in said
    shown = "\n".join(lines(verdict))
    assert "Error rate rose from 0.4 % to 3 %" in shown
    assert as_json(verdict)["decision"] == "roll_back"


def test_what_others_wrote_is_neither_a_link_nor_a_tag(tmp_path: Path) -> None:
    rows = Service().rows()
    named = "x_latency_p99](https://evil.example) | <img src=x>"
    for row in rows:
        if row["signal"] == "latency_p99":
            row["signal"] = named
    said = to_markdown(judged(case_of(tmp_path, [], rows)))
    assert "](https://evil" not in said
    assert "<img" not in said
    rows_of_table = [line for line in said.splitlines() if line.startswith("| S")]
    assert rows_of_table
    assert all(line.replace("\\|", "").count("|") == 8 for line in rows_of_table)
