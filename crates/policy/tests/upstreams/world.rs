//! Merchants, orders and a clock that jumps, around the real `Upstreams`.

use greenlane_policy::upstream::{KeyStatus, Outcome, Rule, Upstreams};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000 * MS;

/// What a merchant does with a call that begins at this time while this number of its other calls are in progress.
pub type Law = Box<dyn FnMut(u64, u32) -> (u64, Outcome)>;

/// An order that has been done.
#[derive(Clone, Debug)]
pub struct Done {
    pub merchant: String,
    pub published_ns: u64,
    pub ended_ns: u64,
}

impl Done {
    pub fn took_ns(&self) -> u64 {
        self.ended_ns - self.published_ns
    }
}

#[derive(Clone, Debug)]
struct Call {
    merchant: String,
    outcome: Outcome,
}

/// See the module.
pub struct World {
    pub upstreams: Upstreams,
    pub now_ns: u64,
    laws: HashMap<String, Law>,
    /// All orders have the same key: no bulkheads.
    pub one_key: bool,
    /// (when, order) -> merchant
    publications: BTreeMap<(u64, u64), String>,
    published: HashMap<u64, (String, u64)>,
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    calls: HashMap<u64, Call>,
    running: HashMap<String, u32>,
    orders: u64,
    pub done: Vec<Done>,
    /// Calls begun: (when, merchant, probe).
    pub begun: Vec<(u64, String, bool)>,
    pub surplus: Vec<String>,
    /// Calls that did not end well; each is published again after a second.
    pub bad: u64,
    pub most_parked: u64,
    /// Highest number of calls of a merchant in progress.
    pub peak: HashMap<String, u32>,
}

impl World {
    pub fn new(slots: u32, rule: Rule) -> Self {
        Self {
            upstreams: Upstreams::new(slots, rule),
            now_ns: 0,
            laws: HashMap::new(),
            one_key: false,
            publications: BTreeMap::new(),
            published: HashMap::new(),
            ends: BinaryHeap::new(),
            calls: HashMap::new(),
            running: HashMap::new(),
            orders: 0,
            done: Vec::new(),
            begun: Vec::new(),
            surplus: Vec::new(),
            bad: 0,
            most_parked: 0,
            peak: HashMap::new(),
        }
    }

    pub fn merchant(&mut self, key: &str, law: impl FnMut(u64, u32) -> (u64, Outcome) + 'static) {
        self.laws.insert(key.into(), Box::new(law));
    }

    /// One that always takes so long and is well.
    pub fn steady(&mut self, key: &str, took_ns: u64) {
        self.merchant(key, move |_, _| (took_ns, Outcome::Ok));
    }

    pub fn publish(&mut self, key: &str, when_ns: u64) {
        self.orders += 1;
        self.publications
            .insert((when_ns, self.orders), key.to_string());
    }

    /// Publishes `per_s` orders a second at equal distances, from `from_ns` until `until_ns`.
    pub fn stream(&mut self, key: &str, per_s: u64, from_ns: u64, until_ns: u64) {
        let step = S / per_s;
        // Not all merchants in the same nanosecond.
        let offset = key.bytes().map(u64::from).sum::<u64>() * 13_577 % step;
        for when in (from_ns + offset..until_ns).step_by(step as usize) {
            self.publish(key, when);
        }
    }

    pub fn orders(&self) -> u64 {
        self.orders
    }

    /// Lets everything happen until then.
    pub fn run(&mut self, until_ns: u64) {
        while let Some(when) = self.next_event().filter(|&when| when <= until_ns) {
            self.now_ns = self.now_ns.max(when);
            self.happen();
        }
        self.now_ns = until_ns;
    }

    pub fn look(&self, key: &str) -> KeyStatus {
        let look = self.upstreams.look();
        look.into_iter().find(|look| look.key == key).unwrap()
    }

    /// Latencies of a merchant's done orders that were published in this time, ns, sorted.
    pub fn latencies(&self, merchant: &str, from_ns: u64, until_ns: u64) -> Vec<u64> {
        let published = from_ns..until_ns;
        let mut took: Vec<u64> = self
            .done
            .iter()
            .filter(|done| done.merchant == merchant && published.contains(&done.published_ns))
            .map(Done::took_ns)
            .collect();
        took.sort_unstable();
        took
    }

