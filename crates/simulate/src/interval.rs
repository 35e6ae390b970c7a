//! The switch interval of a process with permits: short while one is held, longer where many want the GIL.
//!
//! How long it is, and when that is looked at, is production's rule ([`greenlane_policy::switch_interval`]). Production derives how many wait
//! from the voluntary switches of all threads, less a few for each phase that ended; here the waits that have run out are
//! counted, which is what is looked for in them, and phases bring none. As there, the interval changes only when somebody
//! gets a permit, when a phase ends and when nobody holds a permit, and waits that have begun keep theirs.
//!
//! Left out: the CPU that wakes take, for which production lengthens the interval in the first place.

use greenlane_policy::switch_interval::{AdjustedInterval, SwitchCount, SwitchInterval, LOOK_NS};

/// See the module. Without what timers add.
#[derive(Clone, Debug)]
pub struct Interval {
    own_ns: u64,
    stretch: SwitchInterval,
    pub(crate) forced: Option<AdjustedInterval>,
    pub(crate) due_ns: u64,
}

impl Interval {
    /// `own_ns`: the process', while nobody holds a permit; `short_ns`: while somebody does and two threads wait.
    pub fn new(own_ns: u64, short_ns: u64) -> Self {
        Self {
            own_ns,
            stretch: SwitchInterval::new(seconds(short_ns)),
            forced: None,
            due_ns: 0,
        }
    }

    /// The one in force, ns.
    pub fn ns(&self) -> u64 {
        self.forced
            .map_or(self.own_ns, |forced| (forced.ours_s * 1e9).round() as u64)
    }

    /// Whether [`Interval::shorten`] would change it.
    pub(crate) fn is_long(&self) -> bool {
        self.forced.is_none() && seconds(self.own_ns) > self.stretch.short_s()
    }

    /// Somebody has a permit. `wakes`: so far.
    pub(crate) fn shorten(&mut self, now_ns: u64, wakes: u64) {
        self.look(now_ns, wakes);
        self.forced = Some(AdjustedInterval::first(&self.stretch, seconds(self.own_ns)));
    }

    /// A phase has ended, and a look is due.
    pub(crate) fn tend(&mut self, now_ns: u64, wakes: u64) {
        self.look(now_ns, wakes);
        if let Some(wanted) = self.forced.and_then(|forced| forced.next(&self.stretch)) {
            self.forced = Some(wanted);
        }
    }

    /// Nobody holds a permit now.
    pub(crate) fn restore(&mut self, now_ns: u64, wakes: u64) {
        self.look(now_ns, wakes);
        self.forced = None;
    }

    fn look(&mut self, now_ns: u64, wakes: u64) {
        self.due_ns = now_ns + LOOK_NS;
        let look = SwitchCount {
            at_ns: now_ns,
            switches: wakes,
            phases: 0,
        };
        let (ran_s, long_s) = match self.forced {
            Some(forced) => (Some(forced.ours_s), forced.own_s),
            None => (None, f64::MAX),
        };
        self.stretch.look(look, ran_s, long_s);
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
