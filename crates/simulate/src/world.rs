//! The state of a run: everything that an event may change.

use super::bulkheads::Bulkheads;
use super::cores::Cores;
use super::front::{worker_limits, Front};
use super::gil::Waiters;
use super::heap::Heap;
use super::jobs::Jobs;
use super::looped::Looped;
use super::model::{Model, Work};
use super::permits::ProcessPermits;
use super::process::Process;
use super::set_up::{Host, SetUp};
use super::source::Source;
use super::tally::Tally;
use greenlane_policy::shed::Shed;
use std::collections::VecDeque;

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
    /// The bulkheads may let somebody begin.
    Looks,
}

/// Work for worker processes, and what waits for one of them: (job, CPU in ns).
#[derive(Debug, Default)]
pub struct Pool {
    pub running: u32,
    pub waiting: VecDeque<(u32, u64)>,
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
    /// The worker processes for placed work.
    pub(super) pool: Pool,
    pub(super) bulkheads: Option<Bulkheads>,
    /// At the same instant an end of CPU comes before the end of a wait, so that who follows it at once goes first. Where
    /// a loop looks who is ready, all must be there to be seen.
    pub(super) cpu_first: bool,
    /// Waits for permits so far: a number for each.
    pub(super) waits: u32,
    pub(super) events: u64,
    pub(super) most: u64,
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
        let beside = model
            .steps
            .iter()
            .any(|step| matches!(step.work, Work::Free | Work::Process) && step.ns > 0);
        let most_at_once = if beside { usize::MAX } else { set_up.processes };
        let numbers = worker_limits(model, set_up);
        let process = |index: usize| process(model, set_up, numbers[index]);
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
            pool: Pool::default(),
            bulkheads: bulkheads.map(|(slots, limits)| Bulkheads::new(model, *slots, limits)),
            cpu_first: !set_up.host.loops(),
            waits: 0,
            events: 0,
            most: warm + jobs.saturating_mul(1 + MORE),
            model,
            set_up,
        }
    }
}

fn process(model: &Model, set_up: &SetUp, at_once: u32) -> Process {
    let own_ns = set_up.switch_interval_ns;
    let permits = matches!(set_up.host, Host::Permits(_));
    let line = Waiters::new(own_ns.max(1), permits);
    let mut one = Process::new(line);
    one.at_once = at_once;
    if let Some(rule) = set_up.shed {
        one.sheds = vec![Shed::new(rule); set_up.lanes.len()];
    }
    match &set_up.host {
        Host::Permits(rule) => {
            one.permits = Some(ProcessPermits::new(*rule, model.routes.len(), own_ns));
        }
        host if host.loops() => one.looped = Some(Looped::default()),
        _ => {}
    }
    one
}
