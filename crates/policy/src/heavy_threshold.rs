//! From which burst on a phase is heavy: from the setting on, or from more where nearly all heavy work is longer.
//!
//! On slow cores the same request takes twice as long, and a limit in milliseconds calls its phases heavy. What does not
//! change with the speed is how large a part of the work they are. So the shortest phases over the setting run free
//! while they are less than a fifth of the CPU of all that are over it: hardly more threads want the GIL at a time, and
//! none of them waits for phases ten times as long (`docs/design/0005`).

use crate::burst::{bucket_of, edge_ns, BUCKETS};

/// Their part of the CPU of phases over the least limit, percent; within `STAYS_PERCENT` of it the limit stays.
const FREED_PERCENT: u64 = 20;
const STAYS_PERCENT: u64 = 2;
/// What is longer is heavy unless the setting is higher: a free phase keeps what wakes beside it waiting as well.
const MOST_NS: u64 = 12_000_000;
/// Bursts over the least limit to see before anything is said, and between two looks.
const LEARN_AFTER: u32 = 64;
const LOOK_EVERY: u32 = 16;
/// Bursts at which all is halved: half a minute of a busy core.
const WINDOW: u32 = 1_024;

/// See the module.
#[derive(Clone, Debug)]
pub struct HeavyThreshold {
    least_ns: u64,
    limit_ns: u64,
    /// CPU of bursts over the least limit by bucket, ns.
    spent_ns: [u64; BUCKETS],
    bursts: u32,
}

impl HeavyThreshold {
    /// Nothing seen yet: the limit is `least_ns`.
    pub fn new(least_ns: u64) -> Self {
        Self {
            least_ns,
            limit_ns: least_ns,
            spent_ns: [0; BUCKETS],
            bursts: 0,
        }
    }

    /// Takes the CPU burst (ns) of one phase in. Gives from where on one is heavy now, ns. Cost: a comparison, and 30 ns
    /// for one over the least limit.
    pub fn update(&mut self, burst_ns: u64) -> u64 {
        if burst_ns <= self.least_ns {
            return self.limit_ns;
        }
        self.spent_ns[bucket_of(burst_ns)] += burst_ns;
        self.bursts += 1;
        if self.bursts >= WINDOW {
            self.bursts /= 2;
            self.spent_ns.iter_mut().for_each(|ns| *ns /= 2);
        }
        if self.bursts >= LEARN_AFTER && self.bursts % LOOK_EVERY == 0 {
            self.limit_ns = self.judge();
        }
        self.limit_ns
    }

