"""One record is one line, whatever a sender wrote; errors are logged by class and place, without
their words."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.bot.runtime.logs import VERBATIM, JsonLines, TextLines, about, printable

HOSTILE = 'x\n{"level":"critical"}\r\x1b[2J\u202e\u2028\x00 end'


def _written(
    formatter: logging.Formatter, message: str, *args: object, error: BaseException | None = None
) -> str:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter)
    logger = logging.Logger("faultline.test")
    logger.addHandler(handler)
    logger.error(message, *args, exc_info=error)
    return out.getvalue()


@given(st.text())
def test_whatever_is_logged_is_one_line_and_one_object(said: str) -> None:
    for written in (_written(JsonLines("web"), "%s", said), _written(TextLines(), "%s", said)):
        assert written.endswith("\n")
        assert len(written.splitlines()) == 1
    found = json.loads(_written(JsonLines("web"), "%s", said))
    assert (found["level"], found["logger"], found["process"]) == ("error", "faultline.test", "web")


def test_hostile_text_ends_no_line_and_steers_no_terminal() -> None:
    assert printable(HOSTILE) == 'x\\n{"level":"critical"}\\r\\x1b[2J\\u202e\\u2028\\x00 end'
    text = _written(TextLines(), "title %s", HOSTILE)
    assert text.rstrip("\n").isprintable()


def test_an_error_is_told_without_its_words() -> None:
    def inner() -> None:
        raise ValueError("the customer's card 4111")

    caught = None
    try:
        try:
            inner()
        except ValueError as error:
            raise RuntimeError("quotes 4111 too") from error
    except RuntimeError as error:
        caught = error
    for formatter in (JsonLines("worker"), TextLines()):
        written = _written(formatter, "step failed", error=caught)
        assert "4111" not in written
        assert "RuntimeError from ValueError" in written
        assert "test_logs.py" in written


def test_a_message_whose_arguments_do_not_fit_is_still_logged() -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError

    assert json.loads(_written(JsonLines("web"), "a %s", Broken()))["message"] == "a %s"
    assert len(json.loads(_written(JsonLines("web"), "%s", "x" * 1_000_000))["message"]) < 10_000


def test_each_task_logs_its_own_investigation() -> None:
    async def one(name: str) -> str:
        with about(name):
            await asyncio.sleep(0)
            return str(json.loads(_written(JsonLines("worker"), "step"))["investigation"])

    async def both() -> list[str]:
        return list(await asyncio.gather(one("a"), one("b")))

    assert asyncio.run(both()) == ["a", "b"]
    assert "investigation" not in json.loads(_written(JsonLines("worker"), "step"))


PROGRAM = """
import logging, threading
from faultline.bot.runtime.logs import configure_logging
from faultline.bot.settings.processes import TelemetrySettings
configure_logging(TelemetrySettings(logs="json"), "worker")
import dbos
from dbos._logger import init_logger
init_logger()
logging.getLogger("dbos").error("of dbos\\nsecond")
logging.getLogger("uvicorn.error").error("of uvicorn")
logging.getLogger("httpx").info("GET https://vendor/?q=what+was+asked")
logging.getLogger("faultline.x").info("too much")
thread = threading.Thread(target=lambda: 1 / 0, name="t")
thread.start()
thread.join()
raise ValueError("4111")
"""


def test_libraries_threads_and_the_process_s_own_end_are_in_the_same_form() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True, timeout=300
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["logger"], line.get("error")) for line in lines] == [
        ("dbos", None),
        ("uvicorn.error", None),
        ("faultline", "ZeroDivisionError"),
        ("faultline", "ValueError"),
    ]
    assert lines[0]["message"] == "of dbos\\nsecond"
    assert "4111" not in done.stderr


@pytest.mark.parametrize("formatter", [JsonLines("web"), TextLines()])
def test_a_line_for_another_program_is_written_as_it_stands(formatter: logging.Formatter) -> None:
    record = logging.makeLogRecord({"msg": "queue", VERBATIM: '{"_aws": {}}'})
    assert formatter.format(record) == '{"_aws": {}}'
