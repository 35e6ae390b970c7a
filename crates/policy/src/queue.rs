//! The permit queue: who holds a permit, who waits, who is granted next.
//!
//! A ticket names one request; it waits, then holds, then is gone. A *lent* holder keeps running but no longer counts:
//! its permit has been given on (it sleeps, it computes without the GIL, or it has used its share). Every change returns
//! the tickets that it grants; waking them is the shell's work. All operations cost O(log waiters + holders).
//!
//! *Express*: beside holders one phase more is let in that takes at most half as long as one of them. The two then share
//! the core for some ms, as they would under the GIL alone; otherwise each phase of 7 ms waits for the rest of one of 400.

use crate::order::{Claim, Key};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Tickets granted by a change, in order. Usually none or one.
pub type Granted = Vec<u64>;

/// Weight of the newest wait in the mean that boosts are made of: some 50 grants. Arbitrary.
const NEWEST: f64 = 0.02;

#[derive(Clone, Copy, Debug)]
struct Waiter {
    key: Key,
    requested_ns: u64,
    size_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    size_ns: u64,
    lent: bool,
}

/// See the module.
#[derive(Debug)]
pub struct PermitQueue {
    permits: usize,
    /// Whether short phases are let in beside long holders.
    express: bool,
    holders: HashMap<u64, Holder>,
    /// Holders that are not lent: at most one more than `permits`, but for those called back.
    counting: usize,
    waiters: HashMap<u64, Waiter>,
    by_key: BTreeMap<Key, u64>,
    by_size: BTreeSet<(u64, Key)>,
    /// Mean of recent waits, ns.
    wait_ns: f64,
}

impl PermitQueue {
    /// An empty queue with `permits` permits (at least one).
    pub fn new(permits: usize, express: bool) -> Self {
        Self {
            permits: permits.max(1),
            express,
            holders: HashMap::new(),
            counting: 0,
            waiters: HashMap::new(),
            by_key: BTreeMap::new(),
            by_size: BTreeSet::new(),
            wait_ns: 0.0,
        }
    }

    /// Asks for a permit. True: granted, `ticket` holds it. False: `ticket` waits.
    ///
    /// A ticket that already holds is granted again without effect; one that already waits keeps its place.
    pub fn request(&mut self, now_ns: u64, ticket: u64, claim: Claim) -> bool {
        if self.holders.contains_key(&ticket) {
            return true;
        }
        if self.waiters.contains_key(&ticket) {
            return false;
        }
        let waiter = Waiter {
            key: claim.key(now_ns, self.wait_ns, ticket),
            requested_ns: now_ns,
            size_ns: claim.size_ns(),
        };
        self.by_key.insert(waiter.key, ticket);
        self.by_size.insert((waiter.size_ns, waiter.key));
        self.waiters.insert(ticket, waiter);
        self.grant(now_ns).contains(&ticket)
    }

    /// Ends a hold. Unknown tickets are ignored; a lent one frees nothing.
    pub fn release(&mut self, now_ns: u64, ticket: u64) -> Granted {
        if let Some(holder) = self.holders.remove(&ticket) {
            self.counting -= usize::from(!holder.lent);
        }
        self.grant(now_ns)
    }

    /// Ends a wait: the ticket goes on without a permit. Unknown tickets are ignored.
    pub fn cancel(&mut self, now_ns: u64, ticket: u64) -> Granted {
        self.take_waiter(ticket);
        self.grant(now_ns)
    }

    /// Gives a holder's permit on while it keeps running. Ignored unless the ticket holds and counts.
    pub fn lend(&mut self, now_ns: u64, ticket: u64) -> Granted {
        if let Some(holder) = self.holders.get_mut(&ticket).filter(|holder| !holder.lent) {
            holder.lent = true;
            self.counting -= 1;
        }
        self.grant(now_ns)
    }

    /// A lent holder counts again, beyond the permits if need be: it competes once more.
    pub fn call_back(&mut self, ticket: u64) {
        if let Some(holder) = self.holders.get_mut(&ticket).filter(|holder| holder.lent) {
            holder.lent = false;
            self.counting += 1;
        }
    }

    /// `ticket`, which never asked, counts as a holder, beyond the permits if need be: it turned out heavy.
    pub fn charge(&mut self, ticket: u64, claim: Claim) {
        if !self.waiters.contains_key(&ticket) && !self.holders.contains_key(&ticket) {
            self.hold(ticket, claim.size_ns());
        }
    }

    /// Lets everybody who waits go, without a permit: the switch to turn Greenlane off.
    pub fn release_waiters(&mut self) -> Granted {
        let all: Vec<u64> = self.by_key.values().copied().collect();
        for &ticket in &all {
            self.take_waiter(ticket);
        }
        all
    }

