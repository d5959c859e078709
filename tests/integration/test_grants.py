"""On PostgreSQL the role that works owns nothing and may do what the program needs, no more."""

import json
from collections.abc import Iterator

import psycopg
import pytest
from typer.testing import CliRunner

from support_agent.adapters.db.grants import COLUMNS, RIGHTS
from support_agent.adapters.db.personal import OF_CONVERSATIONS, OF_CUSTOMER
from support_agent.adapters.db.tables import metadata
from support_agent.adapters.db.triggers import APPEND_ONLY, ERASABLE
from support_agent.cli.app import app
from tests.kit import KEYS
from tests.roles import PREFIX, Installed, Roles, installed, two_roles


@pytest.fixture
def roles(postgres: str) -> Iterator[Roles]:
    with two_roles(postgres) as made:
        yield made


@pytest.fixture
def fresh(roles: Roles, tmp_path, monkeypatch) -> Installed:
    """Nothing is upgraded yet."""
    monkeypatch.chdir(tmp_path)
    return installed(roles)


@pytest.fixture(scope="module")
def shop(postgres: str) -> Iterator[Installed]:
    """Upgraded and seeded; shared, for what is refused changes nothing."""
    with two_roles(postgres) as made:
        one = installed(made)
        one.set_up()
        yield one


class TestTheTable:
    """Rights are written down once, for every table there is."""

    def test_it_names_every_table_and_no_other(self):
        assert set(RIGHTS) == {*metadata.tables, "alembic_version"}

    @pytest.mark.parametrize("table", APPEND_ONLY)
    def test_what_is_append_only_may_at_most_be_added_to(self, table):
        assert not {"UPDATE", "DELETE"} & set(RIGHTS[table])
        assert table not in COLUMNS or COLUMNS[table] == ERASABLE[table].personal

    def test_what_privacy_erases_it_may_erase(self):
        for reach in (*OF_CONVERSATIONS, *OF_CUSTOMER):
            table = reach.table.name
            if reach.deleted is not None:
                assert "DELETE" in RIGHTS[table]
            elif not set(reach.emptied) <= set(COLUMNS.get(table, ())):
                assert "UPDATE" in RIGHTS[table]

    def test_a_column_that_may_be_updated_is_there(self):
        for table, columns in COLUMNS.items():
            assert set(columns) <= {*metadata.tables[table].columns.keys()}


FORBIDDEN = [
    "UPDATE audit_events SET mac = mac",
    "DELETE FROM audit_events",
    "TRUNCATE audit_events",
    "UPDATE ledger_entries SET amount_minor = 1",
    "DELETE FROM ledger_entries",
    "UPDATE refund_decisions SET amount_minor = 1",
    "DELETE FROM refund_decisions",
    "UPDATE policies SET version = version",
    "DELETE FROM policy_activations",
    "UPDATE installation SET kind = 'live'",
    "INSERT INTO installation SELECT * FROM installation",
    "UPDATE payout_destinations SET customer_id = 'C002'",
    "UPDATE ledger_payouts SET amount_minor = 1",
    "DELETE FROM ledger_payouts",
    "UPDATE shop_payments SET captured_minor = captured_minor * 10",
    "UPDATE shop_orders SET customer_id = 'C002'",
    "DELETE FROM refund_requests",
    "UPDATE alembic_version SET version_num = '9999'",
    "ALTER TABLE audit_events DISABLE TRIGGER ALL",
    "DROP TRIGGER audit_events_append_only ON audit_events",
    "DROP TABLE tasks",
    "ALTER TABLE tasks ADD COLUMN x int",
    "CREATE TABLE mine (x int)",
    "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE sql AS 'SELECT 1'",
    "SET session_replication_role = replica",
]


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_the_database_itself_refuses_the_worker(shop, statement):
    with (
        psycopg.connect(shop.roles.worker) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement.encode())


