//! Whether a request that waited is refused because it would end too late: one lane, judged as requests are picked up.
//!
//! While a queue stands: refuse when the time that is left is less than the p99 of what the lane's requests take in
//! this process. To drop only what is late already is useless: what is served then ends late as well.
//!
//! A queue *stands* when for `stands_ns`, and for `stands_count` requests, nobody came without having waited. Below
//! capacity queues come and go, and a request with little time left may well make it: it is let in. What takes longer
//! than its deadline by itself says nothing of how long others may wait, and is left out of the p99; and `1 - most` of
//! a deadline may always be waited, so that places do not stand idle between two arrivals.

/// What is decided by.
#[derive(Clone, Copy, Debug)]
pub struct ShedRule {
    /// Shorter waits are no queue, ns.
    pub waited_ns: u64,
    /// A queue stands when for this time every request had waited before it was picked up, ns …
    pub stands_ns: u64,
    /// … and at least this many requests have come meanwhile.
    pub stands_count: u64,
    /// The part of past requests that took at most what one is expected to take; 0 to 1.
    pub frac: f64,
    /// The part of its deadline that a request is expected to take at most; 0 to 1.
    pub most: f64,
}

/// Requests whose times are remembered, and new ones after which the p99 is computed again.
const REMEMBERED: usize = 256;
const ANEW: u32 = 16;

/// See the module.
#[derive(Clone, Debug)]
pub struct Shed {
    rule: ShedRule,
    took_ns: Vec<u64>,
    oldest: usize,
    fresh: u32,
    p99_ns: u64,
    /// When somebody came last who had not waited, and how many have come since.
    calm_ns: u64,
    queued: u64,
}

impl Shed {
    /// Of a lane of which nothing is known: only what is late already is refused.
    pub fn new(rule: ShedRule) -> Self {
        Self {
            rule,
            took_ns: Vec::new(),
            oldest: 0,
            fresh: 0,
            p99_ns: 0,
            calm_ns: 0,
            queued: 0,
        }
    }

    /// Whether a request is refused that is about to begin. `due_ns` 0 = it has no deadline.
    pub fn refuses(&mut self, arrival_ns: u64, due_ns: u64, now_ns: u64) -> bool {
        if now_ns.saturating_sub(arrival_ns) < self.rule.waited_ns {
            (self.calm_ns, self.queued) = (now_ns, 0);
            return false;
        }
        self.queued += 1;
        if due_ns == 0 {
            return false;
        }
        let slack_ns = due_ns.saturating_sub(now_ns);
        let expected_ns = self.rule.most * due_ns.saturating_sub(arrival_ns) as f64;
        slack_ns == 0
            || self.stands(now_ns) && (slack_ns as f64) < expected_ns.min(self.p99_ns as f64)
    }

    /// Notes what a request took here. `span_ns`: its whole deadline, 0 = none.
    pub fn add_served(&mut self, took_ns: u64, span_ns: u64) {
        if span_ns != 0 && took_ns >= span_ns {
            return;
        }
        if self.took_ns.len() < REMEMBERED {
            self.took_ns.push(took_ns);
        } else {
            self.took_ns[self.oldest] = took_ns;
            self.oldest = (self.oldest + 1) % REMEMBERED;
        }
        self.fresh += 1;
        if self.fresh == ANEW {
            self.fresh = 0;
            self.p99_ns = self.quantile();
        }
    }

    /// What a request takes at most, ns; 0 = fewer than 16 have been seen.
    pub fn p99_ns(&self) -> u64 {
        self.p99_ns
    }

    fn stands(&self, now_ns: u64) -> bool {
        self.queued >= self.rule.stands_count
            && now_ns.saturating_sub(self.calm_ns) >= self.rule.stands_ns
    }

    fn quantile(&self) -> u64 {
        let mut times = self.took_ns.clone();
        let last = times.len() - 1;
        let at = ((times.len() as f64 * self.rule.frac) as usize).min(last);
        *times.select_nth_unstable(at).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SPAN: u64 = 300 * MS;
    const RULE: ShedRule = ShedRule {
        waited_ns: 5 * MS,
        stands_ns: 100 * MS,
        stands_count: 3,
        frac: 0.99,
        most: 0.75,
    };

    fn learned(p99_ms: u64) -> Shed {
        let mut shed = Shed::new(RULE);
        (0..64).for_each(|_| shed.add_served(p99_ms * MS, SPAN));
        shed
    }

    /// One every 50 ms, each having waited so long.
    fn refused<const N: usize>(shed: &mut Shed, waits_ms: [u64; N]) -> [bool; N] {
        let mut now_ns = 10_000 * MS;
        waits_ms.map(|waited_ms| {
            now_ns += 50 * MS;
            let arrival_ns = now_ns - waited_ms * MS;
            shed.refuses(arrival_ns, arrival_ns + SPAN, now_ns)
        })
    }

    #[test]
    fn a_standing_queue_is_refused_from_the_point_where_the_rest_is_too_little() {
        let answers = refused(&mut learned(95), [0, 150, 204, 206, 204]);
        assert_eq!(answers, [false, false, false, true, false]);
    }

    #[test]
    fn a_queue_that_comes_and_goes_is_served() {
        let waits_ms = [250, 250, 0, 250, 250, 0, 250, 250, 0];
        assert_eq!(refused(&mut learned(95), waits_ms)[2..], [false; 7]);
    }

    #[test]
    fn what_is_late_already_is_refused_whatever_is_known() {
        let answers = refused(&mut Shed::new(RULE), [299, 300, 301, 299]);
        assert_eq!(answers, [false, true, true, false]);
    }

    #[test]
    fn who_has_no_deadline_waits_and_counts_as_queued() {
        let mut shed = learned(95);
        let at_ns = |number: u64| (10_000 + 50 * number) * MS;
        assert!(!shed.refuses(at_ns(0), 0, at_ns(0)));
        for number in 1..=2 {
            assert!(!shed.refuses(at_ns(number) - 290 * MS, 0, at_ns(number)));
        }
        assert!(shed.refuses(at_ns(3) - 290 * MS, at_ns(3) + 10 * MS, at_ns(3)));
    }

    #[test]
    fn a_quarter_of_the_deadline_may_always_be_waited() {
        let answers = refused(&mut learned(299), [0, 60, 60, 74, 76]);
        assert_eq!(answers, [false, false, false, false, true]);
    }

    #[test]
    fn what_never_makes_its_deadline_says_nothing_of_the_others() {
        let mut shed = learned(40);
        (0..64).for_each(|_| shed.add_served(400 * MS, SPAN));
        assert_eq!(shed.p99_ns(), 40 * MS);
        shed.add_served(400 * MS, 0);
        assert_eq!(shed.took_ns.len(), 65);
    }

    #[test]
    fn the_p99_follows_what_changes() {
        let mut shed = learned(95);
        (0..REMEMBERED).for_each(|_| shed.add_served(10 * MS, SPAN));
        assert_eq!(shed.p99_ns(), 10 * MS);
        assert_eq!(shed.took_ns.len(), REMEMBERED);
    }
}
