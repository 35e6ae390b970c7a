"""The plan: what to set because of what was recorded.

- `Profile`: what a service's requests do, how they come, on what they run
- `opened`: a profile from a recording, a hand-written model, or a profile's file
- `compared`: before and after a release
- `simulate`, `simulate_cells`: what its latencies would be under a set-up
"""

from greenlane_tools.plan.differences import compared
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.simulation import Simulated, SimulatedRoute, SimulationCell, simulate, simulate_cells
from greenlane_tools.plan.sources import opened

__all__ = [
    # where it comes from
    "Profile",
    "opened",
    # two of them
    "compared",
    # under a set-up
    "simulate",
    "simulate_cells",
    "SimulationCell",
    "Simulated",
    "SimulatedRoute",
]
