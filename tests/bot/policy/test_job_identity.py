"""Which training job an alert is about, by labels and settings."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.vocabulary import Alert, JobIdentity
from faultline.bot.investigation.scoping import scope_for
from faultline.bot.policy.job_identity import identify_job, plain_host
from faultline.bot.settings import Settings

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SETTINGS = Settings.model_validate(
    {
        "jobs": {
            "llm-pretrain": {
                "aliases": ["pretrain-*"],
                "pods": ["llm-pretrain-worker-*"],
                "hosts": ["node-a:1778", "node-b.cluster.local"],
                "ranks_per_host": 8,
                "slurm_job_id": 4711,
                "traces": ["s3://traces/{job}/{run}", "/scratch/{job}"],
                "dumps": ["/scratch/dumps/{slurm_job_id}"],
                "logs": ["/scratch/logs/{pod}"],
            },
            "ranker": {"hosts": ["node-c"]},
            "shares-node-c": {"hosts": ["node-c", "node-d"]},
        },
        "services": {"search": {"training_job": "ranker"}},
    }
)


def alert(service: str | None = None, **labels: str) -> Alert:
    """An alert with these labels."""
    return Alert(
        source="test", title="Step time up", started_at=NOW, service=service, labels=labels
    )


def job(service: str | None = None, **labels: str) -> JobIdentity | None:
    """The job that an alert with these labels is about."""
    return scope_for(alert(service, **labels), SETTINGS, now=NOW).training


@pytest.mark.parametrize(
    "labels",
    [
        {"job_name": "llm-pretrain"},
        {"training_job": "LLM-Pretrain"},
        {"job_name": "pretrain-2026-03"},
        {"service": "llm-pretrain"},
        {"exported_pod": "llm-pretrain-worker-3"},
        {"slurm_job_id": "4711"},
        {"Hostname": "node-a"},
        {"instance": "node-b:9400"},
        {"instance": "node-a.cluster.local:9400"},
    ],
)
def test_the_job_is_found_by_name_pod_slurm_number_or_machine(labels: dict[str, str]) -> None:
    found = job(**labels)
    assert found is not None
    assert found.name == "llm-pretrain"
    assert (found.hosts, found.ranks) == (("node-a", "node-b.cluster.local"), 16)


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"Hostname": "node-c"},
        {"pod": "checkout-7f"},
        {"service": "checkout"},
        {"slurm_job_id": "4712"},
    ],
)
def test_no_job_is_guessed(labels: dict[str, str]) -> None:
    assert job(**labels) is None


def test_a_machine_that_one_job_alone_has_names_it() -> None:
    found = job(node="node-d")
    assert found is not None
    assert found.name == "shares-node-c"


def test_the_catalogue_tells_the_job_of_a_service() -> None:
    found = job("search")
    assert found is not None
    assert found.name == "ranker"
    assert scope_for(alert("search"), SETTINGS, now=NOW).job == "ranker"


def test_a_job_without_a_table_keeps_its_name() -> None:
    assert job(job_name="another-job") == JobIdentity(name="another-job")


def test_places_are_filled_and_what_the_alert_does_not_say_is_told() -> None:
    found = job(job_name="llm-pretrain", run="r17")
    assert found is not None
    assert found.traces == ("s3://traces/llm-pretrain/r17", "/scratch/llm-pretrain")
    assert found.dumps == ("/scratch/dumps/4711",)
    assert found.unknown == ("/scratch/logs/{pod}: the alert does not say pod",)


@pytest.mark.parametrize("run", ["../../etc", "a/b", "", " ", ".", "r\n17", "x" * 200, "{job}"])
def test_a_value_that_is_no_plain_name_never_becomes_part_of_a_place(run: str) -> None:
    found = job(job_name="llm-pretrain", run=run)
    assert found is not None
    assert found.traces == ("/scratch/llm-pretrain",)


def test_the_rank_is_told_by_its_label_or_by_machine_and_gpu() -> None:
    by_gpu = job(Hostname="node-b", gpu="3")
    by_name = job(job_name="llm-pretrain", rank="5")
    unknown = job(job_name="llm-pretrain", Hostname="node-z", gpu="3")
    assert [found.rank for found in (by_gpu, by_name, unknown) if found] == [11, 5, None]
    assert by_gpu is not None
    assert [by_gpu.host_of(rank) for rank in (0, 7, 8, 15, 16, -1)] == [
        "node-a",
        "node-a",
        "node-b.cluster.local",
        "node-b.cluster.local",
        None,
        None,
    ]


def test_other_labels_can_be_named_in_the_settings() -> None:
    own = Settings.model_validate({"training": {"job_labels": ["ml_job"]}, "jobs": {"x": {}}})
    assert identify_job(alert(ml_job="x"), own, None) == JobIdentity(name="x")
    assert identify_job(alert(job_name="x"), own, None) is None


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("a", "a"),
        ("a:1778", "a"),
        ("[fe80::1]:1778", "fe80::1"),
        ("fe80::1", "fe80::1"),
        ("10.0.0.1:1", "10.0.0.1"),
    ],
)
def test_a_host_is_told_without_its_port(host: str, name: str) -> None:
    assert plain_host(host) == name


@given(
    st.dictionaries(
        st.sampled_from(["job_name", "run", "pod", "Hostname", "gpu", "rank"]),
        st.text(max_size=300),
    )
)
def test_hostile_labels_give_only_plain_names(labels: dict[str, str]) -> None:
    found = job(**labels)
    for word in (found.name, found.run, found.pod, found.node) if found else ():
        assert word is None or (word.isascii() and "/" not in word and not word.startswith("."))
