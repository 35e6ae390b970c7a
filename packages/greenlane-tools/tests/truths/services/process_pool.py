"""FastAPI: forecasts are computed by a pool of one process."""

import asyncio
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager

from fastapi import FastAPI


@asynccontextmanager
async def opened(app):
    with ProcessPoolExecutor(1) as app.state.pool:
        yield


app = FastAPI(lifespan=opened)


def forecast():  # here
    time.sleep(0.3)  # here
    return 7


@app.get("/forecast")
async def answer():
    return await asyncio.get_running_loop().run_in_executor(app.state.pool, forecast)  # here
