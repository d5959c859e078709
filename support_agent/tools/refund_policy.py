"""Tell the refund policy in force."""

from collections.abc import Mapping
from typing import Any, ClassVar

from support_agent.ports.storage import Database
from support_agent.ports.tool import Arguments, CallContext, ReadTool, ToolOutput
from support_agent.services.policies import PoliciesInForce


class RefundPolicyArguments(Arguments):
    pass


class RefundPolicy(ReadTool[RefundPolicyArguments]):
    """Reads the policy's own words, never a file."""

    name: ClassVar[str] = "refund_policy"
    description: ClassVar[str] = (
        "The refund policy in force (chính sách hoàn tiền). Use it for questions about the rules. "
        "Takes no arguments. Returns the policy's id, version, days and text; whether one order "
        "falls under it is in lookup_order."
    )
    arguments = RefundPolicyArguments

    def __init__(self, *, policies: PoliciesInForce, database: Database) -> None:
        self._policies = policies
        self._database = database

    async def run(self, arguments: RefundPolicyArguments, context: CallContext) -> ToolOutput:
        policy = await self._database.read(self._policies.current, brief=True)
        content = {
            "policy_id": policy.id,
            "version": policy.version,
            "window_days": policy.window_days,
            "text": policy.text[context.language],
        }
        return ToolOutput(content=content)

    def headline(self, content: Mapping[str, Any]) -> str:
        return str(content["text"])
