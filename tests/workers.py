"""Processes of their own for tests of races and crashes: imported once, forked, started together.

Run as `python -m tests.workers` with a JSON list of jobs on stdin; answers one JSON line a job, in
any order. A job that dies answers nothing.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support_agent.domain.errors import SupportAgentError
from support_agent.domain.refunds import RequestStatus
from support_agent.services.refunds import RefundLife
from tests.heart import ANSWERED, calls, open_shop_with
from tests.kit import open_shop

Job = dict[str, Any]


async def approve(url: str, request_id: str, name: str) -> str:
    """Approve and pay, as the terminal does."""
    async with open_shop(url) as shop:
        try:
            by = await shop.approver(name)
            await shop.container.approvals().approve(request_id, by=by)
        except SupportAgentError as error:
            return error.code
        return (await shop.container.payouts().pay(request_id)).status


async def file(url: str, conversation: str, quote_id: str, customer: str) -> str:
    """The customer says yes, the model files."""
    async with open_shop(url) as shop:
        result = await shop.say(
            "đồng ý",
            calls("request_refund", quote_id=quote_id),
            ANSWERED,
            customer=customer,
            conversation=conversation,
        )
        return result.requests[0].status if result.requests else result.answer


async def pay_and_die(url: str, request_id: str, point: str) -> str:
    """Pay, and be gone at the given point, as by a power cut."""
    async with open_shop_with(url) as plain:
        gateway = plain.container.gateway()
        refund = gateway.refund

        async def cut(instruction):
            if point == "attempt committed":
                os._exit(0)
            answer = await refund(instruction)
            if point == "refund executed":
                os._exit(0)
            return answer

        gateway.refund = cut
        life = Life(point, plain.container.life())
        async with open_shop_with(url, overrides={"gateway": gateway, "life": life}) as shop:
            return (await shop.container.payouts().pay(request_id)).status


class Life(RefundLife):
    """Dies inside a transaction, after what was written and before it is committed."""

    def __init__(self, point: str, life: RefundLife) -> None:
        super().__init__(clock=life._clock, books_only=life._books_only)
        self._point = point

    def transition(self, tx, request, to, **how):
        moved = super().transition(tx, request, to, **how)
        dies_at = {
            "attempt written": RequestStatus.PAYING,
            "outcome written": RequestStatus.REFUNDED,
        }
        if dies_at.get(self._point) is to:
            os._exit(0)
        return moved


WORK = {"approve": approve, "file": file, "pay_and_die": pay_and_die}


def main() -> None:
    jobs: list[Job] = json.load(sys.stdin)
    gate, starter = os.pipe()
    for job in jobs:
        if os.fork() == 0:
            os.close(starter)
            os.read(gate, 1)  # ends when the last holder of the other end lets go
            do = WORK[job.pop("do")]
            answer = json.dumps(asyncio.run(do(**job)))
            os.write(1, f"{answer}\n".encode())
            os._exit(0)
    os.close(starter)
    for _ in jobs:
        os.wait()


def run_together(jobs: list[Job]) -> list[Any]:
    """What the jobs answered, each in a process of its own, all started at once."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.workers"],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
        timeout=60,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    main()
