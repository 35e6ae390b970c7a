//! What turns would bring where nobody takes them: the permit queue beside phases that run as they like.
//!
//! In a time of its own those that hold a permit share what is left of the core, and the others wait. A phase takes what
//! its class is expected to until it has ended, then what it took. Left out: that a request which waits comes later to its
//! next phase, and who is charged or lent.

use super::kept::Kept;
use super::PermitQueue;
use crate::order::Claim;
use std::collections::HashMap;

/// Part of a core that those who hold a permit have at least.
const LEAST_FRAC: f64 = 0.1;

/// A turn as it would have been, of a phase of `of`.
#[derive(Debug, PartialEq, Eq)]
pub struct Foreseen<T> {
    pub of: T,
    pub waited_ns: u64,
    /// How long others would have waited for it.
    pub others_waited_ns: u64,
    pub express: bool,
    pub shared: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Shadow<T> {
    queue: PermitQueue,
    share_ns: u64,
    kept: Kept,
    now_ns: u64,
    phases: HashMap<u64, Phase<T>>,
}

#[derive(Debug)]
struct Phase<T> {
    size_ns: u64,
    used_ns: u64,
    turn: Foreseen<T>,
    /// When it began to wait or hold, and what [`Kept`] said when it began to hold.
    from_ns: u64,
    kept_from_ns: u64,
    holds: bool,
}

impl<T> Shadow<T> {
    /// As many permits as there would be; `share_ns`: own CPU after which a holder no longer counts.
    pub fn new(permits: usize, share_ns: u64) -> Self {
        Self {
            queue: PermitQueue::new(permits),
            share_ns,
            kept: Kept::default(),
            now_ns: 0,
            phases: HashMap::new(),
        }
    }

    /// A phase of `of` would ask for a permit now. Gives whether it would wait. [`Shadow::pass`] comes first.
    pub fn ask(&mut self, ticket: u64, claim: Claim, of: T) -> bool {
        let phase = Phase {
            size_ns: claim.size_ns(),
            used_ns: 0,
            turn: Foreseen {
                of,
                waited_ns: 0,
                others_waited_ns: 0,
                express: false,
                shared: false,
            },
            from_ns: self.now_ns,
            kept_from_ns: 0,
            holds: false,
        };
        self.phases.insert(ticket, phase);
        let holds = self.queue.request(self.now_ns, ticket, claim);
        if holds {
            self.hold(ticket);
        }
        !holds
    }

    /// The phase has ended, and took `burst_ns` of CPU. [`Shadow::pass`] comes first.
    pub fn know(&mut self, ticket: u64, burst_ns: u64) {
        if let Some(phase) = self.phases.get_mut(&ticket) {
            phase.size_ns = burst_ns;
        }
    }

    /// Time goes on until `now_ns`; those who hold have `core_frac` of a core together. Gives the turns that end.
    pub fn pass(&mut self, now_ns: u64, core_frac: f64) -> Vec<Foreseen<T>> {
        let mut ended = Vec::new();
        while self.now_ns < now_ns {
            let holding = |(_, phase): &(&u64, &Phase<T>)| phase.holds;
            let holders = self.phases.iter().filter(holding).count();
            let left = |(&ticket, phase): (&u64, &Phase<T>)| (self.left_ns(phase), ticket);
            let next = self.phases.iter().filter(holding).map(left).min();
            // What one of them has of the core.
            let part = core_frac.max(LEAST_FRAC) / holders.max(1) as f64;
            let until_ns = match next {
                Some((left_ns, _)) => self.now_ns + (left_ns as f64 / part) as u64 + 1,
                None => now_ns,
            };
            let passed_ns = until_ns.min(now_ns) - self.now_ns;
            self.now_ns += passed_ns;
            self.kept
                .until(self.now_ns, self.queue.waiting(), self.queue.holders());
            for phase in self.phases.values_mut().filter(|phase| phase.holds) {
                phase.used_ns += (passed_ns as f64 * part) as u64;
            }
            if let Some((_, ticket)) = next.filter(|_| until_ns <= now_ns) {
                ended.extend(self.step(ticket));
            }
        }
        ended
    }

    /// CPU until the phase ends or has used its share.
    fn left_ns(&self, phase: &Phase<T>) -> u64 {
        let upto_ns = match phase.turn.shared {
            true => phase.size_ns,
            false => phase.size_ns.min(self.share_ns),
        };
        upto_ns.saturating_sub(phase.used_ns)
    }

