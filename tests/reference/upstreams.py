"""Which order goes to its upstream next, slow and obvious: the twin of `crates/policy/src/upstream`.

Every question is answered by looking at all keys and all orders again.
"""

import math

OK, FAILED, TIMED_OUT, REFUSED, CANCELLED = range(5)
NAMES = ("ok", "failed", "timed_out", "refused", "cancelled")
MS = 1_000_000
SECOND = 1_000 * MS
QUANTUM = 100 * MS
LATELY = 60 * SECOND
SLACK = 10 * MS
NEVER = float("inf")


class Turn:
    def __init__(self, round_, place, weight):
        self.round, self.place, self.left = round_, place, QUANTUM * max(weight, 1)

    def rejoin(self, round_, place, weight):
        if self.round < round_:
            self.round, self.left = round_, QUANTUM * max(weight, 1)
        self.place = place


class Key:
    def __init__(self, name, now, rule, slots, turn):
        self.name, self.rule, self.leased = name, None, NEVER
        self.forced = False
        # closed, open (until), half (given, ended, bad)
        self.state, self.until, self.given, self.probes_ended, self.bad = "closed", 0, 0, 0, 0
        self.window, self.judged_at, self.gap, self.recent = [], 0, 0, []
        self.times, self.since_closed, self.turn_of_breaker = 0, 0, 0
        self.by_slow, self.late = False, []
        self.strange = True
        self.limit, self.usual, self.young = max(min(max(rule.first_limit, 1), slots), rule.least), 0, True
        self.anchor, self.rounds = 0, 0
        self.opened, self.samples, self.peak, self.held, self.trial, self.slow_round = now, [], 0, 0, None, False
        self.turn = Turn(*turn, rule.weight)
        self.presumed = 0
        self.running, self.probed, self.answered, self.idle_since = 0, [], None, None
        self.counts = dict.fromkeys((*NAMES, "started", "probes", "slow", "opened", "surplus", "expired"), 0)


