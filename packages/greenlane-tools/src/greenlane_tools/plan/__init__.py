"""The plan: what to set because of what was recorded.

- `Profile`: what a service's requests do, how they come, on what they run
- `opened`: a profile from a recording, live metrics, a hand-written model, or a profile's file
- `merged`, `anonymised`, `with_known`: profiles made of profiles
- `compared`: before and after a release
- `simulate`, `simulate_cells`: what its latencies would be under a set-up
"""

from greenlane_tools.plan.anonymous import anonymised
from greenlane_tools.plan.differences import compared
from greenlane_tools.plan.known import with_known
from greenlane_tools.plan.merging import When, merged
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.simulation import Cell, Estimate, Simulated, SimulatedRoute, simulate, simulate_cells
from greenlane_tools.plan.sources import opened

__all__ = [
    # where it comes from
    "Profile",
    "opened",
    # made of others
    "When",
    "merged",
    "anonymised",
    "with_known",
    # two of them
    "compared",
    # under a set-up
    "simulate",
    "simulate_cells",
    "Cell",
    "Estimate",
    "Simulated",
    "SimulatedRoute",
]