    fn step(&mut self, ticket: u64) -> Option<Foreseen<T>> {
        let phase = self.phases.get_mut(&ticket)?;
        let overruns = !phase.turn.shared && phase.size_ns > self.share_ns;
        phase.turn.others_waited_ns += match phase.turn.shared {
            true => 0,
            false => self.kept.each_ns() - phase.kept_from_ns,
        };
        phase.turn.shared |= overruns;
        let (granted, ended) = match overruns {
            true => (self.queue.share(ticket), None),
            false => (self.queue.release(ticket), self.phases.remove(&ticket)),
        };
        granted.into_iter().for_each(|one| self.hold(one));
        ended.map(|phase| phase.turn)
    }

    fn hold(&mut self, ticket: u64) {
        if let Some(phase) = self.phases.get_mut(&ticket) {
            phase.turn.waited_ns = self.now_ns - phase.from_ns;
            phase.turn.express = self.queue.is_express(ticket);
            phase.kept_from_ns = self.kept.each_ns();
            phase.holds = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::tests::{claim, MS};

    fn shadow() -> Shadow<&'static str> {
        let mut shadow = Shadow::new(1, 400 * MS);
        shadow.pass(1_000 * MS, 1.0);
        shadow
    }

    fn told(ended: Vec<Foreseen<&'static str>>) -> Vec<(&'static str, u64, u64)> {
        let ms = |ns: u64| (ns + MS / 2) / MS;
        let row = |turn: Foreseen<_>| (turn.of, ms(turn.waited_ns), ms(turn.others_waited_ns));
        ended.into_iter().map(row).collect()
    }

    #[test]
    fn who_comes_second_waits_until_the_first_has_had_its_cpu() {
        let mut shadow = shadow();
        assert!(!shadow.ask(1, claim(1_000, 40), "one"));
        assert!(shadow.pass(1_010 * MS, 1.0).is_empty());
        assert!(shadow.ask(2, claim(1_010, 40), "other"));
        let ended = shadow.pass(1_200 * MS, 1.0);
        assert_eq!(told(ended), [("one", 0, 30), ("other", 30, 0)]);
    }

    #[test]
    fn where_others_use_half_of_the_core_it_takes_twice_as_long() {
        let mut shadow = shadow();
        shadow.ask(1, claim(1_000, 40), "one");
        shadow.ask(2, claim(1_000, 40), "other");
        let ended = shadow.pass(1_200 * MS, 0.5);
        assert_eq!(told(ended), [("one", 0, 80), ("other", 80, 0)]);
    }

    #[test]
    fn what_a_phase_took_counts_once_it_is_known() {
        let mut shadow = shadow();
        shadow.ask(1, claim(1_000, 40), "one");
        shadow.ask(2, claim(1_000, 40), "other");
        shadow.pass(1_005 * MS, 1.0);
        shadow.know(1, 10 * MS);
        let ended = shadow.pass(1_200 * MS, 1.0);
        assert_eq!(told(ended), [("one", 0, 10), ("other", 10, 0)]);
    }

    #[test]
    fn a_short_phase_beside_a_long_one_shares_the_core_and_nobody_waits() {
        let mut shadow = shadow();
        shadow.ask(1, claim(1_000, 300), "long");
        assert!(!shadow.ask(2, claim(1_000, 10), "short"));
        let ended = shadow.pass(1_025 * MS, 1.0);
        assert!(ended.iter().all(|turn| turn.express));
        assert_eq!(told(ended), [("short", 0, 0)]);
    }

    #[test]
    fn what_all_pay_is_what_all_gain() {
        let mut shadow = shadow();
        let (mut random, mut at_ms, mut ended) = (1_u64, 1_000, Vec::new());
        for ticket in 0..400 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            at_ms += (random >> 33) % 60;
            ended.extend(shadow.pass(at_ms * MS, 0.9));
            shadow.ask(ticket, claim(at_ms, 5 << ((random >> 40) % 5)), "one");
            shadow.know(ticket / 2, (random >> 45) % 40 * MS);
        }
        ended.extend(shadow.pass(900_000 * MS, 0.9));
        assert_eq!(ended.len(), 400);
        let pays_ns: u64 = ended.iter().map(|turn| turn.waited_ns).sum();
        let gains_ns: u64 = ended.iter().map(|turn| turn.others_waited_ns).sum();
        assert!(pays_ns > 1_000 * MS);
        assert!(pays_ns.abs_diff(gains_ns) < MS, "{pays_ns} {gains_ns}");
    }

    #[test]
    fn who_has_used_its_share_computes_beside_the_next() {
        let mut shadow = shadow();
        shadow.ask(1, claim(1_000, 500), "long");
        shadow.ask(2, claim(1_000, 450), "other");
        let ended = shadow.pass(2_400 * MS, 1.0);
        assert!(ended.iter().all(|turn| turn.shared));
        assert_eq!(told(ended), [("long", 0, 400), ("other", 400, 0)]);
    }
}
