"""FastAPI: a limiter of two for what draws pages."""

import os

import anyio
import httpx
from fastapi import FastAPI

app = FastAPI()
http = httpx.Client(timeout=20)
pages = anyio.CapacityLimiter(2)


def draw():  # here
    return http.get(os.environ["UPSTREAM"]).text  # here


@app.get("/page")
async def page():
    return await anyio.to_thread.run_sync(draw, limiter=pages)  # here
