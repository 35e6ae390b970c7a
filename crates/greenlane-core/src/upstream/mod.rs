//! Which order goes to its upstream next: limits, breakers and a fair order for each key, behind one intake.
//!
//! An order that has arrived is parked without a thread. [`Upstreams::next`] gives the one to begin, as long as slots are
//! free and a key may: its [`limit`], its [`breaker`] and its share of the slots ([`ready`]) permit it, and its turn
//! ([`turns`]) is the earliest of those. A key that may not begin hides no other. Nothing here fails an order: what must
//! leave is named ([`Upstreams::surplus`], [`Upstreams::expired`]), and the shell brings it elsewhere.
//!
//! Keys that have never answered are strangers: together they have one turn and one key's share of the slots as long as
//! there are others. So a thousand new keys (or a wrong key function) take from the others what one key takes.
//!
//! One owner at a time calls it. Cost of each call: O(log keys + log parked).

mod breaker;
mod key;
mod lately;
mod limit;
mod look;
mod ready;
mod rule;
mod turns;

#[cfg(test)]
mod tests;

pub use breaker::{Breaker, State, Verdict};
pub use key::Counts;
pub use lately::{Lately, Share, LATELY_NS};
pub use limit::Limiter;
pub use look::{KeyLook, Totals};
pub use ready::{needed, Ready, Standing};
pub use rule::{Outcome, Rule};
pub use turns::{Turn, QUANTUM_NS};

use key::{Key, Places};
use std::collections::{BTreeSet, HashMap};

/// An order to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start<'a> {
    pub order: u64,
    pub key: &'a str,
    /// A half-open breaker judges by it.
    pub probe: bool,
    /// How long it may take, ns; 0 = as long as any.
    pub time_limit_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    key: u32,
    /// Number of its arrival: its place among the key's.
    arrival: u64,
    arrived_ns: u64,
    size: u64,
    /// 0 = none.
    deadline_ns: u64,
    /// When it has been parked for too long; `u64::MAX` = never.
    leaves_ns: u64,
    /// None while it is parked.
    call: Option<Call>,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    began_ns: u64,
    /// Slot time that was charged in advance, ns.
    charged_ns: i64,
    /// The breaker's turn that it is a probe of.
    probe: Option<u64>,
    /// Found to be slow while it ran.
    slow: bool,
    /// Its slot time is charged to the strangers.
    strange: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Upstreams {
    slots: u32,
    rule: Rule,
    numbers: HashMap<Box<str>, u32>,
    keys: Vec<Key>,
    /// Numbers of forgotten keys.
    vacant: Vec<u32>,
    orders: HashMap<u64, Order>,
    arrivals: u64,
    running: u32,
    parked: u64,
    parked_bytes: u64,
    /// The round of the latest call, and the last place given out.
    round: u64,
    place: u64,
    ready: Ready,
    timers: BTreeSet<(u64, u32)>,
    longest: BTreeSet<((u64, u64), u32)>,
    biggest: BTreeSet<(u64, u32)>,
    idle: BTreeSet<(u64, u32)>,
    /// Strangers that could begin a call, by place; and by arrival of their newest order.
    strange: BTreeSet<(u64, u32)>,
    newest: BTreeSet<(u64, u32)>,
    strangers: Turn,
    lately: Lately,
    /// Parked orders by when they have been parked for too long, and by deadline.
    ages: BTreeSet<(u64, u64)>,
    deadlines: BTreeSet<(u64, u64)>,
    /// Keys that may have too much parked.
    over: Vec<(u32, u32)>,
    expired: Vec<u64>,
}

impl Upstreams {
    /// Nothing has arrived yet. `slots`: calls in progress at once, at least one.
    pub fn new(slots: u32, rule: Rule) -> Self {
        Self {
            slots: slots.max(1),
            rule,
            numbers: HashMap::new(),
            keys: Vec::new(),
            vacant: Vec::new(),
            orders: HashMap::new(),
            arrivals: 0,
            running: 0,
            parked: 0,
            parked_bytes: 0,
            round: 0,
            place: 0,
            ready: Ready::default(),
            timers: BTreeSet::new(),
            longest: BTreeSet::new(),
            biggest: BTreeSet::new(),
            idle: BTreeSet::new(),
            strange: BTreeSet::new(),
            newest: BTreeSet::new(),
            strangers: Turn::new(0, 0, 1),
            lately: Lately::default(),
            ages: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            over: Vec::new(),
            expired: Vec::new(),
        }
    }

