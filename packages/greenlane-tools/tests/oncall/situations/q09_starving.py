"""uvicorn, FastAPI: two endpoints compute in the event loop, one 60 ms and one 15 ms; a third only waits for I/O."""

import asyncio
import time

from fastapi import FastAPI

app = FastAPI()


@app.get("/bike_price")
async def bike_price():
    await asyncio.sleep(0.02)
    await asyncio.sleep(0.02)
    return {"cents": 120}


@app.get("/report")
async def report():
    return {"total": totals(0.06)}


@app.get("/quote")
async def quote():
    return {"total": totals(0.015)}


def totals(seconds):
    end = time.thread_time() + seconds
    total = 0
    while time.thread_time() < end:
        total += 1
    return total
