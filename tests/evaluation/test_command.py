"""`faultline eval`: figures as JSON or for a person; exit 2 and one line for what cannot be
used."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from faultline.analysis.errors import SettingsError
from faultline.evaluation.command import run_eval
from tests.evaluation.test_running import labelled_case
from tests.trace_report.command import faultline


def eval_(*arguments: str) -> subprocess.CompletedProcess[str]:
    return faultline("eval", *arguments)


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    labelled_case(
        tmp_path / "shop-1", subject="checkout", change="none", decoys=["4f2a9c1"], fault="slow"
    )
    labelled_case(tmp_path / "shop-2", subject="cart", fault="[red]\x1b[31mloud")
    labelled_case(tmp_path / "shop-3")
    return tmp_path


def test_json_holds_the_figures_of_each_system(cases: Path) -> None:
    done = eval_(str(cases), "--json", "--workers", "1")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    shop = printed["systems"]["shop"]
    assert (shop["n"], shop["ac1"], shop["change1"], shop["decoys"]) == (2, 0.5, 0.0, 1)
    assert len(printed["cases"]) == 3


def test_a_person_reads_what_was_answered_what_is_true_and_why(
    cases: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_eval([cases], json_=False, workers=1)
    out = capsys.readouterr().out
    assert "p99 latency of checkout rose" in out.casefold()
    assert "truth not among the causes: nothing was found about it" in out
    assert "a decoy" in out
    assert "shop-3: no label.json" in out
    assert "[red]" in out
    assert "\x1b" not in out
    assert all(len(line) <= 160 for line in out.splitlines())


def test_several_folders_are_graded_together(
    cases: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    other = labelled_case(tmp_path_factory.mktemp("more") / "mall-1", subject="checkout")
    run_eval([cases, other.parent], json_=True, workers=1)
    printed = json.loads(capsys.readouterr().out)
    assert {name: s["n"] for name, s in printed["systems"].items()} == {"mall": 1, "shop": 2}
    assert printed["macro_ac1"]["value"] == 0.75


def test_a_run_is_compared_with_an_earlier_one(
    cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_eval([cases], json_=True, without="changes", workers=1)
    earlier = tmp_path / "earlier.json"
    earlier.write_text(capsys.readouterr().out)
    run_eval([cases], json_=True, workers=1, compare=earlier)
    found = {one["question"]: one for one in json.loads(capsys.readouterr().out)["compared"]}
    assert found["culprit first"]["difference"] == 0
    assert found["no decoy blamed"]["lost"] == ["shop-1"]
    assert found["no decoy blamed"]["p"] == 1.0
    run_eval([cases], json_=False, workers=1, compare=earlier)
    assert "no decoy blamed, lost: shop-1" in capsys.readouterr().out


def test_what_is_no_earlier_run_is_one_line(cases: Path) -> None:
    done = eval_(str(cases), "--compare", str(cases / "shop-1" / "label.json"))
    assert done.returncode == 2
    assert "is not what `faultline eval --json` prints" in done.stderr


def test_simple_methods_answer_the_same_cases(
    cases: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_eval([cases], json_=True, workers=1, baselines=True)
    found = json.loads(capsys.readouterr().out)["baselines"]
    assert found["the alerting service"]["n"] == 2
    assert found["largest shift"]["ac1"] == 0.5
    assert found["largest shift"]["ours_less_its"]["difference"] == 0
    run_eval([cases], json_=False, workers=1, baselines=True)
    assert "Beside simple methods" in capsys.readouterr().out


def test_hidden_tables_are_said(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_eval([cases], json_=False, without="changes", workers=1)
    out = capsys.readouterr().out
    assert "without changes" in out
    assert "a decoy" not in out


def test_wrong_options_are_one_line(cases: Path) -> None:
    done = eval_(str(cases), "--without", "feelings")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--without" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    with pytest.raises(SettingsError, match="--workers"):
        run_eval([cases], json_=False, workers=0)


def test_public_cases_of_every_system_are_graded(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for case in sorted((shared / "cases").glob("*-01")):
        (tmp_path / case.name).symlink_to(case)
    run_eval([tmp_path], json_=True, workers=1)
    printed = json.loads(capsys.readouterr().out)
    systems = printed["systems"]
    assert {name: s["n"] for name, s in systems.items()} == {
        "online-boutique": 1,
        "petshop": 1,
        "rootcausebench": 1,
        "train-ticket": 1,
    }
    assert printed["overall"]["failed"] == 0
    assert systems["rootcausebench"]["change1"] is not None
    assert systems["petshop"]["change1"] is None
