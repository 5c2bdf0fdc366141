"""The text of a log line: what a container runtime or a JSON logger wrapped around it is taken off,
variables masked.

`log_texts` adds to each row its text, whether it is an error, the text with its variable parts as
`<*>`, and of a stack trace the error's class and the code frame. `log_events` first joins rows that
are the lines of one stack trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import polars as pl

from faultline.analysis.logs.miner import masked
from faultline.analysis.logs.stack_frames import STACK_LIMIT, FoldedStack, fold_stack

TEXT_LIMIT = 400
"""A template is distinguished by its beginning; the rest of a long line is payload."""
MAX_STACKS = 1000
"""Different stack traces that are read; the others keep their first line only."""
ERROR_LEVELS = (
    "ERROR",
    "FATAL",
    "CRITICAL",
    "SEVERE",
    "EMERG",
    "EMERGENCY",
    "ALERT",
    "PANIC",
    "ERR",
)
_ERROR_LEVEL = r"(?i)^(" + "|".join(ERROR_LEVELS) + r")$"
_ERROR_TEXT = (
    r"\b(ERROR|FATAL|CRITICAL|SEVERE|PANIC)\b|(?i)\b(panic|traceback|oomkilled|segfault)\b"
    r"|[a-z]Exception\b|\b[A-Z][A-Za-z]+Error\b"
    r"|(?i)\b(failed|failure|refused|unavailable|no space left|timed out|deadline exceeded)\b"
    r"|HTTP/[0-9.]+\"? 5[0-9]{2}\b|\blevel=(?:error|fatal|panic|crit)"
)
_CLASS = r"(?s)(?:^|.*[^\w.$])((?:[A-Za-z_$][\w$]*\.)*[A-Z][\w$]*(?:Exception|Error))\b"
"""The last class that a line names: in a chain of causes the first error comes last."""
PINO_ERROR = 50
"""pino and bunyan write levels as numbers: 50 is error, 60 fatal."""
_STACK = (
    r"(?m)^[ \t]*(?:at [^\n(]{1,300}\(|at \S{1,300}:[0-9]+:[0-9]+|File \"[^\"\n]+\", line "
    r"[0-9]|goroutine [0-9]+ \["
    r"|from /?\S+\.rb:[0-9]+:in |#[0-9]+ /\S+\([0-9]+\): )"
)
_STACK_LINE = (
    r"^\s*at [^\n]{0,300}[(:][^\n]{1,300}|^\s*\.\.\. [0-9]+ (?:more|common frames omitted)"
    r"|^\s*(?:Caused by|Suppressed): |^\s+File \"[^\"]+\", line [0-9]|^goroutine [0-9]+ "
    r"\[|^\s+\S+\.go:[0-9]+"
    r"|^\s*--- End of (?:inner exception )?stack|^\s*from /?\S+\.rb:[0-9]+:in |^#[0-9]+ "
    r"/\S+\([0-9]+\): "
)
"""Lines that only stack traces have."""
_HEAD = r"^Traceback \(most recent call last\):|^panic: |^fatal error: "
_INSIDE = (
    r"^\s|^$|^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Timeout)(?::.*)?$|^created "
    r"by |^\[signal "
    r"|^[A-Za-z_]\w*(?:\.\w+)+: "
    r"|^[\w./*()-]+\(.*\)$|^(?:During handling of|The above exception was)|^exit status [0-9]+$"
)
"""Lines that belong to a stack trace only behind such a line."""
_STREAM = (
    r'"(?:k8s\.pod\.name|pod|pod_name|container_id|container\.id|kubernetes\.pod_name|hostname'
    r'|host|host\.name|instance)"'
    r':\s{0,4}"([^"\\]{1,200})"'
)
"""What tells the writers of one service apart."""
MAX_GAP_S = 5
"""Lines of one stack trace are written at once; collectors stamp them within seconds."""
MAX_LINES = 200


class _Wrapped(msgspec.Struct):
    """The keys under which loggers and container runtimes keep the text, the level and the stack
    trace."""

    log: Any = None
    message: Any = None
    msg: Any = None
    body: Any = None
    text_payload: Any = msgspec.field(default=None, name="textPayload")
    journal: Any = msgspec.field(default=None, name="MESSAGE")
    event: Any = None
    severity: Any = None
    level: Any = None
    levelname: Any = None
    log_level: Any = msgspec.field(default=None, name="log.level")
    stack: Any = None
    stack_trace: Any = None
    stacktrace: Any = None
    exception: Any = None
    exc_info: Any = None
    error_stack: Any = msgspec.field(default=None, name="error.stack_trace")
    error: Any = None
    err: Any = None

    def has_stack(self) -> bool:
        """Whether one of the keys of stack traces is there."""
        stack_trace = (
            self.stack or self.stack_trace or self.stacktrace or self.exception or self.exc_info
        )
        return bool(stack_trace or self.error_stack or self.err or self.error)


class _Container(msgspec.Struct):
    """What Docker's json-file driver, and Fluent Bit behind it, wrap around each line."""

    log: str
    severity: str | None = None
    level: str | None = None


