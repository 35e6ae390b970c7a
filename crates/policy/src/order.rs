//! Who is granted a permit before whom: by arrival, less a boost of the class, plus what the job has had already.
//!
//! The boost b = theta ln(1 / (1 - exp(-s / theta))) is that of Yu and Scully (arXiv 2404.08826) for a size s. Short
//! phases pass long ones, but only those that came shortly before them: a boost is finite, so nobody starves.

/// What boosts are made of, ns: a phase of 5 ms passes those of 44 ms that came up to 110 ms before it. More, or one that
/// grows with the waits, and long phases pay for the short ones: `docs/design/0024-order-of-permits.md`.
const THETA_NS: f64 = 60e6;
/// What a phase of unknown size counts as, ns: the first runs of what its owner called heavy.
const UNKNOWN_NS: u64 = 20_000_000;
/// How often its own CPU a job falls behind in the order, and how often from [`LONG_NS`] on. Jobs of seven and eleven
/// phases get what they would have beside three other threads: with 8 they took half as long again. A stream that
/// computes again and again gets what it would have beside seven, and does not go first for ever because it began long
/// ago: with 4 it would, at a sixth of the CPU (`docs/design/0024-order-of-permits.md`).
const BEHIND: i64 = 4;
const BEHIND_LONG: i64 = 8;
/// CPU from which on a job is no longer one among others.
const LONG_NS: i64 = 60_000_000;

/// What a phase brings when it asks for a permit. Times in ns of one monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// When its job arrived.
    pub arrival_ns: u64,
    /// When its job's answer is due; 0 = no deadline.
    pub deadline_ns: u64,
    /// Its expected CPU burst, ns; 0 = unknown.
    pub expected_ns: u64,
    /// What it takes if it turns out heavy, ns; 0 = as expected.
    pub long_ns: u64,
    /// CPU that its job has used, ns.
    pub attained_ns: u64,
}

/// Sort key of a waiter: smaller goes first. Late jobs are last; ties go to the earlier arrival, then to the ticket.
pub type Key = (bool, i64, u64, u64);

impl Claim {
    /// Its key at `now_ns`.
    pub fn key(&self, now_ns: u64, ticket: u64) -> Key {
        let late = self.deadline_ns != 0 && now_ns >= self.deadline_ns;
        let at_ns = to_signed(self.arrival_ns).saturating_add(behind_ns(self.attained_ns));
        let at_ns = at_ns.saturating_sub(boost_ns(self.size_ns()));
        (late, at_ns, self.arrival_ns, ticket)
    }

    /// Its claim once it holds: what it may take counts, whatever is expected of its class.
    pub fn as_holder(&self) -> Self {
        Self {
            expected_ns: self.expected_ns.max(self.long_ns),
            ..*self
        }
    }

    /// Its expected burst, or what stands for it.
    pub fn size_ns(&self) -> u64 {
        match self.expected_ns {
            0 => UNKNOWN_NS,
            known => known,
        }
    }
}

/// How far a job that has used so much CPU has fallen behind, ns.
fn behind_ns(attained_ns: u64) -> i64 {
    let attained_ns = to_signed(attained_ns);
    let long_ns = (attained_ns - LONG_NS).max(0);
    attained_ns
        .saturating_mul(BEHIND)
        .saturating_add(long_ns.saturating_mul(BEHIND_LONG - BEHIND))
}

fn boost_ns(size_ns: u64) -> i64 {
    let left = -(-(size_ns.max(1_000) as f64) / THETA_NS).exp_m1();
    (-THETA_NS * left.ln()) as i64
}

fn to_signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const MS: u64 = 1_000_000;

    pub(crate) fn claim(arrival_ms: u64, expected_ms: u64) -> Claim {
        Claim {
            arrival_ns: arrival_ms * MS,
            expected_ns: expected_ms * MS,
            ..Claim::default()
        }
    }

    fn is_before(one: Claim, other: Claim) -> bool {
        one.key(9_000 * MS, 1) < other.key(9_000 * MS, 2)
    }

    #[test]
    fn a_short_phase_passes_long_ones_that_came_shortly_before_and_no_older_ones() {
        assert!(is_before(claim(5_090, 7), claim(5_000, 43)));
        assert!(!is_before(claim(5_100, 7), claim(5_000, 43)));
    }

    #[test]
    fn alike_phases_go_by_arrival_of_their_jobs() {
        assert!(is_before(claim(5_000, 43), claim(5_001, 43)));
    }

    #[test]
    fn a_late_job_is_last() {
        let late = Claim {
            deadline_ns: 8_999 * MS,
            ..claim(1, 1)
        };
        assert!(is_before(claim(8_999, 400), late));
    }

    #[test]
    fn a_stream_that_has_computed_for_long_does_not_go_before_everybody() {
        let stream = Claim {
            attained_ns: 2_000 * MS,
            ..claim(1_000, 43)
        };
        assert!(is_before(claim(8_900, 43), stream));
        let six_phases = Claim {
            attained_ns: 50 * MS,
            ..claim(1_000, 16)
        };
        assert!(is_before(six_phases, claim(1_500, 16)));
    }

    #[test]
    fn what_a_job_has_had_counts_four_times_and_eight_times_from_sixty_ms_on() {
        assert_eq!(behind_ns(50 * MS), 200 * MS as i64);
        assert_eq!(behind_ns(160 * MS), (4 * 60 + 8 * 100) * MS as i64);
        assert_eq!(behind_ns(u64::MAX), i64::MAX);
    }

    #[test]
    fn what_is_unknown_counts_as_neither_the_shortest_nor_the_longest() {
        assert!(is_before(claim(5_000, 7), claim(5_000, 0)));
        assert!(is_before(claim(5_000, 0), claim(5_000, 43)));
    }
}
