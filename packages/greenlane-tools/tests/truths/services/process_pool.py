"""FastAPI: forecasts are computed by a pool of one process."""

import asyncio
import time
from concurrent.futures import ProcessPoolExecutor

from fastapi import FastAPI

app = FastAPI()
pool = ProcessPoolExecutor(1)


def forecast():
    time.sleep(0.3)  # here
    return 7


@app.get("/forecast")
async def answer():
    return await asyncio.get_running_loop().run_in_executor(pool, forecast)  # here
