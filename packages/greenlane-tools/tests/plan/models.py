"""Services that plans are tested on, written by hand."""

from __future__ import annotations

from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.sources import profile_of_model

#: One stock gevent worker at 0.86 of its CPU: light requests with three calls beside heavy ones.
PRICING = """
name = "pricing"
host = "gevent"
processes = 1
cores = 2
slots = 1000
[[routes]]
route = "GET /bikes"
rate_per_s = 30
steps = [["cpu", 1], ["io", 100, "offers"], ["cpu", 1], ["io", 100, "offers"], ["cpu", 1], ["io", 100, "offers"]]
[[routes]]
route = "GET /quote/<int:id>"
rate_per_s = 48
steps = [["cpu", { mean = 16, cv = 1 }]]
"""

#: Four processes of one slot each: 6,000 orders an hour, a third of a second each.
ORDERS = """
name = "orders"
host = "celery"
processes = 4
cores = 2
slots = 1
[[routes]]
route = "send taco"
rate_per_s = 0.8333
steps = [["cpu", 3], ["io", { mean = 3000, cv = 0.5 }, "taco"], ["cpu", 1]]
[[routes]]
route = "send sushi"
rate_per_s = 0.8333
steps = [["cpu", 3], ["io", { mean = 3000, cv = 0.5 }, "sushi"], ["cpu", 1]]
"""


def model(text: str) -> Profile:
    """The profile."""
    return profile_of_model(text)


def pricing(times: float = 1.0) -> Profile:
    """The pricing service at this many times its load."""
    text = PRICING.replace("rate_per_s = 30", f"rate_per_s = {30 * times}")
    return model(text.replace("rate_per_s = 48", f"rate_per_s = {48 * times}"))
