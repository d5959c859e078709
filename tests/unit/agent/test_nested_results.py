"""A result that nests deeper than Python recurses breaks no run."""

import pytest

from support_agent.agent.claims import needs_note
from support_agent.agent.digests import digest
from support_agent.domain.runs import ToolCall
from support_agent.ports.model import ToolResult


@pytest.mark.parametrize("depth", [300, 600, 900, 30_000])
def test_a_deeply_nested_result_is_digested_and_read(depth: int):
    text = "[" * depth + "1" + "]" * depth
    call = ToolCall(id="rn_1:1:0", provider_id="c", name="probe", arguments="{}")
    turns = [ToolResult(call=call, content=text)]

    assert len(digest(text)) <= 200
    assert needs_note("Tổng 250.000 ₫.", turns, stands_alone=True)
