//! The permit queue: who holds a permit, who waits, who is granted next.
//!
//! A ticket names one request; it waits, then holds, then is gone. A *lent* holder keeps running but no longer counts:
//! its permit has been given on (it sleeps, it computes without the GIL, or it has overrun). Every change returns the
//! tickets that it grants; waking them is the shell's work. All operations cost O(log waiters).

use crate::order::{Claim, Discipline, Key};
use std::collections::{BTreeMap, HashMap};

/// Tickets granted by a change, in order. Usually none or one.
pub type Granted = Vec<u64>;

#[derive(Clone, Copy, Debug)]
struct Waiter {
    key: Key,
    requested_ns: u64,
    expected_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    expected_ns: u64,
    lent: bool,
}

/// See the module.
#[derive(Debug)]
pub struct PermitQueue {
    permits: usize,
    discipline: Discipline,
    /// A waiter of this age goes before all younger ones, whatever the discipline says; 0 = never.
    ageing_ns: u64,
    holders: HashMap<u64, Holder>,
    /// Holders that count against `permits`: those not lent.
    counting: usize,
    waiters: HashMap<u64, Waiter>,
    by_key: BTreeMap<Key, u64>,
    by_request: BTreeMap<(u64, u64), u64>,
    /// Expected CPU of everybody who waits or counts as a holder, ns.
    expected_ns: u64,
}

