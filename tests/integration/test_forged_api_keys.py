"""Who can write the database makes no key, raises none and brings none back: nothing is signed."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.migrations import exclusive
from support_agent.domain.access import ApiKey, Scope
from support_agent.domain.errors import (
    ApproverDisabled,
    ApproverNotFound,
    KeyRefused,
    NotAuthorised,
    RecordChanged,
    SelfApproval,
)
from support_agent.domain.people import Approver
from support_agent.domain.refunds import RequestStatus
from support_agent.services.api_keys import every_key, key_text
from support_agent.services.authority import token_hash
from tests.api_kit import HOST
from tests.heart import add_approver, problems
from tests.kit import Shop, open_shop

SECRET = "of-somebody-with-a-hand-in-the-database"  # noqa: S105 - the attack
OURS = "SELECT * FROM api_keys WHERE id = :id"


def write(url: str, sql: str, **values: Any) -> None:
    with exclusive(url) as connection:
        assert connection.execute(sa.text(sql), values).rowcount == 1


async def made(shop: Shop, *scopes: Scope, **rest: Any) -> tuple[ApiKey, str]:
    scopes = scopes or (Scope.TASKS_READ,)
    name = rest.pop("name", "web")
    keys = shop.container.api_keys()
    return await keys.create(name=name, scopes=frozenset(scopes), by=HOST, **rest)


async def is_refused(shop: Shop, text: str, key: ApiKey) -> None:
    with pytest.raises(RecordChanged, match="audit verify"):
        await shop.container.api_keys().authenticate(text)
    assert any(f"API key '{key.id}'" in problem for problem in await problems(shop))


CHANGES = (
    "scopes = '[\"approvals:decide\"]'",
    "scopes = '[]'",
    "scopes = '{\"approvals:decide\": 1}'",
    "scopes = '7'",
    "scopes = 'tasks:read'",
    "approver = 'lan'",
    "name = 'other'",
    "channel = 'zalo', account = 'oa_1', assurance = 2",
    "assurance = 2",
    "expires_at = NULL",
    "expires_at = '2099-01-01 00:00:00.000000'",
    "created_at = '2000-01-01 00:00:00.000000'",
    "created_by = 'somebody'",
)


async def test_a_key_that_a_hand_changed_opens_nothing(shop_on_each: Shop):
    for n, change in enumerate(CHANGES):
        key, text = await made(shop_on_each, name=f"web{n}")
        write(shop_on_each.url, f"UPDATE api_keys SET {change} WHERE id = :id", id=key.id)  # noqa: S608 - the attack

        with pytest.raises(RecordChanged, match="audit verify"):
            await shop_on_each.container.api_keys().authenticate(text)

    told = [problem for problem in await problems(shop_on_each) if "not what" in problem]
    assert len(told) == len(CHANGES)


@pytest.mark.parametrize(
    "change",
    [
        "expires_at = 'garbage'",
        "revoked_at = '9999-99-99'",
        "created_at = 5",
        "expires_at = x'ff'",
        f"scopes = '{'[' * 100_000}'",
        "scopes = x'ff'",
        "secret_hash = x'ff'",
        "name = x'ff'",
        "approver = x'ff'",
        "created_by = x'ff'",
    ],
)
async def test_what_is_no_text_and_no_moment_stops_nothing_else(shop_url: str, change: str):
    """SQLite takes any value in any column."""
    async with open_shop(shop_url) as shop:
        key, text = await made(shop)
        other, other_text = await made(shop, name="other")
        write(shop_url, f"UPDATE api_keys SET {change} WHERE id = :id", id=key.id)  # noqa: S608 - the attack
        keys = shop.container.api_keys()

        with pytest.raises(RecordChanged if "secret_hash" not in change else KeyRefused):
            await keys.authenticate(text)
        assert (await keys.authenticate(other_text)).id == other.id
        assert any(f"API key '{key.id}'" in problem for problem in await problems(shop))
        both = (key.id, other.id)
        assert await shop.read(lambda tx: keys.good(tx, both)) == {other.id}
        assert len(await shop.read(lambda tx: tuple(every_key(tx)))) == 2


async def test_a_secret_that_was_swapped_opens_nothing(shop_on_each: Shop):
    key, text = await made(shop_on_each)
    swap = "UPDATE api_keys SET secret_hash = :hash WHERE id = :id"
    write(shop_on_each.url, swap, hash=token_hash(SECRET), id=key.id)

    await is_refused(shop_on_each, key_text(key.id, SECRET), key)
    with pytest.raises(KeyRefused):
        await shop_on_each.container.api_keys().authenticate(text)


async def test_a_hash_that_is_none_is_a_refusal_and_no_crash(shop_on_each: Shop):
    key, text = await made(shop_on_each)
    write(
        shop_on_each.url, "UPDATE api_keys SET secret_hash = 'mật khẩu' WHERE id = :id", id=key.id
    )

    with pytest.raises(KeyRefused):
        await shop_on_each.container.api_keys().authenticate(text)


@pytest.mark.parametrize("copied", [Scope.TASKS_READ, Scope.APPROVALS_DECIDE])
async def test_a_key_made_by_hand_or_copied_opens_nothing(shop_on_each: Shop, copied: Scope):
    decides = {"approver": "lan"} if copied is Scope.APPROVALS_DECIDE else {}
    key, _ = await made(shop_on_each, copied, **decides)
    forged = replace(key, id="key_forged", secret_hash=token_hash(SECRET))
    await shop_on_each.write(lambda tx: tx.api_keys.put(forged))

    await is_refused(shop_on_each, key_text(forged.id, SECRET), forged)
    assert "API key 'key_forged' has no history" in await problems(shop_on_each)


async def test_one_that_was_revoked_does_not_come_back(shop_on_each: Shop):
    key, text = await made(shop_on_each)
    await shop_on_each.container.api_keys().revoke(key.id, by=HOST)
    write(shop_on_each.url, "UPDATE api_keys SET revoked_at = NULL WHERE id = :id", id=key.id)

    await is_refused(shop_on_each, text, key)


async def test_a_key_that_is_gone_is_told(shop_on_each: Shop):
    key, text = await made(shop_on_each)
    write(shop_on_each.url, "DELETE FROM api_keys WHERE id = :id", id=key.id)

    with pytest.raises(KeyRefused):
        await shop_on_each.container.api_keys().authenticate(text)
    assert await problems(shop_on_each) == (f"API key '{key.id}' of the history is gone",)


async def test_a_change_by_us_does_not_sign_what_was_changed_by_hand(shop_on_each: Shop):
    key, _ = await made(shop_on_each)
    write(
        shop_on_each.url,
        "UPDATE api_keys SET scopes = '[\"tasks:write\"]' WHERE id = :id",
        id=key.id,
    )
    keys = shop_on_each.container.api_keys()

    with pytest.raises(RecordChanged):
        await keys.rotate(key.id, overlap=timedelta(0), by=HOST)


@pytest.mark.parametrize(
    "hand",
    [
        "UPDATE api_keys SET scopes = '[\"tasks:write\"]' WHERE id = :id",
        "UPDATE api_keys SET expires_at = '2000-01-01 00:00:00.000000' WHERE id = :id",
        "DELETE FROM api_keys WHERE id = :id",
    ],
)
async def test_no_hand_keeps_a_key_from_being_revoked(shop_on_each: Shop, hand: str):
    key, text = await made(shop_on_each)
    write(shop_on_each.url, hand, id=key.id)
    keys = shop_on_each.container.api_keys()

    revoked = await keys.revoke(key.id, by=HOST)

    assert replace(revoked, revoked_at=None) == key
    with pytest.raises(KeyRefused, match="revoked"):
        await keys.authenticate(text)
    assert await problems(shop_on_each) == ()


async def test_a_row_that_a_hand_wrote_keeps_no_name_from_us(shop_on_each: Shop):
    key, _ = await made(shop_on_each)
    forged = replace(key, id="key_forged", name="desk", scopes=frozenset({Scope.TASKS_WRITE}))
    await shop_on_each.write(lambda tx: tx.api_keys.put(forged))

    _, text = await made(shop_on_each, name="desk")

    assert (await shop_on_each.container.api_keys().authenticate(text)).name == "desk"


async def test_who_is_switched_off_reads_nothing_either(shop_on_each: Shop):
    _, text = await made(shop_on_each, Scope.APPROVALS_DECIDE, approver="lan", name="lan")
    await shop_on_each.container.approvers().set_disabled("lan", disabled=True, by=HOST)
    keys = shop_on_each.container.api_keys()

    with pytest.raises(KeyRefused, match="switched off"):
        await keys.authenticate(text)


async def test_keys_as_they_are_made_rotated_and_revoked_are_sound(shop_on_each: Shop):
    keys = shop_on_each.container.api_keys()
    key, _ = await made(shop_on_each)
    _, new, text = await keys.rotate(key.id, overlap=timedelta(hours=1), by=HOST)
    assert (await keys.authenticate(text)).id == new.id
    await keys.revoke(new.id, by=HOST)

    with pytest.raises(KeyRefused, match="revoked"):
        await keys.authenticate(text)
    assert await problems(shop_on_each) == ()


async def test_an_old_key_is_told_so_and_only_its_holder(shop: Shop):
    key, text = await made(shop, lives=timedelta(seconds=-1))

    with pytest.raises(KeyRefused, match="too old"):
        await shop.container.api_keys().authenticate(text)
    with pytest.raises(KeyRefused, match="not one of ours"):
        await shop.container.api_keys().authenticate(key_text(key.id, SECRET))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sak",
        "sak_",
        "sak__",
        "sak_x",
        "sak_x_",
        "sak__y",
        "key_a_b",
        "sak_\0_x",
        "sak_é_x",
        "x" * 9_999,
    ],
)
async def test_what_is_no_key_is_refused(shop: Shop, text: str):
    with pytest.raises(KeyRefused):
        await shop.container.api_keys().authenticate(text)


class TestDecider:
    async def test_the_approver_decides_and_no_name_says_who(self, shop: Shop):
        request = await shop.filed("A100")
        key, _ = await made(shop, Scope.APPROVALS_DECIDE, name="desk", approver="lan")

        by = await shop.container.api_keys().decider(key)
        await shop.container.approvals().approve(request.id, by=by)

        (decision,) = await shop.read(lambda tx: tx.decisions.of(request.id))
        assert (decision.name, decision.proof) == ("lan", "token")

    async def test_a_key_of_nobody_decides_nothing(self, shop: Shop):
        key, _ = await made(shop)

        with pytest.raises(NotAuthorised, match="no approver's"):
            await shop.container.api_keys().decider(key)

    async def test_an_approver_who_was_switched_off_decides_nothing(self, shop: Shop):
        request = await shop.filed("A100")
        key, _ = await made(shop, Scope.APPROVALS_DECIDE, name="desk", approver="lan")
        await shop.container.approvers().set_disabled("lan", disabled=True, by=HOST)
        by = await shop.container.api_keys().decider(key)

        with pytest.raises(ApproverDisabled):
            await shop.container.approvals().approve(request.id, by=by)
        assert (await shop.request(request.id)).status is RequestStatus.PENDING_APPROVAL

    async def test_an_approver_changed_by_hand_decides_nothing(self, shop_on_each: Shop):
        key, _ = await made(shop_on_each, Scope.APPROVALS_DECIDE, name="desk", approver="lan")
        write(shop_on_each.url, "UPDATE approvers SET level = 9 WHERE name = :name", name="lan")

        with pytest.raises(RecordChanged):
            await shop_on_each.container.api_keys().decider(key)

    @pytest.mark.parametrize("typed_as", ["lan", "lan.trang", "P-LAN"])
    async def test_who_typed_for_the_customer_does_not_decide_by_key(
        self, shop: Shop, typed_as: str
    ):
        """Also not under another name: all accounts of a person are that person."""
        own = {"person_id": "P-LAN", "level": 1, "limits": {"VND": 1}}
        await add_approver(shop, Approver(name="lan.trang", **own))
        quoted = await shop.quote("A100")
        call = {"tool": "request_refund", "arguments": {"quote_id": quoted.quotes[0].id}}
        filed = await shop.say(
            "đồng ý",
            call,
            {"answer": "Xong."},
            conversation=quoted.conversation_id,
            operator=typed_as,
        )
        key, _ = await made(shop, Scope.APPROVALS_DECIDE, name="desk", approver="lan")
        by = await shop.container.api_keys().decider(key)

        with pytest.raises(SelfApproval):
            await shop.container.approvals().approve(filed.requests[0].id, by=by)

    async def test_nobody_makes_a_key_for_an_approver_changed_by_hand(self, shop: Shop):
        write(shop.url, "UPDATE approvers SET level = 9 WHERE name = :name", name="lan")

        with pytest.raises(RecordChanged):
            await made(shop, Scope.APPROVALS_DECIDE, name="desk", approver="lan")
        with pytest.raises(ApproverNotFound):
            await made(shop, Scope.APPROVALS_DECIDE, name="desk", approver="mallory")


def test_a_key_looks_like_one_to_a_scanner_for_leaked_secrets():
    text = key_text("key_01ABC", "s_e-cret")

    assert re.fullmatch(r"sak_01ABC_[A-Za-z0-9_-]+", text)
