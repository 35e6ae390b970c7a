"""FastAPI: httpx' asyncio client with at most three connections."""

import os

import httpx
from fastapi import FastAPI

app = FastAPI()
http = httpx.AsyncClient(limits=httpx.Limits(max_connections=3), timeout=20)


@app.get("/price")
async def price():
    return (await http.get(os.environ["UPSTREAM"])).text  # here