impl PermitQueue {
    /// An empty queue with `permits` permits (at least one).
    pub fn new(permits: usize, discipline: Discipline, ageing_ns: u64) -> Self {
        Self {
            permits: permits.max(1),
            discipline,
            ageing_ns,
            holders: HashMap::new(),
            counting: 0,
            waiters: HashMap::new(),
            by_key: BTreeMap::new(),
            by_request: BTreeMap::new(),
            expected_ns: 0,
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
        self.expected_ns = self.expected_ns.saturating_add(claim.expected_ns);
        if self.waiters.is_empty() && self.counting < self.permits {
            self.hold(ticket, claim.expected_ns);
            return true;
        }
        let key = self.discipline.key(&claim, ticket);
        self.by_key.insert(key, ticket);
        self.by_request.insert((now_ns, ticket), ticket);
        self.waiters.insert(
            ticket,
            Waiter {
                key,
                requested_ns: now_ns,
                expected_ns: claim.expected_ns,
            },
        );
        false
    }

    /// Ends a hold. Unknown tickets are ignored; a lent one frees nothing.
    pub fn release(&mut self, now_ns: u64, ticket: u64) -> Granted {
        if let Some(holder) = self.holders.remove(&ticket) {
            self.discount(holder);
        }
        self.grant(now_ns)
    }

    /// Ends a wait: the ticket goes on without a permit. Unknown tickets are ignored.
    pub fn cancel(&mut self, now_ns: u64, ticket: u64) -> Granted {
        if let Some(waiter) = self.take_waiter(ticket) {
            self.expected_ns = self.expected_ns.saturating_sub(waiter.expected_ns);
        }
        self.grant(now_ns)
    }

    /// Gives a holder's permit on while it keeps running. Ignored unless the ticket holds and counts.
    pub fn lend(&mut self, now_ns: u64, ticket: u64) -> Granted {
        if let Some(holder) = self.holders.get_mut(&ticket).filter(|holder| !holder.lent) {
            let before = *holder;
            holder.lent = true;
            self.discount(before);
        }
        self.grant(now_ns)
    }

    /// Lets everybody who waits go, without a permit: the switch to turn Greenlane off.
    pub fn release_waiters(&mut self) -> Granted {
        let all: Vec<u64> = self.by_key.values().copied().collect();
        for &ticket in &all {
            if let Some(waiter) = self.take_waiter(ticket) {
                self.expected_ns = self.expected_ns.saturating_sub(waiter.expected_ns);
            }
        }
        all
    }

    /// The ticket that the next free permit goes to.
    pub fn head(&self, now_ns: u64) -> Option<u64> {
        let (&(requested_ns, _), &oldest) = self.by_request.first_key_value()?;
        if self.ageing_ns > 0 && now_ns.saturating_sub(requested_ns) >= self.ageing_ns {
            return Some(oldest);
        }
        self.by_key.first_key_value().map(|(_, &ticket)| ticket)
    }

    /// Holders that count, so at most the number of permits.
    pub fn holders(&self) -> usize {
        self.counting
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// Expected CPU of all who wait or count as holders, ns.
    pub fn expected_ns(&self) -> u64 {
        self.expected_ns
    }

    /// Whether `ticket` waits.
    pub fn is_waiting(&self, ticket: u64) -> bool {
        self.waiters.contains_key(&ticket)
    }

    fn grant(&mut self, now_ns: u64) -> Granted {
        let mut granted = Granted::new();
        while self.counting < self.permits {
            let Some(ticket) = self.head(now_ns) else {
                break;
            };
            if let Some(waiter) = self.take_waiter(ticket) {
                self.hold(ticket, waiter.expected_ns);
                granted.push(ticket);
            }
        }
        granted
    }

    fn hold(&mut self, ticket: u64, expected_ns: u64) {
        self.holders.insert(
            ticket,
            Holder {
                expected_ns,
                lent: false,
            },
        );
        self.counting += 1;
    }

    fn discount(&mut self, holder: Holder) {
        if !holder.lent {
            self.counting -= 1;
            self.expected_ns = self.expected_ns.saturating_sub(holder.expected_ns);
        }
    }

    fn take_waiter(&mut self, ticket: u64) -> Option<Waiter> {
        let waiter = self.waiters.remove(&ticket)?;
        self.by_key.remove(&waiter.key);
        self.by_request.remove(&(waiter.requested_ns, ticket));
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(arrival_ns: u64, deadline_ns: u64, expected_ns: u64) -> Claim {
        Claim {
            arrival_ns,
            deadline_ns,
            expected_ns,
        }
    }

    fn drained(discipline: Discipline, claims: &[Claim]) -> Vec<u64> {
        let mut queue = PermitQueue::new(1, discipline, 0);
        assert!(queue.request(0, 99, claim(0, 0, 0)));
        for (ticket, &one) in (0..).zip(claims) {
            assert!(!queue.request(0, ticket, one));
        }
        let mut order = vec![];
        let mut current = 99;
        while let Some(&next) = queue.release(1, current).first() {
            order.push(next);
            current = next;
        }
        order
    }

    #[test]
    fn fifo_goes_by_arrival_of_the_job_not_of_the_request() {
        let claims = [claim(30, 0, 1), claim(10, 0, 1), claim(20, 0, 1)];
        assert_eq!(drained(Discipline::Fifo, &claims), [1, 2, 0]);
    }

    #[test]
    fn earliest_deadline_goes_first_and_no_deadline_last() {
        let claims = [claim(1, 0, 1), claim(2, 900, 1), claim(3, 500, 1)];
        assert_eq!(drained(Discipline::Deadline, &claims), [2, 1, 0]);
    }

    #[test]
    fn shortest_expected_burst_goes_first() {
        let claims = [claim(1, 0, 70), claim(2, 0, 10), claim(3, 0, 40)];
        assert_eq!(drained(Discipline::Shortest, &claims), [1, 2, 0]);
    }

    #[test]
    fn an_aged_waiter_overtakes_the_discipline() {
        let mut queue = PermitQueue::new(1, Discipline::Shortest, 1_000);
        queue.request(0, 1, claim(0, 0, 5));
        queue.request(10, 2, claim(10, 0, 900));
        queue.request(20, 3, claim(20, 0, 1));
        assert_eq!(queue.release(500, 1), [3]);
        queue.request(600, 4, claim(600, 0, 1));
        assert_eq!(queue.release(1_010, 3), [2]);
    }

    #[test]
    fn a_lent_permit_is_granted_on_and_its_release_frees_nothing() {
        let mut queue = PermitQueue::new(1, Discipline::Fifo, 0);
        queue.request(0, 1, claim(0, 0, 5));
        queue.request(0, 2, claim(1, 0, 5));
        queue.request(0, 3, claim(2, 0, 5));
        assert_eq!(queue.lend(1, 1), [2]);
        assert!(queue.release(2, 1).is_empty());
        assert_eq!(queue.holders(), 1);
        assert_eq!(queue.release(3, 2), [3]);
    }

    #[test]
    fn cancelling_the_head_leaves_the_next_at_the_head() {
        let mut queue = PermitQueue::new(1, Discipline::Fifo, 0);
        queue.request(0, 1, claim(0, 0, 5));
        queue.request(0, 2, claim(1, 0, 5));
        queue.request(0, 3, claim(2, 0, 5));
        assert!(queue.cancel(1, 2).is_empty());
        assert_eq!(queue.head(1), Some(3));
        assert_eq!(queue.expected_ns(), 10);
    }
}
