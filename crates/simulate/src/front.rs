//! Which process gets a request, and when.

use super::model::Model;
use super::random::{Purpose, Stream};
use super::set_up::{Kind, SetUp};
use greenlane_policy::worker_concurrency::model_limit;
use std::collections::VecDeque;

/// See the module.
#[derive(Debug)]
pub struct Front {
    /// By lane: processes that it may use, who waits, how many are in progress.
    pub(crate) groups: Vec<Vec<usize>>,
    pub(crate) queues: Vec<VecDeque<u32>>,
    pub(crate) in_progress: Vec<u32>,
    /// Connections that wait at a listening socket of all, by the group's first process.
    pub(crate) accepting: Vec<VecDeque<u32>>,
    /// First process of each process's group.
    pub(crate) group_of: Vec<usize>,
    pub(crate) choice: Stream,
}

impl Front {
    /// Nobody waits.
    pub fn new(set_up: &SetUp, seed: u64) -> Self {
        let groups = groups(set_up);
        let mut group_of: Vec<usize> = vec![0; set_up.processes];
        for (lane, group) in set_up.lanes.iter().zip(&groups) {
            if lane.kind == Kind::Hard {
                group
                    .iter()
                    .for_each(|&process| group_of[process] = group[0]);
            }
        }
        Self {
            queues: vec![VecDeque::new(); groups.len()],
            in_progress: vec![0; groups.len()],
            accepting: vec![VecDeque::new(); set_up.processes],
            groups,
            group_of,
            choice: Stream::of(seed, Purpose::Choice, 0),
        }
    }

    /// A random number below `count`.
    pub fn choose(&mut self, count: usize) -> usize {
        self.choice.below(count)
    }
}

/// Processes of each lane. Hard lanes have the last ones, one after the other; soft ones share the rest.
fn groups(set_up: &SetUp) -> Vec<Vec<usize>> {
    let mut shared = set_up.processes;
    let mut groups = vec![Vec::new(); set_up.lanes.len()];
    for (lane, group) in set_up.lanes.iter().zip(&mut groups) {
        if lane.kind == Kind::Hard {
            shared -= lane.processes.max(1);
            *group = (shared..shared + lane.processes.max(1)).collect();
        }
    }
    for (lane, group) in set_up.lanes.iter().zip(&mut groups) {
        if lane.kind == Kind::Soft {
            *group = (0..shared).collect();
        }
    }
    groups
}

/// Requests at once that each process should get: as set, else as the production's rule says for its lanes' requests.
pub fn worker_limits(model: &Model, set_up: &SetUp) -> Vec<u32> {
    let groups = groups(set_up);
    let number = |process: usize| {
        let Some(rule) = set_up.at_once_rule.filter(|_| set_up.at_once == 0) else {
            return set_up.at_once.max(1);
        };
        let (mut jobs, mut cpu_ns, mut rest_ns) = (0.0, 0.0, 0.0);
        for (route, &lane) in model.routes.iter().zip(&set_up.lane_of) {
            if groups[lane].contains(&process) {
                let (cpu, rest) = model.means_ns(route);
                jobs += route.per_s;
                cpu_ns += route.per_s * cpu;
                rest_ns += route.per_s * rest;
            }
        }
        if jobs <= 0.0 {
            return rule.least;
        }
        let rest_ns = rest_ns / jobs + rule.gap_ns as f64;
        model_limit(cpu_ns / jobs, rest_ns, rule.busy, rule.most).clamp(rule.least, rule.most)
    };
    (0..set_up.processes).map(number).collect()
}
