"""Only who knows a secret gets in."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from slack_sdk.signature import SignatureVerifier

from faultline.bot.intake.signatures import (
    BadSignature,
    sign_slack,
    verify_slack,
    verify_token,
)
from faultline.bot.intake.sources.pagerduty import sign_pagerduty, verify_pagerduty

BODY = b'{"event": {"id": "E1"}}'
NOW = 1_763_690_000.0


def keys(*values: str) -> tuple[SecretStr, ...]:
    return tuple(SecretStr(value) for value in values)


def test_slacks_documented_example_is_accepted() -> None:
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    verify_slack(
        body, "1531420618", signature, keys("8f742231b10e8888abcd99yyyzzz85a5"), now=1531420618
    )


def test_slacks_own_library_makes_signatures_that_fit() -> None:
    signature = SignatureVerifier("k").generate_signature(timestamp=str(int(NOW)), body=BODY)
    verify_slack(BODY, str(int(NOW)), signature, keys("k"), now=NOW)


def test_a_pagerduty_signature_is_the_hmac_that_openssl_computes() -> None:
    # printf '{"event": {"id": "E1"}}' | openssl dgst -sha256 -hmac k
    assert sign_pagerduty(BODY, "k") == "v1=" + OPENSSL


OPENSSL = "e8e37c6b3bfce11adc582514d7a76f9b3f182fd3529531ca6ae1ac45fec9c411"


@pytest.mark.parametrize("secret", ["old", "new"])
def test_during_rotation_both_secrets_are_accepted(secret: str) -> None:
    stamp = str(int(NOW))
    verify_pagerduty(BODY, sign_pagerduty(BODY, secret), keys("old", "new"))
    verify_slack(BODY, stamp, sign_slack(BODY, stamp, secret), keys("old", "new"), now=NOW)
    verify_token("alertmanager", f"Bearer {secret}", keys("old", "new"))


def test_of_several_pagerduty_signatures_one_that_fits_is_enough() -> None:
    header = f"v1={'0' * 64}, {sign_pagerduty(BODY, 'k')}"
    verify_pagerduty(BODY, header, keys("k"))


@given(st.binary(max_size=200), st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_one_changed_byte_breaks_every_signature(body: bytes, place: int, change: int) -> None:
    changed = bytearray(body or b"x")
    original = bytes(changed)
    changed[place % len(changed)] ^= change
    stamp = str(int(NOW))
    with pytest.raises(BadSignature):
        verify_pagerduty(bytes(changed), sign_pagerduty(original, "k"), keys("k"))
    with pytest.raises(BadSignature):
        verify_slack(bytes(changed), stamp, sign_slack(original, stamp, "k"), keys("k"), now=NOW)


@pytest.mark.parametrize(
    ("age", "accepted"), [(0, True), (299, True), (-299, True), (301, False), (-301, False)]
)
def test_slack_requests_count_for_five_minutes(age: int, accepted: bool) -> None:
    stamp = str(int(NOW) - age)
    signature = sign_slack(BODY, stamp, "k")
    if accepted:
        verify_slack(BODY, stamp, signature, keys("k"), now=NOW)
    else:
        with pytest.raises(BadSignature, match="signature") as refused:
            verify_slack(BODY, stamp, signature, keys("k"), now=NOW)
        assert "300 s" in refused.value.reason


def test_a_fresh_timestamp_does_not_renew_an_old_signature() -> None:
    old = str(int(NOW) - 3600)
    with pytest.raises(BadSignature):
        verify_slack(BODY, str(int(NOW)), sign_slack(BODY, old, "k"), keys("k"), now=NOW)


@pytest.mark.parametrize("stamp", ["", "-1", "1e9", "١٢٣", "9" * 5000, "1763690000\n", None])
def test_timestamps_that_are_no_numbers_are_refused(stamp: str | None) -> None:
    with pytest.raises(BadSignature):
        verify_slack(BODY, stamp, "v0=00", keys("k"), now=NOW)


def test_an_empty_secret_opens_nothing() -> None:
    stamp = str(int(NOW))
    with pytest.raises(BadSignature):
        verify_pagerduty(BODY, sign_pagerduty(BODY, ""), keys(""))
    with pytest.raises(BadSignature):
        verify_slack(BODY, stamp, sign_slack(BODY, stamp, ""), keys(""), now=NOW)
    for authorization in ("Bearer ", "Bearer", "Basic ", ""):
        with pytest.raises(BadSignature):
            verify_token("alertmanager", authorization, keys(""))


def test_alertmanager_may_present_basic_credentials() -> None:
    verify_token(
        "alertmanager", "Basic " + base64.b64encode(b"prom:pa:ss").decode(), keys("prom:pa:ss")
    )
    verify_token("alertmanager", "bearer s3cret", keys("s3cret"))


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "s3cret",
        "Bearer S3cret",
        "Bearer s3cret x",
        "Basic s3cret",
        "Digest s3cret",
        "Basic czNjcmV0eA==",
    ],
)
def test_wrong_alertmanager_credentials_are_refused(authorization: str | None) -> None:
    with pytest.raises(BadSignature):
        verify_token("alertmanager", authorization, keys("s3cret"))


@given(st.one_of(st.none(), st.text(max_size=300)))
def test_no_header_makes_a_check_fail_otherwise_than_by_refusing(header: str | None) -> None:
    for check in (
        lambda: verify_pagerduty(BODY, header, keys("k")),
        lambda: verify_slack(BODY, "1763690000", header, keys("k"), now=NOW),
        lambda: verify_slack(BODY, header, "v0=00", keys("k"), now=NOW),
        lambda: verify_token("alertmanager", header, keys("k-none-can-guess")),
    ):
        with pytest.raises(BadSignature) as refused:
            check()
        assert str(refused.value) == "signature"


def test_a_flood_of_signatures_is_refused() -> None:
    header = ",".join([f"v1={'0' * 64}"] * 500 + [sign_pagerduty(BODY, "k")])
    with pytest.raises(BadSignature):
        verify_pagerduty(BODY, header, keys("k"))
