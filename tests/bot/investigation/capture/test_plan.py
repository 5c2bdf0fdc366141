"""Whether a job may be asked at all: the settings decide, and what stands in the way is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.errors import SettingsError
from faultline.bot.investigation.capture.captured import plan_capture
from faultline.bot.investigation.capture.dynolog import DaemonAddress
from faultline.bot.settings import load_settings

ALLOWED = "[jobs.llm]\nallow_capture = true\n"
HOSTS = ALLOWED + "hosts = ['a', 'b:9']\njob_directory = '/mnt/traces/'\n"


def refused(tmp_path: Path, text: str, job: str = "llm", **wanted: float) -> str:
    file = _file(tmp_path, text)
    with pytest.raises(SettingsError) as error:
        plan_capture(load_settings(file, {}), job, **wanted)  # type: ignore[arg-type]
    said = str(error.value)
    assert "\n" not in said
    return said


def _file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "faultline.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "wanted", "said"),
    [
        (
            "[jobs.llm]\nhosts = ['a']\njob_directory = '/t'\n",
            {},
            "jobs.llm.allow_capture: is false",
        ),
        ("[jobs.other]\nallow_capture = true\n", {}, "jobs.llm: no such table"),
        (ALLOWED, {}, "jobs.llm.hosts: names no hosts"),
        (ALLOWED + "hosts = ['a']\n", {}, "jobs.llm.job_directory: is not set"),
        (
            HOSTS,
            {"seconds": 60.0},
            "jobs.llm.longest_seconds: allows more than 0 and at most 10 s, not 60 s",
        ),
        (HOSTS, {"seconds": 0.0}, "jobs.llm.longest_seconds"),
        (HOSTS, {"seconds": float("nan")}, "jobs.llm.longest_seconds"),
        (HOSTS, {"iterations": 11}, "jobs.llm.most_iterations: allows 1 to 10 iterations, not 11"),
        (HOSTS, {"iterations": 0}, "jobs.llm.most_iterations"),
        (HOSTS, {"seconds": 1.0, "iterations": 1}, "--seconds: cannot be given together"),
        (
            ALLOWED + "debug_server = 'http://a:1'\n",
            {"iterations": 1},
            "jobs.llm.hosts: names no hosts",
        ),
        (
            ALLOWED + "hosts = ['a/b']\njob_directory = '/t'\n",
            {},
            "jobs.llm.hosts: 'a/b' is not like name",
        ),
        (
            ALLOWED + "hosts = ['a:x']\njob_directory = '/t'\n",
            {},
            "jobs.llm.hosts: 'a:x' is not like name",
        ),
        (
            ALLOWED + "job_directory = 'relative'\n",
            {},
            "jobs.llm.job_directory: must be an absolute path",
        ),
        (
            ALLOWED + 'job_directory = "/t\\nACTIVITIES=1"\n',
            {},
            "jobs.llm.job_directory: must be an absolute path",
        ),
        (
            ALLOWED + "trace_location = 'ftp://x'\n",
            {},
            "jobs.llm.trace_location: must be s3://bucket/prefix",
        ),
    ],
)
def test_what_stands_in_the_way_is_named(
    tmp_path: Path, text: str, wanted: dict[str, float], said: str
) -> None:
    assert refused(tmp_path, text, **wanted).startswith(said)


def test_the_plan_names_every_host_it_would_speak_to(tmp_path: Path) -> None:
    text = (
        HOSTS
        + "ranks_per_host = 4\ndebug_server = 'http://Head:25999'\ndebug_hosts = ['10.0.0.7']\n"
    )
    plan = plan_capture(load_settings(_file(tmp_path, text), {}), "llm")
    assert plan.daemons == (DaemonAddress("a", 1778), DaemonAddress("b", 9))
    assert plan.hosts == "http://Head:25999, a:1778, b:9"
    assert plan.debug_hosts == ("10.0.0.7", "a", "b", "head")
    assert (plan.seconds, plan.ranks, plan.job_directory) == (0.5, 8, "/mnt/traces")


def test_iterations_are_counted_by_the_daemon_alone(tmp_path: Path) -> None:
    text = HOSTS + "debug_server = 'http://a:25999'\n"
    plan = plan_capture(load_settings(_file(tmp_path, text), {}), "llm", iterations=3)
    assert (plan.debug_server, plan.requested) == (None, "3 iterations")


def test_an_address_of_version_6_keeps_its_colons(tmp_path: Path) -> None:
    text = ALLOWED + "hosts = ['::1', '[::1]:9']\njob_directory = '/t'\n"
    plan = plan_capture(load_settings(_file(tmp_path, text), {}), "llm")
    assert plan.daemons == (DaemonAddress("::1", 1778), DaemonAddress("::1", 9))
