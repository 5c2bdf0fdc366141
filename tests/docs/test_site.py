"""The documentation site: it builds, its links lead somewhere, it loads nothing from elsewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

HOME = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site() -> ModuleType:
    """docs/site.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("docs_site", HOME / "docs" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(site: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `./run docs --release` builds it. A dead link would end this."""
    folder = tmp_path_factory.mktemp("site")
    site.release(folder)
    (version,) = [path for path in folder.iterdir() if path.is_dir()]
    return version


def test_pages_from_elsewhere_are_part_of_the_site(built: Path) -> None:
    pages = ["index.html", "contributing/index.html", "infra/terraform/index.html", "search.json"]
    assert [page for page in pages if not (built / page).exists()] == []


def test_pages_load_nothing_from_other_hosts(built: Path) -> None:
    loaded = re.compile(r'<(?:script|img|iframe)[^>]* src="https?:|<link[^>]* href="https?:')
    assert [page for page in built.rglob("*.html") if loaded.search(page.read_text())] == []


def test_the_front_page_leads_to_the_latest_version(built: Path) -> None:
    assert f"url={built.name}/" in (built.parent / "index.html").read_text()
    assert f'"version": "{built.name}"' in (built.parent / "versions.json").read_text()


@pytest.mark.parametrize("link", ["missing.md", "index.md#missing"])
def test_a_dead_link_ends_the_build(site: ModuleType, tmp_path: Path, link: str) -> None:
    (tmp_path / "zensical.toml").write_text('[project]\nsite_name = "x"\n')
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# One\n\n[two]({link})\n")
    with pytest.raises(SystemExit, match="does not exist"):
        site.render(tmp_path)


def test_a_link_out_of_the_site_becomes_a_path(site: ModuleType) -> None:
    page = "[role](../infra/kubernetes/read-only-rbac.yaml) [how](../CONTRIBUTING.md#the-map)"
    assert site.with_links_of_site(page, HOME / "docs" / "install.md", "install.md") == (
        "role (`infra/kubernetes/read-only-rbac.yaml`) [how](contributing.md#the-map)"
    )
