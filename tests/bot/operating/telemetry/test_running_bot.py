"""What a running bot says about one answered alert: metrics of both processes, one trace, a log,
its health."""

from __future__ import annotations

import json
import subprocess
import time

import httpx

from faultline.bot.runtime.tracing import root_id_of, trace_id_of
from tests.bot.operating.telemetry.conftest import HOSTILE, PATIENT_S, Observed
from tests.debian_tools import debian_binary


def test_promtool_finds_nothing_wrong_with_the_metrics(observed: Observed) -> None:
    promtool = debian_binary("prometheus", "usr/bin/promtool")
    for port in (observed.metrics_port, observed.worker_port):
        page = observed.scrape(port)
        assert page.headers["content-type"].startswith("text/plain")
        checked = subprocess.run(
            [promtool, "check", "metrics"],
            check=False,
            input=page.text,
            capture_output=True,
            text=True,
            timeout=PATIENT_S,
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_the_web_process_counts_what_came_in_and_knows_the_queue(observed: Observed) -> None:
    page = observed.scrape(observed.metrics_port).text
    assert 'faultline_webhooks_total{outcome="accepted",source="pagerduty"} 2.0' in page
    assert 'faultline_webhooks_total{outcome="signature",source="pagerduty"} 1.0' in page
    assert 'faultline_alerts_total{outcome="started",source="pagerduty"} 1.0' in page
    assert 'faultline_alerts_total{outcome="duplicate",source="pagerduty"} 1.0' in page
    assert 'faultline_acknowledgement_seconds_count{source="pagerduty"} 3.0' in page
    assert "faultline_database_up 1.0" in page
    assert "faultline_queue_oldest_seconds 0.0" in page
    assert 'faultline_build_info{process="web"' in page
    observed.wait_for_metric(observed.metrics_port, r'^faultline_investigations\{status="done"\} 1')


def test_the_worker_counts_its_steps_posts_and_verdicts(observed: Observed) -> None:
    page = observed.scrape(observed.worker_port).text
    for step in ("open", "assemble", "analyze", "write", "finish"):
        assert f'faultline_step_seconds_count{{step="{step}",target=""}} 1.0' in page
    assert 'faultline_step_seconds_count{step="collect",target="recorded"} 1.0' in page
    assert 'faultline_posts_total{kind="answer",outcome="posted",place="slack"} 1.0' in page
    assert 'faultline_answer_seconds_count{place="slack"} 1.0' in page
    assert 'faultline_first_message_seconds_count{place="slack"}' in page
    assert "faultline_investigations_ended_total{verdict=" in page
    assert 'faultline_part_silent_seconds{part="takeover"}' in page
    assert "process_cpu_seconds_total" in page


def test_no_label_holds_anything_of_a_sender(observed: Observed) -> None:
    for port in (observed.metrics_port, observed.worker_port):
        page = observed.scrape(port).text
        for word in (
            observed.investigation,
            "checkout",
            "PINC1",
            "C0INCIDENTS",
            "faultline_fake_total",
        ):
            assert word not in page


def test_only_what_is_served_is_served_and_only_there(observed: Observed) -> None:
    assert observed.scrape(observed.metrics_port, "/").status_code == 404
    assert observed.scrape(observed.metrics_port, "/investigations").status_code == 404
    assert (
        httpx.post(f"http://127.0.0.1:{observed.metrics_port}/metrics", timeout=60).status_code
        == 405
    )
    assert "faultline_" not in httpx.get(f"{observed.story.bot.url}/metrics", timeout=60).text


def test_the_worker_says_that_it_is_healthy(observed: Observed) -> None:
    answer = observed.scrape(observed.worker_port, "/healthz")
    assert (answer.status_code, answer.text) == (200, "ok\n")


def test_one_trace_holds_what_both_processes_did(observed: Observed) -> None:
    deadline = time.monotonic() + PATIENT_S
    wanted = {
        "investigation",
        "accept",
        "open",
        "announce",
        "collect",
        "assemble",
        "analyze",
        "write",
        "finish",
        "reply",
    }
    while wanted - {span.name for span in observed.collector.spans}:
        assert time.monotonic() < deadline, wanted - {
            span.name for span in observed.collector.spans
        }
        time.sleep(0.1)
    spans = observed.collector.spans
    trace, root = (
        f"{trace_id_of(observed.investigation):032x}",
        f"{root_id_of(observed.investigation):016x}",
    )
    assert {span.trace for span in spans} == {trace}
    assert {span.process for span in spans if span.name == "accept"} == {"web"}
    assert {span.process for span in spans if span.name == "analyze"} == {"worker"}
    assert {span.parent for span in spans if span.name in wanted - {"investigation"}} == {root}
    (whole,) = [span for span in spans if span.name == "investigation"]
    assert (whole.id, whole.parent) == (root, "")
    assert whole.seconds > 0
    assert observed.collector.headers[0]["authorization"] == "Bearer otlp-secret"


def test_a_trace_holds_no_text_of_the_alert_and_no_secret(observed: Observed) -> None:
    sent = b"".join(observed.collector.bodies)
    for word in (
        b"checkout",
        b"faultline_fake",
        b"xoxb",
        b"webhook-secret",
        b"otlp-secret",
        b"C0INCIDENTS",
    ):
        assert word not in sent


def test_each_line_of_the_log_is_one_object_with_what_it_is_about(observed: Observed) -> None:
    lines = observed.log()
    assert {"web", "worker"} <= {line["process"] for line in lines if "process" in line}
    refused = [line for line in lines if "pagerduty refused" in line.get("message", "")]
    assert (refused[0]["level"], refused[0]["logger"]) == ("warning", "faultline.intake")
    assert any(line.get("investigation") == observed.investigation for line in lines)


def test_the_log_holds_no_payload_and_no_secret(observed: Observed) -> None:
    text = observed.log_file.read_text()
    for word in (
        "xoxb",
        "webhook-secret",
        "pagerduty-token",
        "otlp-secret",
        "faultline_fake_total",
        HOSTILE[:8],
    ):
        assert word not in text


def test_the_queue_is_told_to_cloudwatch_in_the_log(observed: Observed) -> None:
    lines = [line for line in observed.log() if "_aws" in line]
    (directive,) = lines[0]["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Faultline"
    assert directive["Dimensions"] == [[]]
    for metric in directive["Metrics"]:
        assert isinstance(lines[0][metric["Name"]], int | float)
    assert {m["Name"] for m in directive["Metrics"]} == {"QueueAgeSeconds", "Waiting", "Failed"}
    assert abs(lines[0]["_aws"]["Timestamp"] / 1000 - time.time()) < 86_400
    assert json.dumps(lines[0]).isascii()
