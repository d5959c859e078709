"""Budgets as a customer meets them: many small calls, several conversations, another day."""

import asyncio
import json
import threading
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from support_agent.adapters.db.database import SqlDatabase
from support_agent.domain.budget_wording import budget_sentence
from support_agent.domain.errors import ConfigurationError, DatabaseUnavailable
from support_agent.domain.reasons import Language
from support_agent.domain.runs import RunStatus, StopReason, Usage
from support_agent.domain.signing import KeyRing
from support_agent.domain.usage import Scope, UsageAccount
from support_agent.ports.model import ModelReply, ModelRequest
from support_agent.ports.storage import UsageFilter
from support_agent.ports.tool import Arguments
from tests.agent_kit import (
    CountingDatabase,
    FunctionModel,
    Reading,
    Writing,
    calls_of,
    forever,
    observations,
    open_agent,
    resume,
    rows,
    take,
)
from tests.cli.terminal import COMMAND, PATIENCE_S, environment_of
from tests.kit import Shop, open_shop

DAY = date(2026, 10, 13)
PROBE = {"tool": "probe", "arguments": {}}
LISTING = {"tool": "list_orders", "arguments": {}}


async def used(shop: Shop, scope: Scope, subject: str, day: date | None = DAY) -> Usage:
    where = UsageFilter(scope=scope, subject=subject, day=day)
    page = await shop.read(lambda tx: tx.usage.list(where, limit=1, cursor=None))
    return page.data[0].usage


async def tasks(shop: Shop, kind: str) -> list[str]:
    found = await shop.read(lambda tx: tx.tasks.list(open_only=True, limit=50))
    return [task.subject for task in found if task.kind == kind]


async def test_many_small_calls_use_up_what_one_conversation_may_have(shop_url: str):
    budgets = {"conversation_requests": 3}
    async with open_agent(shop_url, budgets=budgets) as shop:
        shop.model.play(*[{"answer": "Vâng."}] * 9)
        first = await take(shop, "Xin chào")
        talk = first.conversation_id
        rest = [await take(shop, "Còn ai đó không?", conversation=talk) for _ in range(4)]
        told = await tasks(shop, "usage.limit")

        assert [r.stop_reason for r in (first, *rest)] == [StopReason.ANSWERED] * 3 + [
            StopReason.TOKEN_BUDGET
        ] * 2
        assert len(shop.model.requests) == 3  # no model is asked when nothing is left
        assert rest[-1].status is RunStatus.STOPPED
        assert rest[-1].answer == budget_sentence(Scope.CONVERSATION, "vi")
        assert told == [f"conversation {talk}"]  # once, and the customer was told so
        assert (await used(shop, Scope.CONVERSATION, talk, None)).requests == 3

        elsewhere = await take(shop, "Xin chào")
        assert elsewhere.stop_reason is StopReason.ANSWERED


@pytest.mark.parametrize(
    ("limit", "scope", "language", "text"),
    [
        ("customer_day_requests", Scope.CUSTOMER, "vi", "Đơn của tôi đâu?"),
        ("customer_day_requests", Scope.CUSTOMER, "en", "Where is my order, please?"),
        ("channel_day_requests", Scope.CHANNEL, "vi", "Đơn của tôi đâu?"),
        ("installation_day_requests", Scope.INSTALLATION, "en", "Where is my order, please?"),
    ],
)
async def test_two_conversations_share_the_day_and_tomorrow_is_another(
    shop_url: str, limit: str, scope: Scope, language: Language, text: str
):
    async with open_agent(shop_url, budgets={limit: 1}) as shop:
        shop.model.play(*[{"answer": "Vâng."}] * 9)
        await take(shop, text)
        over = await take(shop, text)
        shop.clock.advance(timedelta(days=1))
        tomorrow = await take(shop, text)

        assert over.stop_reason is StopReason.TOKEN_BUDGET
        assert over.answer == budget_sentence(scope, language)
        assert len(await tasks(shop, "usage.limit")) == 1
        assert tomorrow.stop_reason is StopReason.ANSWERED


async def test_nobody_is_sent_to_a_new_conversation_that_would_be_refused_as_well(shop_url: str):
    budgets = {"conversation_requests": 1, "customer_day_requests": 1}
    async with open_agent(shop_url, budgets=budgets) as shop:
        shop.model.play({"answer": "Vâng."})
        first = await take(shop, "Xin chào")
        over = await take(shop, "Xin chào", conversation=first.conversation_id)

        assert over.answer == budget_sentence(Scope.CUSTOMER, "vi")
        assert await tasks(shop, "usage.limit") == ["customer C001"]


