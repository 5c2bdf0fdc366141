"""Conditions of clusters that people reported in public, as the connectors collect them from a
loopback API and a Prometheus: the first sentence and step that an on-call engineer reads."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.bot.answer.test_field_cases import CASES, answer_of, steps_of

CONDITIONS = [
    (
        "registry-refuses",
        "because it cannot pull its image registry.example.com/shop/orders:1.4.0: the registry "
        "refuses its credentials.",
        "Renew the pull secret of orders",
    ),
    (
        "init-container-waits",
        "Deploy of orders 1.5.0 took it down (0 of 2 instances): its init container wait-for-db "
        "has not ended (“waiting for postgres-primary”).",
        "Roll back orders 1.5.0 to 1.4.0",
    ),
    (
        "autoscaler-blind",
        "because its autoscaler cannot read its metrics.",
        "Scale web by hand",
    ),
    (
        "volume-full",
        "because volume data-postgres-0 of postgres is full.",
        "Free space on PersistentVolumeClaim shop/data-postgres-0",
    ),
    (
        "certificate-expired",
        "because Certificate shop.example.com is not valid: it expired.",
        "Renew Certificate shop.example.com",
    ),
    (
        "password-rotated",
        "probably because postgres refuses the credentials of its caller.",
        "Compare the credentials that are used for postgres",
    ),
    (
        "network-policy-closed",
        "because network policy postgres-ingress blocks calls from orders to postgres.",
        "Allow calls from orders to postgres in NetworkPolicy shop/postgres-ingress again.",
    ),
    (
        "name-server-fails",
        "probably because DNS fails to resolve names.",
        "Check the name servers behind DNS",
    ),
    (
        "heap-full",
        "payments' requests fail; it logs that a Java process ran out of heap.",
        "On payments: take a heap dump",
    ),
    (
        "clock-off",
        "because node-3 has a clock that is 87.5 s off.",
        "Repair the time synchronisation of node-3",
    ),
]


@pytest.mark.parametrize(("name", "headline", "step"), CONDITIONS)
def test_the_headline_and_the_step_name_what_is_wrong(
    tmp_path: Path, name: str, headline: str, step: str
) -> None:
    shutil.copytree(CASES / name, tmp_path / "case")
    answer = answer_of(tmp_path / "case")
    assert answer["verdict"] == "cause_found"
    assert headline in answer["headline"]
    assert steps_of(tmp_path / "case").startswith(step)