    /// Nothing is lost: all that was published is done, parked, in progress, or was given back.
    pub fn nothing_is_lost(&self) {
        let totals = self.upstreams.totals();
        let there = self.done.len() as u64
            + totals.parked
            + u64::from(totals.running)
            + self.surplus.len() as u64
            + self.publications.len() as u64;
        assert_eq!(there, self.orders);
    }

    fn next_event(&self) -> Option<u64> {
        let publication = self.publications.keys().next().map(|&(when, _)| when);
        let end = self.ends.peek().map(|&Reverse((when, _))| when);
        let wake = self.upstreams.wake_ns(self.now_ns);
        [publication, end, wake].into_iter().flatten().min()
    }

    fn happen(&mut self) {
        while let Some(entry) = self.publications.first_entry() {
            if entry.key().0 > self.now_ns {
                break;
            }
            let ((when, order), merchant) = entry.remove_entry();
            let key = if self.one_key { "all" } else { &merchant };
            self.upstreams.arrive(order, key, self.now_ns, 1_000, 0);
            self.published.entry(order).or_insert((merchant, when));
        }
        while let Some(&Reverse((when, order))) = self.ends.peek() {
            if when > self.now_ns {
                break;
            }
            self.ends.pop();
            self.end(order);
        }
        for order in self.upstreams.surplus(self.now_ns) {
            self.surplus.push(self.published[&order].0.clone());
        }
        self.most_parked = self.most_parked.max(self.upstreams.totals().parked);
        while let Some(start) = self.upstreams.next(self.now_ns) {
            let (order, probe, limit_ns) = (start.order, start.probe, start.time_limit_ns);
            self.begin(order, probe, limit_ns);
        }
    }

    fn begin(&mut self, order: u64, probe: bool, limit_ns: u64) {
        let merchant = self.published[&order].0.clone();
        let running = self.running.entry(merchant.clone()).or_default();
        *running += 1;
        let peak = self.peak.entry(merchant.clone()).or_default();
        *peak = (*peak).max(*running);
        let (mut took_ns, mut outcome) =
            self.laws.get_mut(&merchant).unwrap()(self.now_ns, *running);
        if limit_ns > 0 && took_ns > limit_ns {
            (took_ns, outcome) = (limit_ns, Outcome::TimedOut);
        }
        self.begun.push((self.now_ns, merchant.clone(), probe));
        self.ends.push(Reverse((self.now_ns + took_ns, order)));
        self.calls.insert(order, Call { merchant, outcome });
    }

    fn end(&mut self, order: u64) {
        let Call { merchant, outcome } = self.calls.remove(&order).unwrap();
        *self.running.get_mut(&merchant).unwrap() -= 1;
        assert!(self.upstreams.end(order, self.now_ns, outcome));
        if outcome == Outcome::Ok {
            self.done.push(Done {
                merchant,
                published_ns: self.published[&order].1,
                ended_ns: self.now_ns,
            });
        } else {
            self.bad += 1;
            self.publications.insert((self.now_ns + S, order), merchant);
        }
    }
}

pub fn healthy() -> Vec<String> {
    (1..10).map(|number| format!("healthy-{number}")).collect()
}

/// Nine merchants at 0.3 s a call and ten orders a second each.
pub fn nine_healthy(slots: u32, rule: Rule, until_ns: u64) -> World {
    let mut world = World::new(slots, rule);
    for name in healthy() {
        world.steady(&name, 300 * MS);
        world.stream(&name, 10, 0, until_ns);
    }
    world
}

/// Latencies of the nine's orders published in this time, sorted.
pub fn healthy_latencies(world: &World, from_ns: u64, until_ns: u64) -> Vec<u64> {
    let mut took: Vec<u64> = healthy()
        .iter()
        .flat_map(|name| world.latencies(name, from_ns, until_ns))
        .collect();
    took.sort_unstable();
    took
}

/// Equally distributed numbers from 0 to 1, always the same ones (splitmix64).
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// `median_ns` spread log-normally, about.
    pub fn spread(&mut self, median_ns: u64, sigma: f64) -> u64 {
        let normal = (0..12).map(|_| self.next()).sum::<f64>() - 6.0;
        (median_ns as f64 * (sigma * normal).exp()) as u64
    }
}
