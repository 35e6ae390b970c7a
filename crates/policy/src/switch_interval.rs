//! How long the switch interval has to be, so that threads that wait for the GIL leave the CPU to the one that has it.
//!
//! A thread that wants the GIL waits one interval at a time: after each it wakes, asks, and waits again. So N of them
//! wake N / interval times a second, each time some 5 to 10 us of CPU and the GIL's mutex. At 0.5 ms two cost nothing
//! worth mention; thirty cost a third of a core, which makes requests slower, so that more threads wait: it feeds
//! itself and does not end by itself. An interval in proportion to their number keeps the wakes per second as they are
//! for two at 0.5 ms, or four at 1 ms. A thread that wakes from I/O waits no longer for it than it has to for the others
//! before it.
//!
//! The interpreter does not say how many wait. The process' voluntary context switches do, less those that blocking
//! calls make, and less what other threads of the process do (a look while no permit is held tells).

/// Voluntary switches that come with one phase: to block, for the GIL afterwards, and for a hand-over to the next.
const OF_A_PHASE: f64 = 3.0;
/// Wakes a second that are borne: those of two threads at 0.5 ms or of four at 1 ms, some 3 % of a core.
const BORNE_PER_S: f64 = 4_000.0;
/// Weight of the newest look in what other threads do, if it is less than was known.
const NEWEST: f64 = 0.2;
/// If it is more, it may be threads that wait for the GIL, as always while a process has more to do than it can: only
/// what lasts this long is something else.
const LEARNED_S: f64 = 60.0;
/// What is shorter says nothing: one switch would be thousands a second.
const ENOUGH_S: f64 = 0.004;
/// A change by less than this part is not worth making.
const NEAR: f64 = 0.2;

/// Between two looks at the process while a permit is held; one is taken when a phase ends.
pub const LOOK_NS: u64 = 5_000_000;

/// What is known of the process at one instant.
#[derive(Clone, Copy, Debug)]
pub struct SwitchCount {
    /// Monotonic clock.
    pub at_ns: u64,
    /// Voluntary context switches so far, of all threads.
    pub switches: u64,
    /// Phases ended so far.
    pub phases: u64,
}

/// An interval in force for a permit; times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdjustedInterval {
    /// The process' own, to go back to.
    pub own_s: f64,
    pub ours_s: f64,
}

impl AdjustedInterval {
    /// What to put in force when somebody gets a permit.
    pub fn first(stretch: &SwitchInterval, own_s: f64) -> Self {
        let ours_s = stretch.interval_s().min(own_s);
        Self { own_s, ours_s }
    }

    /// What to put in its place after a look. None: not worth a change.
    pub fn next(self, stretch: &SwitchInterval) -> Option<Self> {
        let wanted = Self::first(stretch, self.own_s);
        let near = (wanted.ours_s - self.ours_s).abs() <= NEAR * self.ours_s;
        (!near).then_some(wanted)
    }
}

/// The interval as it should be; times in seconds.
#[derive(Clone, Debug)]
pub struct SwitchInterval {
    short_s: f64,
    interval_s: f64,
    /// Wakes a second of threads that do not wait for the GIL.
    others_per_s: f64,
    before: Option<SwitchCount>,
    /// Not judged yet: for how long our interval was in force, perhaps in several holds, and the sum of the time that
    /// threads waited meanwhile.
    shortened_s: f64,
    waited_s: f64,
}

