"""What the stand-in answers has the shapes of AWS's own model, and links lead to the console's own
addresses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Request
from faultline.connectors.vendors.aws import CONNECTOR
from faultline.connectors.vendors.aws import console as aws_console
from faultline.connectors.vendors.aws.cloudwatch import _graph, _metric_stats
from faultline.connectors.vendors.aws.evidence import moment
from faultline.connectors.vendors.aws.operations import ACTIONS
from faultline.connectors.vendors.aws.resource import Resource
from faultline.connectors.vendors.aws.segments import spans_of
from faultline.connectors.vendors.aws.session import AwsAccount, AwsPlace, aws_client, boto_session
from faultline.connectors.vendors.aws.task_definitions import difference
from faultline.connectors.vendors.aws.trail import _row
from faultline.connectors.vendors.aws.xray import edges, expression
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins import aws as stand_in
from tests.connectors.stand_ins.aws import ALARM, AwsStandIn

NOW = datetime.now(UTC).replace(second=0, microsecond=0)
WINDOW = Window(
    start=datetime(2021, 7, 15, 21, tzinfo=UTC), end=datetime(2021, 7, 18, 20, 59, 59, tzinfo=UTC)
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
CHECKOUT = Resource("ecs", "shop/checkout", "checkout", AwsPlace(AwsAccount("own"), "eu-west-1"))


def test_every_answer_of_the_stand_in_has_the_shape_of_awss_model(
    server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from botocore import xform_name
    from botocore.stub import Stubber

    for key in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{key}", "test")
    cloud = AwsStandIn(NOW)
    cloud.serve(server)
    built = CONNECTOR.configured(Settings.model_validate(stand_in.settings(server.url)))
    assert built is not None
    incident = Window(start=NOW - timedelta(minutes=30), end=NOW)
    alert = Alert(source="cloudwatch", title=ALARM, started_at=NOW, labels={"alarm_name": ALARM})
    asyncio.run(
        built.collect(Request(alert, Scope(incident=incident, services=("checkout",)), tmp_path))
    )
    services = {operation: service for service, operation in ACTIONS}
    checked = set()
    for operation, params in cloud.asked:
        answer = cloud.replies[operation](params)
        if isinstance(answer, dict):
            client = aws_client(boto_session(), services[operation], "eu-west-1", None, {})
            Stubber(client).add_response(xform_name(operation), answer)
            checked.add(operation)
    assert len(checked) >= 18


def test_a_link_to_a_query_is_the_consoles_own() -> None:
    link = aws_console.insights_link(
        "eu-west-1", ["/aws/lambda/x"], "fields @message\n| limit 2", WINDOW
    )
    assert link == (
        "https://eu-west-1.console.aws.amazon.com/cloudwatch/"
        "home?region=eu-west-1#logsV2:logs-insights$3FqueryDetail$3D"
        "$257E$2528end$257E$25272021-07-18T20*3a59*3a59."
        "000Z$257Estart$257E$25272021-07-15T21*3a00*3a00.000Z"
        "$257EtimeType$257E$2527ABSOLUTE$257Etz$257E$2527UTC$257EeditorString$257E$2527fields*20*40message*0a*7c*20limit"
        "*202$257Esource$257E$2528$257E$2527*2faws*2flambda*2fx$2529$2529"
    )


def test_a_link_to_a_graph_holds_metrics_window_and_period() -> None:
    metric = ["AWS/Lambda", "Errors", "FunctionName", "a b", {"stat": "Sum"}]
    link = aws_console.metrics_link("eu-west-1", [metric], WINDOW, 60)
    assert (
        "#metricsV2:graph=~(metrics~(~(~'AWS*2fLambda~'Errors~'FunctionName~'a*20b~(stat~'Sum)))"
        in link
    )
    assert (
        "~start~'2021-07-15T21*3a00*3a00.000Z~end~'2021-07-18T20*3a59*3a59.000Z~period~60)" in link
    )


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("eu-west-1", "eu-west-1.console.aws.amazon.com"),
        ("cn-north-1", "cn-north-1.console.amazonaws.cn"),
        ("us-gov-west-1", "us-gov-west-1.console.amazonaws-us-gov.com"),
    ],
)
def test_each_partition_has_its_console(region: str, host: str) -> None:
    assert aws_console.alarm_link(region, "a/b c").startswith(
        f"https://{host}/cloudwatch/home?region={region}#alarmsV2"
    )
    assert aws_console.alarm_link(region, "a/b c").endswith("alarm/a%2Fb%20c")


@examples(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_no_name_breaks_out_of_a_link(name: str) -> None:
    for link in (
        aws_console.alarm_link("eu-west-1", name),
        aws_console.traces_link("eu-west-1", expression(name), WINDOW),
        aws_console.insights_link("eu-west-1", [name], name, WINDOW),
        aws_console.ecs_link("eu-west-1", name, name),
        aws_console.trail_link("eu-west-1", name, WINDOW),
    ):
        assert link.isascii()
        assert not set(link) & set(' <>"\n|`')


def test_a_quote_in_a_name_does_not_change_the_filter() -> None:
    assert expression('a") OR service("b') == 'service("a) OR service(b")'


@examples(max_examples=200, deadline=None)
@given(JSON)
def test_no_segment_event_or_definition_makes_it_fail(value: Any) -> None:
    document = {
        "Id": "1-1-1",
        "Segments": [{"Document": json.dumps(value)}, {"Document": value}, value],
    }
    assert spans_of(document, str) == []
    parts = {
        "id": "a",
        "name": value,
        "start_time": 1e9,
        "end_time": 1e9 + 1,
        "http": value,
        "cause": value,
    }
    nested = {
        "Id": "1",
        "Segments": [{"Document": json.dumps(parts | {"subsegments": value, "aws": value})}],
    }
    assert len(spans_of(nested, str)) >= 1
    difference(value, {"containerDefinitions": value})
    edges([{"ReferenceId": 1, "Name": value, "Edges": value}], str)
    event = {
        "EventTime": WINDOW.end,
        "EventName": "UpdateX",
        "CloudTrailEvent": json.dumps(value),
        "Username": value,
    }
    assert _row(CHECKOUT, event, WINDOW) is not None or isinstance(value, dict)
    assert moment(value) is None or isinstance(value, str)


def test_a_trace_with_endless_parts_is_bounded() -> None:
    part: Mapping[str, Any] = {"id": "x", "name": "n", "start_time": 1e9, "end_time": 1e9 + 1}
    wide = {**part, "subsegments": [part] * 20_000}
    assert len(spans_of({"Id": "1", "Segments": [{"Document": json.dumps(wide)}]}, str)) == 2_000


def test_a_call_that_failed_changed_nothing() -> None:
    record = json.dumps({"errorCode": "AccessDenied"})
    event = {
        "EventTime": WINDOW.end,
        "EventName": "UpdateService",
        "EventId": "e",
        "ReadOnly": "false",
    }
    assert _row(CHECKOUT, event, WINDOW) is not None
    assert _row(CHECKOUT, event | {"CloudTrailEvent": record}, WINDOW) is None
    assert _row(CHECKOUT, event | {"EventName": "DeregisterTargets"}, WINDOW) is None


def test_the_graph_of_a_resource_shows_its_share_of_errors() -> None:
    place = AwsPlace(AwsAccount("own"), "eu-west-1")
    resource = Resource("lambda", "checkout", "checkout", place)
    lines = _graph(resource, _metric_stats(resource, 0, None))
    ids = {}
    for line in lines:
        if len(line) > 1:
            ids[line[1]] = line[-1]["id"]
    (share,) = [line[0] for line in lines if len(line) == 1]
    assert share["expression"] == f"FILL({ids['Errors']},0)/{ids['Invocations']}"
    assert share["label"] == "error_ratio"
