//! The keys that are known: how they come, what is set and seen of them, where they stand, and how they are forgotten.

use super::breaker::Breaker;
use super::delay_reasons::DelaySums;
use super::key::{Counts, Key, Places};
use super::key_status::{KeyStatus, Totals};
use super::limit::Limiter;
use super::recent_outcomes::KeyShare;
use super::round_robin::RoundPosition;
use super::rule::Rule;
use super::Upstreams;
use std::collections::BTreeSet;

impl Upstreams {
    /// Gives a key a rule of its own, from now on; None = the general one. Keys with one are never forgotten.
    pub fn set(&mut self, key: &str, now_ns: u64, rule: Option<Rule>) {
        let number = self.number(key, now_ns);
        self.keys[number as usize].rule = rule.map(Box::new);
        self.settle(number, now_ns);
    }

    /// Sets this process's part, for now, of a limit that several processes share, in calls at a time; None = no limit.
    ///
    /// Calls in progress go on. A key that was forgotten has none: say it before its next order arrives.
    pub fn lease(&mut self, key: &str, now_ns: u64, calls: Option<u32>) {
        let number = self.number(key, now_ns);
        self.keys[number as usize].leased = calls;
        self.settle(number, now_ns);
    }

    /// Assumes this usual latency of a key as long as its own is not known, ns; 0 = none.
    ///
    /// A key that was forgotten has none: say it before its next order arrives.
    pub fn presume(&mut self, key: &str, now_ns: u64, usual_ns: u64) {
        let number = self.number(key, now_ns);
        self.keys[number as usize].presumed_ns = usual_ns;
        self.settle(number, now_ns);
    }

    /// Another process's probes of a key have failed, and it does not try again for this long: nor does this one.
    ///
    /// Nothing changes unless the breaker is open, or half open with no probe under way.
    pub fn probes_failed(&mut self, key: &str, now_ns: u64, open_ns: u64) {
        let Some(&number) = self.numbers.get(key) else {
            return;
        };
        let key = &mut self.keys[number as usize];
        let rule = key.rule.as_deref().unwrap_or(&self.rule);
        key.breaker.probes_failed(now_ns, open_ns, rule);
        self.settle(number, now_ns);
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

    /// Calls in progress and parked orders of a key.
    pub fn load(&self, key: &str) -> (u32, u64) {
        self.numbers.get(key).map_or((0, 0), |&number| {
            let key = &self.keys[number as usize];
            (key.running, key.parked.len() as u64)
        })
    }

    /// What a person sees, by name. Cost: O(keys log keys).
    pub fn look(&self) -> Vec<KeyStatus> {
        let mut numbers: Vec<(&str, u32)> = self
            .numbers
            .iter()
            .map(|(name, &number)| (&**name, number))
            .collect();
        numbers.sort_unstable();
        numbers
            .into_iter()
            .map(|(_, number)| self.status_of(number))
            .collect()
    }

    /// The same of one key; None = it is not known.
    pub fn look_at(&self, key: &str) -> Option<KeyStatus> {
        self.numbers.get(key).map(|&number| self.status_of(number))
    }

    /// Sums over all keys.
    pub fn totals(&self) -> Totals {
        Totals {
            slots: self.slots,
            running: self.running,
            parked: self.parked,
            parked_bytes: self.parked_bytes,
            keys: self.numbers.len() as u64,
            reserved: self.recent.reserved_slots(self.slots),
            common: self.recent.common(),
        }
    }

    fn status_of(&self, number: u32) -> KeyStatus {
        let key = &self.keys[number as usize];
        let oldest = key
            .parked
            .first_key_value()
            .and_then(|(_, order)| self.orders.get(order));
        KeyStatus::of(key, oldest.map_or(0, |known| known.arrived_ns), &self.rule)
    }

    /// The number of a key, which is made known if it is new.
    pub(super) fn number(&mut self, name: &str, now_ns: u64) -> u32 {
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
            leased: None,
            breaker: Breaker::default(),
            limiter: Limiter::new(now_ns, &self.rule, self.slots),
            presumed_ns: 0,
            turn: RoundPosition::new(self.round, place, self.rule.weight),
            parked: Default::default(),
            parked_bytes: 0,
            running: 0,
            unjudged: Default::default(),
            probed: Vec::new(),
            late: Vec::new(),
            strange: true,
            answered_ns: 0,
            is_recent: false,
            over: false,
            share: KeyShare::default(),
            holding: DelaySums::default(),
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

    pub(super) fn forget(&mut self, number: u32) {
        let key = &mut self.keys[number as usize];
        if let Some(since) = key.places.idle.take() {
            self.idle.remove(&(since, number));
        }
        self.recent.change(key.share, KeyShare::default());
        key.share = KeyShare::default();
        key.is_recent = false;
        self.numbers.remove(&key.name);
        self.vacant.push(number);
    }

    /// Puts a key where it belongs after anything about it has changed.
    pub(super) fn settle(&mut self, number: u32, now_ns: u64) {
        let key = &mut self.keys[number as usize];
        let after = key.places(&self.rule, now_ns);
        key.holding.change(key.why(&self.rule), now_ns);
        let before = std::mem::replace(&mut key.places, after);
        if before.ready != after.ready {
            if let Some(standing) = before.ready {
                self.ready.remove(number, standing);
            }
            if let Some(standing) = after.ready {
                self.ready.insert(number, standing);
            }
        }
        move_entry(&mut self.timers, number, before.timer, after.timer);
        move_entry(&mut self.longest, number, before.longest, after.longest);
        move_entry(&mut self.biggest, number, before.biggest, after.biggest);
        move_entry(&mut self.idle, number, before.idle, after.idle);
        move_entry(&mut self.strange, number, before.strange, after.strange);
        move_entry(&mut self.newest, number, before.newest, after.newest);
        self.share(number);
    }

    pub(super) fn share(&mut self, number: u32) {
        let key = &mut self.keys[number as usize];
        let after = key.share(&self.rule);
        let before = std::mem::replace(&mut key.share, after);
        if before != after {
            self.recent.change(before, after);
        }
    }
}

fn move_entry<T: Ord + Copy>(
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