_CONTAINER = '{"log":"'
_decoder = msgspec.json.Decoder(_Wrapped)
_container_decoder = msgspec.json.Decoder(_Container)
_NAMED = ("error_class", "frame", "place")
_NO_STACK = FoldedStack(None, None)


def log_texts(logs: pl.DataFrame) -> pl.DataFrame:
    """The rows with `text` (unwrapped, at most 400 characters), `is_error`, `masked`,
    `error_class`, `frame`, `place`.

    `frame` is `file:line function` of the application's code, `place` the same without the line;
    null without a stack.
    """
    return described(_folded(_unwrapped(logs))).drop("level_says")


def log_events(logs: pl.DataFrame) -> pl.DataFrame:
    """The rows sorted by service and time, those of one stack trace as one: `text`, `masked`,
    `level_says` and what the stack names. `described` adds the rest, and may be asked of different
    lines only."""
    return _folded(_joined(_unwrapped(logs)))


def described(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with `is_error`, by the level or without one by the words, and the `error_class`
    that the text names."""
    says = rows["text"].str.contains(_ERROR_TEXT)
    rows = rows.with_columns(pl.coalesce("level_says", says).alias("is_error"))
    named = pl.when("is_error").then(pl.col("text").str.extract(_CLASS, 1))
    return rows.with_columns(pl.coalesce("error_class", named).alias("error_class"))


def unwrap(lines: list[str]) -> tuple[list[str], list[str | None]]:
    """Text and level of each line; a line that is not JSON with a known key stays as it is."""
    texts: list[str] = []
    levels: list[str | None] = []
    for line in lines:
        text, level = line, None
        # Most lines are plain text: spare them the decoder.
        if line.startswith("{"):
            text, level = (
                _from_container(line) if line.startswith(_CONTAINER) else _unwrap_line(line)
            )
        texts.append(text.rstrip())
        levels.append(level)
    return texts, levels


def _from_container(line: str) -> tuple[str, str | None]:
    try:
        container_decoder = _container_decoder.decode(line)
    # UnicodeEncodeError: a line with half a surrogate pair is no UTF-8.
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _unwrap_line(line)
    level = container_decoder.severity or container_decoder.level
    if container_decoder.log.startswith("{"):
        text, inner = _unwrap_line(container_decoder.log, 1)
        return text, inner or level
    return container_decoder.log, level


def _unwrap_line(line: str, depth: int = 2) -> tuple[str, str | None]:
    try:
        decoder = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return line, None
    text = decoder.log if type(decoder.log) is str else _text(decoder)
    level = decoder.severity or decoder.level or decoder.levelname or decoder.log_level
    level = level if level is None else _level(level)
    if text is None:
        return line, level
    # Runtimes wrap a logger's JSON in their own: look inside once more, and no deeper.
    if depth > 1 and text.startswith("{"):
        inner, inner_level = _unwrap_line(text, depth - 1)
        return inner, inner_level or level
    stack = _stack(decoder) if decoder.has_stack() else None
    # A logger may repeat its stack trace in the message.
    return (f"{text}\n{stack}" if stack and stack not in text else text), level


def _text(record: _Wrapped) -> str | None:
    return _first_text(
        record.message,
        record.msg,
        record.body,
        record.text_payload,
        record.journal,
        record.event,
        record.error,
        record.err,
    )


def _stack(record: _Wrapped) -> str | None:
    direct = _first_text(
        record.stack,
        record.stack_trace,
        record.stacktrace,
        record.exception,
        record.exc_info,
        record.error_stack,
    )
    return direct or _inner_stack(record.err) or _inner_stack(record.error)


def _first_text(*values: object) -> str | None:
    return next((v for v in values if isinstance(v, str) and v), None)


def _level(value: object) -> str | None:
    if isinstance(value, int):
        return "ERROR" if value >= PINO_ERROR else "INFO"
    return value if isinstance(value, str) else None


def _inner_stack(value: object) -> str | None:
    """The stack of an error that is an object: pino, bunyan, ECS."""
    return (
        _first_text(value.get("stack"), value.get("stack_trace"))
        if isinstance(value, dict)
        else None
    )


def _unwrapped(logs: pl.DataFrame) -> pl.DataFrame:
    texts, levels = unwrap(logs["message"].fill_null("").to_list())
    # Whether the level is one of an error; null where there is none.
    level = pl.coalesce("level", "level_says")
    return logs.with_columns(
        pl.Series("text", texts, dtype=pl.String).str.slice(0, STACK_LIMIT),
        pl.Series("level_says", levels, dtype=pl.String),
    ).with_columns(pl.when(level != "").then(level.str.contains(_ERROR_LEVEL)).alias("level_says"))


def _joined(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of one stack trace as one row, its text their lines; each other row as it is."""
    stream = (
        pl.col("attributes").str.extract(_STREAM, 1).fill_null("")
        if "attributes" in rows.columns
        else pl.lit("")
    )
    # Writers of one service interleave: only within a stream are lines of one trace neighbours.
    rows = rows.with_columns(stream.alias("stream")).sort(
        "service", "stream", "time", maintain_order=True
    )
    contains = rows["text"].str.contains(_STACK_LINE)
    if not contains.any():
        return rows.drop("stream")
    marked = rows.with_columns(
        contains.alias("own"), pl.col("text").str.contains(_HEAD).alias("head")
    )
    apart = (pl.struct("service", "stream") != pl.struct("service", "stream").shift()).fill_null(
        value=True
    ) | (pl.col("time").diff().dt.total_seconds() > MAX_GAP_S).fill_null(value=True)
    inside = pl.col("own") | pl.col("head") | pl.col("text").str.contains(_INSIDE)
    marked = marked.with_columns(apart.alias("apart"), inside.alias("inside"))
    # A block is what may be one trace; whether it is shows below, by a line that only traces have.
    marked = marked.with_columns((~pl.col("inside") | pl.col("apart")).cum_sum().alias("block"))
    stacked = (pl.col("own") | pl.col("head")).cast(pl.Int8).cum_max().over("block") == 1
    starts = pl.col("apart") | pl.col("head") | ~(pl.col("inside") & stacked)
    marked = marked.with_columns(starts.cum_sum().alias("event")).drop(
        "stream", "own", "head", "apart", "inside", "block"
    )
    first = [pl.col(c).first() for c in rows.columns if c not in ("text", "stream")]
    return (
        marked.group_by("event", maintain_order=True)
        .agg(*first, pl.col("text").head(MAX_LINES).str.join("\n").str.slice(0, STACK_LIMIT))
        .drop("event")
        .select([c for c in rows.columns if c != "stream"])
    )


def _folded(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with their texts cut to what a stack trace's first and last lines say, and what it
    names."""
    texts = rows["text"]
    # Only texts of several lines can hold a stack trace.
    lines = texts.str.contains("\n", literal=True).arg_true()
    where = lines.filter(texts.gather(lines).str.contains(_STACK))
    none = pl.lit(None, dtype=pl.String)
    rows = rows.with_columns(*(none.alias(name) for name in _NAMED))
    if len(where):
        rows = _with_stacks(rows, where)
    rows = rows.with_columns(pl.col("text").str.strip_chars().str.slice(0, TEXT_LIMIT))
    return rows.with_columns(masked(rows["text"]).alias("masked"))


def _with_stacks(rows: pl.DataFrame, where: pl.Series) -> pl.DataFrame:
    """The rows, those at `where` with what their stack traces say."""
    cache: dict[str, tuple[str, FoldedStack]] = {}
    heads: list[str] = []
    folds: list[FoldedStack] = []
    for text in rows["text"].gather(where).to_list():
        head_and_fold = cache.get(text)
        if head_and_fold is None:
            fold = fold_stack(text) if len(cache) < MAX_STACKS else _NO_STACK
            head_and_fold = (_first_words(text, fold.error_class), fold)
            # Stop reading and keeping at the limit: distinct traces would fill the memory.
            if len(cache) < MAX_STACKS:
                cache[text] = head_and_fold
        heads.append(head_and_fold[0])
        folds.append(head_and_fold[1])
    columns: dict[str, Sequence[str | None]] = {
        "text": heads,
        "error_class": [f.error_class for f in folds],
        "frame": [str(f.frame) if f.frame else None for f in folds],
        "place": [f.frame.place if f.frame else None for f in folds],
    }
    return rows.with_columns(
        rows[name].scatter(where, pl.Series(values, dtype=pl.String))
        for name, values in columns.items()
    )


def _first_words(text: str, error_class: str | None) -> str:
    """What a stack trace says before its frames; of Python's the line behind them, where it says
    what was raised."""
    lines = text.split("\n")
    first = next((line for line in lines if line.strip()), "")
    if error_class is None or error_class in first:
        return first
    raised = next((line for line in reversed(lines) if line.startswith(error_class)), None)
    if raised is None:
        raised = next((line for line in lines if error_class in line), "")
    return raised if first.startswith("Traceback (") else f"{first} {raised.strip()}"
