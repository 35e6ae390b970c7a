"""uvicorn, FastAPI: every tenth profile is fetched again, by a client that blocks the loop for 600 ms."""

import asyncio
import os

import requests
from fastapi import FastAPI

app = FastAPI()


@app.get("/search")
async def search():
    await asyncio.sleep(0.01)
    return {"found": 3}


@app.get("/profile/{number}")
async def profile(number: int):
    if number % 10 == 0:
        fetch_avatar()
    await asyncio.sleep(0.005)
    return {"number": number}


def fetch_avatar():
    return requests.get(os.environ["UPSTREAM"], timeout=30).content
