"""aiohttp: every answer waits for a blocking client in asyncio's default executor."""

import asyncio
import os
import sys

import requests
from aiohttp import web


def fetch():  # here
    return requests.get(os.environ["UPSTREAM"], timeout=20).text  # here


async def track(request):
    text = await asyncio.get_running_loop().run_in_executor(None, fetch)  # here
    return web.Response(text=text)


if __name__ == "__main__":
    app = web.Application()
    app.add_routes([web.get("/track", track)])
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