def test_the_owner_is_held_by_the_triggers_that_the_worker_cannot_reach(shop):
    """Who asks whether the statements above are refused for the right reason: the owner gets on."""
    with (
        psycopg.connect(shop.roles.owner) as connection,
        pytest.raises(psycopg.errors.IntegrityConstraintViolation),
    ):
        connection.execute(b"DELETE FROM audit_events")


class TestUpgrade:
    def test_the_owner_owns_and_the_worker_works(self, fresh):
        assert fresh.upgrade()["granted_to"] == fresh.roles.worker_name
        fresh("db", "seed", DATABASE__MIGRATE_URL=fresh.roles.owner)

        asked = fresh.json("ask", "Đơn A100 có được hoàn tiền không?", "--customer", "C001")

        assert "250.000" in asked["answer"]
        with psycopg.connect(fresh.roles.superuser) as connection:
            owners = connection.execute(
                "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'"
            ).fetchall()
        assert owners == [(fresh.roles.owner_name,)]

    def test_a_right_that_was_given_by_hand_is_taken_back_by_the_next_one(self, fresh):
        fresh.upgrade()
        fresh.roles.as_superuser(
            f"GRANT ALL ON audit_events TO {fresh.roles.worker_name}",
            f"GRANT UPDATE (body) ON policies TO {fresh.roles.worker_name}",
            "GRANT DELETE ON ledger_entries TO PUBLIC",
        )

        fresh.upgrade()

        for statement in ("DELETE FROM audit_events", "UPDATE policies SET body = body"):
            with (
                psycopg.connect(fresh.roles.worker) as connection,
                pytest.raises(psycopg.errors.InsufficientPrivilege),
            ):
                connection.execute(statement.encode())

    def test_the_worker_alone_cannot_upgrade_and_is_told_what_is_missing(self, fresh):
        error = fresh.error("db", "upgrade")

        assert error["code"] == "CONFIGURATION"
        assert "permission denied" in error["message"]
        assert "DATABASE__MIGRATE_URL" in error["message"]

    def test_a_right_that_the_queue_lacks_is_named_with_what_gives_it(self, fresh):
        queue = {"QUEUE__KIND": "procrastinate"}
        fresh.upgrade(**queue)
        fresh("db", "seed", DATABASE__MIGRATE_URL=fresh.roles.owner, **queue)
        fresh.roles.as_superuser(f"REVOKE ALL ON procrastinate_jobs FROM {fresh.roles.worker_name}")

        checks = fresh.json("doctor", "--deep", code=1, **queue)["checks"]

        [wrong] = [check for check in checks if check["level"] == "fail"]
        assert wrong["name"] == "rights"
        assert "lacks SELECT procrastinate_jobs" in wrong["detail"]
        assert "db upgrade" in wrong["detail"]

    def test_a_role_that_is_not_there_is_named_with_the_statement_that_makes_it(self, fresh):
        gone = fresh.roles.worker.replace(fresh.roles.worker_name, "nobody_at_all")

        error = fresh.error(
            "db", "upgrade", DATABASE__URL=gone, DATABASE__MIGRATE_URL=fresh.roles.owner
        )

        assert "CREATE ROLE" in error["message"]
        assert tables_in(fresh.roles) == 0

    @pytest.mark.parametrize(
        ("given", "says"),
        [
            ("ALTER ROLE {worker} SUPERUSER", "NOSUPERUSER"),
            ("ALTER ROLE {worker} CREATEROLE", "NOCREATEROLE"),
            ("GRANT {owner} TO {worker}", "REVOKE"),
            ("CREATE TABLE theirs (x int); ALTER TABLE theirs OWNER TO {worker}", "REASSIGN OWNED"),
        ],
    )
    def test_a_role_that_rights_do_not_bind_is_refused_before_anything_changes(
        self, fresh, given, says
    ):
        names = {"worker": fresh.roles.worker_name, "owner": fresh.roles.owner_name}
        fresh.roles.as_superuser(*given.format(**names).split("; "))
        before = tables_in(fresh.roles)

        error = fresh.error("db", "upgrade", DATABASE__MIGRATE_URL=fresh.roles.owner)

        assert says in error["message"]
        assert tables_in(fresh.roles) == before

    def test_the_words_that_say_what_to_run_are_true(self, fresh):
        """An installation that one role made is handed to an owner with the statement it prints."""
        fresh.roles.as_superuser(f"GRANT CREATE ON SCHEMA public TO {fresh.roles.worker_name}")
        fresh("db", "upgrade")
        told = fresh.error("db", "upgrade", DATABASE__MIGRATE_URL=fresh.roles.owner)["message"]
        statement = told.rpartition("run: ")[2]

        fresh.roles.as_superuser(statement)

        assert fresh.upgrade()["granted_to"] == fresh.roles.worker_name


