"""`runs replay`: a recorded run beside what it would be today, and nothing written."""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.exits import ExitCode
from support_agent.cli.options import Json, examples
from support_agent.cli.output import print_json, rfc3339, say, say_body
from support_agent.cli.runs import call_text, print_decision
from support_agent.cli.runtime import ready
from support_agent.cli.trace import record_objects
from support_agent.cli.views import Object, local
from support_agent.domain.call_arguments import arguments_of

if TYPE_CHECKING:
    from support_agent.agent.differences import Difference
    from support_agent.agent.replay import Replayed, ReplayedAnswer, ReplayedCall
    from support_agent.domain.runs import Observation, RunStep
    from support_agent.settings import Settings

VERDICTS = {
    "same": "the same",
    "differs": "would differ",
    "not_run": "was not run, and is not now",
    "unanswered": "was not answered: the run was interrupted",
}

app = typer.Typer()


@app.command(epilog=examples("runs replay run_01…", "runs replay run_01… --json"))
def replay(
    run_id: Annotated[str, typer.Argument(help="The run's id.", metavar="RUN")],
    *,
    as_json: Json = False,
) -> None:
    """Read a recorded run again: what would its calls and its answer be today?

    No model is asked, no gateway is reached and nothing is written. Each call is tried by itself;
    what the run did then is there already, so a refund that it filed is found filed.

    Exit code 1 when something would differ.
    """
    settings = ready()
    replayed = asyncio.run(_read_again(run_id, settings))
    if as_json:
        print_json(_object(replayed))
    else:
        _print(replayed, settings)
    raise typer.Exit(ExitCode.REFUSED if replayed.differs else ExitCode.DONE)


async def _read_again(run_id: str, settings: "Settings") -> "Replayed":
    from support_agent.container import open_replay  # noqa: PLC0415 - not for --help

    async with open_replay(settings) as reader:
        return await reader.of(run_id)


def _object(replayed: "Replayed") -> Object:
    run, answer = replayed.run, replayed.answer
    return {
        "id": run.id,
        "conversation_id": run.conversation_id,
        "status": run.status,
        "stop_reason": run.stop_reason,
        "started_at": rfc3339(run.started_at),
        "read_again_at": rfc3339(replayed.at),
        "differs": replayed.differs,
        "decisions": record_objects(replayed.steps)["decisions"],
        "calls": [_call_object(n, call) for n, call in enumerate(replayed.calls, start=1)],
        "answer": None if answer is None else _answer_object(answer),
    }


def _answer_object(answer: "ReplayedAnswer") -> Object:
    return {"recorded": answer.recorded, "now": answer.now, "differs": answer.differs}


def _call_object(number: int, call: "ReplayedCall") -> Object:
    return {
        "n": number,
        "step": call.step,
        "tool": call.call.name,
        "arguments": arguments_of(call.call),
        "verdict": call.verdict,
        "accepted": call.is_accepted,
        "recorded": _observation_object(call.recorded),
        "now": _observation_object(call.now),
        "differences": [
            {"field": one.field, "recorded": one.recorded, "now": one.now}
            for one in call.differences
        ],
    }


def _observation_object(observation: "Observation | None") -> Object | None:
    if observation is None:
        return None
    return {
        "ok": observation.ok,
        "error_code": observation.error_code,
        "observation": observation.content,
    }


def _print(replayed: "Replayed", settings: "Settings") -> None:
    run = replayed.run
    say(f"{run.id}: {run.status} ({run.stop_reason or 'not ended'})")
    then, now = local(run.started_at, settings.zone), local(replayed.at, settings.zone)
    say(f"began {then}, read again as of {now}")
    numbers = {call.call.id: n for n, call in enumerate(replayed.calls, start=1)}
    for step in replayed.steps:
        _print_step(step, [call for call in replayed.calls if call.step == step.number], numbers)
    _print_answer(replayed.answer)
    say()
    differing = sum(call.verdict == "differs" for call in replayed.calls)
    told = f"{differing} of {len(replayed.calls)} calls would differ today"
    if replayed.answer is not None:
        told += ", and the answer would" if replayed.answer.differs else ", the answer would not"
    say(f"{told}; nothing was written and no gateway was reached")


def _print_step(step: "RunStep", calls: "list[ReplayedCall]", numbers: dict[str, int]) -> None:
    print_decision(step)
    for call in calls:
        told = VERDICTS[call.verdict]
        say(f"  [{numbers[call.call.id]}] {call_text(call.call)}: {told}")
        for difference in call.differences:
            _print_difference(difference)


def _print_difference(difference: "Difference") -> None:
    say(f"      {difference.field}")
    say(f"        recorded: {_value(difference.recorded)}")
    say(f"        now:      {_value(difference.now)}")


def _value(value: object) -> str:
    if value is None:
        return "(none)"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _print_answer(answer: "ReplayedAnswer | None") -> None:
    say()
    if answer is None:
        say("Answer: there is none that could be compared")
    elif not answer.differs:
        say("Answer: the same")
    else:
        say("Answer: would differ")
        for label, text in (("recorded", answer.recorded), ("now", answer.now)):
            say_body(f"  {label}:\n    " + text.replace("\n", "\n    "))
