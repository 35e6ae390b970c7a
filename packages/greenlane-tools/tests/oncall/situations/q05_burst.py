"""uvicorn --workers 4, asyncio's loop: 20 connections come at once; each answer says which worker had it."""

import asyncio
import os
import time

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

app = FastAPI()


@app.get("/who", response_class=PlainTextResponse)
async def who():
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        pass
    await asyncio.sleep(0.05)
    return str(os.getpid())
