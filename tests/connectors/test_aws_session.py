"""The AWS session: nothing but listed reads is sent, answers are bounded, and every refusal is said
in words."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.errors import BudgetExceeded, ConnectorError, SettingsError
from faultline.bot.settings import Settings, load_settings
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.vendors.aws import CONNECTOR
from faultline.connectors.vendors.aws import connector as aws
from faultline.connectors.vendors.aws import logs as aws_logs
from faultline.connectors.vendors.aws import operations as aws_operations
from faultline.connectors.vendors.aws import scope as aws_scope
from faultline.connectors.vendors.aws import trail as aws_trail
from faultline.connectors.vendors.aws import xray as aws_xray
from faultline.connectors.vendors.aws.calls import AwsCalls
from faultline.connectors.vendors.aws.operations import (
    ACTIONS,
    NOT_NAMED_AS_READS,
    READ_NAMES,
    session_policy,
)
from faultline.connectors.vendors.aws.session import (
    ATTEMPTS,
    RATES,
    AwsAccount,
    AwsPlace,
    AwsSession,
    Bounds,
    aws_client,
    boto_session,
    refuse_writes,
)
from tests.connectors.conftest import ALERT_AT
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import aws as stand_in
from tests.connectors.stand_ins.aws import AwsStandIn

OWN = AwsPlace(AwsAccount("own"), "eu-west-1")
ROLE = AwsPlace(AwsAccount("shop", "arn:aws:iam::123456789012:role/read", "ext-1"), "eu-west-1")
DOCS = Path(__file__).resolve().parents[2] / "docs/connectors/aws.md"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """As boto3 looks for them."""
    for key in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{key}", "test")


def bounds(seconds: float = 20, size: int = 1_000_000) -> Bounds:
    return Bounds(Deadline.after(seconds), ByteBudget("size of aws's answers", size))


def describe(server: LocalServer, place: AwsPlace = OWN, limits: Bounds | None = None) -> Any:
    """One call to CloudWatch."""
    return AwsSession(server.url).call(
        place, "cloudwatch", "DescribeAlarms", {}, limits or bounds()
    )


def said(code: str, status: int = 400, message: str = "") -> Reply:
    """An error as AWS's JSON services write it."""
    return Reply({"__type": f"com.amazon.coral.service#{code}", "message": message}, status=status)


def test_every_listed_operation_exists_and_is_named_as_a_read_or_is_one_of_five() -> None:
    for service, operation in ACTIONS:
        model = aws_client(boto_session(), service, "eu-west-1", None, {}).meta.service_model
        assert operation in model.operation_names
        assert operation.startswith(READ_NAMES) or operation in NOT_NAMED_AS_READS
    assert {o for _, o in ACTIONS if not o.startswith(READ_NAMES)} == NOT_NAMED_AS_READS


def test_an_operation_that_is_not_listed_is_refused_before_it_is_sent(server: LocalServer) -> None:
    session = boto_session()
    refused = 0
    for service in sorted({service for service, _ in ACTIONS}):
        client = aws_client(session, service, "eu-west-1", server.url, {})
        for operation in client.meta.service_model.operation_names:
            if (service, operation) in ACTIONS:
                continue
            model = client.meta.service_model.operation_model(operation)
            with pytest.raises(ConnectorError, match="only lists and reads"):
                refuse_writes(model, {"method": "GET"})
            refused += 1
        client.close()
    assert refused > 700
    assert server.asked == []


