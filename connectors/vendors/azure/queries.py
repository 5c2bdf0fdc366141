"""The KQL that Azure Monitor is asked: fixed texts, into which names and numbers are put as
literals only.

Application Insights keeps the same telemetry under two schemas: the App tables of a workspace, and
the classic tables of an application (learn.microsoft.com, "Application Insights data model" and the
tables' reference pages). Each query exists once; `Schema` holds the names that differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MOST_ROWS, MOST_TRACES, MOST_CHANGES, MOST_TARGETS = 20_000, 150, 200, 10
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def literal(text: str) -> str:
    """A KQL string literal: backslash and quote are escaped (learn.microsoft.com, "The string data
    type"), and what is no printable character, so that no line can end in it, is a space."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    escaped = printable.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def literals(texts: Iterable[str]) -> str:
    """A list of literals for `in~ (...)`."""
    return ", ".join(literal(t) for t in texts)


@dataclass(frozen=True)
class Schema:
    """Names of tables and columns."""

    requests: str
    dependencies: str
    exceptions: str
    traces: str
    time: str
    role: str
    operation: str
    parent: str
    id: str
    name: str
    duration: str
    success: str
    code: str
    target: str
    kind: str
    count: str
    message: str
    severity: str
    error: str
    outer: str
    innermost: str
    method: str


WORKSPACE = Schema(
    requests="AppRequests",
    dependencies="AppDependencies",
    exceptions="AppExceptions",
    traces="AppTraces",
    time="TimeGenerated",
    role="AppRoleName",
    operation="OperationId",
    parent="ParentId",
    id="Id",
    name="Name",
    duration="DurationMs",
    success="Success",
    code="ResultCode",
    target="Target",
    kind="DependencyType",
    count="ItemCount",
    message="Message",
    severity="SeverityLevel",
    error="ExceptionType",
    outer="OuterMessage",
    innermost="InnermostMessage",
    method="Method",
)
APPLICATION = Schema(
    requests="requests",
    dependencies="dependencies",
    exceptions="exceptions",
    traces="traces",
    time="timestamp",
    role="cloud_RoleName",
    operation="operation_Id",
    parent="operation_ParentId",
    id="id",
    name="name",
    duration="duration",
    success="success",
    code="resultCode",
    target="target",
    kind="type",
    count="itemCount",
    message="message",
    severity="severityLevel",
    error="type",
    outer="outerMessage",
    innermost="innermostMessage",
    method="method",
)


@dataclass(frozen=True)
class LogTable:
    """A table of the workspace that holds logs, and the columns with the text, the service and the
    level."""

    table: str
    message: str
    service: str
    level: str | None = None

    @classmethod
    def of(cls, text: str) -> LogTable:
        """From the settings: the name of a known table, or `Table:message:service[:level]`. Raises
        ValueError."""
        parts = text.split(":")
        if not all(_IDENTIFIER.fullmatch(p) for p in parts):
            raise ValueError(
                f"{text[:60]!r} must be a table's name, or Table:message:service:level"
            )
        if len(parts) == 1 and parts[0] in LOG_TABLES:
            return LOG_TABLES[parts[0]]
        if len(parts) not in (3, 4):
            raise ValueError(
                f"{text[:60]!r} is not a known table: name its "
                "columns as Table:message:service:level"
            )
        return cls(*parts)


LOG_TABLES = {
    table.table: table
    for table in (
        LogTable("ContainerLogV2", "LogMessage", "ContainerName", "LogLevel"),
        LogTable("ContainerAppConsoleLogs_CL", "Log_s", "ContainerAppName_s"),
        LogTable("AppServiceConsoleLogs", "ResultDescription", "_ResourceId", "Level"),
        LogTable("FunctionAppLogs", "Message", "_ResourceId", "Level"),
        LogTable("Syslog", "SyslogMessage", "ProcessName", "SeverityLevel"),
    )
}
"""learn.microsoft.com, "Azure Monitor Logs table reference"."""


def requests(s: Schema, roles: Iterable[str]) -> str:
    """Requests by minute and role: how many, how many failed, how long."""
    return (
        f"{s.requests}\n"
        f"| where {s.role} in~ ({literals(roles)})\n"
        f"| summarize requests = sum({s.count}), failed = sumif({s.count}, "
        f"tobool({s.success}) == false),"
        f" p50 = percentile({s.duration}, 50), p99 = percentile({s.duration}, 99)"
        f" by moment = bin({s.time}, 1m), role = {s.role}\n"
        f"| order by moment asc\n"
        f"| take {MOST_ROWS}"
    )


def dependencies(s: Schema, roles: Iterable[str]) -> str:
    """Calls by minute, role and target, of the ten targets that are called most."""
    return (
        f"let calls = {s.dependencies} | where {s.role} in~ ({literals(roles)});\n"
        f"let targets = calls | summarize sum({s.count}) by {s.target} "
        f"| top {MOST_TARGETS} by sum_{s.count}"
        f" | project {s.target};\n"
        f"calls\n"
        f"| where {s.target} in (targets)\n"
        f"| summarize calls = sum({s.count}), failed = sumif({s.count}, "
        f"tobool({s.success}) == false),"
        f" p99 = percentile({s.duration}, 99)"
        f" by moment = bin({s.time}, 1m), role = {s.role}, target = {s.target}\n"
        f"| order by moment asc\n"
        f"| take {MOST_ROWS}"
    )


def spans(s: Schema, roles: Iterable[str]) -> str:
    """Whole traces of 150 requests: those that the hash of their operation's id puts first, so it
    is chance."""
    columns = (
        f"moment = {s.time}, role = {s.role}, trace = {s.operation}, id = "
        f"{s.id}, parent = {s.parent}, name = {s.name},"
        f" duration = {s.duration}, success = tobool({s.success}), code = tostring({s.code})"
    )
    # The hash draws by chance, and draws the same traces in every run.
    return (
        f"let chosen = {s.requests} | where {s.role} in~ ({literals(roles)}) "
        f"and isnotempty({s.operation})"
        f" | distinct {s.operation} | extend chance = hash({s.operation}) "
        f"| top {MOST_TRACES} by chance asc"
        f" | project {s.operation};\n"
        # `isfuzzy` runs the query also where one of the tables is missing.
        f"union isfuzzy=true\n"
        f"(\n{s.requests} | where {s.operation} in (chosen) | project {columns},"
        f' span_kind = "request", target = ""\n),\n'
        f"(\n{s.dependencies} | where {s.operation} in (chosen) | project {columns},"
        f" span_kind = tostring({s.kind}), target = {s.target}\n)\n"
        f"| order by moment asc\n"
        f"| take {MOST_ROWS}"
    )


def logs(s: Schema, roles: Iterable[str]) -> str:
    """Traces (log lines) and exceptions; where they are too many the same share of all times."""
    chosen = f"where {s.role} in~ ({literals(roles)})"
    columns = f"moment = {s.time}, role = {s.role}, trace = {s.operation}"
    where = f'iff(isempty({s.method}), "", strcat(" at ", {s.method}))'
    text = f'strcat({s.error}, ": ", coalesce({s.outer}, {s.innermost}), {where})'
    rows = (
        f"union isfuzzy=true\n"
        f"(\n{s.traces} | {chosen} | project {columns}, message = {s.message}, "
        f"severity = toint({s.severity})\n),\n"
        f"(\n{s.exceptions} | {chosen} | project {columns}, message = {text},"
        # An exception without a level counts as an error (3).
        f" severity = coalesce(toint({s.severity}), 3)\n)"
    )
    return sampled(rows)


def table_logs(table: LogTable, names: Iterable[str]) -> str:
    """Lines of a table whose service column ends with one of the names: a resource's id ends with
    its name."""
    by = " or ".join(f"{table.service} has {literal(n)}" for n in names)
    level = f"tostring({table.level})" if table.level else '""'
    rows = (
        f"{table.table}\n| where {by}\n"
        f'| project moment = TimeGenerated, role = tostring({table.service}), trace = "",'
        f" message = tostring({table.message}), severity = {level}"
    )
    return sampled(rows)


def sampled(rows: str) -> str:
    """All rows, or the share of them that fits, the same at all times; `total` is how many there
    are."""
    # Keep an equal share of all times: `take` alone would keep the earliest lines.
    return (
        f"let lines = {rows};\n"
        f"let every = toscalar(lines | count);\n"
        f"lines\n"
        f"| where every <= {MOST_ROWS} or hash(strcat(moment, message), "
        f"1000000) < 1000000.0 * {MOST_ROWS} / every\n"
        f"| order by moment asc\n"
        f"| take {MOST_ROWS}\n"
        f"| extend total = every"
    )


def changes() -> str:
    """Writes, deletes and restarts of the activity log that succeeded, each operation once, the
    latest first."""
    return (
        "AzureActivity\n"
        '| where CategoryValue =~ "Administrative"\n'
        '| where ActivityStatusValue in~ ("Success", "Succeeded", "Accept", "Accepted")\n'
        '| where OperationNameValue endswith "/write" or OperationNameValue endswith "/delete"\n'
        '    or OperationNameValue has_any ("restart", "start", "stop", '
        '"poweroff", "deallocate", "slotsswap")\n'
        # An operation is logged several times: when it is accepted and when it has succeeded.
        "| summarize moment = min(TimeGenerated), caller = "
        "take_any(Caller), level = take_any(Level)"
        " by correlation = CorrelationId, operation = OperationNameValue, resource = _ResourceId\n"
        f"| top {MOST_CHANGES} by moment desc"
    )
