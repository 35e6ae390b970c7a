"""FastAPI: an answer that does not fit its model is a 500, after 50 ms of work."""

import asyncio

from fastapi import FastAPI

app = FastAPI()


@app.get("/user")
async def user() -> dict[str, int]:  # here
    await asyncio.sleep(0.05)
    return {"age": "unknown"}  # here