@pytest.mark.parametrize(
    ("service", "method", "params"),
    [
        ("cloudwatch", "delete_alarms", {"AlarmNames": ["x"]}),
        (
            "cloudwatch",
            "set_alarm_state",
            {"AlarmName": "x", "StateValue": "OK", "StateReason": "x"},
        ),
        (
            "logs",
            "put_log_events",
            {
                "logGroupName": "x",
                "logStreamName": "x",
                "logEvents": [{"timestamp": 1, "message": "x"}],
            },
        ),
        ("logs", "filter_log_events", {"logGroupName": "x"}),
        ("ecs", "update_service", {"service": "x", "desiredCount": 0}),
        ("lambda", "invoke", {"FunctionName": "x"}),
        ("lambda", "get_function", {"FunctionName": "x"}),
        ("rds", "reboot_db_instance", {"DBInstanceIdentifier": "x"}),
        ("codedeploy", "stop_deployment", {"deploymentId": "d-1"}),
        ("s3", "put_object", {"Bucket": "b", "Key": "k"}),
        ("sts", "get_session_token", {}),
    ],
)
def test_calls_by_the_real_client_are_refused(
    server: LocalServer, service: str, method: str, params: dict[str, Any]
) -> None:
    client = aws_client(boto_session(), service, "eu-west-1", server.url, {})
    with pytest.raises(ConnectorError, match="only lists and reads"):
        getattr(client, method)(**params)
    assert server.asked == []


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (
            said("AccessDeniedException", 400, "User: arn:... is not authorized"),
            "need cloudwatch:DescribeAlarms",
        ),
        (said("ExpiredTokenException"), "the credentials have expired"),
        (said("UnrecognizedClientException"), "the credentials are not accepted"),
        (said("RequestTimeTooSkewed", 403), "clock is wrong"),
        (said("ValidationError", 400, "1 validation error"), "ValidationError: 1 validation error"),
        (said("ThrottlingException", 400), r"too many requests \(ThrottlingException\)"),
        (Reply(b"<html>gateway</html>", status=502), "refused"),
        (Reply(b"", status=503), "not available now"),
        (Reply(b'{"MetricAlarms": [', status=200), "unexpected response: it is not JSON"),
        (Reply(b'{"MetricAlarms": []}', claims=99), "cut off"),
        (Reply(b"[]"), "unexpected response"),
        (Reply({"MetricAlarms": 3}), "unexpected response"),
        (Reply(b'"x"'), "unexpected response"),
    ],
)
def test_a_refusal_is_said_in_words(server: LocalServer, reply: Reply, reason: str) -> None:
    server.on("/", reply)
    with pytest.raises(ConnectorError, match=reason):
        describe(server)


@pytest.mark.parametrize(
    "reply", [said("ThrottlingException"), Reply(b"", status=500), Reply(b'{"a"', claims=50)]
)
def test_what_may_pass_is_asked_again(server: LocalServer, reply: Reply) -> None:
    server.on("/", reply, Reply({"MetricAlarms": [{"AlarmName": "a"}]}))
    assert describe(server)["MetricAlarms"][0]["AlarmName"] == "a"
    assert len(server.asked) == 2


def test_what_will_not_pass_is_asked_once_and_the_rest_three_times(server: LocalServer) -> None:
    server.on("/", said("AccessDenied", 403))
    with pytest.raises(ConnectorError):
        describe(server)
    assert len(server.asked) == 1
    server.on("/", Reply(b"", status=500))
    with pytest.raises(ConnectorError):
        describe(server)
    assert len(server.asked) == 1 + ATTEMPTS


def test_the_pause_that_is_asked_for_is_kept_or_nothing_more_is_asked(server: LocalServer) -> None:
    throttled = said("ThrottlingException", 429)
    server.on("/", Reply(throttled.body, status=429, headers={"Retry-After": "3600"}))
    with pytest.raises(ConnectorError, match="too many requests"):
        describe(server)
    assert len(server.asked) == 1


def test_a_long_answer_ends_with_the_budget(server: LocalServer) -> None:
    server.on("/", Reply({"MetricAlarms": [{"AlarmName": "x" * 1000}] * 100}))
    with pytest.raises(BudgetExceeded, match="size of aws's answers"):
        describe(server, limits=bounds(size=10_000))


