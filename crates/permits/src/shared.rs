//! Everything that one process shares: rules, routes, the gate, counters, the mode.

use crate::counters::Counters;
use crate::gate::forked::ForkedGate;
use crate::gate::Gate;
use crate::heavy::Heavy;
use crate::interval::Interval;
use crate::routes::{Route, Routes};
use greenlane_interpreter::{gil, gil_enabled};
use greenlane_policy::weight::WeightRule;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

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
    pub fn parse(name: &str) -> Option<Self> {
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
    /// As the settings say.
    pub least_rule: WeightRule,
    pub heavy: Heavy,
    /// Phases from this one on share a profile.
    pub last_phase: usize,
    pub routes: Routes,
    pub forked_gate: ForkedGate,
    pub counters: Counters,
    /// How many permits there are once an import has switched the GIL of a free-threaded build on.
    pub permits_with_gil: usize,
    pub interval: Option<Interval>,
    /// The next holder is at hand: the interval stays short until it has its permit.
    pub lingers: AtomicBool,
    /// Raised by blocking calls of late jobs; None = never.
    pub late_error: Option<Py<PyAny>>,
    pub mode: AtomicU8,
    /// Whether any route was ever given a mode of its own: with the process off, only then are jobs opened.
    pub own_modes: AtomicBool,
}

impl Shared {
    /// The gate of this process; a forked child gets its own.
    pub fn gate(&self) -> &Gate {
        self.forked_gate.get()
    }

    /// By which phases are judged now.
    pub fn rule(&self) -> WeightRule {
        WeightRule {
            heavy_ns: self.heavy.ns(),
            ..self.least_rule
        }
    }

    /// The mode of the process.
    pub fn mode(&self) -> Mode {
        Mode::of(self.mode.load(Ordering::Relaxed))
    }

    /// The mode that holds for `route`.
    pub fn mode_of(&self, route: &Route) -> Mode {
        Mode::of(route.mode_or(self.mode.load(Ordering::Relaxed)))
    }

    /// Waiting threads call this: an import may have switched the GIL on.
    pub fn see_gil(&self, py: Python<'_>) {
        if !self.gate().has_gil() && gil_enabled(py).unwrap_or(false) {
            gil::find(py);
            self.gate().gil_is_back(self.permits_with_gil);
        }
    }

    /// See [`Interval::shorten`].
    pub fn shorten_interval(&self, py: Python<'_>) {
        let interval = self.interval.as_ref();
        if let Some(turn_s) = interval.and_then(|one| one.shorten(py, &self.counters)) {
            self.gate().turns_take(turn_s);
        }
    }

    /// See [`Interval::tend`]. What has turned out heavy meanwhile shortens it, as one who holds a permit.
    pub fn tend_interval(&self, py: Python<'_>, now_ns: u64) {
        let on = self.mode() == Mode::On || self.own_modes.load(Ordering::Relaxed);
        if on && self.gate().charge_now_and_then(now_ns, &self.counters) {
            self.shorten_interval(py);
        }
        let interval = self.interval.as_ref();
        if let Some(turn_s) = interval.and_then(|one| one.tend(py, now_ns, &self.counters)) {
            self.gate().turns_take(turn_s);
        }
    }

    /// See [`Interval::restore`]; nothing while somebody holds a permit, or is about to.
    pub fn restore_interval(&self, py: Python<'_>) {
        let free = !self.lingers.load(Ordering::Relaxed) && !self.gate().is_held();
        if let Some(interval) = self.interval.as_ref().filter(|_| free) {
            interval.restore(py, &self.counters);
        }
    }
}
