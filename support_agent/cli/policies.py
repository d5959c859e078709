"""`policies`: the rules as law, and putting a file in force."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.listing import print_page
from support_agent.cli.options import Json, Operator, examples, operator_or_user
from support_agent.cli.output import Column, print_facts, print_json, rfc3339, say, say_body
from support_agent.cli.proving import MaybeAs, token_of
from support_agent.cli.runtime import at_the_host, ready, run
from support_agent.cli.views import local
from support_agent.domain.errors import PolicyNotFound
from support_agent.domain.policy import Policy
from support_agent.ports.storage import Page, StoredPolicy, Transaction

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.services.policy_activation import Activation

COLUMNS = (
    Column(title="ID"),
    Column(title="VERSION", right=True),
    Column(title="STATE"),
    Column(title="ACTIVATED"),
    Column(title="BY"),
    Column(title="HASH"),
)
SHOWN_HASH = 12

app = typer.Typer(name="policies", help="The refund policy in force and those before it.")


@app.command("list", epilog=examples("policies list"))
def list_policies(*, as_json: Json = False) -> None:
    """List every version that was ever in force."""
    settings = ready()

    def read(tx: Transaction) -> tuple[tuple[StoredPolicy, ...], StoredPolicy | None]:
        return tx.policies.list(), tx.policies.in_force()

    async def work(
        container: "Container",
    ) -> tuple[tuple[StoredPolicy, ...], StoredPolicy | None]:
        return await container.database().read(read)

    stored, current = run(work, settings)
    print_page(
        Page(data=stored, next_cursor=None),
        columns=COLUMNS,
        row=lambda p: (
            p.id,
            str(p.version),
            "in force" if _same(p, current) else "",
            local(p.activated_at, settings.zone),
            p.activated_by,
            p.hash[:SHOWN_HASH],
        ),
        as_object=lambda p: _object(p, current),
        as_json=as_json,
        none="no policy is in force; run: support-agent policies activate FILE",
    )


@app.command(epilog=examples("policies show", "policies show standard --version 2"))
def show(
    policy: Annotated[
        str | None, typer.Argument(help="Its id; the one in force by default.", metavar="POLICY")
    ] = None,
    *,
    version: Annotated[int | None, typer.Option("--version", help="The newest by default.")] = None,
    as_json: Json = False,
) -> None:
    """Show a policy as it was activated."""
    settings = ready()

    def read(tx: Transaction) -> tuple[StoredPolicy, StoredPolicy | None]:
        current = tx.policies.in_force()
        return _wanted(tx, policy, version, current), current

    async def work(container: "Container") -> tuple[StoredPolicy, StoredPolicy | None]:
        return await container.database().read(read)

    found, current = run(work, settings)
    if as_json:
        print_json(_object(found, current) | {"body": found.body})
        return
    when = f"{local(found.activated_at, settings.zone)} by {found.activated_by}"
    state = "in force" if _same(found, current) else "not in force"
    print_facts(
        [
            ("policy", f"{found.id} version {found.version}, {state}"),
            ("activated", when),
            ("hash", found.hash),
        ]
    )
    say()
    say_body(_yaml(found))


@app.command(
    epilog=examples(
        "policies activate data/policies/standard.yaml",
        "policies activate data/policies/laxer.yaml --as huong",
    )
)
def activate(
    file: Annotated[Path, typer.Argument(help="A YAML file like standard.yaml.", metavar="FILE")],
    *,
    name: MaybeAs = None,
    operator: Operator = None,
    as_json: Json = False,
) -> None:
    """Put a policy file in force; a changed file needs a new version number.

    Where it raises a limit, two approvers of the top level have to run this, each with --as: the
    first proposes it, the second puts it in force.
    """
    from support_agent.adapters.policy_files import (  # noqa: PLC0415 - not for --help
        policy_body,
        policy_from_body,
    )

    settings = ready()
    body = policy_body(file)  # read once: it may be a pipe
    policy = policy_from_body(body, source=file.name)
    token = token_of(name, settings) if name else None

    async def work(container: "Container") -> "Activation":
        from support_agent.building.checks import check_zone  # noqa: PLC0415 - not for --help

        check_zone(policy, settings)
        activation = container.policy_activation()
        by = (
            await container.approvals().prove(name, token, via="cli")
            if name
            else at_the_host(operator_or_user(operator))
        )
        return await container.database().transact(
            lambda tx: activation.put_in_force(tx, policy=policy, body=body, by=by)
        )

    _tell(policy, run(work, settings), as_json=as_json)


def _tell(policy: Policy, activation: "Activation", *, as_json: bool) -> None:
    if as_json:
        about = {"id": policy.id, "version": policy.version, "hash": policy.hash}
        step = {"step": activation.step, "activated": activation.step == "activated"}
        print_json(
            about | step | {"raises": list(activation.raised), "others": list(activation.others)}
        )
        return
    for raised in activation.raised:
        say(f"raises a limit: {raised}")
    if activation.step == "proposed":
        say(f"policy {policy.id} version {policy.version} is proposed and not in force yet")
        others = ", ".join(activation.others) or "another approver of the top level"
        say(f"a second person has to run the same command with --as: {others}")
        return
    state = "is in force now" if activation.step == "activated" else "was in force already"
    say(f"policy {policy.id} version {policy.version} {state}")


def _wanted(
    tx: Transaction, policy_id: str | None, version: int | None, current: StoredPolicy | None
) -> StoredPolicy:
    if policy_id is None:
        if current is None:
            raise PolicyNotFound("in force")
        policy_id, version = current.id, version or current.version
    known = [p for p in tx.policies.list() if p.id == policy_id and version in {None, p.version}]
    if not known:
        raise PolicyNotFound(policy_id if version is None else f"{policy_id} version {version}")
    return max(known, key=lambda p: p.version)


def _same(policy: StoredPolicy, current: StoredPolicy | None) -> bool:
    return current is not None and (policy.id, policy.version) == (current.id, current.version)


def _object(policy: StoredPolicy, current: StoredPolicy | None) -> dict[str, object]:
    return {
        "id": policy.id,
        "version": policy.version,
        "hash": policy.hash,
        "in_force": _same(policy, current),
        "activated_at": rfc3339(policy.activated_at),
        "activated_by": policy.activated_by,
    }


def _yaml(policy: StoredPolicy) -> str:
    import yaml  # noqa: PLC0415 - not for --help

    return str(yaml.safe_dump(dict(policy.body), allow_unicode=True, sort_keys=False)).rstrip()
