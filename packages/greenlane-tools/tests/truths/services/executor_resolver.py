"""FastAPI: slow files fill asyncio's default executor, in which the client resolves names."""

import asyncio
import os
import time

import httpx
from fastapi import FastAPI

app = FastAPI()
http = httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=0), timeout=20)


def read_folder():  # here
    time.sleep(0.7)  # here: a network file system
    return ["a", "b"]


@app.get("/archive")
async def archive():
    return await asyncio.to_thread(read_folder)  # here


@app.get("/quote")
async def quote():
    answer = await http.get(os.environ["UPSTREAM"].replace("127.0.0.1", "localhost"))
    return answer.text
