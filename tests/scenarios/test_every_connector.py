"""An alert of any kind leads to evidence from every connector; one that refuses is a gap in the
report, no more."""

from __future__ import annotations

import importlib
import io
import json
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import polars as pl
import pytest
from sqlalchemy import update

from faultline.bot.intake.accepting import store_accept
from faultline.bot.settings import NAMED_TABLES, Settings, is_secret, secret_variable
from faultline.bot.store.tables import InvestigationRow
from tests.bot.intake.conftest import serving
from tests.bot.intake.sns_sender import TOPIC, SnsSender, alarm, envelope, signed
from tests.bot.intake.test_datadog_webhook import event as datadog_event
from tests.connectors.conftest import ALERT_AT
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins.datadog import MONITOR
from tests.connectors.test_read_only import OVER_HTTP
from tests.scenarios.bot_story import Story, bot_story
from tests.scenarios.test_first_light import slack_event

pytestmark = pytest.mark.timeout(600)

ASKED = [name for name in OVER_HTTP if name not in ("recorded", "pagerduty", "slack")]
"""The recorded case takes the place of live sources; PagerDuty is asked about its own incidents
only, and Slack is where the bot of these stories answers."""
OF_JOBS = {"traces", "wandb", "mlflow", "slurm", "ray"}
"""Asked only where an alert names a training job."""
JOB = "llm-1"
ALERTS_CHANNEL = "C0ALERTS"
REFUSING_SETS = 2
"""Many at a time: an investigation for each one of them would take minutes."""
ASKED_AGAIN = 2
TOO_SLOW = ("time limit", "no answer within", "circuit open")
NEXT_ATTEMPT = re.compile(r"Next attempt in (\d+) s")
SLACK = timedelta(minutes=2)
Gaps = dict[str, str]
"""The first reason of each source that brought none of some kind."""


class Connected:
    """A bot whose connectors all speak to stand-ins."""

    def __init__(
        self, story: Story, servers: dict[str, LocalServer], secrets: set[str], log: Path
    ) -> None:
        self.story = story
        self.servers = servers
        self.secrets = secrets
        self.log = log

    def evidence(self, investigation: str) -> tuple[set[str], Gaps]:
        """Sources that brought an item, and sources with a gap, each with its first reason; once
        there is an answer."""
        self.story.wait_for(
            lambda: self._status(investigation) in ("done", "failed"),
            within_s=240,
            what="an answer",
        )
        assert self._status(investigation) == "done"
        listed = json.loads(self.file(investigation, "evidence.json"))
        items = {entry["source"] for entry in listed if "reason" not in entry}
        gaps: Gaps = {}
        for entry in listed:
            if "reason" in entry:
                gaps.setdefault(entry["source"], entry["reason"])
        return items, gaps

    def run_again(self, investigation: str) -> None:
        """One more run of it, as for an alert that joins with another service; waits until that
        has begun."""
        found = self.story.store.get(investigation)
        assert found is not None
        runs, wanted = found.runs, update(InvestigationRow).values(wants_run=True)
        with self.story.store.engine.begin() as connection:
            connection.execute(wanted.where(InvestigationRow.id == investigation))

        def has_begun() -> bool:
            now = self.story.store.get(investigation)
            return now is not None and now.runs > runs

        self.story.wait_for(has_begun, what="another run")

    def report(self, investigation: str) -> str:
        """The report as Markdown."""
        return self.file(investigation, "report.md").decode()

    def file(self, investigation: str, name: str) -> bytes:
        """A file of the case."""
        url = f"{self.story.bot.url}/investigations/{investigation}/case.zip"
        return _in_zip(httpx.get(url, timeout=30).content, name)

    def post(self, source: str, body: bytes, headers: dict[str, str]) -> str:
        """Send a webhook; the investigation's id."""
        return _taken(
            httpx.post(
                f"{self.story.bot.url}/webhooks/{source}", content=body, headers=headers, timeout=30
            )
        )

    def _status(self, investigation: str) -> str:
        found = self.story.store.get(investigation)
        return found.status if found else "unknown"


def _in_zip(content: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read(next(n for n in archive.namelist() if n.endswith(name)))


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connected]:
    """One bot for all stories of this file."""
    directory = tmp_path_factory.mktemp("connected")
    with ExitStack() as stack:
        servers = {name: stack.enter_context(LocalServer()) for name in ASKED}
        tables: dict[str, dict[str, Any]] = {}
        for name, server in servers.items():
            stand_in = importlib.import_module(f"tests.connectors.stand_ins.{name}")
            stand_in.serve(server)
            for table, values in stand_in.settings(server.url).items():
                own = tables.setdefault(table, {})
                for key, value in values.items():
                    own[key] = own[key] | value if isinstance(own.get(key), dict) else value
        environ = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "aws-secret-5f2c19",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        environ |= {
            "FAULTLINE_CONFIG": str(_write(directory, tables, environ)),
        }
        environ |= {
            "FAULTLINE_ALERTMANAGER__WEBHOOK_TOKENS": "am-token",
            "FAULTLINE_DATADOG__WEBHOOK_TOKENS": "dd-token",
        }
        secrets = {value for name, value in environ.items() if _names_a_secret(name)}
        environ |= {
            "FAULTLINE_SLACK__ALERT_CHANNELS": ALERTS_CHANNEL,
            "FAULTLINE_ALERTS__OLDEST_DAYS": "36500",
        }
        environ |= {"FAULTLINE_TELEMETRY__LOG_LEVEL": "debug"}
        log = directory / "bot.log"
        story = stack.enter_context(bot_story(directory, None, "sqlite", log=log, **environ))
        story.slack.channels[ALERTS_CHANNEL] = "alerts"
        yield Connected(story, servers, secrets, log)


