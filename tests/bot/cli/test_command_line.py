"""The command line as a whole: its version, its help, and what it says of a missing extra."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from faultline.bot.cli.main import app
from faultline.bot.settings.extras import BOT, TRACES, WITH_VENDORS, extra_of, install

# A process in which one module cannot be found, as where its extra is not installed.
WITHOUT = """
import sys
sys.modules[{module!r}] = None
sys.argv = ["faultline", *{words!r}]
from faultline.bot.cli.main import main
main()
"""


def without(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    program = WITHOUT.format(module=module, words=words)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )


def test_it_prints_its_version() -> None:
    told = CliRunner().invoke(app, ["--version"])
    assert told.exit_code == 0
    assert told.stdout == f"faultline {version('faultline-bot')}\n"


def test_names_of_tables_are_not_lost_from_help_as_markup() -> None:
    told = CliRunner().invoke(app, ["capture", "--help"])
    assert "[jobs.NAME]" in told.stdout


def test_each_command_fits_its_line_of_the_help() -> None:
    told = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"})
    commands = told.stdout.partition("Commands:")[2].splitlines()
    assert len(commands) > 15
    assert [line for line in commands if line.endswith("...")] == []


def test_help_does_not_load_what_draws_boxes() -> None:
    program = (
        "import sys; from faultline.bot.cli.main import main; sys.argv = ['faultline', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert not {'rich.console', 'polars', 'numpy', 'pydantic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], timeout=120, check=True)


@pytest.mark.parametrize(
    ("module", "words", "extra"),
    [
        ("dbos", ["ask", "checkout is slow", "--prometheus", "http://127.0.0.1:1"], "bot"),
        ("sqlalchemy", ["serve"], "bot"),
        ("sqlalchemy", ["doctor"], "bot"),
        ("starlette", ["demo", "--exit"], "bot"),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(module: str, words: list[str], extra: str) -> None:
    said = without(module, *words)
    assert said.returncode == 2
    assert said.stderr.count("\n") == 1
    assert said.stderr == (
        f"faultline {words[0]} needs an extra that is not installed: {install(extra)}\n"
    )


def test_a_page_of_traces_needs_an_extra_of_its_own() -> None:
    assert extra_of("jinja2", "trace") == "traces"
    assert extra_of("jinja2", "serve") == "bot"


def test_a_module_that_no_extra_brings_is_our_own_mistake() -> None:
    assert extra_of("nowhere", "ask") is None
    assert extra_of("bot.nowhere", "ask") is None


def test_a_section_that_is_set_names_the_extra_that_it_lacks(tmp_path: Path) -> None:
    file = tmp_path / "faultline.toml"
    file.write_text('[aws]\nregions = ["eu-west-1"]\n')
    said = without("boto3", "check", "--config", str(file))
    assert said.returncode == 2
    assert (
        said.stderr == f"faultline: aws: needs an extra that is not installed: {install('aws')}\n"
    )


def test_the_command_suits_how_it_was_installed(tmp_path: Path) -> None:
    assert install("bot", str(tmp_path)) == 'pip install "faultline-bot[bot]"'
    (tmp_path / "pipx_metadata.json").touch()
    assert install("bot", str(tmp_path)) == 'pipx install --force "faultline-bot[bot]"'
    (tmp_path / "uv-receipt.toml").touch()
    assert install("bot", str(tmp_path)) == 'uv tool install "faultline-bot[bot]"'


def test_no_module_is_named_twice() -> None:
    assert not BOT & TRACES
    assert not (BOT | TRACES) & set(WITH_VENDORS)
