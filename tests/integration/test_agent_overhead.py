"""The runner of the framework comparison: what it runs is the product, and every row is counted."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support_agent.testing.model_server import ModelServer, ServerReply, answer, calls

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "agent_overhead.py"
RUNS = 3  # the first one and two that are measured
LOOKUP = calls(("lookup_order", '{"order_id":"A100"}'))
POLICY = calls(("refund_policy", "{}"))
REFUND = calls(("refund_order", '{"order_id":"A100","amount":250000}'))
ELIGIBLE = answer("Có, đơn A100 mới qua 12 ngày.")
REFUNDED = answer("Đã hoàn 250000 VND cho đơn A100.")


def run(scenario: str, folder: Path, *replies: ServerReply) -> tuple[Any, ModelServer]:
    """The runner in a process of its own, one run after another, and the server it asked."""
    with ModelServer(replies * RUNS) as server:
        options = {
            "--base-url": server.base_url,
            "--scenario": scenario,
            "--runs": str(RUNS - 1),
            "--warmup": "0",
            "--dir": str(folder),
        }
        command = [
            sys.executable,
            str(SCRIPT),
            *(part for item in options.items() for part in item),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own script
    return done, server


@pytest.mark.parametrize(
    ("scenario", "replies"),
    [
        ("a100", (LOOKUP, POLICY, ELIGIBLE)),
        ("steps-4", (LOOKUP, LOOKUP, LOOKUP, LOOKUP, ELIGIBLE)),
        ("hitl", (LOOKUP, REFUND, REFUNDED)),
    ],
)
def test_each_run_does_the_whole_job_and_leaves_all_its_rows(
    tmp_path: Path, scenario: str, replies: tuple[ServerReply, ...]
):
    done, server = run(scenario, tmp_path, *replies)

    assert (done.returncode, done.stderr) == (0, "")
    line = json.loads(done.stdout.splitlines()[-1])
    assert (line["scenario"], line["runs"], line["warmup_runs"]) == (scenario, 2, 1)
    assert line["wrong_answers"] == 0
    assert line["refunds"] == (RUNS if scenario == "hitl" else 0)
    assert line["cpu_ms_per_run"] > 0
    assert line["state_bytes_per_run"] > 0
    assert len(server.requests) == RUNS * len(replies)
    assert {request.json["model"] for request in server.requests} == {scenario}
    first, second, *_ = server.requests
    tools = [tool["function"]["name"] for tool in first.json["tools"]]
    assert tools[:2] == ["lookup_order", "refund_policy"]  # no more than the others are given
    assert len(tools) == 2 + (scenario == "hitl")
    observed = json.loads(second.json["messages"][-1]["content"])
    assert observed["refund"]["days_since_delivery"] == 12  # the product's own lookup_order


def test_a_run_that_does_less_than_its_job_is_an_error_and_no_result(tmp_path: Path):
    done, _ = run("a100", tmp_path, LOOKUP, ELIGIBLE)

    assert done.returncode == 1
    assert "6 steps, not 9" in done.stderr
    assert done.stdout == ""