def _names_a_secret(variable: str) -> bool:
    table, _, key = variable.removeprefix("FAULTLINE_").lower().partition("__")
    if variable.startswith("AWS_"):
        return variable.endswith("KEY")
    section = Settings.model_fields[table].annotation if key else None
    return section is not None and is_secret(section, key)  # type: ignore[arg-type]


def _write(directory: Path, tables: dict[str, dict[str, Any]], environ: dict[str, str]) -> Path:
    """The settings file; secrets go to the environment, as they must."""
    lines = []
    for table, values in tables.items():
        section = Settings.model_fields[table].annotation
        for key, value in values.items():
            if table in NAMED_TABLES:
                lines.append(f"[{table}.{json.dumps(key)}]")
                lines += [f"{k} = {_toml(v)}" for k, v in value.items()]
            elif is_secret(section, key):  # type: ignore[arg-type]
                own = value if isinstance(value, str) else ",".join(value)
                plain = len(set(own)) == 1  # it might stand anywhere
                environ[secret_variable(table, key)] = (
                    ("5f2c19d7e0b3" * 4)[: max(12, len(own))] if plain else own
                )
        if table not in NAMED_TABLES:
            lines.append(f"[{table}]")
            lines += [f"{k} = {_toml(v)}" for k, v in values.items() if not is_secret(section, k)]  # type: ignore[arg-type]
    path = directory / "faultline.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return json.dumps(value)


def _alertmanager(connected: Connected, name: str) -> str:
    labels = {"alertname": name, "service": "checkout", "job_name": JOB, "severity": "critical"}
    alert = {
        "status": "firing",
        "labels": labels,
        "annotations": {},
        "startsAt": ALERT_AT.isoformat(),
    }
    body = {"version": "4", "groupKey": name, "status": "firing", "alerts": [alert]}
    return connected.post(
        "alertmanager", json.dumps(body).encode(), {"authorization": "Bearer am-token"}
    )


def _datadog(connected: Connected, name: str) -> str:
    body = datadog_event(
        date=str(round(ALERT_AT.timestamp() * 1000)), service="checkout", tags="service:checkout"
    )
    return connected.post(
        "datadog", json.dumps(body).encode(), {"authorization": "Bearer dd-token"}
    )


def _sns(connected: Connected, name: str) -> str:
    """Through our routes in this process, for the bot's own would ask AWS for the certificate."""
    at = ALERT_AT.strftime("%Y-%m-%dT%H:%M:%S.000+0000")
    body = signed(envelope(alarm(StateChangeTime=at), MessageId=name))
    settings = Settings.model_validate(
        {"aws": {"sns_topics": [TOPIC]}, "services": {"checkout": {}}}
    )
    store = connected.story.store
    with (
        LocalServer() as aws,
        serving(settings, store_accept(store), fetch_sns=SnsSender(aws).fetch) as base,
    ):
        return _taken(httpx.post(f"{base}/webhooks/sns", content=body, timeout=30))


def _slack(connected: Connected, name: str) -> str:
    """A message of Datadog's app about the monitor, in a channel that is watched."""
    story = connected.story
    known = {investigation.id for investigation in story.store.latest(100)}
    link = f"https://app.datadoghq.com/monitors/{MONITOR}"
    event = {
        "type": "message",
        "subtype": "bot_message",
        "channel": ALERTS_CHANNEL,
        "ts": f"{ALERT_AT.timestamp():.6f}",
        "bot_id": "B0DATADOG",
        "text": "Triggered: checkout errors",
        "attachments": [
            {
                "title": "Triggered: checkout errors",
                "title_link": link,
                "text": "",
                "color": "danger",
            }
        ],
    }
    assert slack_event(story, event, name).status_code == 200
    story.wait_for(
        lambda: {i.id for i in story.store.latest(100)} > known, what="the investigation"
    )
    return next(i.id for i in story.store.latest(100) if i.id not in known)


def _taken(answer: httpx.Response) -> str:
    assert answer.status_code == 202, answer.text
    return str(answer.json()["investigation_id"])


# What is asked depends on what an alert says of its monitor and its job, and no further on who sent
# it: one from PagerDuty goes the whole way in test_first_light.py.
TRIGGERS: dict[str, Callable[[Connected, str], str]] = {
    "alertmanager": _alertmanager,
    "datadog": _datadog,
    "sns": _sns,
    "slack": _slack,
}


