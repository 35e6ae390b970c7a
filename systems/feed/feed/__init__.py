"""A recommendation feed: aiohttp, a sharded Redis, four first-level models, CatBoost; one service in many variants."""
