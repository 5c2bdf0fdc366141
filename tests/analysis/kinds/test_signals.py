from __future__ import annotations

import pytest

from faultline.analysis.kinds.place_names import same_place_labels
from faultline.analysis.kinds.signals import SignalClass, classify, is_bad


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("http_server_duration_p99_ms", SignalClass.LATENCY),
        ("serverlat95", SignalClass.LATENCY),
        ("TargetResponseTime", SignalClass.LATENCY),
        ("step_time_seconds", SignalClass.LATENCY),
        ("error_rate_5xx_ratio", SignalClass.ERRORS),
        ("HTTPCode_Target_5XX_Count", SignalClass.ERRORS),
        ("availability", SignalClass.AVAILABILITY),
        ("pod_ready_replicas", SignalClass.AVAILABILITY),
        ("container_oom_killed_total", SignalClass.RESTARTS),
        ("queue_oldest_message_age_seconds", SignalClass.QUEUE),
        ("container_cpu_cfs_throttled_seconds", SignalClass.CPU),
        ("go_heap_inuse_mb", SignalClass.MEMORY),
        ("container_memory_limit_mb", SignalClass.LIMIT),
        ("requests_per_sec", SignalClass.TRAFFIC),
        ("disk_used_pct", SignalClass.DISK),
        ("loss_of_nothing_known", SignalClass.OTHER),
        ("train.loss", SignalClass.LOSS),
        ("packet_loss", SignalClass.NETWORK),
        ("learning_rate", SignalClass.LIMIT),
        ("optimizer.lr", SignalClass.LIMIT),
    ],
)
def test_a_signal_is_classified_by_the_words_of_its_name(name: str, kind: SignalClass) -> None:
    assert classify(name) is kind


def test_a_loss_that_falls_and_a_learning_rate_that_follows_its_plan_are_no_trouble() -> None:
    assert is_bad(SignalClass.LOSS, "up")
    assert not is_bad(SignalClass.LOSS, "down")
    assert not is_bad(SignalClass.LIMIT, "down")


def test_less_availability_is_bad_and_less_latency_is_not() -> None:
    assert is_bad(SignalClass.AVAILABILITY, "down")
    assert not is_bad(SignalClass.AVAILABILITY, "up")
    assert is_bad(SignalClass.LATENCY, "up")
    assert not is_bad(SignalClass.LATENCY, "down")
    assert is_bad(SignalClass.TRAFFIC, "down")


@pytest.mark.parametrize(
    ("label", "same"),
    [("env", "deployment.environment"), ("kube_cluster_name", "cluster"), ("aws_region", "region")],
)
def test_labels_of_vendors_that_say_the_same_belong_together(label: str, same: str) -> None:
    assert {label, same} <= set(same_place_labels(label))
    assert same_place_labels("pod") == ("pod",)
