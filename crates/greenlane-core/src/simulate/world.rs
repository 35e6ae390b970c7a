//! The run: a clock that jumps from event to event, and what each of them sets going.

use super::bulkheads::Bulkheads;
use super::connections::Connection;
use super::cores::{Cores, Stretch};
use super::front::{at_once, Front};
use super::gate::Gate;
use super::heap::{Class, Heap};
use super::jobs::{Between, Job, Jobs, Origin};
use super::line::Line;
use super::looped::Looped;
use super::model::{Arrivals, Came, Model, Work};
use super::process::{Calls, Process};
use super::random::{Purpose, Stream};
use super::report::{Report, RouteReport};
use super::set_up::{Host, Order, Queue, SetUp};
use super::source::Source;
use super::tally::{Outcome, Tally};
use crate::shed::Shed;

/// Events between two looks at whether somebody wants the run to stop: some 10 ms.
const LOOK: u64 = 1 << 16;
/// Requests that come beside the counted ones, at most, as a multiple of these: then the source is closed, so that
/// what starves comes to an end.
const MORE: u64 = 2;

/// What happens at a time that is known before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request of this route comes.
    Arrival(u32),
    /// The recorded one of this number does.
    Recorded(u32),
    /// A place of a closed loop has thought.
    Place(u32),
    CallOver {
        job: u32,
    },
    PermitOver {
        job: u32,
        wait: u32,
    },
    HoldOver {
        process: u32,
    },
    Rested {
        connection: u32,
        rest: u32,
    },
    /// The bulkheads may let somebody begin.
    Looks,
}

/// See the module.
pub struct World<'a> {
    pub(super) model: &'a Model,
    pub(super) set_up: &'a SetUp,
    pub(super) now_ns: u64,
    pub(super) timers: Heap<Event>,
    pub(super) cores: Cores,
    pub(super) jobs: Jobs,
    pub(super) processes: Vec<Process>,
    pub(super) front: Front,
    pub(super) source: Source,
    pub(super) tally: Tally,
    /// By upstream of the model; and the worker processes for placed work.
    pub(super) upstreams: Vec<Calls>,
    pub(super) pool: Calls,
    pub(super) connections: Vec<Connection>,
    pub(super) bulkheads: Option<Bulkheads>,
    /// How a process's CPU is shared.
    pub(super) order: Order,
    pub(super) slice_ns: u64,
    /// Who is faster at the GIL.
    pub(super) races: Stream,
    /// At the same instant an end of CPU comes before the end of a wait, so that who follows it at once goes first. Where
    /// a key says who goes first, or a loop looks who is ready, all must be there to be seen.
    cpu_first: bool,
    /// Waits for permits so far: a number for each.
    pub(super) waits: u32,
    pub(super) events: u64,
    most: u64,
}

impl<'a> World<'a> {
    /// Before the first request. `jobs` are counted, after the first `warm`.
    pub fn new(
        model: &'a Model,
        set_up: &'a SetUp,
        warm: u64,
        jobs: u64,
        seed: u64,
        load: f64,
    ) -> Self {
        let (order, slice_ns) = set_up.turns();
        let beside = model
            .steps
            .iter()
            .any(|step| matches!(step.work, Work::Free | Work::Process) && step.mean_ns > 0);
        let most_at_once = if beside { usize::MAX } else { set_up.processes };
        let numbers = at_once(model, set_up);
        let process = |index: usize| process(model, set_up, numbers[index]);
        let connections = set_up
            .keep_alive
            .map_or(0, |keep_alive| keep_alive.connections.max(1));
        let bulkheads = set_up.bulkheads.as_ref();
        Self {
            now_ns: 0,
            timers: Heap::default(),
            cores: Cores::new(set_up.cores, most_at_once),
            jobs: Jobs::default(),
            processes: (0..set_up.processes).map(process).collect(),
            front: Front::new(set_up, seed),
            source: Source::new(model, seed, load),
            tally: Tally::new(model.routes.len(), warm, jobs),
            upstreams: vec![Calls::default(); model.upstreams.len()],
            pool: Calls::default(),
            connections: vec![Connection::default(); connections as usize],
            bulkheads: bulkheads.map(|rule| Bulkheads::new(model, rule)),
            order,
            slice_ns,
            races: Stream::of(seed, Purpose::Races, 0),
            cpu_first: matches!(order, Order::Turns | Order::Gil) && !set_up.host.loops(),
            waits: 0,
            events: 0,
            most: warm + jobs.saturating_mul(1 + MORE),
            model,
            set_up,
        }
    }