    /// Parks an order. False: it is here already, parked or in progress.
    pub fn arrive(
        &mut self,
        order: u64,
        key: &str,
        now_ns: u64,
        size: u64,
        deadline_ns: u64,
    ) -> bool {
        self.pass(now_ns);
        if self.orders.contains_key(&order) {
            return false;
        }
        let number = self.number(key, now_ns);
        self.arrivals += 1;
        let place = self.next_place();
        let key = &mut self.keys[number as usize];
        let rule = key.rule.as_deref().unwrap_or(&self.rule);
        if key.parked.is_empty() {
            key.turn.rejoin(self.round, place, rule.weight);
        }
        if key.strange() && self.lately.strange_parked() == 0 {
            self.strangers.rejoin(self.round, place, self.rule.weight);
        }
        key.parked.insert(self.arrivals, order);
        key.parked_bytes += size;
        let leaves_ns = match rule.parked_most_ns {
            0 => u64::MAX,
            most => now_ns.saturating_add(most),
        };
        let many = key.parked.len() as u64 > rule.parked_most;
        if (many || key.parked_bytes > rule.parked_most_bytes) && !key.over {
            key.over = true;
            self.over.push((number, key.generation));
        }
        self.parked += 1;
        self.parked_bytes += size;
        self.ages.insert((leaves_ns, order));
        if deadline_ns > 0 {
            self.deadlines.insert((deadline_ns, order));
        }
        self.orders.insert(
            order,
            Order {
                key: number,
                arrival: self.arrivals,
                arrived_ns: now_ns,
                size,
                deadline_ns,
                leaves_ns,
                call: None,
            },
        );
        self.settle(number, now_ns);
        self.overtaken(number, now_ns);
        true
    }