    /// The ticket that the next free permit goes to.
    pub fn head(&self) -> Option<u64> {
        self.by_key.first_key_value().map(|(_, &ticket)| ticket)
    }

    /// Holders that count.
    pub fn holders(&self) -> usize {
        self.counting
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// Whether `ticket` waits.
    pub fn is_waiting(&self, ticket: u64) -> bool {
        self.waiters.contains_key(&ticket)
    }

    fn grant(&mut self, now_ns: u64) -> Granted {
        let mut granted = Granted::new();
        while let Some(ticket) = self.next() {
            let Some(waiter) = self.take_waiter(ticket) else {
                break;
            };
            let waited_ns = now_ns.saturating_sub(waiter.requested_ns) as f64;
            self.wait_ns += NEWEST * (waited_ns - self.wait_ns);
            self.hold(ticket, waiter.size_ns);
            granted.push(ticket);
        }
        granted
    }

    fn next(&self) -> Option<u64> {
        if self.counting < self.permits {
            return self.head();
        }
        if !self.express || self.counting > self.permits {
            return None;
        }
        let (size_ns, key) = self.by_size.first()?;
        let counting = self.holders.values().filter(|holder| !holder.lent);
        let longest_ns = counting.map(|holder| holder.size_ns).max()?;
        (*size_ns <= longest_ns / 2).then(|| self.by_key.get(key).copied())?
    }

    fn hold(&mut self, ticket: u64, size_ns: u64) {
        let holder = Holder {
            size_ns,
            lent: false,
        };
        self.holders.insert(ticket, holder);
        self.counting += 1;
    }

    fn take_waiter(&mut self, ticket: u64) -> Option<Waiter> {
        let waiter = self.waiters.remove(&ticket)?;
        self.by_key.remove(&waiter.key);
        self.by_size.remove(&(waiter.size_ns, waiter.key));
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::tests::claim;

    #[test]
    fn a_short_phase_is_let_in_beside_a_long_holder_and_a_long_one_is_not() {
        let mut queue = PermitQueue::new(1, true);
        assert!(queue.request(0, 1, claim(0, 400)));
        assert!(!queue.request(0, 2, claim(0, 300)));
        assert!(queue.request(0, 3, claim(0, 8)));
        assert!(!queue.request(0, 4, claim(0, 8)), "one at a time");
        assert_eq!(queue.release(1, 3), [4]);
        assert!(queue.release(1, 4).is_empty());
        assert_eq!(queue.release(1, 1), [2]);
    }

    #[test]
    fn without_express_holders_are_as_many_as_permits() {
        let mut queue = PermitQueue::new(1, false);
        assert!(queue.request(0, 1, claim(0, 400)));
        assert!(!queue.request(0, 2, claim(0, 1)));
    }

    #[test]
    fn a_lent_permit_is_granted_on_and_its_release_frees_nothing() {
        let mut queue = PermitQueue::new(1, true);
        queue.request(0, 1, claim(0, 5));
        queue.request(0, 2, claim(1, 5));
        queue.request(0, 3, claim(2, 5));
        assert_eq!(queue.lend(1, 1), [2]);
        assert!(queue.release(2, 1).is_empty());
        assert_eq!(queue.holders(), 1);
        assert_eq!(queue.release(3, 2), [3]);
    }

    #[test]
    fn who_is_called_back_counts_and_nobody_is_granted_until_both_have_gone() {
        let mut queue = PermitQueue::new(1, true);
        queue.request(0, 1, claim(0, 5));
        queue.request(0, 2, claim(1, 5));
        queue.request(0, 3, claim(2, 5));
        assert_eq!(queue.lend(1, 1), [2]);
        queue.call_back(1);
        assert_eq!(queue.holders(), 2);
        assert!(queue.release(2, 2).is_empty());
        assert_eq!(queue.release(3, 1), [3]);
    }

    #[test]
    fn who_is_charged_keeps_the_permit_from_others() {
        let mut queue = PermitQueue::new(1, true);
        queue.charge(1, claim(0, 5));
        assert!(!queue.request(0, 2, claim(0, 5)));
        assert_eq!(queue.release(1, 1), [2]);
    }

    #[test]
    fn cancelling_the_head_leaves_the_next_at_the_head() {
        let mut queue = PermitQueue::new(1, true);
        queue.request(0, 1, claim(0, 5));
        queue.request(0, 2, claim(1, 5));
        queue.request(0, 3, claim(2, 5));
        assert!(queue.cancel(1, 2).is_empty());
        assert_eq!(queue.head(), Some(3));
    }
}
