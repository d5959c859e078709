"""A FastAPI application that does nothing, served as ours is: what api.py compares with."""

import sys

sys.path.pop(0)  # this folder has a file named like a module of the standard library

import asyncio
import socket

from fastapi import FastAPI
from pydantic import BaseModel
from uvicorn import Server

from support_agent.api.connections import ServerConfig

app = FastAPI()


class Message(BaseModel):
    text: str


class Rows(BaseModel):
    data: list[Message]
    limit: int


@app.get("/rows")
async def rows(limit: int = 20) -> Rows:
    """Nothing, as the API lists nothing of."""
    return Rows(data=[], limit=limit)


@app.post("/rows", status_code=202)
async def add(message: Message) -> Message:
    """What it was given."""
    return message


class Told(Server):
    """Says where it listens, as ours does."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"serving on http://127.0.0.1:{port}", flush=True)


if __name__ == "__main__":
    config = ServerConfig(app, head_s=10, shutdown_s=1, most=1_000)
    config.port = 0
    asyncio.run(Told(config).serve())
