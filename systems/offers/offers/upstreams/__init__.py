"""Upstreams in Python: `python -m offers.upstreams --port 7003 --names zones,rules`.

server    the HTTP server: aiohttp; how long an upstream takes for an id, and what it replies
"""