    fn judge(&self) -> u64 {
        let total_ns: u64 = self.spent_ns.iter().sum();
        let (mut limit_ns, mut freed_ns) = (self.least_ns, 0);
        for (index, spent_ns) in self.spent_ns.iter().enumerate() {
            let edge_ns = edge_ns(index);
            freed_ns += spent_ns;
            // Where it is it stays until it is clearly wrong.
            let percent = match edge_ns <= self.limit_ns {
                true => FREED_PERCENT + STAYS_PERCENT,
                false => FREED_PERCENT - STAYS_PERCENT,
            };
            if edge_ns > MOST_NS || freed_ns * 100 > total_ns * percent {
                break;
            }
            limit_ns = limit_ns.max(edge_ns);
        }
        limit_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weight::{PhaseProfile, Pin, Weight, WeightRule};

    const MS: u64 = 1_000_000;

    /// The limit in ms, rounded, after each of these (ms, how many in a hundred) bursts, a thousand in all.
    fn limit_ms(mix: &[(u64, u64)]) -> u64 {
        let mut from = HeavyThreshold::new(4 * MS);
        for _ in 0..10 {
            feed(&mut from, mix);
        }
        (from.limit_ns + MS / 2) / MS
    }

    fn feed(from: &mut HeavyThreshold, mix: &[(u64, u64)]) {
        for &(ms, count) in mix {
            (0..count).for_each(|_| {
                from.update(ms * MS);
            });
        }
    }

    #[test]
    fn what_is_a_small_part_of_the_heavy_work_runs_free_up_to_a_limit() {
        assert_eq!(limit_ms(&[(7, 40), (60, 60)]), 11);
        assert_eq!(limit_ms(&[(7, 40), (10, 40), (60, 40)]), 8);
        assert_eq!(limit_ms(&[(60, 100)]), 11);
    }

    #[test]
    fn what_is_a_large_part_of_it_does_not() {
        assert_eq!(limit_ms(&[(5, 100)]), 4);
        assert_eq!(limit_ms(&[(7, 50), (20, 50)]), 6);
        assert_eq!(limit_ms(&[(5, 50), (11, 30)]), 4);
    }

    #[test]
    fn light_phases_change_nothing() {
        assert_eq!(limit_ms(&[(1, 900), (7, 40), (60, 60)]), 11);
        assert_eq!(limit_ms(&[(1, 100)]), 4);
    }

    #[test]
    fn it_is_the_same_at_half_the_speed() {
        for slower in [1, 2] {
            let limit = limit_ms(&[(4 * slower, 40), (10 * slower, 10), (40 * slower, 60)]);
            assert!(4 * slower <= limit, "{slower}: {limit}");
        }
    }

    #[test]
    fn it_follows_a_change_and_stays_at_an_edge() {
        let mut from = HeavyThreshold::new(4 * MS);
        (0..10).for_each(|_| feed(&mut from, &[(7, 40), (60, 60)]));
        (0..40).for_each(|_| feed(&mut from, &[(7, 100)]));
        assert!(from.limit_ns < 7 * MS);
        // 7 ms are a fifth of it, more or less.
        (0..400).for_each(|_| feed(&mut from, &[(7, 5), (70, 2)]));
        let before = from.limit_ns;
        let stays = (0..400).all(|number| {
            feed(&mut from, &[(7, 5 + number % 2), (70, 2)]);
            feed(&mut from, &[(7, 5 - number % 2), (70, 2)]);
            from.limit_ns == before
        });
        assert!(stays);
    }

    /// The class of phases of 7 ms that are so much of the CPU, after 20 s of the same requests as in every other run; the
    /// cores' speed and each burst differ.
    fn class_of_pages(percent: u64, run: u64) -> Weight {
        let mut randoms = [percent, 1_000 + run];
        let mut random = |which: usize, below: u64| {
            let next = randoms[which]
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            randoms[which] = next;
            (next >> 33) % below
        };
        // Percent of the CPU, and ms: pages, exports, invoices.
        let rest = 100 - percent;
        let mix = [(percent, 7), (rest / 2, 80), (rest - rest / 2, 25)];
        let rates = mix.map(|(share, ms)| share * 5_600 / ms);
        let speed = 90 + random(1, 21);
        let (mut from, mut pages) = (HeavyThreshold::new(4 * MS), PhaseProfile::default());
        let rule = |heavy_ns| WeightRule {
            heavy_ns,
            least_ns: 4 * MS,
            quantile: 0.9,
            margin: 1.0,
            learn_after: 3,
        };
        for _ in 0..500 {
            let mut at = random(0, rates.iter().sum());
            let which = rates.iter().position(|&rate| {
                let is_it = at < rate;
                at = at.saturating_sub(rate);
                is_it
            });
            let which = which.expect("one of them");
            let burst_ns = mix[which].1 * MS * speed * (85 + random(1, 31)) / 10_000;
            let limit_ns = from.update(burst_ns);
            if which == 0 {
                pages.update(burst_ns, &rule(limit_ns));
            }
        }
        pages.weight(&rule(from.limit_ns), Pin::Auto, 0)
    }

    #[test]
    fn a_class_is_the_same_in_each_run_unless_it_is_nearly_a_fifth_of_the_cpu() {
        for percent in [2, 8, 12, 16, 26, 30, 50, 90] {
            let wanted = match percent < 20 {
                true => Weight::Light,
                false => Weight::Heavy,
            };
            for run in 0..8 {
                assert_eq!(class_of_pages(percent, run), wanted, "{percent} % in {run}");
            }
        }
    }

    #[test]
    fn little_is_said_of_little() {
        let mut from = HeavyThreshold::new(4 * MS);
        feed(&mut from, &[(60, 63)]);
        assert_eq!(from.limit_ns, 4 * MS);
    }
}