async def test_a_cost_budget_has_its_own_stop_reason(shop_url: str):
    paid = FunctionModel(lambda _: "Vâng.", Usage(requests=1, cost_micros=40))
    async with open_agent(shop_url, model=paid, budgets={"customer_day_cost_micros": 39}) as shop:
        first, second = await take(shop, "Xin chào"), await take(shop, "Xin chào")

    # The scripted model has no price, so nothing could be held: what it said it cost counts.
    assert first.stop_reason is StopReason.ANSWERED
    assert second.stop_reason is StopReason.COST_BUDGET


async def test_a_limit_in_the_middle_of_a_run_lets_its_tools_finish_and_it_can_be_resumed(
    shop_url: str,
):
    writing = Writing(lambda tx, c: None)
    async with open_agent(
        shop_url, tools=[Reading(), writing], budgets={"customer_day_requests": 2}
    ) as shop:
        shop.model.play(PROBE, {"tool": "write"}, {"answer": "Xong."})
        stopped = await take(shop, "A100?")
        again = await resume(shop, stopped.run_id)

        assert stopped.stop_reason is again.stop_reason is StopReason.TOKEN_BUDGET
        assert [observation.ok for observation in observations(stopped)] == [True, True]
        assert (await used(shop, Scope.CUSTOMER, "C001")).requests == 2

    async with open_agent(
        shop_url, tools=[Reading(), writing], budgets={"customer_day_requests": 3}
    ) as shop:
        shop.model.play({"answer": "Xong."})
        resumed = await resume(shop, stopped.run_id)

        assert (resumed.stop_reason, resumed.answer) == (StopReason.ANSWERED, "Xong.")
        assert resumed.usage.requests == 3  # the counters went on
        assert (await used(shop, Scope.CUSTOMER, "C001")).requests == 3
        assert writing.ran == 1


@pytest.mark.parametrize(
    ("script", "counted"),
    [
        (
            ({**PROBE, "usage": {"input_tokens": 500, "output_tokens": 20}}, {"answer": "Vâng."}),
            Usage(requests=2, input_tokens=500, output_tokens=20),
        ),
        (
            ({"error": "garbage", "usage": {"input_tokens": 300}}, {"answer": "Vâng."}),
            Usage(requests=2, input_tokens=300),
        ),
        (({"error": "503"},), Usage(requests=1)),
        (
            ({"ask": "Đơn nào ạ?", "usage": {"output_tokens": 9}},),
            Usage(requests=1, output_tokens=9),
        ),
    ],
)
async def test_however_a_run_ends_its_holds_are_settled(shop_url: str, script, counted: Usage):
    async with open_agent(shop_url, tools=[Reading()]) as shop:
        shop.model.play(*script)
        result = await take(shop, "A100?")

        for scope, subject, day in (
            (Scope.CONVERSATION, result.conversation_id, None),
            (Scope.CUSTOMER, "C001", DAY),
            (Scope.CHANNEL, "cli", DAY),
            (Scope.INSTALLATION, "installation", DAY),
        ):
            assert await used(shop, scope, subject, day) == counted


async def test_a_cancelled_call_counts_what_it_sent_and_holds_no_more(shop_url: str):
    asked = asyncio.Event()

    async def hang(_: object) -> None:
        asked.set()
        await forever()

    async with open_agent(shop_url, model=FunctionModel(hang)) as shop:
        turn = asyncio.create_task(take(shop, "A100?"))
        await asked.wait()
        held = await used(shop, Scope.CUSTOMER, "C001")
        turn.cancel()
        await asyncio.wait([turn])

        settled = await used(shop, Scope.CUSTOMER, "C001")
        assert (held.requests, held.output_tokens) == (1, 1024)
        assert settled == Usage(requests=1, input_tokens=held.input_tokens)


async def test_two_turns_at_once_of_one_customer_share_what_is_left(shop_url: str):
    async with open_agent(shop_url, budgets={"customer_day_requests": 3}) as shop:
        shop.model.play(*[{"answer": "Vâng."}] * 9)
        results = await asyncio.gather(*(take(shop, "Xin chào") for _ in range(6)))

        reasons = sorted(result.stop_reason for result in results)
        assert reasons == [StopReason.ANSWERED] * 3 + [StopReason.TOKEN_BUDGET] * 3
        assert (await used(shop, Scope.CUSTOMER, "C001")).requests == 3


