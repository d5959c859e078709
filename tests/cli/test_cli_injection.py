"""`approvals review` at a real terminal, with attacks in everything that others wrote."""

import asyncio
import re
from dataclasses import replace

from support_agent.domain.refunds import RequestStatus
from support_agent.ports.storage import RequestFilter
from tests.cli.terminal import environment_of
from tests.cli.test_cli_output import acted_on
from tests.heart import change_order, sample_shop
from tests.injection import CUSTOMER, LIMITS, corpus, hostile_lines, play
from tests.kit import open_shop

CASES = {case.id: case for case in corpus()}
# What a terminal would act on, lines that pass for facts, markup, tags that nobody sees.
MESSAGES = ("m35", "m63", "m73", "m74", "m62")
THOUGHT, PRODUCT, NOTE = "a05", "p15", "n04"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # of the box itself


async def _attack(url: str) -> str:
    """A request of a talk full of attacks, over an order whose texts are attacks too."""
    async with open_shop(url, limits=LIMITS) as shop:
        order = next(order for order in sample_shop().orders if order.id == "A100")
        lines = (replace(order.lines[0], name=CASES[PRODUCT].text), *order.lines[1:])
        await change_order(shop, "A100", lines=lines, note=CASES[NOTE].text)
        before = tuple(CASES[message].text for message in MESSAGES)
        await play(shop, replace(CASES[THOUGHT], before=before))
        waits = RequestFilter(status=RequestStatus.PENDING_APPROVAL, customer_id=CUSTOMER)
        page = await shop.read(lambda tx: tx.requests.list(waits, limit=2))
        return page.data[0].id


def test_a_reviewer_sees_attacks_as_text_in_their_box_below_the_facts(shop_url, sit_down):
    request_id = asyncio.run(_attack(shop_url))
    env = environment_of(shop_url, APPROVALS__PROOF="asserted")

    seat = sit_down("approvals", "review", "--as", "lan", "--lang", "en", env=env)
    seat.wait_for("[s]kip")
    seat.type(b"q")
    assert seat.exit_code() == 0

    seen = COLOURS.sub("", seat.seen).replace("\r\n", "\n")
    assert acted_on(seen) == set()
    facts, _, foreign = seen.partition("written by others")
    assert request_id in facts
    for name in (*MESSAGES, THOUGHT, PRODUCT, NOTE):
        for line in hostile_lines(CASES[name].text):
            assert line not in facts
    assert r"\x1b[2J" in foreign
    assert r"\u202e" in foreign
    assert "[bold green]OK[/bold green]" in re.sub(r"\s*│\n│\s*", " ", foreign)
    assert r"\U000e0072" in foreign
    framed = foreign.split("[a]pprove")[0].splitlines()[1:]
    assert all(line[:1] in "│╰╭" for line in framed if line.strip())
