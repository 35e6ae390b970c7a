//! The permit queue: who holds a permit, who waits, who is granted next.
//!
//! A ticket names one request; it waits, then holds, then is gone. A *lent* holder keeps running but no longer counts:
//! its permit has been given on (it sleeps, or computes without the GIL). One that has used its *share* computes on beside
//! the others: it does not count either, and leaves room for two more, else the others would have half the core however
//! many they are. Every change returns the tickets that it grants; waking them is the shell's work. Operations cost
//! O(log waiters + holders), and where a long holder computes O(waiters + holders).
//!
//! *Express*: beside a holder that may take at least twice as long the first short one is let in that would have gone
//! before that holder, had it come in time. What a holder may take is the mean of its class' heavy bursts: one round of a
//! loop in six is long, and which cannot be told before. Such a one is let in by its mean, and keeps out those of its kind,
//! but nobody who is surely short. They then share the core for some ms, as they would under the GIL alone; otherwise each
//! phase of 7 ms waits for the rest of one of 400. By the order, and not by size alone: who is short does not pass
//! whatever is longer for ever, which the long ones would pay for.

pub mod delay_caused;

use crate::order::{Claim, Key};
use std::collections::{BTreeMap, HashMap};

/// Tickets granted by a change, in order. Usually none or one.
pub type Granted = Vec<u64>;

/// Extra permits beside each holder that has used its share. With two, the others have three quarters of the core among
/// three, and not half of it. With one, quotes beside a phase of 1.5 s took 1.2 to 1.3 times as long as without
/// permits; with none, twice as long.
const MORE: usize = 2;
/// Who never asked holds as the last of all.
const LAST: Key = (true, i64::MAX, u64::MAX, u64::MAX);

#[derive(Clone, Copy, Debug)]
struct Waiter {
    key: Key,
    /// 0 = none.
    deadline_ns: u64,
    size_ns: u64,
    /// The same two once it holds.
    holds: (Key, u64),
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    key: Key,
    size_ns: u64,
    lent: bool,
    /// Whether it is lent because it has used its share.
    shares: bool,
    /// Whether it was let in beside another one.
    express: bool,
}

/// See the module.
#[derive(Debug)]
pub struct PermitQueue {
    permits: usize,
    holders: HashMap<u64, Holder>,
    /// Holders that are not lent.
    counting: usize,
    /// Holders that have used their share.
    sharing: usize,
    waiters: HashMap<u64, Waiter>,
    by_key: BTreeMap<Key, u64>,
}

impl PermitQueue {
    /// An empty queue with `permits` permits (at least one).
    pub fn new(permits: usize) -> Self {
        Self {
            permits: permits.max(1),
            holders: HashMap::new(),
            counting: 0,
            sharing: 0,
            waiters: HashMap::new(),
            by_key: BTreeMap::new(),
        }
    }

