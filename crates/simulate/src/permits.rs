//! CPU permits of one process: the production's rules (`weight`, `burst`, `order`, `queue`), and the waits around them.

use super::interval::Interval;
use super::set_up::PermitRule;
use greenlane_policy::queue::PermitQueue;
use greenlane_policy::weight::PhaseProfile;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) id: u32,
    pub(crate) lent: bool,
}

/// See the module.
#[derive(Debug)]
pub struct ProcessPermits {
    pub(crate) rule: PermitRule,
    pub(crate) queue: PermitQueue,
    /// By route, then phase.
    pub(crate) profiles: Vec<Vec<PhaseProfile>>,
    pub(crate) holders: Vec<Holder>,
    /// Somebody will look whether a hold lasts too long.
    pub(crate) watched: bool,
    pub interval: Interval,
}

impl ProcessPermits {
    /// Nothing is known of any phase. `own_ns`: the process' switch interval.
    pub fn new(rule: PermitRule, routes: usize, own_ns: u64) -> Self {
        Self {
            queue: PermitQueue::new(rule.permits, true),
            profiles: vec![Vec::new(); routes],
            holders: Vec::new(),
            watched: false,
            interval: Interval::new(own_ns, rule.interval_ns),
            rule,
        }
    }

    pub(crate) fn profile(&mut self, route: u32, phase: u32) -> &mut PhaseProfile {
        let phases = &mut self.profiles[route as usize];
        let phase = phase as usize;
        if phases.len() <= phase {
            phases.resize_with(phase + 1, PhaseProfile::default);
        }
        &mut phases[phase]
    }

    pub(crate) fn hold(&mut self, id: u32) {
        self.holders.push(Holder { id, lent: false });
    }
}
