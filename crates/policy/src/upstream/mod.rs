//! Which order goes to its upstream next: limits, breakers and a fair order for each key, behind one intake.
//!
//! An order that has arrived is parked without a thread. [`Upstreams::next`] gives the one to begin, as long as slots are
//! free and a key may: its [`limit`], its [`breaker`] and its share of the slots ([`ready`]) permit it, and its turn
//! ([`round_robin`]) is the earliest of those. A key that may not begin hides no other. Nothing here fails an order: what must
//! leave is named ([`Upstreams::surplus`], [`Upstreams::take_expired`]), and the shell brings it elsewhere.
//!
//! Keys that have never answered are strangers: as long as there are others, they have together a tenth of the turns and of
//! the slots, or one key's, whichever is more. So a thousand new keys (or a wrong key function) take a tenth from the
//! others, and a hundred thousand merchants with an order an hour do not wait behind seventy busy ones. Among strangers
//! those with the fewest calls in progress come first, and one may have as many as the strangers together have places
//! left: one that hangs from its first call on leaves half of them.
//!
//! One owner at a time calls it. Cost of each call: O(log keys + log parked).

mod breaker;
mod call_outcome;
mod delay_reasons;
mod key;
mod key_status;
mod key_table;
mod limit;
mod parked;
mod ready;
mod recent_outcomes;
mod round_robin;
mod rule;

pub use breaker::{Breaker, BreakerState, ProbeResult};
pub use delay_reasons::Delays;
pub use key::Counts;
pub use key_status::{KeyStatus, Totals};
pub use limit::Limiter;
pub use ready::{slots_needed, Ready, Standing};
pub use recent_outcomes::{KeyShare, RecentOutcomes, LATELY_NS};
pub use round_robin::{RoundPosition, QUANTUM_NS};
pub use rule::{Outcome, Rule};

use key::Key;
use std::collections::{BTreeSet, HashMap};

/// Strangers count as one key per this many known ones that could begin a call: with them a tenth. Arbitrary: more than
/// rare keys want, little for a caller that makes keys up.
const STRANGERS_BESIDE: u32 = 9;

