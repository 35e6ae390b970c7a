//! Everything that one process shares: rules, routes, the gate, counters, the mode.

use crate::counters::Counters;
use crate::gate::{ForkGuard, Gate};
use crate::interval::Interval;
use crate::routes::{Route, Routes};
use greenlane_core::weight::WeightRule;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What Greenlane does with a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Off,
    /// Learns, and counts what it would do.
    Observe,
    /// Learns, and makes heavy phases take turns.
    On,
}

impl Mode {
    /// The mode called `name`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "off" => Some(Self::Off),
            "observe" => Some(Self::Observe),
            "on" => Some(Self::On),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Observe => "observe",
            Self::On => "on",
        }
    }

    /// The mode stored as `value`.
    pub fn of(value: u8) -> Self {
        match value {
            0 => Self::Off,
            1 => Self::Observe,
            _ => Self::On,
        }
    }
}

/// See the module.
pub struct Shared {
    pub rule: WeightRule,
    /// Phases from this one on share a profile.
    pub last_phase: usize,
    pub routes: Routes,
    pub gate: Arc<Gate>,
    pub counters: Counters,
    pub interval: Option<Interval>,
    /// Raised by blocking calls of late jobs; None = never.
    pub late_error: Option<Py<PyAny>>,
    pub mode: AtomicU8,
    /// Whether any route was ever given a mode of its own: with the process off, only then are jobs opened.
    pub own_modes: AtomicBool,
}

impl Shared {
    /// The mode that holds for `route`.
    pub fn mode_of(&self, route: &Route) -> Mode {
        Mode::of(route.mode_or(self.mode.load(Ordering::Relaxed)))
    }

    /// See [`Interval::shorten`].
    pub fn shorten_interval(&self, py: Python<'_>) {
        if let Some(interval) = &self.interval {
            interval.shorten(py, &self.counters);
        }
    }

    /// See [`Interval::restore`]; nothing while somebody holds a permit.
    pub fn restore_interval(&self, py: Python<'_>) {
        if let Some(interval) = self.interval.as_ref().filter(|_| !self.gate.is_held()) {
            interval.restore(py, &self.counters);
        }
    }
}

static ALL: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

thread_local! {
    /// Open between `before_fork` and `after_fork_*`, which Python calls on the forking thread.
    static FORKING: RefCell<Vec<ForkGuard>> = const { RefCell::new(Vec::new()) };
}

/// Makes `shared` known to the fork hooks.
pub fn register(shared: &Arc<Shared>) {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|known| known.strong_count() > 0);
    all.push(Arc::downgrade(shared));
}

fn living() -> Vec<Arc<Shared>> {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().filter_map(Weak::upgrade).collect()
}

/// Hook of `os.register_at_fork(before=...)`.
#[pyfunction]
pub fn before_fork() {
    FORKING.with_borrow_mut(|guards| {
        guards.extend(living().iter().map(|shared| shared.gate.before_fork()))
    });
}

/// Hook of `os.register_at_fork(after_in_parent=...)`.
#[pyfunction]
pub fn after_fork_in_parent() {
    FORKING.take().into_iter().for_each(|guard| guard(false));
}

/// Hook of `os.register_at_fork(after_in_child=...)`: other threads' tickets are forgotten, the interval is restored.
#[pyfunction]
pub fn after_fork_in_child(py: Python<'_>) {
    FORKING.take().into_iter().for_each(|guard| guard(true));
    living()
        .iter()
        .for_each(|shared| shared.restore_interval(py));
}
