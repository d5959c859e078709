"""The migrations make the schema that the tables describe, on both databases, all or nothing."""

import importlib.util
import json
import shutil
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from support_agent import resources
from support_agent.adapters.db import triggers
from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.migrations import downgrade, exclusive, upgrade
from support_agent.adapters.db.schema import KNOWN_REVISIONS, SCHEMA_REVISION, check_revision
from support_agent.adapters.db.tables import metadata
from support_agent.adapters.db.types import CompactJson
from support_agent.domain.errors import ConfigurationError
from support_agent.resources import resource_dir
from support_agent.testing.postgres import fresh_database
from tests.catalogue import catalogue

NOW = datetime(2026, 10, 13, 3, tzinfo=UTC)


@pytest.fixture
def described_url(empty_url: str) -> str:
    """A database made from the table classes and `triggers.py`, without any migration."""
    is_file = empty_url.startswith("sqlite")
    with exclusive(empty_url, create=True) as connection:
        metadata.create_all(connection)
        if not is_file:
            connection.exec_driver_sql(triggers.POSTGRES_FUNCTION.replace("%", "%%"))
        statements = triggers.sqlite_triggers() if is_file else triggers.postgres_triggers()
        for statement in statements.values():
            connection.exec_driver_sql(statement)
    return empty_url