impl SwitchInterval {
    /// `short_s`: the interval while few threads wait for the GIL.
    pub fn new(short_s: f64) -> Self {
        Self {
            short_s,
            interval_s: short_s,
            others_per_s: 0.0,
            before: None,
            shortened_s: 0.0,
            waited_s: 0.0,
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

    /// A look at the process; due whenever the interval is about to change. `ran_s`: the interval that was in force for
    /// a permit since the look before; None: the process' own was.
    ///
    /// At most `long_s`, the process' own interval, and not more than twice as short as it was.
    pub fn look(&mut self, look: SwitchCount, ran_s: Option<f64>, long_s: f64) {
        let Some(before) = self.before.replace(look) else {
            return;
        };
        let seconds = look.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        let (Some(switches), Some(phases)) = (
            look.switches.checked_sub(before.switches),
            look.phases.checked_sub(before.phases),
        ) else {
            return; // Counted again: in a forked child.
        };
        let wakes = switches as f64 - OF_A_PHASE * phases as f64;
        let Some(ran_s) = ran_s else {
            if seconds >= ENOUGH_S {
                let more_per_s = wakes.max(0.0) / seconds - self.others_per_s;
                let weight = if more_per_s > 0.0 {
                    (seconds / LEARNED_S).min(1.0)
                } else {
                    NEWEST
                };
                self.others_per_s += more_per_s * weight;
            }
            return;
        };
        self.shortened_s += seconds;
        self.waited_s += (wakes - self.others_per_s * seconds) * ran_s;
        if self.shortened_s < ENOUGH_S {
            return;
        }
        let waiting = (self.waited_s / self.shortened_s).max(0.0);
        (self.shortened_s, self.waited_s) = (0.0, 0.0);
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
        stretch: SwitchInterval,
        now: SwitchCount,
    }

    impl Process {
        fn new() -> Self {
            let now = SwitchCount {
                at_ns: 1,
                switches: 0,
                phases: 0,
            };
            let mut stretch = SwitchInterval::new(0.0005);
            stretch.look(now, None, 0.005);
            Self { stretch, now }
        }

        fn lives(&mut self, threads: f64, others_per_s: f64, phases: u64, shortened: bool) -> f64 {
            let ran_s = shortened.then(|| self.stretch.interval_s());
            self.lives_for(0.01, threads, others_per_s, phases, ran_s)
        }

        fn lives_for(
            &mut self,
            seconds: f64,
            threads: f64,
            others_per_s: f64,
            phases: u64,
            ran_s: Option<f64>,
        ) -> f64 {
            let wakes = threads / ran_s.unwrap_or(0.005) * seconds + others_per_s * seconds;
            self.now.at_ns += (seconds * 1e9).round() as u64;
            self.now.switches += wakes.round() as u64 + 3 * phases;
            self.now.phases += phases;
            self.stretch.look(self.now, ran_s, 0.005);
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
            process.lives_for(10.0, 0.0, 30_000.0, 0, None);
        }
        for _ in 0..9 {
            process.lives(1.0, 30_000.0, 0, true);
        }
        assert_eq!(process.stretch.interval_s(), 0.0005);
    }

    #[test]
    fn short_holds_are_judged_together() {
        let mut process = Process::new();
        assert_eq!(process.lives(64.0, 0.0, 5, true), 0.005);
        for _ in 0..30 {
            let ran_s = Some(process.stretch.interval_s());
            process.lives_for(0.001, 0.0, 0.0, 0, ran_s);
            process.lives_for(0.001, 0.0, 0.0, 0, None);
        }
        assert_eq!(process.stretch.interval_s(), 0.0005);
    }

    #[test]
    fn what_is_in_force_is_never_longer_than_the_process_own() {
        let mut process = Process::new();
        let own_s = 0.002;
        let first = AdjustedInterval::first(&process.stretch, own_s);
        assert_eq!(first.ours_s, 0.0005);
        assert_eq!(first.next(&process.stretch), None);
        process.lives(12.0, 0.0, 5, true);
        let ours_s = own_s;
        assert_eq!(
            first.next(&process.stretch),
            Some(AdjustedInterval { own_s, ours_s })
        );
    }

    #[test]
    fn a_change_by_a_fifth_is_not_worth_it() {
        let mut process = Process::new();
        let forced = |ours_s| AdjustedInterval {
            own_s: 0.005,
            ours_s,
        };
        process.lives(12.0, 0.0, 5, true);
        assert_eq!(forced(0.0026).next(&process.stretch), None);
        assert!(forced(0.0024).next(&process.stretch).is_some());
    }

    #[test]
    fn what_was_in_force_counts_not_what_was_wanted() {
        let mut process = Process::new();
        let found = process.lives_for(0.01, 8.0, 0.0, 0, Some(0.001));
        assert!((found - 0.002).abs() < 1e-4, "{found}");
    }

    #[test]
    fn a_moment_teaches_nothing() {
        let mut process = Process::new();
        process.lives_for(0.0001, 64.0, 0.0, 0, Some(0.0005));
        assert_eq!(process.stretch.interval_s(), 0.0005);
        process.lives_for(0.0001, 0.0, 1e6, 0, None);
        assert_eq!(process.stretch.others_per_s, 0.0);
    }

    #[test]
    fn a_clock_that_stands_and_counts_that_go_back_change_nothing() {
        let mut process = Process::new();
        let stood = process.now;
        process.stretch.look(stood, Some(0.0005), 0.005);
        process.lives(64.0, 0.0, 5, true);
        let anew = SwitchCount {
            at_ns: 90_000_000,
            switches: 0,
            phases: 0,
        };
        process.stretch.look(anew, Some(0.005), 0.005);
        assert_eq!(process.stretch.interval_s(), 0.005);
    }
}