    /// Runs until all counted requests have ended, or nothing happens any more. `tick` is told the part that is done;
    /// when it gives false the run stops, and so does this.
    pub fn run(&mut self, jobs: u64, tick: &mut dyn FnMut(f64) -> bool) -> bool {
        self.begin();
        while self.step() {
            if self.events % LOOK == 0 && !tick(self.tally.ended() as f64 / jobs as f64) {
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
    pub fn report(mut self, jobs: u64) -> Report {
        if !self.tally.complete() {
            self.tally.close();
        }
        let ns = self.now_ns.max(1) as f64;
        let process = |one: &Process| (one.busy_ns as f64 / ns, one.done);
        let central = self.set_up.queue == Queue::Central;
        Report {
            seconds: ns / 1e9,
            counted_seconds: self.tally.span_ns() as f64 / 1e9,
            jobs: self.tally.ended(),
            unfinished: jobs - self.tally.ended().min(jobs),
            in_progress: self.jobs.count() as u64,
            events: self.events,
            processes: self.processes.iter().map(process).collect(),
            at_once: if central {
                self.processes[0].at_once
            } else {
                0
            },
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
            Arrivals::Recorded { came, once } => self.replay(came, *once),
            Arrivals::Closed { places, .. } => {
                let gevent = matches!(self.set_up.host, Host::Gevent { .. });
                if gevent && self.processes.len() == 1 && self.set_up.queue != Queue::Central {
                    self.fill_pool(*places);
                } else {
                    (0..*places).for_each(|place| self.follow(place));
                }
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrival(route) => {
                self.schedule(route as usize);
                self.arrive(route as usize, None, Came::AS_MODELLED);
            }
            Event::Recorded(number) => {
                if let Arrivals::Recorded { came, once } = &self.model.arrivals {
                    self.replay(came, *once);
                    let one = came[number as usize];
                    self.arrive(one.route as usize, one.sequence, one.cpu_permille);
                }
            }
            Event::Place(place) => self.follow(place),
            Event::CallOver { job } => self.call_over(job),
            Event::PermitOver { job, wait } => self.permit_over(job, wait),
            Event::HoldOver { process } => self.hold_over(process as usize),
            Event::Rested { connection, rest } => self.rested(connection as usize, rest),
            Event::Looks => self.looks(),
        }
    }

    fn schedule(&mut self, route: usize) {
        if self.source.started() < self.most {
            if let Some(at_ns) = self.source.next(route) {
                let event = Event::Arrival(route as u32);
                self.timers.push(at_ns, Class::New, event);
            }
        }
    }

    fn replay(&mut self, came: &[Came], once: bool) {
        if self.source.started() < self.most {
            if let Some((at_ns, number)) = self.source.replay(came, once) {
                self.timers.push(at_ns, Class::New, Event::Recorded(number));
            }
        }
    }

    fn arrive(&mut self, route: usize, sequence: Option<u32>, cpu_permille: u32) {
        let origin = match self.connections.len() {
            0 => Origin::Open,
            count => Origin::Connection(self.front.choose(count) as u32),
        };
        let id = self.create(route, self.now_ns, origin, sequence);
        self.jobs[id].cpu_permille = cpu_permille;
        self.enter(id);
    }

    /// The next request of a place of a closed loop.
    fn follow(&mut self, place: u32) {
        if self.source.started() < self.most {
            let route = self.source.route();
            let id = self.create(route, self.now_ns, Origin::Place(place), None);
            self.enter(id);
        }
    }

    fn enter(&mut self, id: u32) {
        if self.bulkheads.is_some() {
            self.order(id);
        } else {
            self.place(id);
        }
    }

    /// Makes a request; it is nowhere yet. `sequence`: which of its route's; None = drawn.
    pub(super) fn create(
        &mut self,
        route: usize,
        arrival_ns: u64,
        origin: Origin,
        sequence: Option<u32>,
    ) -> u32 {
        let (index, mut stream) = self.source.begin(route);
        let of_route = &self.model.routes[route];
        // Drawn in any case: what a request draws after it must not depend on who chose.
        let drawn = of_route.draw(&mut stream);
        let sequence = sequence.map_or(drawn, |number| of_route.sequence(number));
        let lane_ns = self.set_up.lanes[self.set_up.lane_of[route]].deadline_ns;
        let deadline_ns = [of_route.deadline_ns, lane_ns]
            .into_iter()
            .filter(|&ns| ns > 0)
            .min();
        self.jobs.add(Job {
            index,
            arrival_ns,
            due_ns: deadline_ns.map_or(0, |ns| arrival_ns + ns),
            began_ns: arrival_ns,
            wants_ns: arrival_ns,
            burst_ns: 0,
            left_ns: 0,
            expected_ns: 0,
            stream,
            route: route as u32,
            cpu_permille: Came::AS_MODELLED,
            step: sequence.first,
            end: sequence.end,
            process: 0,
            phase: 0,
            wait: 0,
            origin,
            fresh: true,
            holds: false,
            between: None,
            placed: false,
            releases: 0,
            failed: false,
            ordered: self.bulkheads.is_some(),
        })
    }

    /// A request turns to its next step.
    pub(super) fn advance(&mut self, id: u32) {
        let job = &mut self.jobs[id];
        if job.step == job.end {
            let releases = self.set_up.costs.releases_per_answer;
            if releases > 0 && !self.set_up.host.loops() {
                (job.between, job.releases) = (Some(Between::Answering), releases);
                return self.release(id);
            }
            return self.ends(id);
        }
        let step = &self.model.steps[job.step as usize];
        match step.work {
            Work::Cpu => self.compute(id),
            Work::Io { .. } => {
                let releases = self.set_up.costs.releases_per_call;
                if releases > 0 && !self.set_up.host.loops() {
                    (job.between, job.releases) = (Some(Between::Calling), releases);
                    self.release(id);
                } else {
                    self.call(id);
                }
            }
            Work::Free | Work::Thread | Work::Process => {
                job.step += 1;
                let drawn_ns = step.draw(&mut job.stream);
                let cpu_ns = job.cpu_ns(drawn_ns);
                if step.work == Work::Thread {
                    return self.on_thread(id, cpu_ns);
                }
                self.tally.computed(job.index, job.route, cpu_ns);
                match step.work {
                    Work::Process => self.in_pool(id, cpu_ns),
                    _ => self.beside(id, cpu_ns),
                }
            }
        }
    }

    /// The last byte of a request's answer has left.
    pub(super) fn ends(&mut self, id: u32) {
        let outcome = if self.jobs[id].failed {
            Outcome::Failed
        } else {
            Outcome::Done
        };
        self.finish(id, outcome);
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
            let drawn_ns = step.draw(&mut job.stream);
            cpu_ns += job.cpu_ns(drawn_ns);
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
        let closes = self.set_up.costs.turns_per_answer > 0 && !self.set_up.host.loops();
        if !closes {
            self.jobs.remove(id);
        }
        let took_ns = self.now_ns - job.arrival_ns + self.set_up.costs.front_ns;
        let span_ns = job.due_ns.saturating_sub(job.arrival_ns);
        let late = job.due_ns != 0 && took_ns > span_ns;
        let which = (job.index, job.route);
        self.tally.end(self.now_ns, which, outcome, took_ns, late);
        let one = &mut self.processes[process];
        one.in_flight -= 1;
        one.done += u64::from(outcome == Outcome::Done);
        if let (Some(shed), Outcome::Done) = (one.sheds.get_mut(lane), outcome) {
            shed.served(self.now_ns - job.began_ns, span_ns);
        }
        self.front.left(lane);
        match job.origin {
            Origin::Connection(number) if self.set_up.queue != Queue::Central => {
                self.answered(number as usize, process);
            }
            _ => self.place_free(process),
        }
        if let Origin::Place(place) = job.origin {
            self.place_over(place);
        }
        if job.ordered {
            self.begin_orders();
        }
        if closes {
            self.close(id);
        }
    }

    fn place_over(&mut self, place: u32) {
        let pooled = self.processes[0]
            .looped
            .as_ref()
            .is_some_and(|looped| looped.pool.is_some());
        let Arrivals::Closed { think_ns, .. } = self.model.arrivals else {
            return;
        };
        if pooled {
            self.pool_freed(place);
        } else if think_ns > 0 {
            let at_ns = self.now_ns + think_ns;
            self.timers.push(at_ns, Class::New, Event::Place(place));
        } else {
            self.follow(place);
        }
    }

    /// The number of the connection that a request comes on.
    pub(super) fn connection_of(&self, id: u32) -> Option<usize> {
        match self.jobs[id].origin {
            Origin::Connection(number) => Some(number as usize),
            _ => None,
        }
    }
}

fn process(model: &Model, set_up: &SetUp, at_once: u32) -> Process {
    let (order, own_ns) = set_up.turns();
    let permits = matches!(set_up.host, Host::Permits(_));
    let line = Line::new(order, set_up.asked_after_ns(own_ns), permits);
    let mut one = Process::new(line);
    one.at_once = at_once;
    one.calls = vec![Calls::default(); model.upstreams.len()];
    if let Some(rule) = set_up.shed {
        one.sheds = vec![Shed::new(rule); set_up.lanes.len()];
    }
    match &set_up.host {
        Host::Permits(rule) => {
            one.gate = Some(Gate::new(*rule, model.routes.len(), own_ns));
        }
        host if host.loops() => one.looped = Some(Looped::default()),
        _ => {}
    }
    one
}
