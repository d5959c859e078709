"""What is kept of customers, and what leaves us: conversations, memory, privacy, deliveries."""

from dependency_injector import providers

from support_agent.adapters.channels.console import ConsoleApprovers, ConsoleCustomers
from support_agent.adapters.webhooks.sender import HttpWebhookSender
from support_agent.building.closing import closed_later
from support_agent.building.limits import kept_for
from support_agent.container.foundation import Once
from support_agent.container.money import Money
from support_agent.ports.channel import ApproverChannel, CustomerChannel
from support_agent.ports.webhooks import WebhookSender
from support_agent.services.audit_export import AuditExports
from support_agent.services.conversation_access import ConversationAccess
from support_agent.services.conversations import ConversationDesk
from support_agent.services.delivery import Delivery
from support_agent.services.hand_off_desk import HandOffDesk
from support_agent.services.memory import CustomerMemory
from support_agent.services.privacy import Privacy
from support_agent.services.retention import Retention
from support_agent.services.webhook_fan_out import WebhookFanOut
from support_agent.services.webhook_sending import WebhookSending
from support_agent.services.webhooks import Webhooks


class Desk(Money):
    """Conversations as staff and channels see them."""

    audit_exports: providers.Provider[AuditExports] = Once(
        AuditExports, database=Money.database, clock=Money.clock
    )
    memory: providers.Provider[CustomerMemory] = Once(
        CustomerMemory, database=Money.database, orders=Money.orders, clock=Money.clock
    )
    privacy: providers.Provider[Privacy] = Once(
        Privacy,
        database=Money.database,
        orders=Money.orders,
        scrubber=Money.database,
        clock=Money.clock,
    )
    retention: providers.Provider[Retention] = Once(
        Retention,
        database=Money.database,
        clock=Money.clock,
        zone=Money.terms.provided.zone,
        kept_for=Once(kept_for, Money.settings),
    )
    # By the name of the channel; customers of one that is not here read in the conversation.
    customer_channels: providers.Provider[dict[str, CustomerChannel]] = Once(
        dict, cli=Once(ConsoleCustomers, log_format=Money.settings.provided.log.format)
    )
    approver_channel: providers.Provider[ApproverChannel] = Once(
        ConsoleApprovers, log_format=Money.settings.provided.log.format
    )
    delivery: providers.Provider[Delivery] = Once(
        Delivery,
        database=Money.database,
        life=Money.life,
        clock=Money.clock,
        customers=customer_channels,
        approvers=approver_channel,
    )
    conversation_access: providers.Provider[ConversationAccess] = Once(
        ConversationAccess, database=Money.database, clock=Money.clock
    )
    webhook_sender: providers.Provider[WebhookSender] = Once(
        closed_later,
        Money.to_close,
        providers.Object(HttpWebhookSender),
        timeout_s=Money.settings.provided.webhooks.timeout_seconds,
        private_hosts=Money.settings.provided.webhooks.private_hosts,
    )
    webhook_fan_out: providers.Provider[WebhookFanOut] = Once(
        WebhookFanOut, database=Money.database, clock=Money.clock, ids=Money.ids
    )
    webhooks: providers.Provider[Webhooks] = Once(
        Webhooks,
        database=Money.database,
        sender=webhook_sender,
        fan_out=webhook_fan_out,
        keys=Money.keys,
        clock=Money.clock,
        ids=Money.ids,
    )
    webhook_sending: providers.Provider[WebhookSending] = Once(
        WebhookSending,
        database=Money.database,
        sender=webhook_sender,
        keys=Money.keys,
        clock=Money.clock,
        wall_clock=Money.wall_clock,
        timeout_s=Money.settings.provided.webhooks.timeout_seconds,
    )
    hand_off_desk: providers.Provider[HandOffDesk] = Once(
        HandOffDesk, database=Money.database, queue=Money.queue, clock=Money.clock, ids=Money.ids
    )
    desk: providers.Provider[ConversationDesk] = Once(
        ConversationDesk,
        database=Money.database,
        orders=Money.orders,
        clock=Money.clock,
        ids=Money.ids,
        default_language=Money.settings.provided.shop.language,
    )