def tables_in(roles: Roles) -> int:
    with psycopg.connect(roles.superuser) as connection:
        row = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        return int(row.fetchone()[0])


@pytest.mark.parametrize(
    ("migrate_url", "url", "setting", "says"),
    [
        ("postgresql://o@h/other", "postgresql://w@h/shop", "MIGRATE_URL", "another server"),
        ("postgresql://o@g/shop", "postgresql://w@h/shop", "MIGRATE_URL", "another server"),
        ("postgresql://o@h:5433/shop", "postgresql://w@h/shop", "MIGRATE_URL", "another server"),
        ("postgresql://w@h/shop", "postgresql://w:x@h/shop", "MIGRATE_URL", "is to own"),
        ("postgresql://o@h/shop", "postgresql://h/shop", "URL", "must name the role"),
        ("postgresql://o@h/shop", "sqlite:///shop.db", "MIGRATE_URL", "is for PostgreSQL"),
        ("sqlite:///shop.db", "sqlite:///shop.db", "MIGRATE_URL", "is for PostgreSQL"),
        ("hunter2", "postgresql://w@h/shop", "MIGRATE_URL", "not an address"),
        ("postgresql://o:hunter2@127.0.0.1:1/s", "postgresql://w@127.0.0.1:1/s", None, "cannot"),
    ],
)
def test_two_addresses_that_are_not_two_roles_of_one_database_are_refused(
    monkeypatch, tmp_path, migrate_url, url, setting, says
):
    monkeypatch.chdir(tmp_path)
    env = {
        f"{PREFIX}DATABASE__URL": url,
        f"{PREFIX}DATABASE__MIGRATE_URL": migrate_url,
        f"{PREFIX}DATABASE__BUSY_SECONDS": "2",
        f"{PREFIX}SECURITY__KEYS": KEYS,
    }
    result = CliRunner().invoke(app, ["db", "upgrade", "--json"], env=env)
    error = json.loads(result.stderr.splitlines()[-1])["error"]

    assert says in error["message"]
    assert "hunter2" not in result.output
    assert result.exit_code == (2 if setting else 6)
    if setting:
        assert error["setting"] == f"{PREFIX}DATABASE__{setting}"
    else:
        assert "DATABASE__MIGRATE_URL" in error["message"]
    assert not list(tmp_path.iterdir())


def test_the_same_port_written_out_is_the_same_place():
    from support_agent.adapters.db.grants import check_roles  # noqa: PLC0415 - for this only

    role = check_roles("postgresql://o@h:5432/shop", "postgresql+psycopg://w@h/shop")
    assert role == "w"


def test_settings_show_neither_address():
    from support_agent.settings import Settings  # noqa: PLC0415 - for this only

    settings = Settings(
        _env_file=None, database={"url": "sqlite:///x.db", "migrate_url": "postgresql://o:pw@h/d"}
    )
    assert "pw" not in repr(settings)
    assert settings.of_owner.database.url == "postgresql://o:pw@h/d"