    /// Sets the number of permits (at least one). Holders beyond it keep theirs.
    pub fn set_permits(&mut self, permits: usize) {
        self.permits = permits.max(1);
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
            key: claim.key(now_ns, ticket),
            deadline_ns: claim.deadline_ns,
            size_ns: claim.size_ns(),
            holds: holds(&claim, now_ns, ticket),
        };
        self.by_key.insert(waiter.key, ticket);
        self.waiters.insert(ticket, waiter);
        // Who was charged may have opened the way for another one: that is told by `due`.
        if self.next() != Some(ticket) {
            return false;
        }
        self.take_waiter(ticket);
        self.hold(ticket, waiter);
        true
    }

    /// Waiters at the head whose deadline has passed meanwhile go behind all that are in time.
    pub fn put_late_last(&mut self, now_ns: u64) {
        while let Some((&key, ticket)) = self.by_key.first_key_value() {
            let Some(waiter) = self.waiters.get_mut(ticket) else {
                return;
            };
            if key.0 || waiter.deadline_ns == 0 || now_ns < waiter.deadline_ns {
                return;
            }
            (waiter.key.0, waiter.holds.0 .0) = (true, true);
            let (late, ticket) = (waiter.key, *ticket);
            self.by_key.remove(&key);
            self.by_key.insert(late, ticket);
        }
    }

    /// Grants what has become due since a holder was charged or called back.
    pub fn due(&mut self) -> Granted {
        self.grant()
    }

    /// Ends a hold. Unknown tickets are ignored; a lent one frees nothing.
    pub fn release(&mut self, ticket: u64) -> Granted {
        self.take_holder(ticket);
        self.grant()
    }

    /// Ends waits: these tickets go on without a permit. Unknown ones are ignored.
    #[must_use = "somebody may be granted: since the last change a holder may have been charged"]
    pub fn cancel(&mut self, tickets: impl IntoIterator<Item = u64>) -> Granted {
        for ticket in tickets {
            self.take_waiter(ticket);
        }
        self.grant()
    }

    /// Gives a holder's permit on while it keeps running. Ignored unless the ticket holds and counts.
    pub fn lend(&mut self, ticket: u64) -> Granted {
        if let Some(holder) = self.holders.get_mut(&ticket).filter(|holder| !holder.lent) {
            holder.lent = true;
            self.counting -= 1;
        }
        self.grant()
    }

    /// As [`PermitQueue::lend`], for a holder that has used its share.
    pub fn share(&mut self, ticket: u64) -> Granted {
        if let Some(holder) = self.holders.get_mut(&ticket).filter(|holder| !holder.lent) {
            (holder.lent, holder.shares) = (true, true);
            self.counting -= 1;
            self.sharing += 1;
        }
        self.grant()
    }

    /// The CPU after which `ticket`, which holds, has used its share, where `share_ns` is that of most: a quarter for one
    /// that never asked, or is known to take twice as long. The others would wait through much of a long phase for nothing.
    pub fn share_of(&self, ticket: u64, share_ns: u64) -> u64 {
        let is_long = |holder: &Holder| holder.key == LAST || holder.size_ns >= 2 * share_ns;
        match self.holders.get(&ticket).is_some_and(is_long) {
            true => share_ns / 4,
            false => share_ns,
        }
    }

    /// A lent holder counts again, beyond the permits if need be: it competes once more.
    pub fn call_back(&mut self, ticket: u64) {
        if let Some(holder) = self.holders.get_mut(&ticket).filter(|holder| holder.lent) {
            self.sharing -= usize::from(holder.shares);
            (holder.lent, holder.shares) = (false, false);
            self.counting += 1;
        }
    }

    /// `ticket`, which never asked, counts as a holder, beyond the permits if need be: it turned out heavy.
    pub fn charge(&mut self, ticket: u64) {
        if !self.waiters.contains_key(&ticket) && !self.holders.contains_key(&ticket) {
            let holder = Holder {
                key: LAST,
                size_ns: Claim::default().size_ns(),
                lent: false,
                shares: false,
                express: false,
            };
            self.holders.insert(ticket, holder);
            self.counting += 1;
        }
    }

    /// The ticket that the next free permit goes to.
    pub fn head(&self) -> Option<u64> {
        self.by_key.first_key_value().map(|(_, &ticket)| ticket)
    }

    /// `ticket`, which was let in beside another holder, has turned out long: it counts as any other, and the next short
    /// one may be let in.
    pub fn outlasts(&mut self, ticket: u64) -> Granted {
        self.holders
            .entry(ticket)
            .and_modify(|holder| holder.express = false);
        self.grant()
    }

    /// Whether `ticket` holds beside another one.
    pub fn is_express(&self, ticket: u64) -> bool {
        self.holders
            .get(&ticket)
            .is_some_and(|holder| holder.express)
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

    fn grant(&mut self) -> Granted {
        let mut granted = Granted::new();
        while let Some(ticket) = self.next() {
            let Some(waiter) = self.take_waiter(ticket) else {
                break;
            };
            self.hold(ticket, waiter);
            granted.push(ticket);
        }
        granted
    }

    fn next(&self) -> Option<u64> {
        let (_, &first) = self.by_key.first_key_value()?;
        if self.counting < self.room() {
            return Some(first);
        }
        let counting = || self.holders.values().filter(|holder| !holder.lent);
        let last = counting().max_by_key(|holder| holder.key)?;
        let short_ns = last.size_ns / 2;
        // Who was charged or came back counts as well, and does not close the way: threads would share with them, too.
        let beside = counting().filter(|holder| holder.express && self.counting > self.room());
        let least_ns = beside.map(|holder| holder.size_ns).min();
        let is_let_in = |waiter: &Waiter| {
            let kept_out = least_ns.is_some_and(|ns| ns <= short_ns || waiter.holds.1 > short_ns);
            waiter.size_ns <= short_ns && !kept_out
        };
        let mut before = self.by_key.range(..last.key).map(|(_, &ticket)| ticket);
        before.find(|ticket| self.waiters.get(ticket).is_some_and(is_let_in))
    }

    /// How many may count.
    fn room(&self) -> usize {
        self.permits + MORE * self.sharing
    }

    fn hold(&mut self, ticket: u64, waiter: Waiter) {
        let holder = Holder {
            key: waiter.holds.0,
            size_ns: waiter.holds.1,
            lent: false,
            shares: false,
            express: self.counting >= self.room(),
        };
        self.holders.insert(ticket, holder);
        self.counting += 1;
    }

    fn take_holder(&mut self, ticket: u64) -> Option<Holder> {
        let holder = self.holders.remove(&ticket)?;
        self.counting -= usize::from(!holder.lent);
        self.sharing -= usize::from(holder.shares);
        Some(holder)
    }

    fn take_waiter(&mut self, ticket: u64) -> Option<Waiter> {
        let waiter = self.waiters.remove(&ticket)?;
        self.by_key.remove(&waiter.key);
        Some(waiter)
    }
}

