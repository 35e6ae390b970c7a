//! The run: a clock that jumps from event to event, and what each of them sets going.
//!
//! | module | an event's consequences for |
//! |---|---|
//! | [`request`] | a request: its steps, its end |
//! | [`dispatch`], [`bulkheads`] | requests before a process has them |
//! | [`turns`], [`loops`], [`permits`] | a process's CPU |
//! | [`calls`] | upstreams, and work placed elsewhere |

mod bulkheads;
mod calls;
mod dispatch;
mod loops;
mod permits;
mod request;
mod turns;

#[cfg(test)]
mod tests;

use crate::cores::Stretch;
use crate::heap::Class;
use crate::model::{Arrivals, Model, RecordedArrival};
use crate::process::Process;
use crate::report::{Report, RouteReport};
use crate::set_up::SetUp;
use crate::world::{Event, World};

/// Events between two looks at whether somebody wants the run to stop: some 10 ms.
const LOOK: u64 = 1 << 16;

/// How much is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Requests that are counted.
    pub jobs: u64,
    pub seed: u64,
    /// How many times the model's rates come; more than 0.
    pub load: f64,
}

/// Part of the counted requests that come before them, while the service fills.
const WARM_PART: u64 = 10;
/// … and at most.
const WARM_MOST: u64 = 200_000;

/// Runs `model` under `set_up`. Deterministic. None: `tick`, which is told the part that is done, has given false.
pub fn simulate(
    model: &Model,
    set_up: &SetUp,
    run: &Run,
    tick: &mut dyn FnMut(f64) -> bool,
) -> Option<Report> {
    let (jobs, warm) = match &model.arrivals {
        Arrivals::Recorded(came) => (came.len() as u64, 0),
        Arrivals::Open { .. } => (
            run.jobs.max(1),
            (run.jobs.max(1) / WARM_PART).min(WARM_MOST),
        ),
    };
    let mut world = World::new(model, set_up, warm, jobs, run.seed, run.load);
    world.run(jobs, tick).then(|| world.report(jobs))
}

impl World<'_> {
    /// Runs until all counted requests have ended, or no event is left. `tick` gets the part that is done; when it
    /// returns false the run stops, and this returns false.
    pub fn run(&mut self, jobs: u64, tick: &mut dyn FnMut(f64) -> bool) -> bool {
        self.begin();
        while self.step() {
            if self.events % LOOK == 0 && !tick(self.tally.jobs_ended() as f64 / jobs as f64) {
                return false;
            }
        }
        true
    }

    /// To the next event; false: there is none, or all counted requests have ended.
    pub(super) fn step(&mut self) -> bool {
        if self.tally.complete() {
            return false;
        }
        let (cpu_ns, timer_ns) = (self.cores.next_at(), self.timers.next_at());
        let cpu_first = cpu_ns < timer_ns || cpu_ns == timer_ns && self.cpu_first;
        if cpu_first && cpu_ns < u64::MAX {
            self.now_ns = self.now_ns.max(cpu_ns);
            match self.cores.pop() {
                Some(Stretch::Process { process, turn }) => {
                    self.turn_over(process as usize, turn);
                }
                Some(Stretch::Beside(id)) => self.beside_over(id),
                None => {}
            }
        } else if let Some(event) = self.timers.pop() {
            self.now_ns = self.now_ns.max(timer_ns);
            self.happens(event);
        } else {
            return false;
        }
        self.events += 1;
        true
    }

    /// What has come of it.
    pub fn report(self, jobs: u64) -> Report {
        let ns = self.now_ns.max(1) as f64;
        let busy_frac = |one: &Process| one.busy_ns as f64 / ns;
        Report {
            seconds: ns / 1e9,
            jobs: self.tally.jobs_ended(),
            unfinished: jobs - self.tally.jobs_ended().min(jobs),
            in_progress: self.jobs.count() as u64,
            busy_frac: self.processes.iter().map(busy_frac).collect(),
            routes: self
                .model
                .routes
                .iter()
                .zip(self.tally.routes)
                .map(|(route, tally)| RouteReport {
                    route: route.name.clone(),
                    tally,
                })
                .collect(),
        }
    }

    /// Before the first event.
    pub(super) fn begin(&mut self) {
        match &self.model.arrivals {
            Arrivals::Open { .. } => {
                for route in 0..self.model.routes.len() {
                    self.schedule(route);
                }
            }
            Arrivals::Recorded(came) => self.replay(came),
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrival(route) => {
                self.schedule(route as usize);
                self.arrive(route as usize, None);
            }
            Event::Recorded(number) => {
                if let Arrivals::Recorded(came) = &self.model.arrivals {
                    self.replay(came);
                    let one = came[number as usize];
                    self.arrive(one.route as usize, one.sequence);
                }
            }
            Event::CallOver { job } => self.go_on(job),
            Event::PermitOver { job, wait } => self.permit_over(job, wait),
            Event::HoldOver { process } => self.hold_over(process as usize),
            Event::Looks => self.looks(),
        }
    }

    fn schedule(&mut self, route: usize) {
        if self.source.jobs_started() < self.most {
            if let Some(at_ns) = self.source.next(route) {
                let event = Event::Arrival(route as u32);
                self.timers.push(at_ns, Class::New, event);
            }
        }
    }

    fn replay(&mut self, came: &[RecordedArrival]) {
        if let Some((at_ns, number)) = self.source.replay(came) {
            self.timers.push(at_ns, Class::New, Event::Recorded(number));
        }
    }

    fn arrive(&mut self, route: usize, sequence: Option<u32>) {
        let id = self.create(route, sequence);
        if self.bulkheads.is_some() {
            self.order(id);
        } else {
            self.place(id);
        }
    }
}
