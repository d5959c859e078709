"""What was written into a conversation by others than the turns of this terminal."""

from support_agent.cli.output import say_body
from support_agent.domain.conversation import Author, Message
from support_agent.ports.storage import Database

BY_OTHERS = frozenset({Author.NOTICE, Author.STAFF})


class Meanwhile:
    """Tells each message once: notices, what a person answers, what another process answered."""

    def __init__(self, *, show: bool) -> None:
        self._show = show
        self._seen = 0
        self._own: set[str] = set()
        self.objects: list[dict[str, object]] = []

    def answered_by(self, run_id: str) -> None:
        """The run's answer was shown already."""
        self._own.add(run_id)

    async def join(self, database: Database, conversation_id: str) -> None:
        """Begin with what came since the customer last wrote; answers were shown where they did."""
        messages = await self._since(database, conversation_id)
        wrote = [message.seq for message in messages if message.author is Author.CUSTOMER]
        self._seen = wrote[-1] if wrote else 0
        self._own |= {message.run_id for message in messages if message.run_id is not None}

    async def tell(self, database: Database, conversation_id: str) -> None:
        """Show what is new."""
        for message in await self._since(database, conversation_id):
            self._seen = message.seq
            if message.author in BY_OTHERS or self._is_anothers_answer(message):
                self._tell(message)

    def _is_anothers_answer(self, message: Message) -> bool:
        return message.author is Author.AGENT and message.run_id not in self._own

    def _tell(self, message: Message) -> None:
        about = {"seq": message.seq, "author": message.author, "text": message.text}
        self.objects.append(about)
        if self._show:
            of_whom = "" if message.author is Author.AGENT else f"[{message.author}] "
            say_body(of_whom + message.text)

    async def _since(self, database: Database, conversation_id: str) -> tuple[Message, ...]:
        return await database.read(
            lambda tx: tx.conversations.messages(conversation_id, after_seq=self._seen), brief=True
        )