fn holds(claim: &Claim, now_ns: u64, ticket: u64) -> (Key, u64) {
    let claim = claim.as_holder();
    (claim.key(now_ns, ticket), claim.size_ns())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::tests::{claim, MS};

    #[test]
    fn a_short_phase_is_let_in_beside_a_long_holder_and_a_long_one_is_not() {
        let mut queue = PermitQueue::new(1);
        assert!(queue.request(0, 1, claim(0, 400)));
        assert!(!queue.request(0, 2, claim(0, 300)));
        assert!(queue.request(0, 3, claim(0, 8)));
        assert!(!queue.request(0, 4, claim(0, 8)), "one at a time");
        assert_eq!(queue.release(3), [4]);
        assert!(queue.release(4).is_empty());
        assert_eq!(queue.release(1), [2]);
    }

    #[test]
    fn a_short_phase_that_came_long_after_the_holder_waits_for_its_turn() {
        let mut queue = PermitQueue::new(1);
        assert!(queue.request(0, 1, claim(0, 44)));
        assert!(!queue.request(0, 2, claim(200, 5)));
        assert!(queue.request(0, 3, claim(100, 5)));
    }

    #[test]
    fn beside_a_holder_that_may_be_long_a_short_phase_is_let_in() {
        let mut queue = PermitQueue::new(1);
        let rows = Claim {
            long_ns: 20_000_000,
            ..claim(0, 4)
        };
        assert!(queue.request(0, 1, rows));
        assert!(!queue.request(0, 2, claim(0, 12)));
        assert!(queue.cancel([2]).is_empty());
        assert!(queue.request(0, 3, claim(0, 6)));
    }

    #[test]
    fn one_that_was_let_in_and_turns_out_long_keeps_no_short_one_out() {
        let mut queue = PermitQueue::new(1);
        queue.request(0, 1, claim(0, 400));
        assert!(queue.request(0, 2, claim(0, 8)));
        assert!(!queue.request(0, 3, claim(0, 8)));
        assert_eq!(queue.outlasts(2), [3]);
        assert_eq!(queue.holders(), 3);
    }

    #[test]
    fn a_short_one_behind_a_long_one_is_let_in_beside_a_long_holder() {
        let mut queue = PermitQueue::new(1);
        assert!(queue.request(0, 1, claim(0, 44)));
        assert!(!queue.request(0, 2, claim(0, 43)));
        assert!(queue.request(0, 3, claim(90, 7)));
        assert!(queue.is_express(3));
    }

    #[test]
    fn who_may_turn_out_long_keeps_out_its_kind_and_nobody_who_is_surely_short() {
        let mut queue = PermitQueue::new(1);
        let rows = Claim {
            long_ns: 20_000_000,
            ..claim(0, 4)
        };
        assert!(queue.request(0, 1, claim(0, 20)));
        assert!(queue.request(0, 2, rows));
        assert!(!queue.request(0, 3, rows));
        assert!(queue.request(0, 4, claim(0, 6)));
        assert!(!queue.request(0, 5, claim(0, 6)));
        assert_eq!(queue.release(4), [5]);
    }

    #[test]
    fn beside_one_that_has_used_its_share_there_is_room_for_three() {
        let mut queue = PermitQueue::new(1);
        assert!(queue.request(0, 1, claim(0, 400)));
        for ticket in 2..6 {
            assert!(!queue.request(0, ticket, claim(ticket, 300)));
        }
        assert_eq!(queue.share(1), [2, 3, 4]);
        assert!(queue.release(1).is_empty());
        assert!(queue.release(2).is_empty());
        assert!(queue.release(3).is_empty());
        assert_eq!(queue.release(4), [5]);
    }

    #[test]
    fn who_is_long_or_never_asked_has_a_quarter_of_a_share() {
        let share_ns = 400 * MS;
        let mut queue = PermitQueue::new(3);
        queue.request(0, 1, claim(0, 40));
        queue.request(0, 2, claim(0, 800));
        queue.charge(3);
        assert_eq!(
            [1, 2, 3].map(|one| queue.share_of(one, share_ns) / MS),
            [400, 100, 100]
        );
    }

    #[test]
    fn who_gives_up_may_let_another_in_beside_one_that_was_charged() {
        let mut queue = PermitQueue::new(1);
        assert!(queue.request(0, 1, claim(0, 6)));
        assert!(!queue.request(0, 2, claim(0, 6)));
        queue.charge(3);
        assert!(!queue.request(0, 4, claim(1, 6)));
        assert_eq!(queue.cancel([4]), [2]);
    }

    #[test]
    fn who_becomes_late_in_the_queue_goes_behind_who_is_in_time() {
        let mut queue = PermitQueue::new(1);
        let due = |deadline_ms: u64, arrival_ms| Claim {
            deadline_ns: deadline_ms * MS,
            ..claim(arrival_ms, 40)
        };
        assert!(queue.request(0, 1, claim(0, 40)));
        for (ticket, claim) in [
            (2, due(100, 1)),
            (3, due(101, 2)),
            (4, due(300, 3)),
            (5, claim(4, 40)),
        ] {
            assert!(!queue.request(5 * MS, ticket, claim));
        }
        queue.put_late_last(99 * MS);
        assert_eq!(queue.head(), Some(2));
        queue.put_late_last(200 * MS);
        let order = [1, 4, 5, 2, 3].map(|ticket| queue.release(ticket));
        assert_eq!(order, [vec![4], vec![5], vec![2], vec![3], vec![]]);
    }

    #[test]
    fn a_lent_permit_is_granted_on_and_its_release_frees_nothing() {
        let mut queue = PermitQueue::new(1);
        queue.request(0, 1, claim(0, 5));
        queue.request(0, 2, claim(1, 5));
        queue.request(0, 3, claim(2, 5));
        assert_eq!(queue.lend(1), [2]);
        assert!(queue.release(1).is_empty());
        assert_eq!(queue.holders(), 1);
        assert_eq!(queue.release(2), [3]);
    }

    #[test]
    fn who_is_called_back_counts_and_nobody_is_granted_until_both_have_gone() {
        let mut queue = PermitQueue::new(1);
        queue.request(0, 1, claim(0, 5));
        queue.request(0, 2, claim(1, 5));
        queue.request(0, 3, claim(2, 5));
        assert_eq!(queue.lend(1), [2]);
        queue.call_back(1);
        assert_eq!(queue.holders(), 2);
        assert!(queue.release(2).is_empty());
        assert_eq!(queue.release(1), [3]);
    }

    #[test]
    fn who_is_charged_keeps_the_permit_from_others() {
        let mut queue = PermitQueue::new(1);
        queue.charge(1);
        assert!(!queue.request(0, 2, claim(0, 40)));
        assert_eq!(queue.release(1), [2]);
    }

    #[test]
    fn one_short_phase_goes_beside_however_many_were_charged() {
        let mut queue = PermitQueue::new(1);
        for ticket in 1..4 {
            queue.charge(ticket);
        }
        assert!(queue.request(0, 4, claim(0, 6)));
        assert!(!queue.request(0, 5, claim(0, 6)));
        assert_eq!(queue.release(4), [5]);
    }

    #[test]
    fn whom_a_charge_lets_in_is_told_by_due_and_not_lost() {
        let mut queue = PermitQueue::new(1);
        assert!(queue.request(0, 1, claim(0, 7)));
        assert!(!queue.request(0, 2, claim(0, 6)));
        queue.charge(3);
        assert!(!queue.request(0, 4, claim(0, 40)));
        assert_eq!(queue.due(), [2]);
        assert_eq!(queue.head(), Some(4));
    }

    #[test]
    fn cancelling_the_head_leaves_the_next_at_the_head() {
        let mut queue = PermitQueue::new(1);
        queue.request(0, 1, claim(0, 5));
        queue.request(0, 2, claim(1, 5));
        queue.request(0, 3, claim(2, 5));
        assert!(queue.cancel([2]).is_empty());
        assert_eq!(queue.head(), Some(3));
    }
}
