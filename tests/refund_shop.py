"""`python -m tests.refund_shop FD`: the example shop's refund endpoint by itself, on that socket."""

import sys

import uvicorn
from existing_backend.refund_endpoint import endpoint
from fastapi import FastAPI

if __name__ == "__main__":
    app = FastAPI()
    app.include_router(endpoint)
    uvicorn.run(app, fd=int(sys.argv[1]), log_level="warning")
