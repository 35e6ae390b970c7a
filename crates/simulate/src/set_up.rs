//! How it is served: host, processes, queue, lanes, limits, and the production's rules with their settings.

use greenlane_policy::shed::ShedRule;
use greenlane_policy::weight::WeightRule;
use greenlane_policy::worker_concurrency::ConcurrencyRule;

/// What a process does with several requests.
#[derive(Clone, Debug)]
pub enum Host {
    /// Threads under a GIL.
    Threads,
    /// The same with CPU permits for heavy phases.
    Permits(PermitRule),
    /// gevent's loop.
    Gevent,
    /// asyncio's loop.
    Asyncio,
}

impl Host {
    /// Whether one loop runs all requests of a process.
    pub fn loops(&self) -> bool {
        matches!(self, Self::Gevent | Self::Asyncio)
    }
}

/// The production's rule of permits.
#[derive(Clone, Copy, Debug)]
pub struct PermitRule {
    pub permits: usize,
    pub weight: WeightRule,
    /// Longest wait, ns.
    pub wait_max_ns: u64,
    /// Own CPU after which a holder no longer counts, ns.
    pub share_ns: u64,
    /// Switch interval while a permit is held and at most two threads want the GIL, ns.
    pub interval_ns: u64,
    /// Phases of a route that are told apart.
    pub phases: usize,
}

/// How requests come to processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// One listening socket for all: to a process that idles, else to the first that looks.
    Accept,
    /// They wait in one queue; a process that has fewer than `at_once` gets the next (HAProxy before workers).
    Central,
}

/// Whom a lane shares processes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any shared process; places on `processes` of them are kept from others.
    Soft,
    /// `processes` of its own, and no others.
    Hard,
}

/// Requests with a common rule. The first lane of a set-up is of those that have none.
#[derive(Clone, Debug)]
pub struct Lane {
    pub kind: Kind,
    pub processes: usize,
    /// Higher goes first.
    pub priority: i64,
}

/// What the machine adds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// CPU from one thread to the next, ns.
    pub switch_ns: u64,
    /// CPU of a request beside what it does itself, ns.
    pub dispatch_ns: u64,
    /// Latency before it reaches a process's queue, and after it has left, ns.
    pub front_ns: u64,
    /// How often a thread loses the GIL that it gives away for a moment: the one that accepts, for a request before
    /// another thread begins it; a request's, before it computes; a request's, before it waits for an upstream.
    pub door_releases: u32,
    pub request_releases: u32,
    pub call_releases: u32,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct SetUp {
    pub host: Host,
    pub queue: Queue,
    /// At least one.
    pub processes: usize,
    /// 0 = as many as wanted.
    pub cores: usize,
    /// Of the interpreter, ns; with permits, while none is held.
    pub switch_interval_ns: u64,
    /// Requests in progress in a process; others wait before it. 0 = any number.
    pub limit: u32,
    /// Central queue: requests that a process gets at once; 0 = what [`greenlane_policy::worker_concurrency`] says.
    pub at_once: u32,
    pub at_once_rule: Option<ConcurrencyRule>,
    pub shed: Option<ShedRule>,
    pub lanes: Vec<Lane>,
    /// Lane of each route of the model.
    pub lane_of: Vec<usize>,
    /// Calls are held back before their upstream: in progress at once over all, and by upstream of the model (0 = any).
    pub bulkheads: Option<(u32, Vec<u32>)>,
    /// Processes for work that is placed in one.
    pub pool: u32,
    pub costs: Costs,
}
