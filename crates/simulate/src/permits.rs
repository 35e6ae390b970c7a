//! CPU permits of one process: the production's rules (`weight`, `burst`, `order`, `queue`), and the waits around them.

use super::interval::Interval;
use super::jobs::Job;
use super::set_up::PermitRule;
use greenlane_policy::heavy_threshold::HeavyThreshold;
use greenlane_policy::order::Claim;
use greenlane_policy::queue::PermitQueue;
use greenlane_policy::weight::PhaseProfile;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) id: u32,
    pub(crate) lent: bool,
    /// It was let in beside another one, and has not used more than a short phase.
    pub(crate) is_short: bool,
}

/// See the module.
#[derive(Debug)]
pub struct ProcessPermits {
    /// Its `heavy_ns` is learned.
    pub(crate) rule: PermitRule,
    pub(crate) heavy_threshold: HeavyThreshold,
    pub(crate) queue: PermitQueue,
    /// By route, then phase.
    pub(crate) profiles: Vec<Vec<PhaseProfile>>,
    /// By route: the share of its requests that asked for a permit.
    pub(crate) asked: Vec<Option<f64>>,
    pub(crate) holders: Vec<Holder>,
    /// Phases without a permit that will use as much as a heavy one.
    pub(crate) free: Vec<u32>,
    /// When somebody looks what phases have used; 0 = nobody will.
    pub(crate) look_at_ns: u64,
    pub interval: Interval,
}

impl ProcessPermits {
    /// Nothing is known of any phase. `own_ns`: the process' switch interval.
    pub fn new(rule: PermitRule, routes: usize, own_ns: u64) -> Self {
        Self {
            queue: PermitQueue::new(rule.permits),
            profiles: vec![Vec::new(); routes],
            asked: vec![None; routes],
            holders: Vec::new(),
            free: Vec::new(),
            look_at_ns: 0,
            heavy_threshold: HeavyThreshold::new(rule.weight.heavy_ns),
            interval: Interval::new(own_ns, rule.interval_ns),
            rule,
        }
    }

    pub(crate) fn profile(&mut self, route: u32, phase: u32) -> &mut PhaseProfile {
        let (phases, phase) = (&mut self.profiles[route as usize], phase as usize);
        if phases.len() <= phase {
            phases.resize_with(phase + 1, PhaseProfile::default);
        }
        &mut phases[phase]
    }

    /// What the present phase of `job` brings.
    pub(crate) fn claim(&mut self, job: &Job) -> Claim {
        let profile = self.profile(job.route, job.phase);
        Claim {
            arrival_ns: job.arrival_ns,
            deadline_ns: job.due_ns,
            expected_ns: profile.expected_ns(),
            long_ns: profile.long_ns(),
            attained_ns: job.attained_ns,
        }
    }

    /// The phase of `job`, `id`, holds a permit.
    pub(crate) fn hold(&mut self, id: u32, job: &mut Job) {
        job.holds = true;
        self.holders.push(Holder {
            id,
            lent: false,
            is_short: self.queue.is_express(id.into()),
        });
    }
}
