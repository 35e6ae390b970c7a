"""FastAPI: answers of 10 ms of computing, in a container of 0.2 cores."""

import time

from fastapi import FastAPI

app = FastAPI()


@app.get("/search")
async def search():
    end = time.thread_time() + 0.01
    found = 0
    while time.thread_time() < end:  # here
        found += 1  # here
    return found