    /// Gives the order to begin now, and counts it as begun; None = no slot, or nobody may.
    pub fn next(&mut self, now_ns: u64) -> Option<Start<'_>> {
        self.pass(now_ns);
        while let Some(&(_, number)) = self.timers.first().filter(|&&(when, _)| when <= now_ns) {
            self.keys[number as usize].breaker.half_open();
            self.keys[number as usize].probed.clear();
            self.settle(number, now_ns);
        }
        let free = self.slots.saturating_sub(self.running);
        if free == 0 {
            return None;
        }
        loop {
            let number = self.first(free)?;
            // Calls that have become slow meanwhile may have opened its breaker.
            if !self.overtaken(number, now_ns) {
                return Some(self.begin(number, now_ns));
            }
        }
    }

    /// Takes note that a call has ended. False: no such call is in progress.
    pub fn ended(&mut self, order: u64, now_ns: u64, outcome: Outcome) -> bool {
        self.pass(now_ns);
        let Some((Order { key: number, .. }, call)) = self
            .orders
            .get(&order)
            .and_then(|known| Some((*known, known.call?)))
        else {
            return false;
        };
        self.orders.remove(&order);
        self.running -= 1;
        let took_ns = now_ns.saturating_sub(call.began_ns);
        let (place, round, common) = (self.next_place(), self.round, self.lately.common());
        let key = &mut self.keys[number as usize];
        let weight = key.rule(&self.rule).weight;
        key.running -= 1;
        key.unjudged.remove(&(call.began_ns, order));
        key.counts.ended[outcome as usize] += 1;
        let took = i64::try_from(took_ns).unwrap_or(i64::MAX / 2);
        if call.strange {
            self.strangers
                .charge(took - call.charged_ns, round, place, self.rule.weight);
        } else {
            key.turn
                .charge(took - call.charged_ns, round, place, weight);
        }
        // Cut off sooner than it usually answers: that is about the order's deadline, not about the upstream.
        let hasty = outcome == Outcome::TimedOut && took_ns < key.limiter.usual_ns();
        if outcome == Outcome::Cancelled || hasty {
            if let Some(turn) = call.probe {
                key.breaker.probe_cancelled(turn);
            }
        } else {
            self.answered(number, now_ns);
            self.judge(number, now_ns, call, took_ns, outcome, common);
        }
        self.settle(number, now_ns);
        self.overtaken(number, now_ns);
        true
    }

    /// When [`Upstreams::next`], `surplus` or `expired` may answer differently though nothing happens; None = never.
    pub fn wake_ns(&self, now_ns: u64) -> Option<u64> {
        if !self.expired.is_empty() || !self.over.is_empty() {
            return Some(now_ns);
        }
        let aged = self.ages.first().map(|&(when, _)| when);
        let due = self.deadlines.first().map(|&(when, _)| when);
        let timer = self.timers.first().map(|&(when, _)| when);
        [aged, due, timer]
            .into_iter()
            .flatten()
            .min()
            .filter(|&when| when < u64::MAX)
    }

    /// Takes out the orders that must go elsewhere: parked for too long, or too many, of one key or of all.
    ///
    /// Of a key the newest go, so that those before them keep their places. For the sum over keys they are taken where
    /// the last order would wait longest (parked x usual latency / limit, beyond one filling of the limit), for the bytes
    /// where most are.
    pub fn surplus(&mut self, now_ns: u64) -> Vec<u64> {
        self.pass(now_ns);
        let mut gone = Vec::new();
        while let Some(&(_, order)) = self.ages.first().filter(|&&(when, _)| when <= now_ns) {
            self.shed(order, now_ns, &mut gone);
        }
        for (number, generation) in std::mem::take(&mut self.over) {
            if self.keys[number as usize].generation != generation {
                continue;
            }
            self.keys[number as usize].over = false;
            while let Some(order) = self.beyond(number) {
                self.shed(order, now_ns, &mut gone);
            }
        }
        while self.parked > self.rule.all_parked_most {
            let Some(number) = self.longest() else {
                break;
            };
            let Some(order) = self.newest(number) else {
                break;
            };
            self.shed(order, now_ns, &mut gone);
        }
        while self.parked > 1 && self.parked_bytes > self.rule.all_parked_most_bytes {
            let Some(&(_, number)) = self.biggest.last() else {
                break;
            };
            let Some(order) = self.newest(number) else {
                break;
            };
            self.shed(order, now_ns, &mut gone);
        }
        gone
    }

    /// Takes out the orders whose deadline has passed while they were parked: they are never begun.
    pub fn expired(&mut self, now_ns: u64) -> Vec<u64> {
        self.pass(now_ns);
        std::mem::take(&mut self.expired)
    }

    /// Takes a parked order out. False: it is not parked. Says nothing about its key.
    pub fn withdraw(&mut self, order: u64, now_ns: u64) -> bool {
        self.pass(now_ns);
        self.unpark(order, now_ns).is_some()
    }

    /// Takes out all parked orders, oldest first.
    pub fn drain(&mut self, now_ns: u64) -> Vec<u64> {
        self.pass(now_ns);
        let mut parked: Vec<(u64, u64)> = self
            .orders
            .iter()
            .filter(|(_, known)| known.call.is_none())
            .map(|(&order, known)| (known.arrival, order))
            .collect();
        parked.sort_unstable();
        for &(_, order) in &parked {
            self.unpark(order, now_ns);
        }
        parked.into_iter().map(|(_, order)| order).collect()
    }

    /// Gives a key a rule of its own, from now on; None = the general one. Keys with one are never forgotten.
    pub fn set(&mut self, key: &str, now_ns: u64, rule: Option<Rule>) {
        let number = self.number(key, now_ns);
        self.keys[number as usize].rule = rule.map(Box::new);
        self.settle(number, now_ns);
    }

    /// Changes how many calls may be in progress. Fewer take effect as calls end.
    pub fn set_slots(&mut self, slots: u32) {
        self.slots = slots.max(1);
    }

    /// Opens a key's breaker by hand: its orders are parked until it is closed.
    pub fn open(&mut self, key: &str, now_ns: u64) {
        let number = self.number(key, now_ns);
        self.keys[number as usize].breaker.open_by_hand();
        self.settle(number, now_ns);
    }

    /// Closes a key's breaker by hand, for whatever reason it is open.
    pub fn close(&mut self, key: &str, now_ns: u64) {
        let number = self.number(key, now_ns);
        self.keys[number as usize].breaker.close_by_hand();
        self.settle(number, now_ns);
    }

    /// What a person sees, by name. Cost: O(keys log keys).
    pub fn look(&self) -> Vec<KeyLook> {
        let mut numbers: Vec<(&str, u32)> = self
            .numbers
            .iter()
            .map(|(name, &number)| (&**name, number))
            .collect();
        numbers.sort_unstable();
        numbers
            .into_iter()
            .map(|(_, number)| {
                let key = &self.keys[number as usize];
                let oldest = key
                    .parked
                    .first_key_value()
                    .and_then(|(_, order)| self.orders.get(order));
                KeyLook::of(key, oldest.map_or(0, |known| known.arrived_ns), &self.rule)
            })
            .collect()
    }

    /// Sums over all keys.
    pub fn totals(&self) -> Totals {
        Totals {
            slots: self.slots,
            running: self.running,
            parked: self.parked,
            parked_bytes: self.parked_bytes,
            keys: self.numbers.len() as u64,
            reserved: self.lately.reserved(self.slots),
            common: self.lately.common(),
        }
    }

    /// What time alone changes: deadlines, who has answered lately, whom to forget. O(1) amortised.
    fn pass(&mut self, now_ns: u64) {
        while let Some(&(_, order)) = self.deadlines.first().filter(|&&(when, _)| when <= now_ns) {
            if let Some(number) = self.unpark(order, now_ns) {
                self.keys[number as usize].counts.expired += 1;
                self.expired.push(order);
            }
        }
        while let Some((number, generation)) = self.lately.pop_old(now_ns) {
            let key = &mut self.keys[number as usize];
            if key.generation != generation || !key.lately {
                continue;
            }
            if now_ns.saturating_sub(key.answered_ns) <= LATELY_NS {
                self.lately.push(key.answered_ns, number, generation);
            } else {
                key.lately = false;
                self.share(number);
            }
        }
        while let Some(&(since, number)) = self.idle.first() {
            let old = now_ns.saturating_sub(since) > self.rule.forget_ns;
            if !old && self.idle.len() as u64 <= self.rule.keys_most {
                break;
            }
            self.forget(number);
        }
    }

    fn begin(&mut self, number: u32, now_ns: u64) -> Start<'_> {
        let place = self.next_place();
        let key = &mut self.keys[number as usize];
        let rule = key.rule.as_deref().unwrap_or(&self.rule);
        let (_, order) = key
            .parked
            .pop_first()
            .expect("only keys with orders are ready");
        let known = self
            .orders
            .get_mut(&order)
            .expect("a parked order is known");
        key.parked_bytes -= known.size;
        self.parked -= 1;
        self.parked_bytes -= known.size;
        self.ages.remove(&(known.leaves_ns, order));
        if known.deadline_ns > 0 {
            self.deadlines.remove(&(known.deadline_ns, order));
        }
        key.running += 1;
        self.running += 1;
        let probe = key.breaker.probes();
        key.counts.started += 1;
        key.counts.probes += u64::from(probe);
        let mut time_limit_ns = 0;
        if probe {
            key.breaker.probe_begins();
            time_limit_ns = key.breaker.probe_limit_ns(key.limiter.usual_ns(), rule);
        } else {
            key.limiter.began(key.running);
            key.unjudged.insert((now_ns, order));
        }
        let charged_ns = match key.limiter.usual_ns() {
            0 => QUANTUM_NS,
            usual => usual as i64,
        };
        let strange = key.strange();
        let turn = if strange {
            &mut self.strangers
        } else {
            &mut key.turn
        };
        self.round = self.round.max(turn.round);
        turn.charge(charged_ns, self.round, place, rule.weight);
        if strange {
            // Strangers take turns among each other.
            key.turn.place = place;
        }
        known.call = Some(Call {
            began_ns: now_ns,
            charged_ns,
            probe: probe.then(|| key.breaker.turn()),
            slow: false,
            strange,
        });
        self.settle(number, now_ns);
        Start {
            order,
            key: &self.keys[number as usize].name,
            probe,
            time_limit_ns,
        }
    }

    /// Judges the calls in progress that are slow by now. True: that has opened the breaker.
    fn overtaken(&mut self, number: u32, now_ns: u64) -> bool {
        let common = self.lately.common();
        let mut opened = false;
        let key = &mut self.keys[number as usize];
        let rule = key.rule.as_deref().unwrap_or(&self.rule);
        let Some(slow_ns) = key.slow_ns(rule) else {
            return false;
        };
        let mut found = false;
        while let Some(&(began_ns, order)) = key.unjudged.first() {
            if now_ns.saturating_sub(began_ns) <= slow_ns {
                break;
            }
            key.unjudged.pop_first();
            if let Some(call) = self
                .orders
                .get_mut(&order)
                .and_then(|known| known.call.as_mut())
            {
                call.slow = true;
            }
            found = true;
            key.counts.slow += 1;
            key.breaker.noticed(true);
            opened |= key.breaker.judge(now_ns, false, !common, rule);
        }
        if opened {
            key.counts.opened += 1;
            key.late.clear();
        }
        if found {
            self.answered(number, now_ns);
            self.settle(number, now_ns);
        }
        opened
    }

    fn judge(
        &mut self,
        number: u32,
        now_ns: u64,
        call: Call,
        took_ns: u64,
        outcome: Outcome,
        common: bool,
    ) {
        let key = &mut self.keys[number as usize];
        let rule = key.rule.as_deref().unwrap_or(&self.rule);
        let failed = outcome != Outcome::Ok;
        if let Some(turn) = call.probe {
            if !failed && turn == key.breaker.turn() {
                key.probed.push(took_ns);
            }
            match key
                .breaker
                .probe_ended(now_ns, turn, outcome, !common, rule)
            {
                Verdict::Undecided => {}
                Verdict::Opened => {
                    key.counts.opened += 1;
                    key.late.clear();
                }
                Verdict::Closed => key.limiter.probed(now_ns, median(&mut key.probed), rule),
            }
            return;
        }
        if key.breaker.state() != State::Closed {
            if !failed {
                key.late.push(took_ns);
            }
            if key.breaker.ended_late(outcome, rule) {
                key.limiter.probed(now_ns, median(&mut key.late), rule);
            }
            return;
        }
        let slow = !call.slow && key.slow_ns(rule).is_some_and(|slow_ns| took_ns > slow_ns);
        // One that was found slow while it ran has been counted; that it failed is news.
        if !call.slow || failed {
            key.counts.slow += u64::from(slow);
            key.breaker.noticed(slow);
            if key.breaker.judge(now_ns, failed, slow && !common, rule) {
                key.counts.opened += 1;
                key.late.clear();
            }
        }
        let running = key.running;
        match outcome {
            Outcome::Ok => {
                let slots = self.slots;
                key.limiter
                    .succeeded(now_ns, call.began_ns, running, common, rule, slots);
            }
            Outcome::TimedOut | Outcome::Refused => {
                key.limiter
                    .dropped(now_ns, call.began_ns, running, common, rule);
            }
            Outcome::Failed | Outcome::Cancelled => {}
        }
    }

    /// The key that begins next: of the known ones that may, and of the strangers together, whose turn is first.
    fn first(&self, free: u32) -> Option<u32> {
        let room = free.saturating_sub(self.lately.reserved(self.slots));
        let known = self.ready.first(room);
        let stranger = self.strange.first().filter(|_| {
            let most_frac = if self.lately.any() {
                self.rule.most_frac
            } else {
                1.0
            };
            needed(self.lately.strange_running(), self.rule.least, most_frac).max(1) <= room
        });
        match (known, stranger) {
            (Some((round, place, known)), Some(&(_, stranger))) => {
                let turn = (self.strangers.round, self.strangers.place);
                Some(if (round, place) < turn {
                    known
                } else {
                    stranger
                })
            }
            (known, stranger) => known
                .map(|(_, _, key)| key)
                .or(stranger.map(|&(_, key)| key)),
        }
    }

    /// The key that the next order goes back from when there are too many of all.
    fn longest(&self) -> Option<u32> {
        if self.lately.strange_parked() * 2 > self.rule.all_parked_most {
            return self.newest.last().map(|&(_, key)| key);
        }
        self.longest.last().map(|&(_, key)| key)
    }

    fn answered(&mut self, number: u32, now_ns: u64) {
        let place = self.next_place();
        let key = &mut self.keys[number as usize];
        key.answered_ns = now_ns;
        if key.strange {
            key.strange = false;
            key.turn.rejoin(self.round, place, self.rule.weight);
        }
        if !key.lately {
            key.lately = true;
            self.lately.push(now_ns, number, key.generation);
        }
    }

    /// The newest order of a key that has too much parked.
    fn beyond(&self, number: u32) -> Option<u64> {
        let key = &self.keys[number as usize];
        let rule = key.rule(&self.rule);
        let count = key.parked.len() as u64;
        let many =
            count > rule.parked_most || (count > 1 && key.parked_bytes > rule.parked_most_bytes);
        many.then(|| self.newest(number)).flatten()
    }

    fn newest(&self, number: u32) -> Option<u64> {
        let newest = self.keys[number as usize].parked.last_key_value();
        newest.map(|(_, &order)| order)
    }

    fn shed(&mut self, order: u64, now_ns: u64, gone: &mut Vec<u64>) {
        if let Some(number) = self.unpark(order, now_ns) {
            self.keys[number as usize].counts.surplus += 1;
            gone.push(order);
        }
    }

    /// Takes a parked order out; gives the number of its key.
    fn unpark(&mut self, order: u64, now_ns: u64) -> Option<u32> {
        let known = *self
            .orders
            .get(&order)
            .filter(|known| known.call.is_none())?;
        self.orders.remove(&order);
        let key = &mut self.keys[known.key as usize];
        key.parked.remove(&known.arrival);
        key.parked_bytes -= known.size;
        self.parked -= 1;
        self.parked_bytes -= known.size;
        self.ages.remove(&(known.leaves_ns, order));
        self.deadlines.remove(&(known.deadline_ns, order));
        self.settle(known.key, now_ns);
        Some(known.key)
    }

    fn next_place(&mut self) -> u64 {
        self.place += 1;
        self.place
    }

    /// The number of a key, which is made known if it is new.
    fn number(&mut self, name: &str, now_ns: u64) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let place = self.next_place();
        let number = self.vacant.pop();
        let generation = number.map_or(0, |number| self.keys[number as usize].generation + 1);
        let key = Key {
            name: name.into(),
            generation,
            rule: None,
            breaker: Breaker::default(),
            limiter: Limiter::new(now_ns, &self.rule, self.slots),
            turn: Turn::new(self.round, place, self.rule.weight),
            parked: Default::default(),
            parked_bytes: 0,
            running: 0,
            unjudged: Default::default(),
            probed: Vec::new(),
            late: Vec::new(),
            strange: true,
            answered_ns: 0,
            lately: false,
            over: false,
            share: Share::default(),
            places: Places::default(),
            counts: Counts::default(),
        };
        let number = match number {
            Some(number) => {
                self.keys[number as usize] = key;
                number
            }
            None => {
                self.keys.push(key);
                self.keys.len() as u32 - 1
            }
        };
        self.numbers.insert(name.into(), number);
        number
    }

    fn forget(&mut self, number: u32) {
        let key = &mut self.keys[number as usize];
        if let Some(since) = key.places.idle.take() {
            self.idle.remove(&(since, number));
        }
        self.lately.change(key.share, Share::default());
        key.share = Share::default();
        key.lately = false;
        self.numbers.remove(&key.name);
        self.vacant.push(number);
    }

    /// Puts a key where it belongs after anything about it has changed.
    fn settle(&mut self, number: u32, now_ns: u64) {
        let key = &mut self.keys[number as usize];
        let after = key.places(&self.rule, now_ns);
        let before = std::mem::replace(&mut key.places, after);
        if before.ready != after.ready {
            if let Some(standing) = before.ready {
                self.ready.remove(number, standing);
            }
            if let Some(standing) = after.ready {
                self.ready.insert(number, standing);
            }
        }
        moved(&mut self.timers, number, before.timer, after.timer);
        moved(&mut self.longest, number, before.longest, after.longest);
        moved(&mut self.biggest, number, before.biggest, after.biggest);
        moved(&mut self.idle, number, before.idle, after.idle);
        moved(&mut self.strange, number, before.strange, after.strange);
        moved(&mut self.newest, number, before.newest, after.newest);
        self.share(number);
    }

    fn share(&mut self, number: u32) {
        let key = &mut self.keys[number as usize];
        let after = key.share(&self.rule);
        let before = std::mem::replace(&mut key.share, after);
        if before != after {
            self.lately.change(before, after);
        }
    }
}

/// The upper median; 0 of nothing.
fn median(sample: &mut [u64]) -> u64 {
    sample.sort_unstable();
    sample.get(sample.len() / 2).copied().unwrap_or(0)
}

fn moved<T: Ord + Copy>(
    index: &mut BTreeSet<(T, u32)>,
    number: u32,
    before: Option<T>,
    after: Option<T>,
) {
    if before == after {
        return;
    }
    if let Some(before) = before {
        index.remove(&(before, number));
    }
    if let Some(after) = after {
        index.insert((after, number));
    }
}
