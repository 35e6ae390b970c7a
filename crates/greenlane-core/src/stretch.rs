//! How long the switch interval has to be, so that who waits for the GIL leaves the CPU to who has it.
//!
//! A thread that wants the GIL waits one interval at a time: after each it wakes, asks, and waits anew. So N of them
//! wake N / interval times a second, each time some 5 to 10 us of CPU and the GIL's mutex. At 0.5 ms two cost nothing
//! worth mention; thirty cost a third of a core, which makes requests slower and those who wait more: it feeds itself
//! and does not end by itself. An interval in proportion to their number keeps the wakes per second as they are for
//! two. Whoever wakes from I/O waits no longer for it than he has to for the others before him.
//!
//! The interpreter does not say how many wait. The process' voluntary context switches do, less those that blocking
//! calls make, and less what other threads of the process do (a look while no permit is held tells).

/// Voluntary switches that come with one phase: to block, for the GIL afterwards, and for a hand-over to the next.
const OF_A_PHASE: f64 = 3.0;
/// Wakes a second that are borne: at 0.5 ms those of two threads, some 3 % of a core.
const BORNE_PER_S: f64 = 4_000.0;
/// Weight of the newest look in what other threads do.
const NEWEST: f64 = 0.2;

/// What is known of the process at one instant.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Monotonic clock.
    pub at_ns: u64,
    /// Voluntary context switches so far, of all threads.
    pub switches: u64,
    /// Phases ended so far.
    pub phases: u64,
}

/// The interval as it should be; times in seconds.
#[derive(Clone, Debug)]
pub struct Stretch {
    short_s: f64,
    interval_s: f64,
    /// Wakes a second of threads that do not wait for the GIL.
    others_per_s: f64,
    before: Option<(Look, bool)>,
}

impl Stretch {
    /// `short_s`: the interval while at most two threads wait for the GIL.
    pub fn new(short_s: f64) -> Self {
        Self {
            short_s,
            interval_s: short_s,
            others_per_s: 0.0,
            before: None,
        }
    }

    /// As it was made with.
    pub fn short_s(&self) -> f64 {
        self.short_s
    }

    /// The interval to be in force while a permit is held.
    pub fn interval_s(&self) -> f64 {
        self.interval_s
    }

    /// A look at the process. `shortened`: the interval of this struct is in force from now on; else the process' own.
    ///
    /// At most `long_s`, the process' own interval, and not more than twice as short as it was at the look before.
    pub fn look(&mut self, look: Look, shortened: bool, long_s: f64) {
        let before = self.before.replace((look, shortened));
        let Some((before, was_shortened)) = before else {
            return;
        };
        let seconds = look.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        if was_shortened != shortened || seconds <= 0.0 {
            return;
        }
        let switches = look.switches.saturating_sub(before.switches) as f64;
        let phases = look.phases.saturating_sub(before.phases) as f64;
        let wakes_per_s = (switches - OF_A_PHASE * phases).max(0.0) / seconds;
        if !shortened {
            self.others_per_s += (wakes_per_s - self.others_per_s) * NEWEST;
            return;
        }
        let waiting = (wakes_per_s - self.others_per_s).max(0.0) * self.interval_s;
        let least_s = self.short_s.max(self.interval_s / 2.0);
        self.interval_s = (waiting / BORNE_PER_S)
            .max(least_s)
            .min(long_s.max(self.short_s));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `threads` wait for the GIL for `seconds` at the interval in force, beside others that switch as they like.
    struct Process {
        stretch: Stretch,
        now: Look,
    }

    impl Process {
        fn new() -> Self {
            let now = Look {
                at_ns: 1,
                switches: 0,
                phases: 0,
            };
            let mut stretch = Stretch::new(0.0005);
            stretch.look(now, true, 0.005);
            Self { stretch, now }
        }

        fn lives(&mut self, threads: f64, others_per_s: f64, phases: u64, shortened: bool) -> f64 {
            let (seconds, interval_s) = (
                0.01,
                if shortened {
                    self.stretch.interval_s()
                } else {
                    0.005
                },
            );
            let wakes = threads / interval_s * seconds + others_per_s * seconds;
            self.now.at_ns += (seconds * 1e9) as u64;
            self.now.switches += wakes.round() as u64 + 3 * phases;
            self.now.phases += phases;
            self.stretch.look(self.now, shortened, 0.005);
            self.stretch.interval_s()
        }
    }

    #[test]
    fn two_threads_leave_it_as_it_is() {
        let mut process = Process::new();
        for _ in 0..9 {
            assert_eq!(process.lives(2.0, 0.0, 5, true), 0.0005);
        }
    }

    #[test]
    fn many_lengthen_it_in_proportion_and_never_beyond_the_process_own() {
        let mut process = Process::new();
        let found = process.lives(12.0, 0.0, 5, true);
        assert!((found - 0.003).abs() < 1e-4, "{found}");
        let again = process.lives(12.0, 0.0, 5, true);
        assert!((again - 0.003).abs() < 1e-4, "{again}");
        assert_eq!(process.lives(64.0, 0.0, 5, true), 0.005);
    }

    #[test]
    fn it_comes_back_by_halves() {
        let mut process = Process::new();
        process.lives(64.0, 0.0, 5, true);
        let found: Vec<f64> = (0..5).map(|_| process.lives(0.0, 0.0, 5, true)).collect();
        assert_eq!(found, [0.0025, 0.00125, 0.000625, 0.0005, 0.0005]);
    }

    #[test]
    fn what_other_threads_do_is_learned_while_no_permit_is_held() {
        let mut process = Process::new();
        assert!(process.lives(0.0, 30_000.0, 0, true) > 0.003);
        for _ in 0..40 {
            process.lives(0.0, 30_000.0, 0, false);
        }
        for _ in 0..9 {
            process.lives(1.0, 30_000.0, 0, true);
        }
        assert_eq!(process.stretch.interval_s(), 0.0005);
    }

    #[test]
    fn a_clock_that_stands_and_counts_that_go_back_change_nothing() {
        let mut process = Process::new();
        let stood = process.now;
        process.stretch.look(stood, true, 0.005);
        process.stretch.look(
            Look {
                at_ns: 2_000_000,
                switches: 0,
                phases: 0,
            },
            true,
            0.005,
        );
        assert_eq!(process.stretch.interval_s(), 0.0005);
    }
}