def test_an_answer_that_drips_ends_with_the_deadline(server: LocalServer) -> None:
    server.on("/", Reply(b'{"MetricAlarms": []}' + b" " * 5_000, drip_s=0.05))
    with pytest.raises(BudgetExceeded, match="time limit"):
        describe(server, limits=bounds(seconds=1))


def test_nobody_waits_beyond_the_deadline_for_a_silent_server(server: LocalServer) -> None:
    server.on("/", Reply({}, delay_s=60))
    with ThreadPoolExecutor(1) as threads:
        calls = AwsCalls(AwsSession(server.url), threads, bounds(seconds=0.5))
        with pytest.raises(BudgetExceeded):
            asyncio.run(calls.call(OWN, "cloudwatch", "DescribeAlarms"))
        server.closing.set()


def test_without_credentials_it_says_where_they_were_looked_for(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for key in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.delenv(f"AWS_{key}")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(ConnectorError, match="no AWS credentials"):
        describe(server)


def test_a_role_is_assumed_once_with_its_external_id_and_a_policy_that_only_reads(
    server: LocalServer,
) -> None:
    cloud = AwsStandIn(ALERT_AT)
    cloud.serve(server)
    session = AwsSession(server.url)
    for operation in ("DescribeAlarms", "DescribeAlarms"):
        session.call(ROLE, "cloudwatch", operation, {}, bounds())
    session.call(ROLE, "logs", "DescribeLogGroups", {}, bounds())
    (assumed,) = [params for operation, params in cloud.asked if operation == "AssumeRole"]
    assert (assumed["RoleArn"], assumed["ExternalId"]) == (ROLE.account.role_arn, "ext-1")
    assert json.loads(assumed["Policy"]) == json.loads(session_policy())
    reads = [asked for asked in server.asked if asked.headers.get("X-Amz-Target")]
    assert {asked.headers["X-Amz-Security-Token"] for asked in reads} == {"t"}


def test_a_role_is_assumed_anew_before_it_expires(server: LocalServer) -> None:
    cloud = AwsStandIn(ALERT_AT)
    cloud.serve(server)
    fresh = cloud.replies["AssumeRole"]

    def nearly_over(params: Any) -> str:
        text = fresh(params)
        assert isinstance(text, str)
        soon = (datetime.now(UTC) + timedelta(minutes=2)).isoformat()
        return re.sub(r"<Expiration>[^<]*", f"<Expiration>{soon}", text)

    cloud.replies["AssumeRole"] = nearly_over
    session = AwsSession(server.url)
    for _ in range(2):
        session.call(ROLE, "cloudwatch", "DescribeAlarms", {}, bounds())
    assert cloud.operations().count("AssumeRole") == 2


def test_a_role_that_may_not_be_assumed_is_said_of_every_call(server: LocalServer) -> None:
    denied = (
        b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</"
        b"Message></Error></ErrorResponse>"
    )
    server.on("/", Reply(denied, status=403))
    with pytest.raises(
        ConnectorError, match=r"AssumeRole: not permitted: the credentials need sts:AssumeRole"
    ):
        describe(server, ROLE)


def test_the_session_policy_fits_and_allows_reads_alone() -> None:
    assert len(session_policy()) <= 2048
    (statement,) = json.loads(session_policy())["Statement"]
    assert set(statement["Action"]) == {
        a for (s, _), a in ACTIONS.items() if s not in ("s3", "sts")
    }


def test_the_page_holds_every_operation_and_the_policy() -> None:
    page = DOCS.read_text()
    assert aws_operations.iam_policy() in page
    for _, operation in ACTIONS:
        assert f"`{operation}`" in page


def test_the_page_names_the_limits_as_they_are() -> None:
    page = " ".join(DOCS.read_text().split())
    limits = aws.LIMITS
    assert f"{limits.deadline_s:g} seconds and {limits.max_bytes // 1024**2} MiB" in page
    assert f"{aws_scope.MOST_SERVICES} services, {aws_scope.MOST_RESOURCES} resources" in page
    assert (
        f"{aws_logs.MOST_GROUPS} log groups of a service and "
        f"{aws_trail.MOST_RESOURCES} resources in CloudTrail"
    ) in page
    assert f"at most {aws_logs.MOST_LINES:,} of each window" in page
    assert f"even sample of {aws_xray.MOST_TRACES} traces" in page
    assert (
        f"{RATES['cloudtrail']:g} requests a second are sent to "
        f"CloudTrail, {RATES['logs']:g} to Logs"
    ) in page


def test_the_page_names_every_signal() -> None:
    from faultline.connectors.vendors.aws.metric_templates import TEMPLATES

    page = DOCS.read_text()
    for one in TEMPLATES:
        assert f"| `{one.signal}` ({one.unit}) |" in page
        assert f"`{one.metric}` {one.stat}" in page


def check(server: LocalServer, **more: Any) -> Any:
    tables = stand_in.settings(server.url)
    tables["aws"] |= more
    built = CONNECTOR.configured(Settings.model_validate(tables))
    assert built is not None
    return asyncio.run(built.check())


def test_check_names_what_can_be_read_and_what_not(server: LocalServer) -> None:
    cloud = AwsStandIn(ALERT_AT)
    cloud.serve(server)
    good = check(server)
    assert good.ok
    assert "metrics, alarms, logs, traces, changes, queues can be read" in good.line
    cloud.replies["LookupEvents"] = lambda _: said("AccessDeniedException")
    partly = check(server)
    assert partly.ok
    assert (
        "changes cannot be read (not permitted: the credentials need cloudtrail:LookupEvents)"
        in partly.line
    )
    cloud.replies["GetMetricData"] = lambda _: said("AccessDeniedException")
    assert not check(server).ok


def test_check_warns_of_credentials_that_can_write(server: LocalServer) -> None:
    cloud = AwsStandIn(ALERT_AT)
    cloud.serve(server)
    plain = cloud.replies["GetCallerIdentity"]
    root: Callable[[Any], str] = lambda p: str(plain(p)).replace("user/faultline", "user/AdminJoe")  # noqa: E731
    cloud.replies["GetCallerIdentity"] = root
    assert "can also write" in check(server).line
    roles = [{"name": "shop", "role_arn": "arn:aws:iam::123456789012:role/read"}]
    assert "limited to reading" in check(server, accounts=roles).line


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[aws]\nregions = ["Ireland"]', "aws.regions"),
        ('[aws]\nsns_topics = ["alarms"]', "aws.sns_topics"),
        ('[[aws.accounts]]\nname = "a"\nrole_arn = "read"', "aws.accounts.0.role_arn"),
        ('[[aws.accounts]]\nname = "a"', "aws.accounts.0.role_arn"),
        ('[services.a.aws]\necss = ["x"]', "services.a.aws.ecss"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, key: str) -> None:
    file = tmp_path / "faultline.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as refused:
        load_settings(file, {})
    assert refused.value.key == key


def test_accounts_name_their_own_regions(tmp_path: Path) -> None:
    arn = "arn:aws:iam::123456789012:role/read"
    accounts = [
        {"name": "a", "role_arn": arn},
        {"name": "b", "role_arn": arn, "regions": ["us-east-1", "us-west-2"]},
    ]
    built = CONNECTOR.configured(
        Settings.model_validate({"aws": {"regions": ["eu-west-1"], "accounts": accounts}})
    )
    assert built is not None
    assert [str(place) for place in built._places] == ["a/eu-west-1", "b/us-east-1", "b/us-west-2"]


def test_clients_are_opened_in_two_files_only_both_guarded() -> None:
    room = Path(inspect.getfile(aws)).parents[1]
    opens = re.compile(r"\bimport boto3|\.client\(")
    users = sorted(
        f.relative_to(room).as_posix() for f in room.rglob("*.py") if opens.search(f.read_text())
    )
    assert users == ["aws/session.py", "traces/places.py"]
