//! The interpreter's switch interval: short only while somebody holds a permit.
//!
//! While a heavy phase computes, a thread that wakes from I/O should get the GIL soon. While no
//! heavy phase computes, the interpreter's own value serves better. Where many wait for the GIL it is longer, see
//! `greenlane_policy::switch_interval`. All calls need the GIL.

use crate::counters::{add, Counters};
use greenlane_interpreter::gil_enabled;
use greenlane_policy::switch_interval::{AdjustedInterval, SwitchCount, SwitchInterval, LOOK_NS};
use greenlane_process::clock;
use pyo3::prelude::*;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Two intervals are the same within this: the interpreter keeps whole microseconds.
const SAME_S: f64 = 2e-6;
/// Between two looks while nobody holds a permit: what other threads do changes slowly.
const IDLE_LOOK_NS: u64 = 20 * LOOK_NS;
/// The interval that permits of this process have put in force, us; 0 = none. Another [`Interval`] (a process may have
/// two: the service's, and those that `greenlane.run` made before it) must not take it for the process' own.
static OURS_US: AtomicU64 = AtomicU64::new(0);

/// See the module.
pub struct Interval {
    get: Py<PyAny>,
    set: Py<PyAny>,
    state: Mutex<IntervalState>,
    /// When the next look is due.
    due_ns: AtomicU64,
}

struct IntervalState {
    stretch: SwitchInterval,
    forced: Option<AdjustedInterval>,
}

impl Interval {
    /// None on a free-threaded build, where the interval means nothing.
    pub fn new(py: Python<'_>, short_s: f64) -> PyResult<Option<Self>> {
        let sys = py.import("sys")?;
        if !gil_enabled(py)? {
            return Ok(None);
        }
        Ok(Some(Self {
            get: sys.getattr("getswitchinterval")?.unbind(),
            set: sys.getattr("setswitchinterval")?.unbind(),
            state: Mutex::new(IntervalState {
                stretch: SwitchInterval::new(short_s),
                forced: None,
            }),
            due_ns: AtomicU64::new(0),
        }))
    }

    /// Puts the short interval in force, unless the present one is shorter still or another [`Interval`]'s. Gives what
    /// it put there.
    pub fn shorten(&self, py: Python<'_>, counters: &Counters) -> Option<f64> {
        let mut state = self.unless_busy()?;
        if state.forced.is_some() {
            return None;
        }
        let own_s = self.present(py)?;
        if own_s <= state.stretch.short_s() || is_some_ones(own_s) {
            return None;
        }
        self.look(&mut state, clock::monotonic_ns(), counters);
        let forced = AdjustedInterval::first(&state.stretch, own_s);
        if !self.set_interval(py, forced.ours_s, counters) {
            return None;
        }
        OURS_US.store(micros(forced.ours_s), Ordering::Relaxed);
        state.forced = Some(forced);
        self.due_ns.store(0, Ordering::Relaxed);
        Some(forced.ours_s)
    }

    /// Looks how many wait for the GIL, if that is due, and changes the interval that is in force accordingly; gives
    /// that if it did. Cheap: for every phase's end.
    pub fn tend(&self, py: Python<'_>, now_ns: u64, counters: &Counters) -> Option<f64> {
        if now_ns < self.due_ns.load(Ordering::Relaxed) {
            return None;
        }
        let mut state = self.unless_busy()?;
        self.look(&mut state, now_ns, counters);
        let forced = state.forced?;
        let wanted = forced.next(&state.stretch)?;
        if !self.is_present(py, forced.ours_s) || !self.set_interval(py, wanted.ours_s, counters) {
            return None;
        }
        OURS_US.store(micros(wanted.ours_s), Ordering::Relaxed);
        state.forced = Some(wanted);
        Some(wanted.ours_s)
    }

    /// Goes back to the interval found, unless somebody else has changed it meanwhile: then theirs stays.
    pub fn restore(&self, py: Python<'_>, counters: &Counters) {
        let Some(mut state) = self.unless_busy() else {
            return;
        };
        let Some(forced) = state.forced else {
            return;
        };
        self.look(&mut state, clock::monotonic_ns(), counters);
        state.forced = None;
        OURS_US.store(0, Ordering::Relaxed);
        if self.is_present(py, forced.ours_s) {
            self.set_interval(py, forced.own_s, counters);
        }
    }

    /// Before each change, so that one interval was in force between two looks. Takes some 2 us.
    fn look(&self, state: &mut IntervalState, now_ns: u64, counters: &Counters) {
        let pause_ns = match state.forced {
            Some(_) => LOOK_NS,
            None => IDLE_LOOK_NS,
        };
        self.due_ns.store(now_ns + pause_ns, Ordering::Relaxed);
        let look = SwitchCount {
            at_ns: now_ns,
            switches: voluntary_switches(),
            phases: counters.phases.load(Ordering::Relaxed),
        };
        let (ran_s, long_s) = match state.forced {
            Some(forced) => (Some(forced.ours_s), forced.own_s),
            None => (None, f64::MAX),
        };
        state.stretch.look(look, ran_s, long_s);
    }

    /// The state, unless another thread is changing the interval: Python code may run under this lock (somebody has
    /// replaced `sys.setswitchinterval`), so waiting for it would keep the GIL from that thread. A change that is missed
    /// so is made at the next event.
    fn unless_busy(&self) -> Option<MutexGuard<'_, IntervalState>> {
        match self.state.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn set_interval(&self, py: Python<'_>, interval_s: f64, counters: &Counters) -> bool {
        let well = self.set.call1(py, (interval_s,)).is_ok();
        if well {
            add(&counters.interval_changes, 1);
        }
        well
    }

    fn is_present(&self, py: Python<'_>, interval_s: f64) -> bool {
        self.present(py)
            .is_some_and(|now_s| (now_s - interval_s).abs() < SAME_S)
    }

    fn present(&self, py: Python<'_>) -> Option<f64> {
        self.get.call0(py).ok()?.extract(py).ok()
    }
}

impl Drop for Interval {
    /// What a thread that died with a permit left in force is nobody's then.
    fn drop(&mut self) {
        let forced = self
            .unless_busy()
            .is_none_or(|state| state.forced.is_some());
        if forced {
            OURS_US.store(0, Ordering::Relaxed);
        }
    }
}

fn micros(interval_s: f64) -> u64 {
    (interval_s * 1e6).round() as u64
}

/// Whether permits of this process have put this interval in force.
fn is_some_ones(interval_s: f64) -> bool {
    let ours_us = OURS_US.load(Ordering::Relaxed);
    ours_us != 0 && micros(interval_s).abs_diff(ours_us) <= 1
}

/// Of all threads of this process so far.
fn voluntary_switches() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes it, and zeros are a value of it.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    u64::try_from(usage.ru_nvcsw).unwrap_or(0)
}
