"""Networks of proxies that are too wide are reported."""

from __future__ import annotations

import pytest

from faultline.bot.operating.installation_checks import settings_checks
from faultline.bot.settings import Settings


@pytest.mark.parametrize(
    ("network", "wide"),
    [
        ("10.0.0.0/8", True),
        ("0.0.0.0/0", True),
        ("::/0", True),
        ("10.0.1.0/24", False),
        ("10.0.1.7", False),
        ("2001:db8::/64", False),
    ],
)
def test_a_wide_network_of_proxies_is_noted(network: str, *, wide: bool) -> None:
    settings = Settings.model_validate({"server": {"trusted_proxies": [network]}})
    said = [one.what for one in settings_checks(settings) if "trusted_proxies" in one.what]
    assert len(said) == int(wide)
