//! Preemption: a holder that has used its allowance stands still while somebody is before it, and goes on in its turn.
//!
//! Over its allowance a phase no longer has a boost, and falls behind by a penalty. What it has used does not count: long
//! phases that take turns among themselves all end late. None starves, since the penalty is finite.

use super::{Granted, PermitQueue, Waiter};
use crate::order::{behind_ns, Claim, Key};

/// How far a phase over its allowance falls behind, ns. With 0.1 s short phases gain less over HTTP, with 1 s the longest
/// ones pay more at p99 (`docs/design/0026-stopping-threads.md`).
const PENALTY_NS: i64 = 300_000_000;
/// Longest stop, ns: then the phase computes beside the others for one allowance.
pub const LONGEST_STOP_NS: u64 = 1_000_000_000;

impl Claim {
    /// Its key at `now_ns` once its phase has used more than its allowance.
    pub fn key_over(&self, now_ns: u64, ticket: u64) -> Key {
        let late = self.deadline_ns != 0 && now_ns >= self.deadline_ns;
        let at_ns = self.arrival_ns as i64 + behind_ns(self.attained_ns) + PENALTY_NS;
        (late, at_ns, self.arrival_ns, ticket)
    }
}

impl PermitQueue {
    /// Whether somebody who waits goes before `key`.
    pub fn is_behind(&self, key: Key) -> bool {
        self.by_key
            .first_key_value()
            .is_some_and(|(&first, _)| first < key)
    }

    /// `ticket`, which holds, waits again with `key`; the next one is granted. Unknown tickets are ignored.
    pub fn stop(&mut self, ticket: u64, key: Key) -> Granted {
        if let Some(holder) = self.take_holder(ticket) {
            let waiter = Waiter {
                key,
                deadline_ns: 0, // Its key says it: nobody looks again.
                size_ns: holder.size_ns,
                holds: (holder.key, holder.size_ns),
            };
            self.by_key.insert(key, ticket);
            self.waiters.insert(ticket, waiter);
        }
        self.grant()
    }

    /// Whether short phases are let in beside long holders.
    pub fn express_on(&self) -> bool {
        self.express
    }

    /// Lets them in no more.
    pub fn express_off(&mut self) {
        self.express = false;
    }

    /// Whether short phases are let in beside long holders from now on: not where those can be stopped.
    pub fn let_in_beside(&mut self, express: bool) -> Granted {
        self.express = express;
        self.grant()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::tests::claim;

    const MS: u64 = 1_000_000;

    #[test]
    fn who_is_over_its_allowance_lets_those_before_it_go_and_goes_on_in_its_turn() {
        let mut queue = PermitQueue::new(1, false);
        let hog = claim(5_000, 400);
        assert!(queue.request(5_000 * MS, 1, hog));
        assert!(!queue.request(5_010 * MS, 2, claim(5_010, 8)));
        let key = hog.key_over(5_020 * MS, 1);
        assert!(queue.is_behind(key));
        assert_eq!(queue.stop(1, key), [2]);
        assert_eq!((queue.holders(), queue.waiting()), (1, 1));
        assert_eq!(queue.release(2), [1]);
    }

    #[test]
    fn a_hog_that_has_waited_for_long_is_not_stopped_for_who_comes_now() {
        let mut queue = PermitQueue::new(1, false);
        let hog = claim(5_000, 400);
        queue.request(6_000 * MS, 1, hog);
        queue.request(6_010 * MS, 2, claim(6_000, 43));
        assert!(!queue.is_behind(hog.key_over(6_020 * MS, 1)));
    }

    #[test]
    fn long_phases_go_by_arrival_and_new_ones_pass_them_for_a_while() {
        let (one, other) = (claim(5_000, 400), claim(5_001, 400));
        let over = |claim: Claim| claim.key_over(5_500 * MS, 0);
        assert!(over(one) < over(other));
        assert!(claim(5_299, 400).key(5_500 * MS, 0) < over(one));
        assert!(over(one) < claim(5_301, 400).key(5_500 * MS, 0));
    }

    #[test]
    fn who_goes_on_out_of_turn_counts_beside_the_holder() {
        let mut queue = PermitQueue::new(1, false);
        queue.request(0, 1, claim(0, 400));
        queue.request(0, 2, claim(0, 8));
        let key = claim(0, 400).key_over(20 * MS, 1);
        queue.stop(1, key);
        assert!(queue.cancel([1]).is_empty());
        queue.charge(1, claim(0, 400));
        assert_eq!((queue.holders(), queue.waiting()), (2, 0));
    }
}
