"""Where a placed function's calls run, slow and obvious: the twin of `crates/policy/src/choosing`."""

from tests.reference.call_profile import CallProfile

INLINE, THREAD, PROCESS = range(3)
NAMES = ("inline", "thread", "process")
TRIED, MEASURE, INSPECT, PREPARE = 4, 8, 16, 32
KEPT, LEARN, TRIES = 9, 3, 5
SECOND = 1_000_000_000


def median(values):
    return sorted(values)[(len(values) - 1) // 2] if values else 0


def quartile(values):
    return sorted(values)[(len(values) - 1) // 4] if values else 0


def mean(values):
    kept = sorted(values)[1:] if len(values) > 2 else values
    return sum(kept) // max(len(kept), 1)


class Chooser:
    def __init__(self, *, light_ns, quantile, margin, learn_after, inline, process, budget_ns, workers):
        self.light_ns, self.learn_after = light_ns, learn_after
        self.inline, self.process, self.budget_ns = inline, process, budget_ns
        self.bears = 2 * light_ns
        self.at_once = {THREAD: 1, PROCESS: max(workers, 1)}
        self.crowd = []
        self.profile = CallProfile(light_ns, quantile, margin, learn_after)
        self.took = [[], [], []]
        self.lag = [[], [], []]
        self.cpu, self.released = [], []
        self.crossing, self.kept = "unknown", 0
        self.place, self.why, self.is_settled = THREAD, "new", False
        self.trial = None
        self.took_then = self.settled_at = self.calls = self.again_after = 0
        self.changed = False
        self.compared = [(0, 0), (0, 0)]
        self.purse = None

    # -- what is asked

    def next(self, now):
        weight = self.profile.weight()
        if weight == "unknown":
            return THREAD | MEASURE
        if weight == "light" and self.inline:
            if self.place == PROCESS:
                self.took[THREAD] = []
                self.doubt("new")
            if len(self.took[THREAD]) < LEARN:
                return THREAD | MEASURE
            if self.place != INLINE:
                self.settle(INLINE, "light", now)
            return INLINE
        if self.place == INLINE:
            self.doubt("surprised")
        again = self.changed or (self.calls >= self.again_after and now - self.settled_at >= 10 * SECOND)
        if self.is_settled and self.trial is None and again:
            self.look_again()
        if len(self.took[THREAD]) < LEARN and self.place == THREAD:
            return THREAD | MEASURE
        trying = self.next_try(now)
        if trying is not None:
            return trying
        if self.is_settled:
            unready = self.place == PROCESS and self.crossing != "ready"
            return self.watched(THREAD) | PREPARE if unready else self.place
        return self.next_unsettled(now)

    def next_unsettled(self, now):
        took, lag = median(self.took[THREAD]), median(self.lag[THREAD])
        fits = self.kept <= max(self.bears, lag) and (lag > self.bears or self.kept <= took // 10)
        if took <= self.light_ns:
            if self.inline:
                self.why = "surprised"
                return THREAD
            why = "light"
        elif not self.process:
            why = "alone"
        elif mean(self.released) >= 700 and lag <= self.bears:
            why = "released"
        elif not self.budget_ns:
            why = "budget"
        elif self.crossing == "refused":
            why = "refused"
        elif self.crossing == "unknown":
            return THREAD | MEASURE | INSPECT
        elif not fits:
            why = "payload"
        elif self.crossing == "inspected":
            self.why = "preparing"
            return self.watched(THREAD) | PREPARE
        else:
            self.why = "trying"
            self.begin_trial(PROCESS, TRIES, True)
            return self.next_try(now)
        self.settle(THREAD, why, now)
        return THREAD

    def next_try(self, now):
        trial = self.trial
        if trial is None:
            return None
        if trial["open"] and now - trial["open"] < 30 * SECOND:
            return self.watched(self.place)
        if trial["yields"]:
            trial["yields"] = False
            return self.watched(self.place)
        if trial["place"] == PROCESS and self.crossing != "ready":
            return None
        if not trial["begun"] and self.left(now) <= 0:
            if not self.is_settled:
                self.why = "budget"
            return self.place
        trial["open"], trial["begun"] = max(now, 1), True
        return trial["place"] | TRIED | MEASURE

    def watched(self, place):
        return place | MEASURE if len(self.lag[place]) < KEPT else place

    # -- what is told

    def observe(self, next, now, *, took_ns, ran_ns, cpu_ns=0, lag_ns=None, released=None, computed=False, crowd=0):
        place, tried = next & 3, bool(next & TRIED)
        self.profile.update(ran_ns, computed)
        self.calls += 1
        if not (tried and self.trial and self.trial["cold"]):
            self.keep(self.took[place], took_ns)
            if lag_ns is not None:
                self.keep(self.lag[place], lag_ns)
            if released is not None:
                self.keep(self.released, released)
            if cpu_ns:
                self.keep(self.cpu, cpu_ns)
            if crowd:
                self.keep(self.crowd, crowd)
        if tried:
            self.tried(place, took_ns, now)
        elif self.is_settled and self.trial is None and place == self.place:
            took = self.took[place]
            longer = median(took) > self.took_then // 2 * 3 + 100_000
            shorter = median(took) + 100_000 < self.took_then // 3 * 2
            if len(took) == KEPT and self.calls >= self.again_after // 8 and (longer or shorter):
                self.took_then, self.changed = median(took), True

    def tried(self, place, took, now):
        best = median(self.took[self.place])
        left = self.left(now) - min(max(took - best, 0), self.budget_ns)
        self.purse = (left, self.purse[1])
        trial = self.trial
        if trial is None or trial["place"] != place:
            return
        trial["open"], trial["yields"] = 0, True
        if trial["cold"]:
            trial["cold"] = False
            return
        trial["left"] = max(trial["left"] - 1, 0)
        seen, spent = self.took[place], self.left(now) <= 0
        least, known = self.with_turns(min(seen, default=0), place), self.with_turns(best, self.place)
        hopeless = len(seen) >= 2 and least > known // 2 * 3 + self.bears
        less, more = sorted(self.cost(place) for place in (THREAD, PROCESS))
        doubtful = less + less // 10 < more < less // 2 * 3
        enough = not trial["left"] and (spent or len(seen) == KEPT or not doubtful)
        if hopeless or enough or (spent and len(seen) >= LEARN):
            self.decide(now)

    def with_turns(self, took, place):
        at_once = self.at_once.get(place, 1)
        crowd = min(max(median(self.crowd), at_once), max(64, at_once))
        return took * crowd // at_once

    def cost(self, place):
        return self.with_turns(quartile(self.took[place]), place) + max(median(self.lag[place]) - self.bears, 0)

    def decide(self, now):
        took = {place: self.with_turns(quartile(self.took[place]), place) for place in (THREAD, PROCESS)}
        seen = {place: (took[place], median(self.lag[place])) for place in took}
        self.compared = [seen[THREAD], seen[PROCESS]]
        cost = {place: self.cost(place) for place in seen}
        near = min(cost.values()) // 10
        for place, other in ((THREAD, PROCESS), (PROCESS, THREAD)):
            if cost[place] + near < cost[other]:
                return self.settle(place, "faster", now)
        for place, other in ((PROCESS, THREAD), (THREAD, PROCESS)):
            if seen[place][1] + 500_000 < seen[other][1]:
                return self.settle(place, "calmer", now)
        return self.settle(self.place, "equal", now)

    def ran_inline(self, took):
        self.profile.update(took, False)
        self.keep(self.took[INLINE], took)
        self.calls += 1

    def lost(self, next):
        if self.trial and next & TRIED:
            self.trial["open"], self.trial["yields"] = 0, True

    def inspected(self, kept):
        if self.crossing == "unknown":
            self.crossing, self.kept = "inspected", kept

    def ready(self):
        if self.crossing == "inspected":
            self.crossing = "ready"

    def refuse(self, now):
        self.crossing, self.trial = "refused", None
        if self.place != INLINE:
            self.settle(THREAD, "refused", now)

    def forked(self):
        if self.crossing == "ready":
            self.crossing = "inspected"
        self.trial = None

    def restore(self, place, why, took, now):
        for _ in range(self.learn_after):
            self.profile.update(took, True)
        self.settle(NAMES.index(place), why, now)
        self.took_then = took
        if place == "process":
            self.crossing, self.kept = "inspected", 0

    # -- how it is kept

    def keep(self, values, value):
        values.append(value)
        del values[:-KEPT]

    def settle(self, place, why, now):
        same = place == self.place and self.again_after > 0
        self.again_after = min(self.again_after * 2, 4096) if same else 64
        self.place, self.why, self.is_settled, self.trial = place, why, True, None
        self.took_then, self.settled_at = median(self.took[place]), now
        self.calls, self.changed = 0, False

    def doubt(self, why):
        self.place, self.why, self.is_settled, self.trial, self.again_after = THREAD, why, False, None, 0

    def look_again(self):
        self.calls, self.changed = 0, False
        if self.place == PROCESS:
            if self.crossing == "ready":
                self.begin_trial(THREAD, LEARN, False)
        elif self.crossing == "ready" and self.process and self.budget_ns:
            self.begin_trial(PROCESS, LEARN, False)
        elif self.crossing != "refused":
            self.crossing, self.is_settled = "unknown", False
            self.took[THREAD], self.lag[THREAD], self.released = [], [], []

    def begin_trial(self, place, left, cold):
        self.took[place], self.lag[place] = [], []
        self.trial = {"place": place, "left": left, "cold": cold, "begun": False, "open": 0, "yields": False}

    def left(self, now):
        left, since = self.purse or (self.budget_ns, now)
        accrued = min(max(now - since, 0), 60 * SECOND) * self.budget_ns // (60 * SECOND)
        left = min(left + accrued, self.budget_ns)
        if accrued or self.purse is None:
            self.purse = (left, now)
        return left

    # -- what is shown

    def chosen(self):
        settled = self.is_settled and self.trial is None
        known = self.profile
        return NAMES[self.place], self.why, settled, known.weight(), known.samples(), known.expected_ns()

    def seen(self):
        return [(len(took), median(took), median(lag)) for took, lag in zip(self.took, self.lag, strict=True)]

    def weighed(self):
        return self.compared

    def costs(self):
        kept = self.kept if self.crossing in ("inspected", "ready") else 0
        return median(self.cpu), mean(self.released), kept
