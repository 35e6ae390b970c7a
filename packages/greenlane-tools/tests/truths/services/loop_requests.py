"""aiohttp: requests in a coroutine."""

import os
import sys

import requests
from aiohttp import web


async def avatar(request):
    return web.Response(text=requests.get(os.environ["UPSTREAM"], timeout=20).text)  # here


async def ping(request):
    return web.Response(text="pong")


if __name__ == "__main__":
    app = web.Application()
    app.add_routes([web.get("/avatar", avatar), web.get("/ping", ping)])
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
