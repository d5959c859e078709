"""Signing keys: their form, where they come from, and one file however many make it at once."""

import contextlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from support_agent.adapters.keys import ensure_key_file, key_file, load_keys, parse_keys
from support_agent.domain.errors import ConfigurationError

OLD, NEW = "0a" * 32, "1b" * 32
FIELDS = ("decision/1", "req_1", "250000")


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'shop.db'}"


def test_the_first_key_signs_and_every_key_verifies():
    before = parse_keys(f"old:{OLD}", source="test")
    rotated = parse_keys(f"new:{NEW}, old:{OLD}", source="test")
    after = parse_keys(f"new:{NEW}", source="test")

    key_id, mac = before.sign(FIELDS)
    new_id, new_mac = rotated.sign(FIELDS)

    assert (key_id, new_id) == ("old", "new")
    assert rotated.verify(FIELDS, key_id=key_id, mac=mac)
    assert rotated.verify(FIELDS, key_id=new_id, mac=new_mac)
    assert after.verify(FIELDS, key_id=new_id, mac=new_mac)
    assert not after.verify(FIELDS, key_id=key_id, mac=mac)
    assert not before.verify(FIELDS, key_id=new_id, mac=new_mac)


def test_a_key_verifies_nothing_under_another_name():
    keys = parse_keys(f"a:{OLD},b:{OLD}", source="test")
    _, mac = keys.sign(FIELDS)

    assert not keys.verify(FIELDS, key_id="b", mac=mac)


@pytest.mark.parametrize(
    "text",
    [
        "",
        OLD,
        f":{OLD}",
        f"k 1:{OLD}",
        f"khoá:{OLD}",
        f"{'k' * 33}:{OLD}",
        f"k1:{'0a' * 31}",
        f"k1:{OLD}f",
        f"k1:{'zz' * 32}",
        f"k1:{OLD},",
        f"k1:{OLD};k2:{NEW}",
        f"k1:{OLD}\nk2:{NEW}",
    ],
)
def test_a_malformed_key_is_refused_without_showing_it(text):
    with pytest.raises(ConfigurationError) as raised:
        parse_keys(text, source="SUPPORT_AGENT_SECURITY__KEYS")

    assert str(raised.value).startswith("SUPPORT_AGENT_SECURITY__KEYS: a key is malformed; write")
    assert OLD not in str(raised.value)


def test_two_keys_of_one_name_are_refused():
    with pytest.raises(ConfigurationError, match="'k1' is there twice"):
        parse_keys(f"k1:{OLD},k1:{NEW}", source="test")


def test_a_key_ring_does_not_show_its_keys():
    assert OLD not in repr(parse_keys(f"k1:{OLD}", source="test"))


def test_a_generated_file_holds_one_strong_key_for_its_owner_only(tmp_path):
    path = ensure_key_file(url_of(tmp_path / "var"))

    keys = load_keys(configured=None, database_url=url_of(tmp_path / "var"))

    assert path == tmp_path / "var" / "shop.keys"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [(name, len(secret)) for name, secret in keys.keys] == [("k1", 32)]
    assert os.listdir(path.parent) == ["shop.keys"]  # noqa: PTH208 - also what glob hides


def test_a_file_that_is_there_stays(tmp_path):
    path = ensure_key_file(url_of(tmp_path))
    before = path.read_bytes()

    assert ensure_key_file(url_of(tmp_path)) == path
    assert path.read_bytes() == before


def test_each_installation_gets_a_key_of_its_own(tmp_path):
    first, second = (ensure_key_file(url_of(tmp_path / name)) for name in ("a", "b"))

    assert first.read_bytes() != second.read_bytes()


def test_several_processes_at_once_get_one_file(tmp_path):
    program = (
        "import sys\n"
        "from support_agent.adapters.keys import ensure_key_file, load_keys\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
        "ensure_key_file(sys.argv[1])\n"
        "print(load_keys(configured=None, database_url=sys.argv[1]).keys[0][1].hex())\n"
    )
    command = [sys.executable, "-c", program, url_of(tmp_path / "var")]
    with contextlib.ExitStack() as stack:
        racers = [
            stack.enter_context(
                subprocess.Popen(  # noqa: S603 - our own program
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            for _ in range(6)
        ]
        assert {racer.stdout.readline() for racer in racers} == {"ready\n"}
        for racer in racers:
            racer.stdin.close()
        told = {racer.stdout.read() for racer in racers}

    assert [racer.returncode for racer in racers] == [0] * 6
    assert len(told) == 1
    assert os.listdir(tmp_path / "var") == ["shop.keys"]  # noqa: PTH208 - also what glob hides


def test_the_setting_wins_over_the_file(tmp_path):
    ensure_key_file(url_of(tmp_path))

    keys = load_keys(configured=SecretStr(f"own:{NEW}"), database_url=url_of(tmp_path))

    assert keys.keys == (("own", bytes.fromhex(NEW)),)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///var/support_agent.db", "var/support_agent.keys"),
        ("sqlite:////srv/a.b/shop.sqlite3", "/srv/a.b/shop.keys"),
        ("sqlite:///shop", "shop.keys"),
        ("postgresql://shop:secret@db/shop", "var/support_agent.keys"),
    ],
)
def test_the_file_lies_beside_a_sqlite_database(url, path):
    assert key_file(url) == Path(path)


@pytest.mark.parametrize("url", ["", "nonsense", "sqlite://", "sqlite:///:memory:", "mysql://x/y"])
def test_a_bad_address_is_told_before_any_key(url):
    for work in (ensure_key_file, lambda url: load_keys(configured=None, database_url=url)):
        with pytest.raises(ConfigurationError, match="SUPPORT_AGENT_DATABASE__URL: is not an addr"):
            work(url)


def test_who_has_no_database_is_told_to_make_one(tmp_path):
    with pytest.raises(ConfigurationError) as raised:
        load_keys(configured=None, database_url=url_of(tmp_path))

    assert raised.value.setting == "SUPPORT_AGENT_DATABASE__URL"
    assert "run `support-agent db upgrade`" in str(raised.value)


def test_a_database_without_its_keys_names_the_setting_and_the_file(tmp_path):
    (tmp_path / "shop.db").touch()

    with pytest.raises(ConfigurationError, match=r"SECURITY__KEYS: .* no key file 'shop\.keys'"):
        load_keys(configured=None, database_url=url_of(tmp_path))


@pytest.mark.parametrize("content", [b"", b"k1:short\n", "khoá".encode(), b"\xff\xfe"])
def test_a_damaged_file_is_named(tmp_path, content):
    (tmp_path / "shop.keys").write_bytes(content)

    with pytest.raises(ConfigurationError, match=r"shop\.keys"):
        load_keys(configured=None, database_url=url_of(tmp_path))


def test_a_folder_that_cannot_be_written_is_told_and_nothing_is_left(tmp_path):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(ConfigurationError, match=r"shop\.keys' cannot be written .*SECURITY__KEYS"):
        ensure_key_file(url_of(tmp_path / "file"))

    assert (tmp_path / "file").read_text() == "in the way"