def _evidence(
    connected: Connected, alert: Callable[[Connected, str], str], name: str
) -> tuple[str, set[str], Gaps]:
    """The investigation, the sources that brought an item, and the gaps. Where a slow machine kept
    a connector from answering in time, which is no property of its, the investigation runs again:
    at once, or when a server that was given up may be asked again. (Another alert would join it.)
    """
    items: set[str] = set()
    investigation = alert(connected, name)
    for tried in range(ASKED_AGAIN + 1):
        if tried:
            connected.run_again(investigation)
        brought, gaps = connected.evidence(investigation)
        items |= brought
        slow = [one for one in gaps.values() if any(word in one for word in TOO_SLOW)]
        if not slow:
            break
        waits = [int(found[1]) for one in slow if (found := NEXT_ATTEMPT.search(one))]
        time.sleep(max(waits, default=0))
    return investigation, items, gaps


def _check_origins(
    table: str,
    rows: pl.DataFrame,
    findings: list[dict[str, Any]],
    evidence: dict[str, dict[str, Any]],
) -> None:
    """Each row names the query that brought it, and a finding cites those of its own rows."""
    time_of = {"logs": "time", "spans": "start"}[table]
    brought = rows.group_by("evidence").agg(
        pl.col(time_of).min().alias("first"),
        pl.col(time_of).max().alias("last"),
        pl.col("service").first(),
    )
    for item_id, first, last, service in brought.iter_rows():
        assert item_id in evidence, f"a row of {table} of {service} names no query: {item_id}"
        item = evidence[item_id]
        start, end = map(datetime.fromisoformat, item["window"])
        # A trace is read whole, and clocks differ.
        assert start - SLACK <= first <= last <= end + SLACK, item
    for finding in findings:
        series = finding["series"]
        if series.get("table") != table:
            continue
        own = rows.filter(pl.col("service") == series["service"])
        if "operation" in series:
            own = own.filter(pl.col("operation") == series["operation"])
        if "example" in finding["details"]:
            # Lines of one template differ in their numbers.
            words = re.split(r"\d", finding["details"]["example"])[0]
            own = own.filter(pl.col("message").str.contains(words, literal=True))
        cited = {one for one in finding["evidence"] if evidence[one]["kind"] == table}
        assert not own.height or cited, finding
        assert not own.height or cited <= set(own["evidence"]), finding


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_an_alert_brings_evidence_from_every_connector(connected: Connected, trigger: str) -> None:
    expected = set(ASKED) - (set() if trigger == "alertmanager" else OF_JOBS)
    investigation, items, gaps = _evidence(connected, TRIGGERS[trigger], f"P{trigger.upper()}")
    assert expected - items == set(), gaps
    evidence = {
        one["id"]: one for one in json.loads(connected.file(investigation, "evidence.json"))
    }
    findings = json.loads(connected.file(investigation, "findings.json"))["findings"]
    for finding in findings:
        if finding["kind"] in ("change_near", "change_ruled_out"):
            assert finding["evidence"]
            for cited in finding["evidence"]:
                own = evidence[cited].get("changes") or []
                assert finding["series"]["id"] in own, (finding["series"], evidence[cited])
    for table in ("logs", "spans"):
        stored = connected.file(investigation, f"{table}.parquet")
        _check_origins(table, pl.read_parquet(io.BytesIO(stored)), findings, evidence)
    for one in evidence.values():
        if one.get("link"):
            assert urlsplit(one["link"]).scheme in ("http", "https", "s3")
            assert "//" not in urlsplit(one["link"]).path, one["link"]


@pytest.mark.parametrize(
    "broken", [ASKED[n::REFUSING_SETS] for n in range(REFUSING_SETS)], ids=" ".join
)
def test_connectors_that_refuse_are_gaps_in_the_report_and_the_others_stand(
    connected: Connected, broken: list[str]
) -> None:
    for name in broken:
        connected.servers[name].refusal = Reply(status=403)
    try:
        investigation, items, gaps = _evidence(
            connected, _alertmanager, f"Without-{'-'.join(broken)}"
        )
    finally:
        for name in broken:
            connected.servers[name].refusal = None
    assert set(broken) <= set(gaps)
    assert not set(broken) & items
    assert set(ASKED) - set(broken) - items == set(), gaps
    report = connected.report(investigation).replace("\\_", "_").splitlines()
    for name in broken:
        assert any(f" from {name}: " in line for line in report if line.startswith("- ")), name


def test_no_secret_stands_in_the_log_or_in_what_is_kept(connected: Connected) -> None:
    if not connected.story.store.count("done"):
        _evidence(connected, _alertmanager, "Secrets")
    log = connected.log.read_text()
    assert "step collect" in log
    assert len(connected.secrets) > len(ASKED) / 2, "most connectors have one"
    assert [secret for secret in connected.secrets if secret in log] == []
    state = [
        path for path in connected.log.parent.rglob("*") if path.is_file() and "state" in path.parts
    ]
    assert len(state) > 20
    kept = []
    for path in state:
        # Parts of a case are put together, and removed, after its answer.
        with suppress(FileNotFoundError):
            content = path.read_bytes()
            kept += [(one, path.name) for one in connected.secrets if one.encode() in content]
    assert kept == []
