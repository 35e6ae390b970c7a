"""FastAPI: one of two kinds of work fills the executor of both."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

import httpx
from fastapi import FastAPI

app = FastAPI()
http = httpx.Client(timeout=20)
pool = ThreadPoolExecutor(3, thread_name_prefix="images")


def convert():  # here
    return http.get(os.environ["UPSTREAM"]).text  # here


@app.get("/convert")
async def converted():
    return await asyncio.get_running_loop().run_in_executor(pool, convert)  # here


@app.get("/thumb")
async def thumb():
    return await asyncio.get_running_loop().run_in_executor(pool, str, 7)
