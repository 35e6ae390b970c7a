//! How long an event loop would have waited for the GIL beside a call, from looks that each took it once.
//!
//! A look that waits 25 ms is one look, and the loop would have woken up 25 times meanwhile: who counts looks sees a
//! long hold once and takes it for an outlier. So instants count: the look's own, and while it waited, those at which
//! the next looks would have been due, each with what was left of the wait.

/// A GIL that is taken faster than this was free, ns.
const FREE_NS: u64 = 60_000;
/// Instants that one wait stands for, at most. Those of a longer wait lie further apart.
const MOST_INSTANTS: u64 = 256;

/// One look.
#[derive(Clone, Copy, Debug)]
pub struct GilLook {
    /// How long it waited for the GIL, ns.
    pub wait_ns: u64,
    /// How long after it the next one is due, ns.
    pub pause_ns: u64,
}

/// What all looks of a call say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GilWaits {
    /// The time that they stand for, ns.
    pub seen_ns: u64,
    /// Of this, when the GIL was free.
    pub free_ns: u64,
    /// The ninth decile of what a thread would wait for the GIL at a moment chosen at random, ns.
    pub long_ns: u64,
}

impl GilWaits {
    /// Sums up the looks of one call.
    pub fn of(looks: impl IntoIterator<Item = GilLook>) -> Self {
        let mut instants: Vec<(u64, u64)> = Vec::new();
        let mut free_ns = 0;
        for look in looks {
            let step_ns = look.pause_ns.max(look.wait_ns / MOST_INSTANTS).max(1);
            let mut left_ns = look.wait_ns;
            instants.push((left_ns, step_ns));
            if look.wait_ns < FREE_NS {
                free_ns += step_ns;
            }
            while left_ns > step_ns {
                left_ns -= step_ns;
                instants.push((left_ns, step_ns));
            }
        }
        instants.sort_unstable();
        let seen_ns: u64 = instants.iter().map(|&(_, step_ns)| step_ns).sum();
        let mut below_ns = 0;
        let long = instants.iter().find(|&&(_, step_ns)| {
            below_ns += step_ns;
            below_ns > seen_ns / 10 * 9
        });
        let long_ns = long.map_or(0, |&(wait_ns, _)| wait_ns);
        Self {
            seen_ns,
            free_ns,
            long_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn looks(waits_ns: &[u64]) -> impl Iterator<Item = GilLook> + '_ {
        waits_ns.iter().map(|&wait_ns| GilLook {
            wait_ns,
            pause_ns: MS,
        })
    }

    #[test]
    fn nobody_looked() {
        assert_eq!(GilWaits::of([]), GilWaits::default());
    }

    #[test]
    fn a_free_gil() {
        let waits = GilWaits::of(looks(&[5_000; 20]));
        assert_eq!((waits.seen_ns, waits.free_ns), (20 * MS, 20 * MS));
        assert_eq!(waits.long_ns, 5_000);
    }

    #[test]
    fn one_long_hold_counts_for_as_long_as_it_lasts() {
        let mut held = vec![500_000; 17];
        held.push(25 * MS);
        let waits = GilWaits::of(looks(&held));
        assert_eq!(waits.seen_ns, 42 * MS);
        assert_eq!(waits.long_ns, 21 * MS, "25 of 42 ms are in the hold");
        assert_eq!(waits.free_ns, 0);
    }

    #[test]
    fn the_end_of_a_hold_is_not_free() {
        let waits = GilWaits::of(looks(&[10 * MS + 5_000, 5_000]));
        assert_eq!(waits.free_ns * 12, waits.seen_ns);
    }

    #[test]
    fn rarer_looks_stand_for_more_time() {
        let often = GilLook {
            wait_ns: 5_000,
            pause_ns: MS,
        };
        let rarely = GilLook {
            wait_ns: 500_000,
            pause_ns: 4 * MS,
        };
        let waits = GilWaits::of([often, rarely]);
        assert_eq!((waits.seen_ns, waits.free_ns), (5 * MS, MS));
        assert_eq!(waits.long_ns, 500_000);
    }

    #[test]
    fn a_hold_of_minutes_costs_no_memory() {
        let waits = GilWaits::of(looks(&[60_000 * MS]));
        assert!(waits.seen_ns >= 60_000 * MS && waits.seen_ns < 61_000 * MS);
        assert!(waits.long_ns > 53_000 * MS && waits.long_ns < 55_000 * MS);
    }
}
