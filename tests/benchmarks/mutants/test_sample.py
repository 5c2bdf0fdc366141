"""A sample of mutations: its rooms, and that the same seed draws the same."""

from __future__ import annotations

from pathlib import Path

from benchmarks.mutants.modules import ProjectModules
from benchmarks.mutants.nearest_tests import nearest_tests
from benchmarks.mutants.sample import Sampler, product_files, quotas, room_of


def test_the_same_seed_draws_the_same(project: Path) -> None:
    first = Sampler(ProjectModules(project)).sample(5, seed=1)
    assert len(first) == 5
    assert Sampler(ProjectModules(project)).sample(5, seed=1) == first
    assert Sampler(ProjectModules(project)).sample(5, seed=2) != first


def test_a_room_that_is_used_up_gives_what_it_has(project: Path) -> None:
    drawn = Sampler(ProjectModules(project)).sample(1000, seed=1)
    assert {mutation.path for mutation in drawn} == {
        "shop/orders.py",
        "shop/prices.py",
        "shop/turns.py",
    }
    assert len({mutation.identity for mutation in drawn}) == len(drawn)


def test_each_room_has_its_share_of_lines() -> None:
    assert quotas({"a": 60, "b": 30, "c": 10}, 10) == {"a": 6, "b": 3, "c": 1}
    assert quotas({"a": 50, "b": 30, "c": 20}, 4) == {"a": 2, "b": 1, "c": 1}
    assert quotas({}, 4) == {}


def test_only_the_rooms_that_are_named_are_drawn_from(project: Path) -> None:
    (project / "bar").mkdir()
    (project / "bar/__init__.py").write_text("def mix(a, b):\n    return a - b\n")
    sampler = Sampler(ProjectModules(project))
    assert {m.path for m in sampler.sample(3, 1, rooms=["bar"])} == {"bar/__init__.py"}


def test_a_room_is_the_nearest_folder_with_tests_of_its_name(project: Path) -> None:
    (project / "tests/shop/web").mkdir()
    assert room_of(project, "shop/web/pages.py") == "shop"
    (project / "tests/shop/web/test_pages.py").write_text("")
    assert room_of(project, "shop/web/pages.py") == "shop/web"
    assert room_of(project, "shop/web/forms/fields.py") == "shop/web"
    assert room_of(project, "bar/mix.py") == "bar"


def test_tests_and_tools_are_no_product(project: Path) -> None:
    assert product_files(ProjectModules(project)) == [
        "shop/__init__.py",
        "shop/orders.py",
        "shop/prices.py",
        "shop/turns.py",
    ]


def test_tests_that_import_the_module_come_before_those_that_import_its_importers(
    project: Path,
) -> None:
    (project / "tests/shop/test_aisles.py").write_text("")
    assert nearest_tests(ProjectModules(project), "shop/prices.py") == [
        "tests/shop/test_prices.py",
        "tests/shop/test_orders.py",
        "tests/shop/test_aisles.py",
        "tests/shop/test_broken.py",
        "tests/shop/test_turns.py",
    ]


def test_a_module_is_found_by_the_name_of_a_link_to_its_folder(project: Path) -> None:
    (project / "front").mkdir()
    (project / "front/__init__.py").write_text("")
    (project / "front/shop").symlink_to("../shop")
    (project / "tests/shop/test_prices.py").write_text("from front.shop import prices\n")
    (project / "tests/shop/test_orders.py").write_text('TARGET = "front.shop.prices.price"\n')
    modules = ProjectModules(project)
    assert modules.file_of("front.shop.prices") == "shop/prices.py"
    assert modules.importers["shop/prices.py"] == {
        "shop/orders.py",
        "tests/shop/test_orders.py",
        "tests/shop/test_prices.py",
    }
