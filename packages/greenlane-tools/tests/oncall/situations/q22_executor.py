"""aiohttp: the model moved to an executor; its features are prepared where the argument is written, in the loop."""

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from aiohttp import web

pool = ThreadPoolExecutor(3)


async def rank(request):
    loop = asyncio.get_running_loop()
    scores = await loop.run_in_executor(pool, predict, prepare())
    return web.json_response(scores)


async def ping(request):
    await asyncio.sleep(0.01)
    return web.Response(text="pong")


def prepare():
    end = time.thread_time() + 0.08
    features = 0
    while time.thread_time() < end:
        features += 1
    return features


def predict(features):
    time.sleep(0.005)  # a model that releases the GIL
    return [features % 7]


def main(port):
    app = web.Application()
    app.add_routes([web.get("/rank", rank), web.get("/ping", ping)])
    web.run_app(app, host="127.0.0.1", port=port, print=None)


if __name__ == "__main__":
    main(int(sys.argv[1]))