@pytest.fixture
def migrated_url(described_url: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A migrated database of the same kind."""
    if described_url.startswith("sqlite"):
        url = f"sqlite:///{tmp_path / 'migrated.db'}"
    else:
        url = fresh_database(request.getfixturevalue("postgres"))
    upgrade(url, live=False)
    return url


def test_the_migrations_make_what_the_tables_describe(migrated_url):
    with exclusive(migrated_url) as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})

        assert compare_metadata(context, metadata) == []


def test_constraints_indexes_and_triggers_are_those_of_a_fresh_schema(described_url, migrated_url):
    described, migrated = catalogue(described_url), catalogue(migrated_url)

    assert migrated == described
    assert any(
        "status = 'running'" in text.replace("(", "").replace("::text", "")
        for text in migrated.values()
    )
    for table in triggers.APPEND_ONLY:
        assert any(table in text and "TRIGGER" in text for text in migrated.values()), table


def test_every_constraint_has_a_name_that_both_databases_can_hold():
    for table in metadata.tables.values():
        for constraint in table.constraints | table.indexes:
            assert constraint.name, f"{table.name}: {constraint!r} has no name"
            assert len(str(constraint.name)) <= 63, constraint.name


def test_no_row_is_deleted_because_another_one_is(migrated_url):
    for table in metadata.tables.values():
        for key in table.foreign_key_constraints:
            assert key.ondelete is None, key.name
    assert not [name for name, text in catalogue(migrated_url).items() if "CASCADE" in text]


def test_every_text_says_whose_data_it_is():
    columns = [column for table in metadata.tables.values() for column in table.columns]
    texts = [c for c in columns if isinstance(c.type, sa.String | CompactJson)]

    assert texts
    for column in texts:
        assert column.info.get("data_class") in {"personal", "books", "technical"}, str(column)


def test_the_programs_revision_is_the_newest_of_the_folder():
    config = Config()
    config.set_main_option("script_location", str(resource_dir() / "alembic"))
    oldest_first = [s.revision for s in ScriptDirectory.from_config(config).walk_revisions()][::-1]

    assert tuple(oldest_first) == KNOWN_REVISIONS
    assert oldest_first[-1] == SCHEMA_REVISION


def a_conversation(connection: sa.Connection) -> None:
    connection.execute(
        sa.insert(metadata.tables["conversations"]),
        {
            "id": "conv_1",
            "channel": "cli",
            "account": "default",
            "external_contact": "C001",
            "customer_id": "C001",
            "assurance": 2,
            "language": "vi",
            "created_at": NOW,
        },
    )


def test_the_first_upgrade_says_what_it_did_and_the_second_that_there_was_nothing(empty_url):
    first, second = upgrade(empty_url, live=False), upgrade(empty_url, live=False)

    assert (first.from_revision, first.to_revision, first.kind) == (None, SCHEMA_REVISION, "demo")
    assert (second.from_revision, second.to_revision) == (SCHEMA_REVISION, SCHEMA_REVISION)


def test_a_second_upgrade_keeps_rows_and_stamp(empty_url):
    upgrade(empty_url, live=False)
    with exclusive(empty_url) as connection:
        a_conversation(connection)
        before = connection.execute(sa.select(metadata.tables["installation"])).all()

    upgrade(empty_url, live=False)

    with exclusive(empty_url) as connection:
        assert connection.execute(sa.select(metadata.tables["installation"])).all() == before
        assert connection.execute(sa.select(metadata.tables["conversations"].c.id)).all() == [
            ("conv_1",)
        ]


def test_down_and_up_again_leaves_the_same_schema(empty_url):
    upgrade(empty_url, live=False)
    before = catalogue(empty_url)
    with exclusive(empty_url) as connection:
        a_conversation(connection)

    downgrade(empty_url, "base")
    with exclusive(empty_url) as connection:
        assert sa.inspect(connection).get_table_names() == ["alembic_version"]
    upgrade(empty_url, live=False)

    assert catalogue(empty_url) == before
    with exclusive(empty_url) as connection:
        assert connection.execute(sa.select(metadata.tables["conversations"].c.id)).all() == []
        assert connection.execute(sa.select(metadata.tables["audit_head"])).all() == [
            (1, 0, "genesis")
        ]


def test_an_upgrade_that_finds_a_dangling_row_changes_nothing(sqlite_url):
    path = sqlite_url.removeprefix("sqlite:///")
    message = (
        "INSERT INTO messages (conversation_id, seq, author, text, at) "
        "VALUES ('nowhere', 1, 'agent', 'x', '2026-10-13 00:00:00')"
    )
    with sqlite3.connect(path) as raw:  # its foreign keys are off
        raw.execute(message)
    raw.close()

    with pytest.raises(ConfigurationError, match="messages"):
        upgrade(sqlite_url, live=False)


def test_a_live_stamp_stays(empty_url):
    assert upgrade(empty_url, live=True).kind == "live"
    assert upgrade(empty_url, live=False).kind == "live"


def test_a_demo_database_never_becomes_live(empty_url):
    upgrade(empty_url, live=False)

    with pytest.raises(ConfigurationError, match="never becomes live"):
        upgrade(empty_url, live=True)

    assert upgrade(empty_url, live=False).kind == "demo"


def test_a_database_newer_than_the_program_is_left_alone(database_url):
    with exclusive(database_url) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(ConfigurationError, match=r"older than the database \(schema 9999\)"):
        upgrade(database_url, live=False)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ("0001", "at schema 0001, this program needs 0002; run `support-agent db upgrade`"),
        ("0003", "older than the database"),
        (None, "no tables yet; run `support-agent db upgrade`"),
    ],
)
def test_a_schema_that_is_not_ours_says_what_to_do(found, says):
    with sa.create_engine("sqlite://").connect() as connection:
        if found:
            connection.exec_driver_sql("CREATE TABLE alembic_version (version_num TEXT)")
            connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (found,))

        with pytest.raises(ConfigurationError, match=says) as refused:
            check_revision(connection, known=("0001", "0002"))

    assert refused.value.setting == "SUPPORT_AGENT_DATABASE__URL"


async def test_a_newer_database_is_refused_by_the_program(database_url, keys):
    with exclusive(database_url) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    database = SqlDatabase(database_url, keys)

    with pytest.raises(ConfigurationError, match="older than the database"):
        await database.check_schema()
    await database.aclose()


async def test_an_empty_postgres_database_is_refused_by_the_program(empty_postgres_url, keys):
    database = SqlDatabase(empty_postgres_url, keys)

    with pytest.raises(ConfigurationError, match="db upgrade"):
        await database.check_schema()
    with pytest.raises(ConfigurationError, match="db upgrade"):
        await database.read(lambda tx: tx.audit.head())
    await database.aclose()


@pytest.mark.parametrize("made", [False, True], ids=["missing", "empty"])
async def test_a_file_without_tables_is_refused_and_not_made(made, tmp_path, keys):
    path = tmp_path / "var" / "shop.db"
    if made:
        path.parent.mkdir()
        path.touch()
    database = SqlDatabase(f"sqlite:///{path}", keys)

    for attempt in (
        database.check_schema,
        lambda: database.read(lambda tx: tx.audit.head()),
        lambda: database.transact(lambda tx: tx.audit.head()),
    ):
        with pytest.raises(ConfigurationError, match="db upgrade"):
            await attempt()

    assert path.exists() is made
    await database.aclose()


def test_an_upgrade_makes_the_folder(tmp_path):
    upgrade(f"sqlite:///{tmp_path / 'var' / 'deep' / 'shop.db'}", live=False)

    assert (tmp_path / "var" / "deep" / "shop.db").is_file()


@pytest.mark.parametrize("where", ["a_file/shop.db", "a_folder", "not_a_database"])
def test_a_path_that_cannot_be_a_database_names_the_setting(where, tmp_path):
    (tmp_path / "a_file").write_text("")
    (tmp_path / "a_folder").mkdir()
    (tmp_path / "not_a_database").write_text("Xin chào " * 200)

    with pytest.raises(ConfigurationError) as refused:
        upgrade(f"sqlite:///{tmp_path / where}", live=False)

    assert refused.value.setting == "SUPPORT_AGENT_DATABASE__URL"
    assert where in str(refused.value)
    assert (tmp_path / "not_a_database").read_text() == "Xin chào " * 200


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shop.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite://var/shop.db",
        "sqlite:///shop.db?mode=ro",
        "mysql://root@localhost/shop",
        "postgresql://user:secret@host:port/shop",
    ],
)
def test_a_bad_address_names_the_setting_and_not_the_password(url, keys):
    with pytest.raises(ConfigurationError, match=r"sqlite:///var/support_agent\.db") as refused:
        SqlDatabase(url, keys)

    assert refused.value.setting == "SUPPORT_AGENT_DATABASE__URL"
    assert "secret" not in str(refused.value)


# One process that has imported everything forks the others, so that they start as one.
RACE = """
import json, multiprocessing, sys
from support_agent.adapters.db.migrations import upgrade

def one(url, barrier, answers):
    barrier.wait()
    try:
        answers.put(str(upgrade(url, live=False).from_revision))
    except BaseException as error:
        answers.put(repr(error))

fork = multiprocessing.get_context("fork")
url, count = sys.argv[1], int(sys.argv[2])
barrier, answers = fork.Barrier(count), fork.Queue()
processes = [fork.Process(target=one, args=(url, barrier, answers)) for _ in range(count)]
for process in processes:
    process.start()
print(json.dumps([answers.get(timeout=60) for _ in processes]))
for process in processes:
    process.join()
"""


def test_many_processes_upgrade_one_fresh_database_at_once(empty_url):
    run = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", RACE, empty_url, "8"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=Path(__file__).parents[2],
    )

    assert sorted(json.loads(run.stdout)) == [SCHEMA_REVISION] * 7 + ["None"]
    with exclusive(empty_url) as connection:
        assert len(connection.execute(sa.select(metadata.tables["installation"])).all()) == 1


def test_only_an_upgrade_imports_alembic():
    code = (
        "import sys; import support_agent.adapters.db.migrations, support_agent.adapters.db.database;"
        "print([name for name in sys.modules if name.startswith('alembic')])"
    )
    run = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )

    assert run.stdout.strip() == "[]"


def test_the_files_beside_the_code_are_found_in_a_checkout_and_in_a_wheel(tmp_path):
    assert (resource_dir() / "alembic" / "env.py").is_file()
    assert (resource_dir() / "data").is_dir()

    package = tmp_path / "site-packages" / "support_agent"
    (package / "_resources").mkdir(parents=True)
    copy = shutil.copy(str(resources.__file__), package / "resources.py")
    spec = importlib.util.spec_from_file_location("wheel_resources", copy)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    assert module.resource_dir() == package / "_resources"
