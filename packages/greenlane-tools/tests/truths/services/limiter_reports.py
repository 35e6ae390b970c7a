"""FastAPI: reports that wait for an upstream take all 40 threads of `def` endpoints."""

import os
from contextlib import asynccontextmanager

import httpx
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI

http = httpx.Client(timeout=20)


@asynccontextmanager
async def started(app):
    current_default_thread_limiter().total_tokens = 40
    yield


app = FastAPI(lifespan=started)


@app.get("/report")
def report():
    return http.get(os.environ["UPSTREAM"]).text  # here


@app.get("/ping")
def ping():
    return "pong"
