"""Every version of the tables: up and down again with rows in them, on both databases; a newer
database is refused."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, insert, inspect, text
from sqlalchemy.sql.sqltypes import JSON, Boolean, DateTime, Float, Integer

from faultline.analysis.errors import FaultlineError
from faultline.bot.operating.backup import print_versions, take_back
from faultline.bot.settings import Settings
from faultline.bot.store import people_tables, tables
from faultline.bot.store.databases import (
    NOTHING,
    Version,
    _config,
    all_versions,
    current_version,
    downgrade,
    migrate,
    upgrade,
)
from faultline.bot.store.tables import Base
from tests.databases import store_engine

NUMBERS = [version.number for version in all_versions()]
DESCRIBED = (people_tables, tables)
AT = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """The newest tables with two rows in each."""
    engine = store_engine(database_url)
    fill(engine)
    yield engine
    engine.dispose()


def fill(engine: Engine) -> None:
    """Two rows in every table; what refers to another row refers to the one of its number."""
    assert DESCRIBED
    with engine.begin() as connection:
        for table in Base.metadata.sorted_tables:
            for number in (1, 2):
                row = {column.name: value_for(column, number) for column in table.columns}
                connection.execute(insert(table).values(row))


def value_for(column: Any, number: int) -> Any:
    """A value that tells the two rows apart, with what databases are known to mangle."""
    if isinstance(column.type, JSON):
        return {"title": f"löst \u2028 {number}", "service": "checkout"}
    kind = getattr(column.type, "impl", column.type)
    if isinstance(kind, DateTime):
        return AT + timedelta(days=number, microseconds=number)
    if isinstance(kind, Boolean):
        return number == 1
    if isinstance(kind, Float):
        return 0.1 * number
    if isinstance(kind, Integer):
        return number
    named = (
        column.name in ("id", "investigation_id", "question_id")
        or column.unique
        or column.primary_key
    )
    return f"name-{number}" if named else f'it\'s \\ "{number}" é'


def rows_of(engine: Engine) -> Rows:
    """Every table's rows as the database gives them, whatever the models say."""
    tables = inspect(engine).get_table_names()
    rows: Rows = {}
    with engine.connect() as connection:
        for name in tables:
            if name.startswith("remembered_search") or name == "alembic_version":
                continue
            found = connection.exec_driver_sql(f"SELECT * FROM {name}").mappings()
            rows[name] = sorted((dict(row) for row in found), key=str)
    return rows


def only(rows: Rows, like: Rows) -> Rows:
    """The tables and columns that `like` has, too."""
    return {
        name: sorted(({c: row[c] for c in like[name][0]} for row in found), key=str)
        for name, found in rows.items()
        if like.get(name)
    }


INDEXES = {
    "sqlite": "SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
    "postgresql": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
}


def shape_of(engine: Engine) -> dict[str, list[str]]:
    """What each table consists of, and all indexes as the database writes them."""
    found = inspect(engine)
    with warnings.catch_warnings():
        # SQLAlchemy leaves out indexes on expressions, and says so.
        warnings.filterwarnings("ignore", message="Skipped unsupported reflection")
        parts = [found.get_multi_columns(), found.get_multi_foreign_keys()]
        parts += [found.get_multi_unique_constraints(), found.get_multi_pk_constraint()]
    shape = defaultdict(list)
    for part in parts:
        for (_, table), declared in part.items():
            shape[table] += declared if isinstance(declared, list) else [declared]
    # SQLite gives a column that was dropped and added again another place.
    in_order = {table: sorted(map(str, declared)) for table, declared in shape.items()}
    with engine.connect() as connection:
        written = connection.exec_driver_sql(INDEXES[engine.dialect.name]).scalars()
        return in_order | {"indexes": sorted(written)}


def upgrade_to(engine: Engine, version: str) -> None:
    """Up to this version, which may not be the newest."""
    from alembic import command

    with engine.begin() as connection:
        command.upgrade(_config(connection), version)


def test_each_step_down_and_up_again_keeps_what_the_version_below_knows(engine: Engine) -> None:
    # A way down or up is a row of such steps, so each of them is taken once.
    steps = zip(reversed(NUMBERS), [*reversed(NUMBERS[:-1]), NOTHING], strict=True)
    for above, below in steps:
        before, shape = rows_of(engine), shape_of(engine)
        downgrade(engine, below)
        with engine.connect() as connection:
            assert current_version(connection) == (None if below == NOTHING else below)
        older = rows_of(engine)
        assert all(len(found) == 2 for found in older.values()), f"{above}: a table lost rows"
        known = only(older, older)
        assert only(before, older) == known, f"{below}: what it knows is as it was"
        upgrade_to(engine, above)
        assert only(rows_of(engine), older) == known, f"{above}: the way up loses something"
        assert shape_of(engine) == shape, f"{above}: the tables are not as they were"
        downgrade(engine, below)


def test_from_nothing_up_to_what_the_models_describe(engine: Engine) -> None:
    tables = set(rows_of(engine))
    downgrade(engine, NOTHING)
    assert set(inspect(engine).get_table_names()) <= {"alembic_version"}
    upgrade(engine)
    assert set(rows_of(engine)) == tables
    from alembic import command

    with engine.begin() as connection:
        command.check(_config(connection))


def test_the_files_names_and_first_lines_are_what_alembic_reads_in_them(engine: Engine) -> None:
    from alembic.script import ScriptDirectory

    with engine.connect() as connection:
        scripts = ScriptDirectory.from_config(_config(connection))
        assert current_version(connection) == scripts.get_current_head()
    read = [Version(script.revision, script.doc) for script in scripts.walk_revisions()]
    assert list(all_versions()) == read[::-1]


def test_tables_that_are_up_to_date_are_left_alone_without_alembic(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alembic.command.upgrade", None)
    upgrade(engine)
    with engine.connect() as connection:
        assert current_version(connection) == NUMBERS[-1]


def test_a_database_of_a_newer_release_is_refused_and_left_as_it_is(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    before = rows_of(engine)
    for act in (migrate, lambda e: downgrade(e, "0001")):
        with pytest.raises(
            FaultlineError, match="newer than this program: its tables are version 9999"
        ) as refused:
            act(engine)
    assert f"faultline database downgrade {NUMBERS[-1]}" in str(refused.value)
    assert rows_of(engine) == before


def test_only_down_and_only_to_what_is_known(engine: Engine) -> None:
    with pytest.raises(FaultlineError, match="there is no version '42'"):
        downgrade(engine, "42")
    downgrade(engine, NUMBERS[-2])
    with pytest.raises(FaultlineError, match="is not below it"):
        downgrade(engine, NUMBERS[-1])


def test_the_commands_tell_what_is_lost_and_take_back_only_then(
    engine: Engine, database_url: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    given: dict[str, Any] = {"directory": tmp_path}
    if database_url.startswith("postgresql"):
        given["database"] = database_url
    settings = Settings.model_validate({"store": given})
    print_versions(settings)
    assert f"-> {NUMBERS[-1]}" in capsys.readouterr().out
    with pytest.raises(FaultlineError, match="this drops what these versions brought") as refused:
        take_back(settings, NUMBERS[-2], sure=False)
    assert all_versions()[-1].description in str(refused.value)
    take_back(settings, NUMBERS[-2], sure=True)
    assert f"-> {NUMBERS[-2]}" in capsys.readouterr().out
