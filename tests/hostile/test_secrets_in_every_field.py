"""One secret planted in every field of an alert and of what connectors bring: none of them is in a
file, a prompt, an answer, an export or the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from faultline.analysis.case.folder import write_json
from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Alert
from faultline.bot.answer.exports.formats import FORMATS, export
from faultline.bot.answer.replay import Replayed, replay
from faultline.bot.answer.targets.pagerduty.note import note_text
from faultline.bot.answer.targets.slack.message import final_message, first_message
from faultline.bot.answer.view import answer_view
from faultline.bot.answer.writer.markdown import to_markdown
from faultline.bot.answer.writer.payload import Redactor, payload
from faultline.bot.investigation.collecting import assemble, collect_part
from faultline.bot.policy.values import Arrival
from faultline.bot.runtime.logs import JsonLines, TextLines
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.changes import ReportedChange
from faultline.connectors.shared.contract.base import Collected, Missing, Request, collect_from
from faultline.connectors.vendors.recorded.connector import RecordedConnector
from tests.bot.answer.targets.answers import PAGE, an_investigation
from tests.hostile.cases import FIELDS, incident

SECRETS = {field: f"Zq{place:02d}kT7vWm4xLp9R" for place, field in enumerate(FIELDS)}
NOW = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)


def planted(field: str) -> str:
    return f"db_password={SECRETS[field]} "


def leaked(text: str) -> list[str]:
    return [field for field, secret in SECRETS.items() if secret in text]


class Failing(RecordedConnector):
    """A connector whose error quotes what it sent."""

    name = "failing"

    async def collect(self, request: Request) -> Collected:
        raise ConnectorError("vendor", "query", f"cannot parse {planted('gaps.reason')}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The case folder of an incident in which every field that others write holds its secret."""
    place = tmp_path_factory.mktemp("planted")
    incident(place / "recorded", planted)
    connectors = [RecordedConnector(place / "recorded"), Failing(place / "recorded")]
    alert = Arrival(connectors[0].alert()).alert
    scope = connectors[0].scope()
    cases = CaseStore(place / "cases")
    for one in connectors:
        asyncio.run(collect_part(one, alert, scope, cases, "one"))
    assemble(alert, scope, [one.name for one in connectors], cases, "one")
    return place / "cases" / "one"


@pytest.fixture(scope="module")
def replayed(folder: Path) -> Replayed:
    answer = replay(folder)
    write_json(folder / "findings.json", answer.diagnosis)
    write_json(folder / "report.json", answer.report)
    return answer


def test_the_secrets_are_in_what_is_recorded(folder: Path) -> None:
    """Every field is read: otherwise nothing would be shown by its secret's absence."""
    recorded = folder.parents[1] / "recorded"
    found = set(leaked("".join(_texts(recorded))))
    assert set(FIELDS) - found == set()


def test_no_file_of_the_case_folder_holds_one(folder: Path, replayed: Replayed) -> None:
    for text in _texts(folder):
        assert leaked(text) == []


def test_the_case_is_still_understood(replayed: Replayed) -> None:
    assert replayed.diagnosis.causes
    assert replayed.case.logs.height > 100
    assert "[SECRET]" in "".join(_texts(replayed.case.path))


def test_no_prompt_holds_one(replayed: Replayed) -> None:
    sent = payload(replayed.diagnosis, replayed.case.alert, replayed.case.gaps, Redactor())
    assert leaked(sent) == []


def test_no_answer_holds_one(replayed: Replayed) -> None:
    case, report = replayed.case, replayed.report
    about = replace(an_investigation(), alert=case.alert)
    view = answer_view(
        case.alert, replayed.diagnosis, report, gaps=case.gaps, evidence=case.evidence
    )
    answers = [
        str(first_message(about, PAGE)),
        str(final_message(about, view, PAGE)),
        note_text(about, view, PAGE),
        to_markdown(view),
    ]
    assert [leaked(answer) for answer in answers] == [[], [], [], []]


@pytest.mark.parametrize("name", FORMATS)
def test_no_export_holds_one(name: str, folder: Path, replayed: Replayed) -> None:
    assert leaked(export(folder, name).decode()) == []


@pytest.mark.parametrize("written", [TextLines(), JsonLines("web")])
@pytest.mark.parametrize("field", ["logs.message", "alert.title", "gaps.query"])
def test_no_record_of_the_log_holds_one(written: logging.Formatter, field: str) -> None:
    record = logging.LogRecord("faultline", 40, "", 1, "no: %s", (planted(field),), None)
    line = written.format(record)
    assert leaked(line) == []
    assert "[SECRET]" in line


def test_no_field_of_a_reported_change_holds_one() -> None:
    text = planted("changes.title")
    change = ReportedChange(
        text,
        NOW,
        text,
        "deploy",
        text,
        text,
        "https://a.example/?" + text,
        text,
        text,
        {"a": text},
        text,
        text,
    )
    assert leaked(repr(change)) == []


def test_an_error_is_masked_where_it_becomes_a_gap(folder: Path) -> None:
    recorded = folder.parents[1] / "recorded"
    connector = Failing(recorded)
    request = Request(connector.alert(), connector.scope(), folder)
    missing = asyncio.run(collect_from(connector, request)).missing
    assert leaked(str(missing)) == []
    assert all(isinstance(one, Missing) and "[SECRET]" in one.reason for one in missing)


def test_an_id_that_is_a_secret_becomes_another_that_stays_the_same() -> None:
    def accepted(key: str) -> Alert:
        given = {"incident_key": f"password={key}", "team": "shop"}
        return Arrival(Alert(source="a", title="b", started_at=NOW, id=key, labels=given)).alert

    one, again, other = accepted("Zq99kT7vWm4x"), accepted("Zq99kT7vWm4x"), accepted("Zq98kT7vWm4x")
    assert one.fingerprint == again.fingerprint
    assert one.fingerprint != other.fingerprint
    assert "kT7vWm4x" not in one.labels["incident_key"]


def _texts(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder).as_posix()
        if path.suffix == ".parquet":
            yield relative + pl.read_parquet(path).write_json()
        elif path.is_file():
            yield relative + path.read_text(errors="replace")
