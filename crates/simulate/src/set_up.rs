//! How it is served: host, processes, queue, lanes, limits, and the production's rules with their settings.

use greenlane_policy::at_once::AtOnceRule;
use greenlane_policy::bounds::Bounds;
use greenlane_policy::order::Discipline;
use greenlane_policy::shed::ShedRule;
use greenlane_policy::upstream::Rule;
use greenlane_policy::weight::WeightRule;

/// What a process does with several requests.
#[derive(Clone, Debug)]
pub enum Host {
    /// Threads under a GIL.
    Threads,
    /// The same with CPU permits for heavy phases.
    Permits(PermitRule),
    /// gevent's loop. `max_accept`: connections taken at one wake-up.
    Gevent { max_accept: u32 },
    /// asyncio's loop.
    Asyncio,
}

impl Host {
    /// Whether one loop runs all requests of a process.
    pub fn loops(&self) -> bool {
        matches!(self, Self::Gevent { .. } | Self::Asyncio)
    }
}

/// The production's rule of permits.
#[derive(Clone, Copy, Debug)]
pub struct PermitRule {
    pub permits: usize,
    pub discipline: Discipline,
    pub ageing_ns: u64,
    pub weight: WeightRule,
    pub bounds: Bounds,
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
    /// A socket each: at random.
    ReusePort,
    RoundRobin,
    /// The shorter of two drawn at random.
    TwoChoices,
    /// To the one with the fewest in progress.
    Shortest,
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
    /// Its requests in progress over all processes (central queue only); 0 = no such bound.
    pub at_once: u32,
    /// From arrival, ns; 0 = none.
    pub deadline_ns: u64,
}

/// Connections that clients keep open between requests; each stays with its process.
#[derive(Clone, Copy, Debug)]
pub struct KeepAlive {
    pub connections: u32,
    /// An idle one is closed after this time, ns. It takes a place of `limit` until then.
    pub idle_ns: u64,
}

/// Calls held back before their upstream, by the production's rule: each request is an order of its upstream's key.
#[derive(Clone, Debug)]
pub struct Bulkheads {
    /// Calls in progress at once over all upstreams.
    pub slots: u32,
    pub general: Rule,
    /// Fixed limits, by upstream of the model; 0 = the general rule holds.
    pub limits: Vec<u32>,
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
    /// How often a thread gives the GIL away for a moment before it waits for an upstream.
    pub releases_per_call: u32,
    /// How often the one thread that accepts needs the GIL for a request, before a thread begins it.
    pub turns_per_request: u32,
    /// The same after its answer, to close what it has opened.
    pub turns_per_answer: u32,
    /// How often a thread gives the GIL away for a moment before its request computes: it waits for its bytes, reads them.
    pub releases_per_request: u32,
    /// The same before the last byte of the answer has left.
    pub releases_per_answer: u32,
    /// Share of these moments, and of calls up to `race_ns`, after which a thread has the GIL again before the one that
    /// it has woken, 0 to 1.
    pub kept_frac: f64,
    /// The same of the moments of a call to an upstream.
    pub kept_in_call_frac: f64,
    /// Calls up to this long are over before somebody else has woken up, in the share above, ns.
    pub race_ns: u64,
    /// Share of the switches that somebody asked for in which he gets the GIL before the one that was woken, 0 to 1.
    pub asker_frac: f64,
    /// How much later than the switch interval a waiter asks for the GIL, ns.
    pub timer_ns: u64,
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
    /// Central queue: requests that a process gets at once; 0 = what [`greenlane_policy::at_once`] says.
    pub at_once: u32,
    pub at_once_rule: Option<AtOnceRule>,
    pub keep_alive: Option<KeepAlive>,
    pub shed: Option<ShedRule>,
    pub lanes: Vec<Lane>,
    /// Lane of each route of the model.
    pub lane_of: Vec<usize>,
    /// Calls that a process makes at once, by upstream of the model; 0 = any number.
    pub upstream_limits: Vec<u32>,
    pub bulkheads: Option<Bulkheads>,
    /// Processes for work that is placed in one.
    pub pool: u32,
    pub costs: Costs,
}

impl SetUp {
    /// What a waiter waits before it asks for the GIL where this interval is in force: more than 0.
    pub fn asked_after_ns(&self, interval_ns: u64) -> u64 {
        (interval_ns + self.costs.timer_ns).max(1)
    }
}
