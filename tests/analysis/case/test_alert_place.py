"""Environment, cluster and region of an alert, in the labels that a source has."""

from __future__ import annotations

import pytest

from faultline.analysis.case.alert_place import place_labels, place_of
from faultline.analysis.kinds.signals import WatchedSignal
from faultline.analysis.vocabulary import Alert
from tests.connectors.conftest import ALERT_AT


def alert(labels: dict[str, str], watches: WatchedSignal | None = None) -> Alert:
    return Alert(source="test", title="slow", started_at=ALERT_AT, labels=labels, watches=watches)


def test_labels_of_every_vendor_name_the_same_place() -> None:
    assert place_of(alert({"env": "prod", "kube_cluster_name": "eu", "aws_region": "r"})) == {
        "environment": "prod",
        "cluster": "eu",
        "region": "r",
    }


def test_the_rule_says_it_where_the_alert_does_not() -> None:
    watches = WatchedSignal(place={"cluster": "eu", "pod": "web-1"})
    assert place_of(alert({"team": "shop"}, watches)) == {"cluster": "eu"}


def test_a_place_is_asked_for_by_the_label_that_the_source_has() -> None:
    place = {"environment": "prod", "cluster": "eu"}
    known = ["service", "deployment_environment", "namespace"]
    assert place_labels(place, known) == {"deployment_environment": "prod"}


def test_nodes_and_zones_do_not_bound_what_is_asked() -> None:
    assert place_of(alert({"node": "n1", "zone": "a", "pod": "web-1", "namespace": "shop"})) == {}


@pytest.mark.parametrize("label", ["namespace", "kube_namespace", "env", "cluster", "aws_region"])
def test_equal_alerts_of_two_places_are_two_alerts(label: str) -> None:
    prod, again, staging = (alert({label: name}) for name in ("prod", "prod", "staging"))
    assert prod.fingerprint == again.fingerprint != staging.fingerprint
    same_sender = {"fingerprint": "f1", label: "prod"}, {"fingerprint": "f1", label: "staging"}
    named, elsewhere = map(alert, same_sender)
    assert named.fingerprint == elsewhere.fingerprint, "the sender knows what is one alert"
