"""A tiny project, of which one test is missing and one fails."""

from __future__ import annotations

from pathlib import Path

import pytest

FILES = {
    "pyproject.toml": "[tool.pytest.ini_options]\ntestpaths = ['tests']\n",
    "shop/__init__.py": "",
    "shop/prices.py": (
        "def price(item, count):\n"
        "    if count >= 10:\n"
        "        return item * count - 5\n"
        "    return item * count\n"
    ),
    "shop/turns.py": (
        "def spin(turns):\n    while turns > 0:\n        turns -= 1\n    return turns\n"
    ),
    "shop/orders.py": (
        "from shop.prices import price\n\n\ndef total(order):\n    return price(*order) + 1\n"
    ),
    "tests/__init__.py": "",
    "tests/shop/__init__.py": "",
    "tests/shop/test_prices.py": (
        "from shop.prices import price\n"
        "\n"
        "\n"
        "def test_a_few_cost_their_price():\n"
        "    assert price(2, 3) == 6\n"
        "\n"
        "\n"
        "def test_many_are_cheaper():\n"
        "    assert price(2, 20) == 35\n"
    ),
    "tests/shop/test_turns.py": (
        "from shop.turns import spin\n\n\ndef test_it_comes_to_rest():\n    assert spin(3) == 0\n"
    ),
    "tests/shop/test_orders.py": (
        "from shop.orders import total\n"
        "\n"
        "\n"
        "def test_post_is_added():\n"
        "    assert total((2, 3)) == 7\n"
        "\n"
        "\n"
        "def test_that_fails_in_any_case():\n"
        "    assert total((2, 3)) == 8\n"
    ),
    "tests/shop/test_broken.py": "import shop.missing\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Its folder."""
    root = tmp_path / "project"
    for path, text in FILES.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root
