"""rec-ranker, the other half of `split`: `python -m feed.variants.rec_ranker PORT MODEL`.

POST /scores   {"user": {...}, "now_s": 1763700000, "items": [{...}, ...]}
               -> {"scores": [...], "features_ns": 1, "predict_ns": 1}
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Final

from aiohttp import web

from feed.user import User

from .plain import loaded, scored

# A very active user's items are about 12 MB.
_MOST_BYTES: Final = 64 * 2**20


_MODEL: Final = web.AppKey("model", str)


async def scores(request: web.Request) -> web.Response:
    """POST /scores: parses, computes in the loop, answers; the service does nothing else."""
    asked = json.loads(await request.read())
    found = scored(request.app[_MODEL], asked["items"], User(**asked["user"]), asked["now_s"])
    return web.Response(text=json.dumps(asdict(found)), content_type="application/json")


def main() -> None:
    """Serves until it is ended."""
    port, model = sys.argv[1:]
    loaded(model)
    app = web.Application(client_max_size=_MOST_BYTES)
    app[_MODEL] = model
    app.router.add_post("/scores", scores)
    web.run_app(app, host="127.0.0.1", port=int(port), print=None, access_log=None)


if __name__ == "__main__":
    main()
