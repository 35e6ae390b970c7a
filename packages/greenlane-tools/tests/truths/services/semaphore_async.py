"""FastAPI: at most three calls of a partner at a time, by asyncio's semaphore."""

import asyncio
import os

import httpx
from fastapi import FastAPI

app = FastAPI()
http = httpx.AsyncClient(timeout=20)
partner = asyncio.Semaphore(3)


@app.get("/book")
async def book():
    async with partner:  # here
        return (await http.get(os.environ["UPSTREAM"])).text  # here
