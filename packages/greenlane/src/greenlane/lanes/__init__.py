"""The shells that control: permits, and what is learned of the phases that need them."""

from greenlane.lanes.learned import LearnedRow, StoredPhase
from greenlane.lanes.permits import Permits
from greenlane.lanes.rules import LaneLimits, LaneRules

__all__ = ["LaneLimits", "LaneRules", "LearnedRow", "Permits", "StoredPhase"]