async def test_a_commit_that_fails_has_counted_nothing(shop_url: str):
    """The turn is closed after it, and counts then what the model had cost."""

    class Failing(CountingDatabase):
        def transact(self, fn, *, durable=True):
            def work(tx):
                fn(tx)
                if not durable:
                    raise DatabaseUnavailable("gone for a moment")

            return super().transact(fn if durable else work, durable=durable)

    database = Failing(shop_url, KeyRing(keys=(("test", b"5" * 32),)))
    async with open_agent(shop_url, tools=[Reading()], database=database) as shop:
        shop.model.play({**PROBE, "usage": {"input_tokens": 700, "output_tokens": 8}})
        with pytest.raises(DatabaseUnavailable):
            await take(shop, "A100?")

        counted = await used(shop, Scope.CUSTOMER, "C001")
        assert counted == Usage(requests=1, input_tokens=700, output_tokens=8)
    await database.aclose()


async def test_a_step_takes_no_transaction_for_its_budget(shop_url: str):
    database = CountingDatabase(shop_url, KeyRing(keys=(("test", b"5" * 32),)))
    async with open_agent(shop_url, tools=[Reading()], database=database) as shop:
        shop.model.play(PROBE, PROBE, {"answer": "Vâng."})
        before = database.relaxed
        await take(shop, "A100?")

        assert database.relaxed - before == 3 + 2  # decisions and observations
    await database.aclose()


async def test_a_large_observation_is_held_before_it_is_sent(shop_url: str):
    large = Reading(lambda: {"text": "chữ " * 9000})
    async with open_agent(shop_url, tools=[large], budgets={"customer_day_tokens": 8_000}) as shop:
        shop.model.play(PROBE, {"answer": "Vâng."})
        result = await take(shop, "A100?")

    assert result.stop_reason is StopReason.TOKEN_BUDGET
    assert len(shop.model.requests) == 1
    assert result.answer == budget_sentence(Scope.CUSTOMER, "vi")


@pytest.fixture
def dear(tmp_path: Path) -> dict[str, object]:
    """A model whose output costs 100 micro-USD a token, and its input nothing."""
    sheet = tmp_path / "prices.toml"
    sheet.write_text('[models."dear"]\ninput = 0\noutput = 100_000_000\n', encoding="utf-8")
    return {"kind": "openai", "name": "dear", "prices": sheet, "max_output_tokens": 200}


async def test_an_answer_is_limited_to_what_the_runs_money_pays_for(shop_url: str, dear):
    limits = {"max_cost_micros": 30_000}
    async with open_shop(shop_url, limits=limits, model=dear) as shop:
        shop.model.play({**LISTING, "usage": {"cost_micros": 20_000}}, {"answer": "Vâng."})
        result = await take(shop, "A100?")

    assert [request.max_output_tokens for request in shop.model.requests] == [300, 100]
    assert result.stop_reason is StopReason.ANSWERED


async def test_a_call_that_the_rest_of_the_money_may_not_pay_for_is_not_made(shop_url: str, dear):
    budgets = {"customer_day_cost_micros": 39_999}  # one call holds 200 times 100
    async with open_shop(shop_url, budgets=budgets, model=dear) as shop:
        shop.model.play({**LISTING, "usage": {"cost_micros": 20_000}}, {"answer": "Vâng."})
        result = await take(shop, "A100?")

    assert len(shop.model.requests) == 1
    assert result.stop_reason is StopReason.COST_BUDGET
    assert result.answer == budget_sentence(Scope.CUSTOMER, "vi")


@pytest.mark.parametrize(
    ("sections", "setting"),
    [
        ({"budgets": {"conversation_tokens": 1000}}, "BUDGETS__CONVERSATION_TOKENS"),
        ({"budgets": {"channel_day_tokens": 1}}, "BUDGETS__CHANNEL_DAY_TOKENS"),
        ({"limits": {"max_tokens": 300}}, "LIMITS__MAX_TOKENS"),
    ],
)
async def test_a_limit_below_one_call_is_refused_by_its_name(shop_url: str, sections, setting):
    async with open_agent(shop_url, **sections) as shop:
        with pytest.raises(ConfigurationError, match=f"^SUPPORT_AGENT_{setting}: .* single model"):
            await take(shop, "A100?")


@pytest.mark.parametrize(
    ("sections", "setting"),
    [
        ({"budgets": {"customer_day_cost_micros": 9}}, "BUDGETS__CUSTOMER_DAY_COST_MICROS"),
        ({"limits": {"max_cost_micros": 9}}, "LIMITS__MAX_COST_MICROS"),
    ],
)
async def test_a_limit_of_cost_needs_the_models_price(shop_url: str, sections, setting):
    """Without one every call would count as free, and the limit would hold nothing."""
    unpriced = {"kind": "openai", "name": "not-in-the-sheet"}
    async with open_shop(shop_url, model=unpriced, **sections) as shop:
        with pytest.raises(ConfigurationError, match=f"SUPPORT_AGENT_{setting}: .*no price"):
            await take(shop, "A100?")


