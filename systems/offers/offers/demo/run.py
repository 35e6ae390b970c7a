"""What is measured, in which order: contenders take turns, so that none has the machine's better hour."""

from __future__ import annotations

import json

from greenlane_tools.lab.run.performed import in_turns
from greenlane_tools.lab.run.talk import Talk
from greenlane_tools.lab.written import written
from offers.site import Site

from .options import Options
from .turn import WARM_S, Turn, summary, turn

__all__ = ["minutes", "run"]

#: Of each run: start, offers by themselves, endpoints asked before, drain.
_BESIDE_S = WARM_S + 18.0
_SITE_S = 4.0


def run(options: Options, talk: Talk) -> list[Turn]:
    """Starts everything, measures, ends everything. Raw runs are written as soon as they are there."""
    talk.say(f"about {max(1, round(minutes(options)))} min")
    found: list[Turn] = []
    with Site(say=talk.progress) as site:
        for repetition in range(options.repetitions):
            for region in options.regions:
                for contender in in_turns(options.contenders, repetition):
                    found.append(
                        turn(
                            site, contender, region, options.seconds, f"{options.seed}-{repetition}", talk,
                            cancel=options.cancel, propagate_deadline=options.propagate_deadline,
                        )
                    )  # fmt: skip
                    written(options.out / "run.json", json.dumps([summary(one) for one in found]))
                    talk.say(_said(found[-1]))
    return found


def minutes(options: Options) -> float:
    """How long it takes on an idle machine."""
    runs = len(options.contenders) * len(options.regions) * options.repetitions
    return (_SITE_S + runs * (options.seconds + _BESIDE_S)) / 60


def _said(found: Turn) -> str:
    counts = found.counts
    return f"{found.contender} in {found.region}: {counts.made:,} of {counts.ended:,} bike and scooter offers in time"