class Upstreams:
    def __init__(self, slots, rule):
        self.slots, self.rule = max(slots, 1), rule
        self.keys, self.vacant = {}, []
        # order -> {key, arrival, arrived, size, deadline, leaves, call}
        self.orders = {}
        self.arrivals = self.place = self.round = 0
        self.gone = []
        self.over = []
        # The strangers' turn: round, place, left.
        self.strangers = Turn(0, 0, 1)

    # -- what is asked

    def arrive(self, order, key, now, size=0, deadline=0):
        self.pass_(now)
        if order in self.orders:
            return False
        key = self.known(key, now)
        rule = self.rule_of(key)
        self.arrivals += 1
        place = self.next_place()
        if not self.parked(key):
            key.turn.rejoin(self.round, place, rule.weight)
        if self.is_strange(key) and not any(self.is_strange(k) for k in self.waiting_keys()):
            self.strangers.rejoin(self.round, place, self.rule.weight)
        leaves = now + rule.parked_most_ns if rule.parked_most_ns else NEVER
        self.orders[order] = {
            "order": order, "key": key, "arrival": self.arrivals, "arrived": now, "size": size,
            "deadline": deadline or NEVER, "leaves": leaves, "call": None,
        }  # fmt: skip
        if key not in self.over and self.too_much(key, least=0):
            self.over.append(key)
        self.idle(key, now)
        self.overtaken(key, now)
        return True

    def next(self, now):
        self.pass_(now)
        for key in sorted(self.keys.values(), key=lambda key: key.until):
            if key.state == "open" and not key.forced and key.until <= now and self.parked(key):
                key.state, key.given, key.probes_ended, key.bad, key.probed = "half", 0, 0, 0, []
        free = self.slots - self.running()
        while free > 0:
            room = max(free - self.reserved(), 0)
            able = [key for key in self.keys.values() if self.may(key)]
            strange = [key for key in able if self.is_strange(key)]
            weight = max((len(able) - len(strange)) // 9, 1) * max(self.rule.weight, 1)
            able = [key for key in able if key not in strange and self.need(key) <= room]
            first = min(strange, key=lambda key: (key.running, key.turn.place), default=None)
            if first and self.strangers_need(first, weight) > room:
                strange = []
            if not able + strange:
                return None
            known = min((self.turn_of(key) for key in able), default=(NEVER, 0))
            if strange and (self.strangers.round, self.strangers.place) <= known:
                key = first
            else:
                key = min(able, key=self.turn_of)
            if not self.overtaken(key, now):
                return self.begin(key, now, weight)
        return None

    def wake_ns(self, now):
        if self.gone or self.over:
            return now
        waiting = [known for known in self.orders.values() if not known["call"]]
        times = [known["leaves"] for known in waiting] + [known["deadline"] for known in waiting]
        times += [
            key.until for key in self.keys.values() if key.state == "open" and not key.forced and self.parked(key)
        ]
        return None if min(times, default=NEVER) == NEVER else min(times)

    def surplus(self, now):
        self.pass_(now)
        before = set(self.orders)
        gone = []
        aged = [known for known in self.orders.values() if not known["call"] and known["leaves"] <= now]
        for known in sorted(aged, key=lambda known: (known["leaves"], known["order"])):
            self.shed(known, now, gone)
        over, self.over = self.over, []
        for key in over:
            while self.too_much(key, least=1):
                self.shed(self.parked(key)[-1], now, gone)
        while sum(self.parked_count().values()) > self.rule.all_parked_most:
            strange = [key for key in self.waiting_keys() if self.is_strange(key)]
            if sum(len(self.parked(key)) for key in strange) * 2 > self.rule.all_parked_most:
                key = max(strange, key=lambda key: self.parked(key)[-1]["arrival"])
            else:
                key = max(self.waiting_keys(), key=lambda key: (*self.drain(key), key.number))
            self.shed(self.parked(key)[-1], now, gone)
        while sum(self.parked_count().values()) > 1 and self.bytes() > self.rule.all_parked_most_bytes:
            key = max(self.waiting_keys(), key=lambda key: (self.bytes(key), key.number))
            self.shed(self.parked(key)[-1], now, gone)
        assert before - set(self.orders) == set(gone)
        return gone

    def expired(self, now):
        self.pass_(now)
        gone, self.gone = self.gone, []
        return gone

    def withdraw(self, order, now):
        self.pass_(now)
        known = self.orders.get(order)
        if known is None or known["call"]:
            return False
        self.take(known, now)
        return True

    def drain_all(self, now):
        self.pass_(now)
        waiting = sorted((k for k in self.orders.values() if not k["call"]), key=lambda known: known["arrival"])
        for known in waiting:
            self.take(known, now)
        return [known["order"] for known in waiting]

    # -- what is told

    def ended(self, order, now, outcome):
        self.pass_(now)
        known = self.orders.get(order)
        if known is None or not known["call"]:
            return False
        del self.orders[order]
        key, call = known["key"], known["call"]
        place, common = self.next_place(), self.common()
        took = max(now - call["began"], 0)
        key.running -= 1
        key.counts[NAMES[outcome]] += 1
        turn, weight = (
            (self.strangers, call["strangers"]) if call["strangers"] else (key.turn, self.rule_of(key).weight)
        )
        self.charge(turn, took - call["charged"], place, weight)
        if outcome == CANCELLED or (outcome == TIMED_OUT and took < key.usual):
            if call["probe"] == key.turn_of_breaker and key.state == "half":
                key.given -= 1
        else:
            self.answered(key, now)
            self.judge(key, now, call, took, outcome, common)
        self.idle(key, now)
        self.overtaken(key, now)
        return True

    def began(self, order, now, timed):
        self.pass_(now)
        known = self.orders.get(order)
        if known and known["call"]:
            known["call"].update(began=now, timed=timed)

    def presume(self, key, now, usual):
        key = self.known(key, now)
        key.presumed = usual
        self.idle(key, now)

    def probes_failed(self, name, now, open_):
        key = self.keys.get(name)
        if key is None or key.state == "closed" or (key.state == "half" and key.given):
            return
        rule = self.rule_of(key)
        open_ = min(open_, rule.open_most_ns)
        while True:
            this, next_ = (self.grown(rule.open_ns, rule.open_most_ns, key.times + more, rule) for more in (0, 1))
            if float(this) * 1.2 >= open_ or next_ <= this:
                break
            key.times += 1
        key.by_slow = False
        before = key.until if key.state == "open" else now
        key.state, key.until = "open", max(before, now + self.jittered(key, open_))

    def set(self, key, now, rule):
        key = self.known(key, now)
        key.rule = rule
        self.idle(key, now)

    def lease(self, key, now, calls):
        key = self.known(key, now)
        key.leased = NEVER if calls is None else calls
        self.idle(key, now)

    def open(self, key, now):
        key = self.known(key, now)
        key.forced = True
        self.idle(key, now)

    def close(self, key, now):
        key = self.known(key, now)
        key.forced, key.times = False, 0
        key.turn_of_breaker += 1
        self.closed(key)
        self.idle(key, now)

    def load(self, key):
        key = self.keys.get(key)
        return (key.running, len(self.parked(key))) if key else (0, 0)

    def look(self):
        looks = []
        for key in sorted(self.keys.values(), key=lambda key: key.name.encode()):
            failed, slow = self.rates(key)
            state = {"closed": "closed", "open": "open", "half": "half-open"}[key.state]
            looks.append(
                {
                    "key": key.name, "running": key.running, "parked": len(self.parked(key)),
                    "parked_bytes": self.bytes(key), "oldest_ns": next((k["arrived"] for k in self.parked(key)), 0),
                    "limit": self.limit(key), "breaker": "forced-open" if key.forced else state,
                    "open_until_ns": key.until if key.state == "open" and not key.forced else 0,
                    "usual_ns": key.usual, "failed_frac": failed, "slow_frac": slow, **key.counts,
                }
            )  # fmt: skip
        return looks

    def totals(self):
        parked = sum(self.parked_count().values())
        return self.running(), parked, self.bytes(), len(self.keys), self.reserved(), self.common()

    # -- orders

    def parked(self, key):
        waiting = [known for known in self.orders.values() if known["key"] is key and not known["call"]]
        return sorted(waiting, key=lambda known: known["arrival"])

    def parked_count(self):
        return {key: len(self.parked(key)) for key in self.keys.values()}

    def waiting_keys(self):
        return [key for key, parked in self.parked_count().items() if parked]

    def bytes(self, key=None):
        waiting = (known for known in self.orders.values() if not known["call"])
        return sum(known["size"] for known in waiting if key is None or known["key"] is key)

    def running(self):
        return sum(key.running for key in self.keys.values())

    def too_much(self, key, least):
        parked, rule = len(self.parked(key)), self.rule_of(key)
        return parked > rule.parked_most or (parked > least and self.bytes(key) > rule.parked_most_bytes)

    def shed(self, known, now, gone):
        known["key"].counts["surplus"] += 1
        gone.append(known["order"])
        self.take(known, now)

    def take(self, known, now):
        del self.orders[known["order"]]
        self.idle(known["key"], now)

    # -- keys

    def known(self, name, now):
        if name not in self.keys:
            place = self.next_place()
            key = self.keys[name] = Key(name, now, self.rule, self.slots, (self.round, place))
            # Only where two keys are equal otherwise: the last forgotten number is given out first.
            key.number = self.vacant.pop() if self.vacant else len(self.keys) - 1
        return self.keys[name]

    def rule_of(self, key):
        return key.rule or self.rule

    def next_place(self):
        self.place += 1
        return self.place

    def idle(self, key, now):
        if self.parked(key) or key.running or key.rule or key.forced:
            key.idle_since = None
        elif key.idle_since is None:
            key.idle_since = now

    def pass_(self, now):
        due = [known for known in self.orders.values() if not known["call"] and known["deadline"] <= now]
        for known in sorted(due, key=lambda known: (known["deadline"], known["order"])):
            known["key"].counts["expired"] += 1
            self.gone.append(known["order"])
            self.take(known, now)
        for key in self.keys.values():
            if key.answered is not None and now - key.answered > LATELY:
                key.answered = None
        idle = [key for key in self.keys.values() if key.idle_since is not None]
        idle.sort(key=lambda key: (key.idle_since, key.number))
        for key in list(idle):
            if now - key.idle_since > self.rule.forget_ns or len(idle) > self.rule.keys_most:
                idle.remove(key)
                del self.keys[key.name]
                self.vacant.append(key.number)

    # -- sums over keys

    def ill(self, key):
        return key.state != "closed" or sum(key.recent) >= 4 or key.slow_round

    def counting(self):
        return [key for key in self.keys.values() if key.answered is not None or key.rule]

    def common(self):
        keys = self.counting()
        return len(keys) >= 3 and sum(map(self.ill, keys)) * 2 > len(keys)

    def reserved(self):
        owed = {key: max(min(self.rule_of(key).least, key.leased) - key.running, 0) for key in self.counting()}
        promised = sum(owed[key] for key in owed if key.rule)
        others = sum(owed[key] for key in owed if not key.rule)
        return min(promised + min(others, self.slots // 10), self.slots - 1)

    # -- whose turn it is

    def may(self, key):
        """Whether it could begin a call, apart from free slots."""
        rule = self.rule_of(key)
        if not self.parked(key) or key.forced or key.state == "open" or key.running >= key.leased:
            return False
        if key.state == "half":
            return key.given < max(rule.probes, 1)
        return key.running < self.limit(key)

    def need(self, key):
        rule = self.rule_of(key)
        return 0 if key.state == "half" else needed(key.running, rule.least, rule.most_frac)

    def turn_of(self, key):
        return key.turn.round, key.turn.place

    def is_strange(self, key):
        return key.strange and not key.rule

    def strangers_need(self, first, weight):
        running = first.running + sum(key.running for key in self.keys.values() if self.is_strange(key))
        return max(needed(running // weight, self.rule.least, self.rule.most_frac if self.counting() else 1), 1)

    def answered(self, key, now):
        place = self.next_place()
        key.answered = now
        if key.strange:
            key.strange = False
            key.turn.rejoin(self.round, place, self.rule.weight)

    def charge(self, turn, cost, place, weight):
        quantum = QUANTUM * max(weight, 1)
        turn.left -= cost
        rounds = 0
        while turn.left <= 0:
            turn.left += quantum
            rounds += 1
        while turn.left > quantum:
            turn.left -= quantum
            rounds -= 1
        if rounds:
            turn.round = (max(turn.round, self.round) if rounds > 0 else turn.round) + rounds
            turn.place = place
            if turn.round < self.round:
                turn.round, turn.left = self.round, quantum

    def begin(self, key, now, strangers_weight):
        place, rule = self.next_place(), self.rule_of(key)
        known = self.parked(key)[0]
        key.running += 1
        key.counts["started"] += 1
        charged = key.usual or QUANTUM
        probe = key.state == "half"
        limit = 0
        if probe:
            key.counts["probes"] += 1
            key.given += 1
            if rule.probe_limit_ns and not key.by_slow:
                limit = max(self.grown(rule.probe_limit_ns, 2**64 - 1, key.times, rule), 2 * key.usual)
        else:
            key.peak = max(key.peak, key.running)
        known["call"] = {
            "began": now, "charged": charged, "probe": key.turn_of_breaker if probe else None, "slow": False,
            "timed": True, "strangers": strangers_weight if self.is_strange(key) else 0,
        }  # fmt: skip
        turn, weight = (self.strangers, strangers_weight) if self.is_strange(key) else (key.turn, rule.weight)
        self.round = max(self.round, turn.round)
        self.charge(turn, charged, place, weight)
        if self.is_strange(key):
            key.turn.place = place
        self.idle(key, now)
        return known["order"], key.name, probe, limit

    def drain(self, key):
        allowed = max(self.limit(key), 1) if key.state == "closed" and not key.forced else 1
        parked = len(self.parked(key))
        return max(parked - allowed, 0) * max(key.usual, 1) // allowed, parked

    # -- the breaker

    def slow_ns(self, key):
        rule = self.rule_of(key)
        if rule.slow_call_rate <= 0:
            return NEVER
        if rule.slow_call_ns:
            return rule.slow_call_ns
        usual = key.usual or key.presumed
        return max(int(usual * max(rule.slow_call_x, 1)), 110 * MS) if usual else NEVER

    def overtaken(self, key, now):
        common, opened, found = self.common(), False, False
        slow_ns = self.slow_ns(key)
        calls = [known["call"] for known in self.orders.values() if known["key"] is key and known["call"]]
        for call in sorted(calls, key=lambda call: call["began"]):
            if call["probe"] is None and call["timed"] and not call["slow"] and now - call["began"] > slow_ns:
                call["slow"] = found = True
                key.counts["slow"] += 1
                self.noticed(key, True)
                opened |= self.judged(key, now, False, not common)
        if found:
            key.counts["opened"] += opened
            self.answered(key, now)
        return opened

    def judge(self, key, now, call, took, outcome, common):
        rule, failed = self.rule_of(key), outcome != OK
        if call["probe"] is not None:
            self.probe_ended(key, now, call, took, failed, common)
            return
        if key.state != "closed":
            key.by_slow &= not failed
            if key.by_slow:
                key.late.append(took)
                if len(key.late) >= max(rule.probes, 1):
                    key.turn_of_breaker += 1
                    self.closed(key)
                    self.probed(key, now, key.late)
            return
        slow = call["timed"] and not call["slow"] and took > self.slow_ns(key)
        if not call["slow"] or failed:
            key.counts["slow"] += slow
            self.noticed(key, slow)
            key.counts["opened"] += self.judged(key, now, failed, slow and not common)
        if outcome == OK:
            self.succeeded(key, now, call["began"], common)
        elif outcome in (TIMED_OUT, REFUSED) and call["began"] >= key.opened and not common:
            key.limit = max(key.limit - -(-key.limit // 4), max(rule.least, 1))
            key.young, key.trial = False, None
            self.open_round(key, now, key.running)

    def noticed(self, key, slow):
        key.recent = [*key.recent, slow][-8:]

    def rates(self, key):
        calls = max(len(key.window), 1)
        return sum(failed for failed, _ in key.window) / calls, sum(slow for _, slow in key.window) / calls

    def judged(self, key, now, failed, slow):
        rule = self.rule_of(key)
        if key.state != "closed":
            return False
        gap, stale = max(now - key.judged_at, 0), min(max(20 * key.gap, 60 * SECOND), 86_400 * SECOND)
        if gap > stale:
            key.window = []
        if key.judged_at:
            key.gap = key.gap - key.gap // 8 + min(gap, stale) // 8 if key.gap else min(gap, 86_400 * SECOND // 20)
        key.judged_at = now
        most = min(max(rule.window, 1), 64)
        key.window = [*key.window, (failed, slow)][-most:]
        key.since_closed += 1
        if key.since_closed > most:
            key.times = 0
        failing, slowing = self.rates(key)
        over = 0 < rule.failure_rate <= failing or 0 < rule.slow_call_rate <= slowing
        if len(key.window) < min(max(rule.least_calls, 1), most) or not over:
            return False
        key.by_slow = not 0 < rule.failure_rate <= failing
        self.trip(key, now, grows=True)
        return True

    def trip(self, key, now, grows):
        rule = self.rule_of(key)
        key.times = key.times + grows if key.times else 1
        key.turn_of_breaker += 1
        key.late = []
        open_ = self.grown(rule.open_ns, rule.open_most_ns, key.times, rule)
        key.state, key.until = "open", now + self.jittered(key, open_)

    def jittered(self, key, open_):
        seed = self.rule_of(key).seed
        return open_ + int(float(open_) * (0.2 * chance(seed + key.turn_of_breaker))) if seed else open_

    def closed(self, key):
        key.state, key.since_closed, key.recent, key.window = "closed", 0, [], []

    def probe_ended(self, key, now, call, took, failed, common):
        rule = self.rule_of(key)
        if key.state != "half" or call["probe"] != key.turn_of_breaker:
            return
        if not failed:
            key.probed.append(took)
        key.by_slow &= not failed
        key.probes_ended += 1
        key.bad += failed
        probes = max(rule.probes, 1)
        if key.bad / probes >= (rule.failure_rate if rule.failure_rate > 0 else 0.5):
            key.counts["opened"] += 1
            self.trip(key, now, grows=not common)
        elif key.probes_ended >= probes:
            self.closed(key)
            self.probed(key, now, key.probed)

    def probed(self, key, now, latencies):
        median = sorted(latencies)[len(latencies) // 2] if latencies else 0
        if key.usual == 0 or median > 2 * key.usual + SLACK:
            learn(key, median)
        key.limit = max(key.limit // 2, max(self.rule_of(key).least, 1))
        key.young, key.trial, key.held, key.slow_round = True, None, 0, False
        self.open_round(key, now, 0)

    def grown(self, first, most, times, rule):
        grown = float(min(first, most))
        for _ in range(1, min(times, 64)):
            grown = min(grown * max(rule.open_growth, 1.0), float(most))
        return min(int(grown), 2**64 - 1)

    # -- the limit

    def limit(self, key):
        rule = self.rule_of(key)
        return min(max(rule.limit, rule.least) if rule.limit else max(key.limit, rule.least, 1), key.leased)

    def open_round(self, key, now, running):
        key.opened, key.samples, key.peak = now, [], running

    def succeeded(self, key, now, began, common):
        if began < key.opened:
            return
        key.samples.append(max(now - began, 0) // 1000)
        wanted = min(max(key.limit, 3), 32) if key.usual else 3
        if len(key.samples) >= wanted:
            median = sorted(key.samples)[len(key.samples) // 2] * 1000
            self.conclude(key, median, key.peak * 2 >= key.limit, common)
            self.open_round(key, now, key.running)

    def conclude(self, key, median, used, common):
        least, usual = max(self.rule_of(key).least, 1), key.usual
        if not usual:
            learn(key, median)
            return
        near = median <= usual + usual // 4 + SLACK
        key.slow_round = median > usual * 2 + SLACK
        if common and key.slow_round:
            if key.trial:
                key.limit, key.trial = key.trial[1], None
            key.held = 0
            key.usual += max(median - usual, 0) // 16
            key.anchor = key.usual
        elif key.trial:
            before, start = key.trial
            floor = max(least, start // 4)
            if median <= before // 5 * 3:
                key.trial, key.young = None, False
            elif key.limit <= floor:
                learn(key, median)
                key.limit, key.trial, key.slow_round = start, None, False
            else:
                key.limit = max(key.limit // 2, floor)
        elif not used:
            key.held = 0
            follow(key, median)
            key.anchor = key.usual
        else:
            follow(key, min(median, 2 * usual))
            key.usual = min(key.usual, key.anchor + key.anchor // 4)
            key.anchor = min(key.anchor, key.usual)
            key.held = 0 if near else key.held + (4 if key.slow_round else 1)
            if near:
                key.limit = min(key.limit + (key.limit if key.young else max(math.isqrt(key.limit), 1)), self.slots)
            elif key.held >= 8:
                key.trial, key.held = (median, key.limit), 0
                key.limit = max(key.limit // 2, least)


def needed(running, least, most_frac):
    if running < least:
        return 0
    if most_frac >= 1:
        return 1
    if most_frac <= 0:
        return NEVER
    return math.floor(running / (most_frac / (1 - most_frac))) + 1


def chance(number):
    mixed = number * 0x9E3779B97F4A7C15 % 2**64
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
    return ((mixed ^ (mixed >> 31)) >> 11) / 2**53


def learn(key, median):
    key.usual = key.anchor = median
    key.rounds = 1


def follow(key, median):
    key.rounds = min(key.rounds + 1, 16)
    parts = 4 if median < key.usual // 2 else key.rounds
    way = abs(median - key.usual) // parts
    key.usual += way if median > key.usual else -way
