"""The smallest integration: your chat hands a message over and sends back what `answer` returns.

Needs a database: `support-agent db upgrade && support-agent db seed`.
"""

import asyncio

from support_agent import Agent, Assurance, Binding, Incoming, customer_principal, open_container


async def answer(agent: Agent, text: str, customer_id: str) -> str:
    """One message in, one answer out. Who writes is your login's word, never the text's."""
    binding = Binding(
        channel="webchat",
        account="my-shop",
        external_contact=customer_id,
        customer_id=customer_id,
        assurance=Assurance.VERIFIED,  # logged in; CLAIMED would see no order
        principal=customer_principal(customer_id, via="webchat"),
    )
    # Give the result's conversation_id back with the customer's next message to go on.
    result = await agent.take(Incoming(text=text, binding=binding))
    return result.answer


async def main() -> None:
    """Open once at start-up, keep it open, serve every message from it."""
    async with open_container() as container:
        print(await answer(container.agent(), "Đơn A100 có được hoàn tiền không?", "C001"))


if __name__ == "__main__":
    asyncio.run(main())