/// An order to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start<'a> {
    pub order: u64,
    pub key: &'a str,
    /// A half-open breaker judges by it.
    pub probe: bool,
    /// How long it may take, ns; 0 = as long as any.
    pub time_limit_ns: u64,
    /// How long it was parked, by what held it back.
    pub held: Delays,
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
    /// Its key's sums when it arrived.
    held: Delays,
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
    /// It may count as slow.
    timed: bool,
    /// Its slot time is charged to the strangers, whose turn counted as that of this many keys.
    strangers: Option<u32>,
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
    /// Strangers that could begin a call, by calls in progress and place; and by arrival of their newest order.
    strange: BTreeSet<((u32, u64), u32)>,
    newest: BTreeSet<(u64, u32)>,
    strangers: RoundPosition,
    recent: RecentOutcomes,
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
            strangers: RoundPosition::new(0, 0, 1),
            recent: RecentOutcomes::default(),
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
        let held = key.holding.read(now_ns);
        let rule = key.rule.as_deref().unwrap_or(&self.rule);
        if key.parked.is_empty() {
            key.turn.rejoin(self.round, place, rule.weight);
        }
        if key.strange() && self.recent.strange_parked() == 0 {
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
                held,
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
                let weight = self.strangers_weight();
                return Some(self.begin(number, now_ns, weight));
            }
        }
    }

    /// A call that was let through begins only now: it waited elsewhere. `timed`: it may count as slow from now on.
    ///
    /// Why not all that begin: one slow client of a gateway would make the gateway slow.
    pub fn began(&mut self, order: u64, now_ns: u64, timed: bool) {
        self.pass(now_ns);
        let Some(known) = self.orders.get_mut(&order) else {
            return;
        };
        let Some(call) = known.call.as_mut() else {
            return;
        };
        let key = &mut self.keys[known.key as usize];
        key.unjudged.remove(&(call.began_ns, order));
        (call.began_ns, call.timed) = (now_ns, timed);
        if timed && !call.slow && call.probe.is_none() {
            key.unjudged.insert((now_ns, order));
        }
    }

    /// Takes note that a call has ended. False: no such call is in progress.
    pub fn end(&mut self, order: u64, now_ns: u64, outcome: Outcome) -> bool {
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
        let (place, round, common) = (self.next_place(), self.round, self.recent.common());
        let key = &mut self.keys[number as usize];
        let weight = key.rule(&self.rule).weight;
        key.running -= 1;
        key.unjudged.remove(&(call.began_ns, order));
        key.counts.ended[outcome as usize] += 1;
        let took = i64::try_from(took_ns).unwrap_or(i64::MAX / 2);
        if let Some(weight) = call.strangers {
            self.strangers
                .charge(took - call.charged_ns, round, place, weight);
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
            self.note_answer(number, now_ns);
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

    /// What time alone changes: deadlines, who has answered lately, whom to forget. O(1) amortised.
    fn pass(&mut self, now_ns: u64) {
        while let Some(&(_, order)) = self.deadlines.first().filter(|&&(when, _)| when <= now_ns) {
            if let Some(number) = self.unpark(order, now_ns) {
                self.keys[number as usize].counts.expired += 1;
                self.expired.push(order);
            }
        }
        while let Some((number, generation)) = self.recent.pop_old(now_ns) {
            let key = &mut self.keys[number as usize];
            if key.generation != generation || !key.is_recent {
                continue;
            }
            if now_ns.saturating_sub(key.answered_ns) <= LATELY_NS {
                self.recent.push(key.answered_ns, number, generation);
            } else {
                key.is_recent = false;
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

    fn begin(&mut self, number: u32, now_ns: u64, strangers_weight: u32) -> Start<'_> {
        let place = self.next_place();
        let key = &mut self.keys[number as usize];
        let held = key.holding.read(now_ns);
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
        let held = held.since(known.held);
        let charged_ns = match key.limiter.usual_ns() {
            0 => QUANTUM_NS,
            usual => usual as i64,
        };
        let strangers = key.strange().then_some(strangers_weight);
        let (turn, weight) = match strangers {
            Some(weight) => (&mut self.strangers, weight),
            None => (&mut key.turn, rule.weight),
        };
        self.round = self.round.max(turn.round);
        turn.charge(charged_ns, self.round, place, weight);
        if strangers.is_some() {
            // Strangers take turns among each other.
            key.turn.place = place;
        }
        known.call = Some(Call {
            began_ns: now_ns,
            charged_ns,
            probe: probe.then(|| key.breaker.turn()),
            slow: false,
            timed: true,
            strangers,
        });
        self.settle(number, now_ns);
        Start {
            order,
            key: &self.keys[number as usize].name,
            probe,
            time_limit_ns,
            held,
        }
    }

    /// The key that begins next: of the known ones that may, and of the strangers together, whose turn is first.
    fn first(&self, free: u32) -> Option<u32> {
        let room = free.saturating_sub(self.recent.reserved_slots(self.slots));
        let known = self.ready.first(room);
        let stranger = self.strange.first().filter(|&&((own, _), _)| {
            let most_frac = if self.recent.any() {
                self.rule.most_frac
            } else {
                1.0
            };
            let running = (self.recent.strange_running() + own) / self.strangers_weight();
            slots_needed(running, self.rule.least, most_frac).max(1) <= room
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

    /// As how many keys the strangers count: a tenth of all that could begin a call.
    fn strangers_weight(&self) -> u32 {
        (self.ready.keys() / STRANGERS_BESIDE).max(1) * self.rule.weight.max(1)
    }

    fn next_place(&mut self) -> u64 {
        self.place += 1;
        self.place
    }
}
