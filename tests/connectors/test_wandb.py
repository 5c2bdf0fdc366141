"""wandb's runs against its API on loopback: which run, what is brought, what becomes a gap, and
what is diagnosed."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from faultline.analysis.case.folder import read_case, write_evidence, write_json
from faultline.analysis.case.tables import SCHEMAS, conform, write_table
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.errors import SettingsError
from faultline.analysis.vocabulary import Alert, Diagnosis, Evidence, Gap, JobIdentity
from faultline.bot.settings import load_settings
from faultline.connectors.registry import build_connectors
from faultline.connectors.shared.contract.base import Collected, Request, collect_from
from faultline.connectors.shared.training.training_runs import HIDDEN, LEARNING_RATE, moment
from faultline.connectors.vendors.wandb import WandbSettings
from faultline.connectors.vendors.wandb.connector import WandbConnector
from faultline.connectors.vendors.wandb.queries import page_address
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.wandb_server import StoredRun, WandbServer, training_run

BEGAN = ALERT_AT - timedelta(hours=3)
NAN = float("nan")


@pytest.fixture
def wandb(server: LocalServer) -> WandbServer:
    """A server with one sound run of the job llm-1 that began three hours before the alert."""
    served = WandbServer(server)
    served.runs.append(training_run("run-now", BEGAN))
    return served


def connector(wandb: WandbServer, **given: Any) -> WandbConnector:
    values = {"entity": "ml", "project": "pretrain", "base_url": wandb.server.url}
    return WandbConnector(WandbSettings.model_validate(values | {"api_key": wandb.key} | given))


def alert_with(**labels: str) -> Alert:
    return Alert(source="test", title="Training", started_at=ALERT_AT, labels=labels)


def collect(
    wandb: WandbServer, folder: Path, *, alert: Alert | None = None, job: str | None = "llm-1"
) -> Collected:
    request = request_for(folder, job=job, alert=alert)
    return asyncio.run(collect_from(connector(wandb), request))


def rows(collected: Collected, signal: str) -> pl.DataFrame:
    return collected.tables["metrics"].filter(pl.col("signal") == signal)


def reasons(collected: Collected) -> str:
    return "; ".join(f"{m.query}: {m.reason}" for m in collected.missing)


def test_series_of_the_run_come_within_the_windows(wandb: WandbServer, tmp_path: Path) -> None:
    found = collect(wandb, tmp_path)
    assert found.missing == ()
    assert set(found.tables["metrics"]["signal"]) == {
        "loss", "grad_norm", "throughput", "step_time", "learning_rate", "gpu_utilization_percent",
        "gpu_memory_percent", "gpu_memory_used_bytes", "gpu_temperature_c", "gpu_power_w",
        "cpu_percent",
    }  # fmt: skip
    times = rows(found, "loss")["time"]
    assert len(times) == 150 * 4
    assert times.min() >= ALERT_AT - timedelta(minutes=150)  # type: ignore[operator]
    assert set(rows(found, "loss")["service"]) == {"llm-1"}
    assert set(rows(found, "gpu_temperature_c")["service"]) == {"llm-1/gpu0"}
    assert json.loads(rows(found, "gpu_temperature_c")["labels"][0]) == {
        "gpu": "0",
        "host": "llm-1",
    }


def test_the_key_goes_where_the_settings_say_and_nowhere_else(
    wandb: WandbServer, tmp_path: Path
) -> None:
    found = collect(wandb, tmp_path)
    assert {a.headers["Authorization"] for a in wandb.server.asked} == {
        "Basic " + "YXBpO" + _rest(wandb.key)
    }
    said = repr(found) + "".join(p.read_text() for p in tmp_path.iterdir())
    assert wandb.key not in said
    assert all(wandb.key.encode() not in a.body for a in wandb.server.asked)


def _rest(key: str) -> str:
    import base64

    return base64.b64encode(f"api:{key}".encode()).decode().removeprefix("YXBpO")


def test_an_alert_about_no_training_job_asks_nothing(wandb: WandbServer, tmp_path: Path) -> None:
    assert collect(wandb, tmp_path, job=None) == Collected()
    assert wandb.server.asked == []


def test_the_run_is_the_one_that_the_alert_names(wandb: WandbServer, tmp_path: Path) -> None:
    wandb.runs.append(training_run("other1", BEGAN, name="llm-2 warm"))
    for labels in ({"wandb_run": "other1"}, {"run_name": "llm-2 warm"}, {"run_id": "other1"}):
        found = collect(wandb, tmp_path / next(iter(labels)), alert=alert_with(**labels))
        assert {i.link for i in found.items} == {f"{wandb.server.url}/ml/pretrain/runs/other1"}


def test_the_run_of_the_jobs_identity_counts_too(wandb: WandbServer, tmp_path: Path) -> None:
    wandb.runs.append(training_run("other1", BEGAN, name="llm-2 warm"))
    request = request_for(tmp_path, job="llm-1")
    scope = request.scope.model_copy(update={"training": JobIdentity(name="llm-1", run="other1")})
    found = asyncio.run(collect_from(connector(wandb), replace(request, scope=scope)))
    assert all(i.link and i.link.endswith("/other1") for i in found.items)


def test_else_it_is_the_newest_run_of_the_job_that_had_begun(
    wandb: WandbServer, tmp_path: Path
) -> None:
    wandb.runs.append(training_run("old", ALERT_AT - timedelta(days=2)))
    wandb.runs.append(
        training_run("by-group", ALERT_AT - timedelta(hours=2), name="fluffy-fox-7", group="llm-1")
    )
    wandb.runs.append(training_run("later", ALERT_AT + timedelta(hours=1)))
    found = collect(wandb, tmp_path)
    assert {i.link.rpartition("/")[2] for i in found.items if i.link and i.kind == "metrics"} == {
        "by-group"
    }


def test_a_run_that_nobody_knows_is_a_gap(wandb: WandbServer, tmp_path: Path) -> None:
    found = collect(wandb, tmp_path, alert=alert_with(run_id="gone"))
    assert "no run is called gone; the newest of llm-1 is shown instead" in reasons(found)
    assert (
        collect(wandb, tmp_path / "2", job="llm-9").missing[0].reason
        == "no run there is called llm-9"
    )


def test_a_job_can_log_to_a_project_of_its_own(wandb: WandbServer, tmp_path: Path) -> None:
    projects = {"llm-1": "ml/pretrain"}
    own = WandbConnector(WandbSettings(projects=projects, base_url=wandb.server.url))
    assert asyncio.run(collect_from(own, request_for(tmp_path, job="llm-1"))).items
    other = asyncio.run(collect_from(own, request_for(tmp_path, job="llm-2")))
    assert other.missing[0].reason == "no wandb project is set for this job"


def test_a_project_without_an_owner_stops_the_start() -> None:
    with pytest.raises(SettingsError, match=r"wandb\.project"):
        WandbConnector(WandbSettings(project="pretrain"))


def test_a_project_that_cannot_be_seen_is_a_gap_and_fails_the_check(
    wandb: WandbServer, tmp_path: Path
) -> None:
    wandb.project = "secret"
    assert "no such project, or the key may not see it" in reasons(collect(wandb, tmp_path))
    check = asyncio.run(connector(wandb).check())
    assert (check.ok, check.line) == (
        False,
        "ml/pretrain: no such project, or the key may not see it",
    )


def test_the_check_says_what_can_be_read(wandb: WandbServer) -> None:
    check = asyncio.run(connector(wandb).check())
    assert (check.ok, check.line.partition(": ")[2]) == (True, check.line.partition(": ")[2])
    assert "ml/pretrain can be read; only queries are sent" in check.line


def test_long_runs_are_sampled_where_the_incident_is(server: LocalServer, tmp_path: Path) -> None:
    wandb = WandbServer(server)
    run = StoredRun("run-long", ALERT_AT - timedelta(hours=30), name="llm-1", heartbeat=ALERT_AT)
    for step in range(60_000):
        run.log(step, step * 1.8, {"loss": 2.0})
    wandb.runs.append(run)
    found = collect(wandb, tmp_path)
    loss = rows(found, "loss")
    assert 4_000 <= loss.height <= 8_000
    asked = [s for a in server.asked for s in json.loads(a.body)["variables"].get("specs", ())]
    assert min(json.loads(s).get("minStep", 60_000) for s in asked) > 50_000


def test_a_sample_that_is_cut_says_so(server: LocalServer, tmp_path: Path) -> None:
    wandb = WandbServer(server)
    run = StoredRun(
        "run-fast", ALERT_AT - timedelta(hours=2, minutes=30), name="llm-1", heartbeat=ALERT_AT
    )
    for step in range(18_000):
        run.log(step, step * 0.5, {"loss": 2.0})
    wandb.runs.append(run)
    (item,) = [i for i in collect(wandb, tmp_path).items if i.kind == "metrics"]
    assert item.cut == "wandb samples 1,000 of every 2,250 steps"


def test_ranks_that_logged_runs_of_their_own_are_told_apart(
    wandb: WandbServer, tmp_path: Path
) -> None:
    wandb.runs = [
        training_run(f"rank{n}", BEGAN + timedelta(seconds=n), name=f"llm-1-rank{n}", group="llm-1")
        for n in range(3)
    ]
    found = collect(wandb, tmp_path)
    hosts = {json.loads(text)["host"] for text in rows(found, "gpu_temperature_c")["labels"]}
    assert hosts == {"llm-1-rank0", "llm-1-rank1", "llm-1-rank2"}
    assert found.tables["monitors"].height == 3
    assert "changes" not in found.tables


def test_labels_of_shared_runs_name_the_host(server: LocalServer, tmp_path: Path) -> None:
    wandb = WandbServer(server)
    run = training_run("run-now", BEGAN)
    run.sample(
        9_000,
        {
            "gpu.3.temp/l:node-7": 91.0,
            "gpu.process.3.temp": 1.0,
            "gpu.3.mystery": 1.0,
            "fpga.0.temp": 1.0,
        },
    )
    wandb.runs.append(run)
    temperatures = rows(collect(wandb, tmp_path), "gpu_temperature_c").filter(
        pl.col("value") == 91.0
    )
    assert temperatures["service"].to_list() == ["llm-1/gpu3"]
    assert json.loads(temperatures["labels"][0]) == {"gpu": "3", "host": "node-7"}


def test_values_that_are_no_numbers_are_missing_values(wandb: WandbServer, tmp_path: Path) -> None:
    run = wandb.runs[0]
    run.history[400]["loss"], run.history[401]["loss"] = "NaN", "Infinity"
    run.history[402]["loss"], run.history[403]["loss"] = {"_type": "histogram"}, "9" * 400
    run.history[404]["loss"], run.history[405] = 10**400, "no row"  # type: ignore[call-overload]
    run.history = [r for r in run.history if isinstance(r, dict)]
    found = collect(wandb, tmp_path)
    assert rows(found, "loss")["value"].null_count() == 2
    (file,) = tmp_path.glob("*.jsonl")
    assert "NaN" in file.read_text()


def test_the_state_is_evidence_with_a_link(wandb: WandbServer, tmp_path: Path) -> None:
    wandb.runs[0].state, wandb.runs[0].heartbeat = "crashed", ALERT_AT - timedelta(minutes=9)
    found = collect(wandb, tmp_path)
    (state,) = [i for i in found.items if i.kind == "monitors"]
    assert state.details["state"] == "crashed"
    assert state.details["last heartbeat"] == "2026-03-02T11:51:00Z"
    assert found.tables["monitors"].row(0, named=True)["state"] == "crashed"


def test_a_running_run_without_heartbeat_is_silent(wandb: WandbServer, tmp_path: Path) -> None:
    wandb.runs[0].heartbeat = ALERT_AT - timedelta(minutes=20)
    assert collect(wandb, tmp_path).tables["monitors"]["state"].to_list() == ["silent"]


def test_a_run_that_crashed_before_the_restart_is_shown_too(
    wandb: WandbServer, tmp_path: Path
) -> None:
    crashed_at = ALERT_AT - timedelta(minutes=20)
    wandb.runs = [
        training_run("run-now", ALERT_AT - timedelta(minutes=15), hours=0.2, heartbeat=ALERT_AT),
        training_run("run-before", BEGAN, state="crashed", heartbeat=crashed_at),
        training_run("run-oldest", BEGAN - timedelta(days=1), hours=1, state="failed"),
    ]
    found = diagnosed(wandb, tmp_path)
    assert [f.onset for f in found.findings if f.kind == "run_ended"] == [crashed_at]


def test_the_run_before_is_the_last_one_of_the_same_name(
    wandb: WandbServer, tmp_path: Path
) -> None:
    wandb.runs[0].group = "team"
    wandb.runs += [
        training_run(
            "another", BEGAN - timedelta(hours=1), name="eval", group="team", config={"a": 1}
        ),
        training_run("run-before", BEGAN - timedelta(hours=9), group="team", config={"b": 2}),
    ]
    found = collect(wandb, tmp_path, alert=alert_with(run_id="run-now"))
    assert found.tables["changes"]["diff"].to_list() == ["-b: 2"]


def test_what_changed_since_the_run_before_is_a_change(wandb: WandbServer, tmp_path: Path) -> None:
    before = {
        "optimizer": {"lr": 3e-4, "name": "AdamW"},
        "batch": 8,
        "wandb_api_key": "a" * 40,
        "data": "s3://a",
    }
    now = {
        "optimizer": {"lr": 3e-3, "name": "AdamW"},
        "batch": 8,
        "wandb_api_key": "b" * 40,
        "seed": 7,
    }
    wandb.runs[0].config, wandb.runs[0].commit = now, "f" * 40
    wandb.runs.append(training_run("run-before", BEGAN - timedelta(hours=5), config=before))
    wandb.runs.append(training_run("run-oldest", BEGAN - timedelta(hours=50), config={}))
    config, deploy = collect(wandb, tmp_path).tables["changes"].sort("kind").rows(named=True)
    assert (config["time"], config["service"], config["kind"]) == (BEGAN, "llm-1", "config")
    assert config["diff"].splitlines() == [
        '-data: "s3://a"',
        "-optimizer.lr: 0.0003",
        "+optimizer.lr: 0.003",
        "+seed: 7",
        f"-wandb_api_key: {HIDDEN}",
        f"+wandb_api_key: {HIDDEN}",
    ]
    assert "optimizer.lr" in config["title"]
    assert (deploy["kind"], deploy["diff"].splitlines()[1]) == ("deploy", "+commit: " + "f" * 40)


@pytest.mark.parametrize(
    "value",
    [
        "postgresql://ml:hunter2@db/x",
        "sk-abcdefghijklmnopqrstuv",
        "hf_abcdefghijklmnopqrstuv",
        "AKIAABCDEFGHIJKLMNOP",
        "0123456789abcdef0123456789abcdef01234567",
    ],
)
def test_secrets_in_a_configuration_are_hidden(
    wandb: WandbServer, tmp_path: Path, value: str
) -> None:
    wandb.runs[0].config = {"source": value, "kv.num_key_value_heads": 8, "git_sha": "c" * 40}
    wandb.runs.append(training_run("run-before", BEGAN - timedelta(hours=5)))
    diff = collect(wandb, tmp_path).tables["changes"]["diff"][0]
    assert value not in diff
    assert "+kv.num_key_value_heads: 8" in diff
    assert "c" * 40 in diff


def test_a_configuration_of_any_size_and_depth_is_bounded(
    wandb: WandbServer, tmp_path: Path
) -> None:
    deep: dict[str, Any] = {}
    inner = deep
    for _ in range(200):
        inner["k"] = {}
        inner = inner["k"]
    wandb.runs[0].config = {f"k{n}": "x" * 500 for n in range(9_000)} | {
        "deep": deep,
        "<!channel>\n\x1b[31m": [NAN],
    }
    wandb.runs.append(training_run("run-before", BEGAN - timedelta(hours=5)))
    (row,) = collect(wandb, tmp_path).tables["changes"].rows(named=True)
    assert len(row["diff"]) < 15_000
    assert "more keys" in row["diff"]


def test_a_run_like_the_one_before_changes_nothing(wandb: WandbServer, tmp_path: Path) -> None:
    wandb.runs.append(training_run("run-before", BEGAN - timedelta(hours=5)))
    found = collect(wandb, tmp_path)
    assert found.tables["changes"].height == 0


def test_one_query_that_fails_costs_only_its_part(wandb: WandbServer, tmp_path: Path) -> None:
    answer = wandb._answer

    def failing(asked: Any) -> Reply:
        return Reply(b"", status=500) if b"sampledHistory" in asked.body else answer(asked)

    wandb.server.on("/graphql", failing)
    found = collect(wandb, tmp_path)
    assert "history of ml/pretrain/run-now" in reasons(found)
    assert rows(found, "gpu_power_w").height


def test_a_limit_is_honoured(wandb: WandbServer, tmp_path: Path) -> None:
    answer = wandb._answer
    first = [Reply(b"", status=429, headers={"RateLimit-Remaining": "0", "RateLimit-Reset": "1"})]
    wandb.server.on("/graphql", lambda asked: first.pop() if first else answer(asked))
    assert collect(wandb, tmp_path).missing == ()


def test_a_refused_key_is_said_and_not_shown(wandb: WandbServer, tmp_path: Path) -> None:
    wandb.server.on("/graphql", Reply({"error": "invalid key " + wandb.key}, status=401))
    found = collect(wandb, tmp_path)
    assert "authentication failed" in reasons(found)
    assert wandb.key not in reasons(found)


LOSS = {"loss": 0}
NONSENSE = (
    {"project": {"run": 5}},
    {"project": {"run": {"name": 7}}},
    {"project": {"runs": {"edges": [None]}}},
    {"project": {"run": {"name": "r", "createdAt": "yesterday", "historyKeys": [1],
    "config": "{{"}}},
    {"project": {"run": {"name": "../../etc", "createdAt": "2026-03-02T09:00:00",
    "historyKeys": {"keys": []}}}},
    {"project": {"run": {"name": "r", "historyKeys": {"keys": LOSS, "lastStep": 10**30},
    "sampledHistory": "x"}}},
    {"project": {"run": {"name": "r", "historyKeys": {"keys": LOSS, "lastStep": 9},
    "sampledHistory": [[1, {}], 2]}}},
    {"project": {"run": {"name": "r", "events": ["{", "[1]",
    ('{"_timestamp": "NaN", ' '"system.cpu": 1}'), 5, None]}}},
)  # fmt: skip


@pytest.mark.parametrize("data", NONSENSE)
def test_nonsense_makes_gaps_and_no_failure(wandb: WandbServer, tmp_path: Path, data: Any) -> None:
    wandb.server.on("/graphql", Reply({"data": data}))
    found = collect(wandb, tmp_path, alert=alert_with(run_id="r"))
    assert found.missing
    assert "internal error" not in reasons(found)
    for name, table in found.tables.items():
        conform(table, name, name)
    assert all(p.parent == tmp_path for p in tmp_path.rglob("*"))


@pytest.mark.parametrize(
    "text", ["", "yesterday", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", None]
)
def test_times_that_are_none_are_unknown(text: str | None) -> None:
    assert moment(text) is None


@pytest.mark.parametrize(
    ("api", "page"),
    [
        ("https://api.wandb.ai", "https://wandb.ai"),
        ("https://api.example.com", "https://app.example.com"),
        ("https://wandb.example.com", "https://wandb.example.com"),
    ],
)
def test_links_lead_to_the_pages_that_belong_to_the_api(api: str, page: str) -> None:
    assert page_address(api) == page


@pytest.mark.parametrize(
    "key",
    ["lr", "train/lr", "optimizer.lr", "learning_rate", "lr/group_0", "LR", "lr_0", "lr-Adam"],
)
def test_names_of_the_learning_rate(key: str) -> None:
    assert bool(LEARNING_RATE.search(key)) == (key != "lr-Adam")


def diagnosed(wandb: WandbServer, folder: Path) -> Diagnosis:
    """The case that a collection makes, diagnosed."""
    alert = alert_with(job_name="llm-1")
    (folder / "traces").mkdir(parents=True)
    request = Request(alert, request_for(folder, job="llm-1").scope, folder / "traces")
    found = asyncio.run(collect_from(connector(wandb), request))
    write_json(folder / "alert.json", alert)
    write_json(folder / "scope.json", request.scope)
    items = [
        Evidence(id=f"E{n}", kind=i.kind, source="wandb", query=i.query, link=i.link)
        for n, i in enumerate(found.items)
    ]
    gaps = [
        Gap(id=f"G{n}", kind=m.kind, source="wandb", query=m.query, reason=m.reason)
        for n, m in enumerate(found.missing)
    ]
    write_evidence(folder, items, gaps)
    for name in SCHEMAS:
        if name in found.tables and found.tables[name].height:
            write_table(folder, name, found.tables[name])
    return diagnose(read_case(folder))


def late(run: StoredRun, **change: Any) -> None:
    """Change what the run logged in its last 15 minutes."""
    for row in (*run.history[-60:], *run.events[-60:]):
        row |= {k: v for k, v in change.items() if k in row}


def test_a_sound_run_has_nothing_to_accuse(wandb: WandbServer, tmp_path: Path) -> None:
    found = diagnosed(wandb, tmp_path)
    assert (found.verdict, found.causes) == ("no_active_incident", ())


def test_a_learning_rate_that_steps_down_accuses_nobody(wandb: WandbServer, tmp_path: Path) -> None:
    late(wandb.runs[0], lr=1e-5)
    for row in wandb.runs[0].history[-60:]:
        row["loss"] -= 0.4
    assert diagnosed(wandb, tmp_path).causes == ()


def test_a_loss_that_is_no_number_is_diagnosed(wandb: WandbServer, tmp_path: Path) -> None:
    late(wandb.runs[0], loss="NaN")
    found = diagnosed(wandb, tmp_path)
    assert (found.verdict, found.causes[0].kind) == ("cause_found", "nan_loss")
    assert "step 660" in found.causes[0].summary
    assert found.causes[0].onset == BEGAN + timedelta(seconds=660 * 15)


def test_a_fall_of_throughput_is_diagnosed(wandb: WandbServer, tmp_path: Path) -> None:
    late(wandb.runs[0], **{"throughput(tps)": 3000.0, "time_metrics/end_to_end(s)": 25.0})
    found = diagnosed(wandb, tmp_path)
    kinds = {(f.kind, f.signal) for f in found.findings}
    assert ("metric_shift", "throughput") in kinds
    assert ("throughput_drop", "throughput") in kinds
    assert found.verdict == "cause_found"


def test_a_rise_of_gpu_memory_is_diagnosed(wandb: WandbServer, tmp_path: Path) -> None:
    late(wandb.runs[0], **{"system.gpu.0.memoryAllocated": 99.0})
    found = diagnosed(wandb, tmp_path)
    shift = next(f for f in found.findings if f.signal == "gpu_memory_percent")
    assert (shift.subject, shift.details.direction) == ("llm-1/gpu0", "up")
    assert found.causes[0].subject == "llm-1/gpu0"


def test_a_run_that_crashed_is_diagnosed(wandb: WandbServer, tmp_path: Path) -> None:
    wandb.runs[0].state, wandb.runs[0].heartbeat = "crashed", ALERT_AT - timedelta(minutes=9)
    found = diagnosed(wandb, tmp_path)
    assert (found.verdict, found.causes[0].kind, found.causes[0].subject) == (
        "cause_found",
        "run_ended",
        "llm-1",
    )
    assert "crashed" in found.causes[0].summary


def test_a_restart_with_another_setting_is_the_change_to_blame(
    wandb: WandbServer, tmp_path: Path
) -> None:
    began = ALERT_AT - timedelta(minutes=40)
    wandb.runs = [
        training_run("run-now", began, hours=0.66, config={"optimizer": {"lr": 3e-2}}),
        training_run("run-before", BEGAN, config={"optimizer": {"lr": 3e-4}}, state="finished"),
    ]
    for row in wandb.runs[0].history[60:]:
        row["loss"] = "NaN"
    found = diagnosed(wandb, tmp_path)
    assert found.causes[0].change == "wandb:run-now"
    assert "optimizer.lr" in found.causes[0].summary


def test_several_entities_are_instances_with_their_own_keys(tmp_path: Path) -> None:
    file = tmp_path / "faultline.toml"
    file.write_text(
        '[[wandb]]\nname = "vision"\nentity = "acme-vision"\nproject = "pretrain"\n'
        '[[wandb]]\nname = "speech"\nentity = "acme-speech"\nproject = "asr"\n'
    )
    keys = {f"FAULTLINE_WANDB__{name}__API_KEY": name[0] * 40 for name in ("VISION", "SPEECH")}
    settings = load_settings(file, keys)
    assert [one.name for one in build_connectors(settings)] == ["wandb vision", "wandb speech"]
    own = [section.model_dump() for section in settings.instances("wandb")]
    assert [one["entity"] for one in own] == ["acme-vision", "acme-speech"]
    assert [one["api_key"].get_secret_value()[0] for one in own] == ["V", "S"]
