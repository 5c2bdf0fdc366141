"""The log of a process: text to read, or one JSON object a line; one record is one line either way.

Whatever a record says, a sender may have chosen a part of it: line ends and control characters are
escaped. Of an error the class and the places in the code are logged, not its message: that may
quote what was sent.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType

from faultline.analysis.secrets.redaction import masked
from faultline.bot.settings.processes import TelemetrySettings

OURS = "faultline"
"""Our loggers are below this name."""
MAX_MESSAGE = 8_000
"""Characters of one message; the rest is cut."""
MAX_FRAMES = 30
"""Innermost places of an error."""
VERBATIM = "faultline_line"
"""Attribute of a record that is written as it stands: a line that another program reads."""
QUIET = ("dbos", "uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
"""Libraries with their own handlers, which would bypass this log."""

_investigation: ContextVar[str] = ContextVar("investigation", default="")


@contextlib.contextmanager
def about(investigation_id: str) -> Iterator[None]:
    """Inside, every record bears the investigation's id."""
    token = _investigation.set(investigation_id)
    try:
        yield
    finally:
        _investigation.reset(token)


def note_investigation(investigation_id: str) -> None:
    """From here on, in this task, every record bears the investigation's id."""
    _investigation.set(investigation_id)


def program_version() -> str:
    """The version that is installed."""
    try:
        return version("faultline-bot")
    except PackageNotFoundError:
        return "unknown"


class TextLines(logging.Formatter):
    """`LEVEL logger: message [investigation]`, then the places of an error, indented."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        verbatim = getattr(record, VERBATIM, None)
        if verbatim is not None:
            return str(verbatim)
        investigation = _investigation.get()
        about_it = f" [{printable(investigation)}]" if investigation else ""
        line = f"{record.levelname} {record.name}: {message_of(record)}{about_it}"
        error = _error(record)
        return (
            "\n".join([line, *(f"    {place}" for place in [error[0], *error[1]])])
            if error
            else line
        )


class JsonLines(logging.Formatter):
    """An object: time, level, logger, message, process, version, investigation; of an error its
    class and places."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._fixed = {"process": process, "version": program_version()}

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON in ASCII, on one line."""
        verbatim = getattr(record, VERBATIM, None)
        if verbatim is not None:
            return str(verbatim)
        at = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, object] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message_of(record),
            **self._fixed,
        }
        if investigation := _investigation.get():
            fields["investigation"] = printable(investigation)
        if error := _error(record):
            fields["error"], fields["at"] = error
        return json.dumps(fields)


def message_of(record: logging.LogRecord) -> str:
    """The message on one line. A record whose arguments do not fit is logged as it was written."""
    try:
        message = record.getMessage()
    except Exception:  # noqa: BLE001  an argument's own __str__ may raise anything; the log goes on
        message = str(record.msg)
    # Before line ends are escaped: a key of several lines is found by them.
    message = masked(message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + "…")
    return printable(message)


def printable(text: str) -> str:
    """The text with whatever could end a line, steer a terminal or turn the direction of writing
    escaped."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def configure_logging(settings: TelemetrySettings, process: str) -> None:
    """Write the whole process's log to standard error; `process` is what it is called in JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(process) if settings.logs == "json" else TextLines())
    # `force` removes the handlers that libraries gave the root logger.
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(OURS).setLevel(settings.log_level.upper())
    for name in QUIET:
        library = logging.getLogger(name)
        for library_handler in list(library.handlers):
            library.removeHandler(library_handler)
        library.propagate = True
    if not logging.getLogger("dbos").handlers:
        logging.getLogger("dbos").addHandler(logging.NullHandler())  # or DBOS adds its own handler
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    logging.getLogger(OURS).critical(
        "the process ends with an error", exc_info=(kind, error, trace)
    )


def _uncaught_in_thread(hook_args: threading.ExceptHookArgs) -> None:
    if hook_args.exc_value is not None:
        name = hook_args.thread.name if hook_args.thread is not None else "?"
        caught = (hook_args.exc_type, hook_args.exc_value, hook_args.exc_traceback)
        logging.getLogger(OURS).critical("thread %s ends with an error", name, exc_info=caught)


def _error(record: logging.LogRecord) -> tuple[str, list[str]] | None:
    if not isinstance(record.exc_info, tuple) or record.exc_info[1] is None:
        return None
    error = record.exc_info[1]
    classes: list[str] = []
    ids: set[int] = set()
    cause: BaseException | None = error
    # Causes may form a circle.
    while cause is not None and id(cause) not in ids and len(classes) < 10:
        ids.add(id(cause))
        classes.append(type(cause).__name__)
        cause = cause.__cause__
    return " from ".join(classes), _places(record.exc_info[2])


def _places(trace: TracebackType | None) -> list[str]:
    """Innermost last: file, line and function, without their text."""
    frames = traceback.StackSummary.extract(traceback.walk_tb(trace), lookup_lines=False)
    return [
        printable(f"{frame.filename}:{frame.lineno} {frame.name}") for frame in frames[-MAX_FRAMES:]
    ]
