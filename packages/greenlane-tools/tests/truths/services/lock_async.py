"""FastAPI: a token is renewed under an asyncio lock that every call needs."""

import asyncio
import os

import httpx
from fastapi import FastAPI

app = FastAPI()
http = httpx.AsyncClient(timeout=20)
lock = asyncio.Lock()


@app.get("/renew")
async def renew():
    async with lock:  # here
        return (await http.get(os.environ["UPSTREAM"])).text  # here


@app.get("/call")
async def call():
    async with lock:
        return "called"