async def test_a_process_that_is_killed_in_a_call_keeps_its_hold(shop_url: str, tmp_path: Path):
    script = tmp_path / "script.jsonl"
    script.write_text('{"answer": "Vâng.", "delay_s": 60}\n', encoding="utf-8")
    asking = environment_of(
        shop_url, MODEL__KIND="scripted", MODEL__SCRIPT=str(script), APPROVALS__PROOF="asserted"
    )
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "ask", "Xin chào", "--customer", "C001", env=asking, cwd=tmp_path
    )
    try:
        give_up = time.monotonic() + PATIENCE_S
        while not rows(shop_url, "SELECT * FROM usage_counters"):
            assert process.returncode is None
            assert time.monotonic() < give_up
            await asyncio.sleep(0.05)
    finally:
        process.kill()
        await process.wait()

    [(talk, requests)] = rows(
        shop_url, "SELECT subject, requests FROM usage_counters WHERE scope = 'conversation'"
    )
    assert requests == 1
    async with open_shop(shop_url, budgets={"customer_day_requests": 2}) as shop:
        held = await used(shop, Scope.CUSTOMER, "C001")
        answered = await shop.say("Xin chào")
        refused = await shop.say("Xin chào")

        assert held.output_tokens == 1024
        assert answered.stop_reason is StopReason.ANSWERED
        assert refused.stop_reason is StopReason.TOKEN_BUDGET  # what was held stays counted
        assert answered.conversation_id != talk


@pytest.mark.parametrize("most", [3_000, 4_321, 9_000])
async def test_a_model_that_takes_all_it_may_stays_within_the_runs_tokens(shop_url: str, most: int):
    """The server counts what the view was estimated at, and each answer is as long as allowed."""

    class Greedy:
        asked = 0

        async def decide(self, request: ModelRequest) -> ModelReply:
            output = min(1024, request.max_output_tokens or 0)
            view = shop.container.views().whole(request.turns).tokens
            self.asked += 1
            return ModelReply(
                decision=calls_of(request, [("probe", json.dumps({"n": self.asked}))]),
                usage=Usage(requests=1, input_tokens=view, output_tokens=output),
            )

        async def aclose(self) -> None:
            pass

    class Numbered(Arguments):
        n: int

    greedy, probe = Greedy(), Reading(arguments=Numbered)
    limits = {"max_tokens": most, "max_steps": 50}
    async with open_agent(shop_url, tools=[probe], model=greedy, limits=limits) as shop:
        result = await take(shop, "A100?")

    assert result.stop_reason is StopReason.TOKEN_BUDGET
    assert most - 1_200 < result.usage.tokens <= most


class FailsWhenCancelled(SqlDatabase):
    """Once armed, the next commit of a step is cancelled, and fails too."""

    armed = False

    def transact(self, fn: Any, *, durable: bool = True) -> Any:
        if durable or not self.armed:
            return super().transact(fn, durable=durable)
        self.armed = False
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        cancelled = threading.Event()

        def cancel() -> None:
            assert task is not None
            task.cancel()
            loop.call_soon(cancelled.set)

        def broken(tx: Any) -> None:
            fn(tx)
            loop.call_soon_threadsafe(cancel)
            cancelled.wait(PATIENCE_S)
            raise DatabaseUnavailable("gone")

        # On the writer's thread, where a commit can be cancelled while it is under way.
        return self._writing.run(lambda: self._write(self._engines.relaxed, broken))


async def test_what_was_cancelled_and_failed_takes_nothing_off_what_others_used(shop_url: str):
    async with open_shop(shop_url) as shop:
        keys: KeyRing = shop.container.keys()
    database = FailsWhenCancelled(shop_url, keys)
    small = Usage(requests=1, input_tokens=7)
    model = FunctionModel(lambda _: [("probe", "{}")], small)
    async with open_agent(shop_url, tools=[Reading()], model=model, database=database) as shop:
        other = UsageAccount(conversation_id="con_other", customer_id="C001", channel="cli")
        before = Usage(requests=5, input_tokens=50_000)
        await shop.write(lambda tx: tx.usage.move(other, DAY, add=before, take=Usage()))
        database.armed = True
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(take(shop, "A100?"))

        assert await used(shop, Scope.CUSTOMER, "C001") == before + small
    await database.aclose()
