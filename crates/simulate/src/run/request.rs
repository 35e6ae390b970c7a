//! A request's way: made, its steps one after the other, its end.

use crate::jobs::{Between, Job};
use crate::model::Work;
use crate::tally::Outcome;
use crate::world::World;
use greenlane_policy::threads::learn_share;

impl World<'_> {
    /// Makes a request; it is nowhere yet. `sequence`: which of its route's; None = drawn.
    pub(super) fn create(&mut self, route: usize, sequence: Option<u32>) -> u32 {
        let arrival_ns = self.now_ns;
        let (index, mut stream) = self.source.begin(route);
        let of_route = &self.model.routes[route];
        let sequence = match sequence {
            Some(number) => of_route.sequence(number as usize),
            None => of_route.draw(&mut stream),
        };
        self.jobs.add(Job {
            index,
            arrival_ns,
            due_ns: match of_route.deadline_ns {
                0 => 0,
                ns => arrival_ns + ns,
            },
            began_ns: arrival_ns,
            wants_ns: arrival_ns,
            burst_ns: 0,
            left_ns: 0,
            attained_ns: 0,
            route: route as u32,
            step: sequence.first,
            end: sequence.end,
            process: 0,
            phase: 0,
            wait: 0,
            fresh: true,
            holds: false,
            asked: false,
            between: None,
            placed: false,
            releases: 0,
            ordered: self.bulkheads.is_some(),
        })
    }

    /// A request turns to its next step.
    pub(super) fn advance(&mut self, id: u32) {
        let job = &mut self.jobs[id];
        if job.step == job.end {
            return self.finish(id, Outcome::Done);
        }
        let step = &self.model.steps[job.step as usize];
        match step.work {
            Work::Cpu => self.compute(id),
            Work::Io { upstream } => {
                let releases = self.set_up.costs.call_releases;
                if upstream.is_some() && releases > 0 && !self.set_up.host.loops() {
                    (job.between, job.releases) = (Some(Between::Calling), releases);
                    self.release(id);
                } else {
                    self.call(id);
                }
            }
            Work::Free | Work::Thread | Work::Process => {
                job.step += 1;
                let cpu_ns = step.ns;
                if step.work == Work::Thread {
                    return self.on_thread(id, cpu_ns);
                }
                self.tally.add_burst(job.index, job.route, cpu_ns);
                match step.work {
                    Work::Process => self.in_pool(id, cpu_ns),
                    _ => self.compute_beside(id, cpu_ns),
                }
            }
        }
    }

    /// A burst of CPU begins: all steps of CPU up to the next of another kind.
    fn compute(&mut self, id: u32) {
        let job = &mut self.jobs[id];
        let mut cpu_ns = job.left_ns;
        while job.step < job.end {
            let step = &self.model.steps[job.step as usize];
            if step.work != Work::Cpu {
                break;
            }
            cpu_ns += step.ns;
            job.step += 1;
        }
        (job.burst_ns, job.left_ns) = (cpu_ns, cpu_ns);
        let process = job.process as usize;
        if let Some(looped) = &mut self.processes[process].looped {
            looped.job = Some(id);
            return;
        }
        job.wants_ns = self.now_ns;
        if self.ask(process, id) {
            self.want_cpu(process, id);
        }
    }

    /// A request ends.
    pub(super) fn finish(&mut self, id: u32, outcome: Outcome) {
        let job = self.jobs[id];
        let lane = self.lane_of(id);
        let process = job.process as usize;
        if job.ordered {
            self.order_over(id, outcome);
        }
        self.jobs.remove(id);
        let took_ns = self.now_ns - job.arrival_ns + self.set_up.costs.front_ns;
        let span_ns = job.due_ns.saturating_sub(job.arrival_ns);
        let late = job.due_ns != 0 && took_ns > span_ns;
        let which = (job.index, job.route);
        self.tally.end(which, outcome, took_ns, late);
        let one = &mut self.processes[process];
        one.in_flight -= 1;
        if outcome == Outcome::Done {
            if let Some(shed) = one.sheds.get_mut(lane) {
                shed.add_served(self.now_ns - job.began_ns, span_ns);
            }
            if let Some(permits) = &mut one.permits {
                let asked = &mut permits.asked[job.route as usize];
                *asked = Some(learn_share(*asked, job.asked));
            }
        }
        self.front.in_progress[lane] -= 1;
        self.place_free(process);
        if job.ordered {
            self.begin_orders();
        }
    }
}
