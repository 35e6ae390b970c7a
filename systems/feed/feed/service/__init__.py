"""The feed's service: aiohttp, one process, in one of many variants of its ranking."""
