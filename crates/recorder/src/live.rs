//! The last minute's figures by route, made by the writer from the events that pass through it.
//!
//! Coarse on purpose: sums of a job's slices, blocks and waits, not the exact accounting of a recording (children that
//! run beside each other count twice). For `greenlane top`, metrics and autoscaling.

use super::ring::ESTIMATED;
use greenlane_process::numbers::NumberMap;
use greenlane_recording_format::event::{Event, Text, WaitKind};

/// Kinds of `phase.Kind` that are waits, not I/O: lock, queue, future.
pub const WAITING_KINDS: std::ops::RangeInclusive<u8> = 5..=7;
/// Jobs that are followed at once; more are not shown.
const MOST_JOBS: usize = 1 << 16;
/// Latencies by powers of 2^(1/4) us.
pub const BUCKETS: usize = 128;

/// Sums of one route.
#[derive(Clone)]
pub struct RouteSums {
    pub jobs: u64,
    /// Of them: answered with a 5xx, or tasks that failed.
    pub failed: u64,
    pub latency_ns: u64,
    pub cpu_ns: u64,
    pub io_ns: u64,
    pub wait_ns: u64,
    /// Jobs by latency: index i holds those up to 2^(i/4) us.
    pub by_latency: Box<[u32; BUCKETS]>,
}

impl Default for RouteSums {
    fn default() -> Self {
        Self {
            jobs: 0,
            failed: 0,
            latency_ns: 0,
            cpu_ns: 0,
            io_ns: 0,
            wait_ns: 0,
            by_latency: Box::new([0; BUCKETS]),
        }
    }
}

#[derive(Default)]
struct Job {
    route: Text,
    arrival_ns: u64,
    cpu_ns: u64,
    io_ns: u64,
    wait_ns: u64,
}

/// See the module.
#[derive(Default)]
pub struct Live {
    first: u64,
    jobs: NumberMap<u64, Job>,
    pub routes: NumberMap<Text, RouteSums>,
    /// Largest lateness since it was last taken: of a loop's unit, or of a thread at the GIL.
    worst_lag_ns: u64,
    /// Latenesses by power of two, us, since the start.
    pub by_lag: [u64; 32],
    /// Sum of them, ns.
    pub lag_ns: u64,
    pub closed: u64,
    pub failed: u64,
    /// Time in which a thread or loop ran jobs or itself, and CPU of it.
    pub busy_ns: u64,
}

impl Live {
    /// Takes note of an event.
    pub fn observe(&mut self, event: &Event) {
        match *event {
            Event::JobOpen {
                job,
                arrival_ns,
                at_ns,
                ..
            } if job >= self.first && self.jobs.len() < MOST_JOBS => {
                let started = Job {
                    arrival_ns,
                    wait_ns: at_ns.saturating_sub(arrival_ns),
                    ..Job::default()
                };
                self.jobs.insert(job, started);
            }
            Event::JobName { job, route, .. } => {
                if let Some(job) = self.jobs.get_mut(&job) {
                    job.route = route;
                }
            }
            Event::JobClose { job, at_ns, status } => self.close(job, at_ns, status),
            Event::Slice { job, cpu_ns, .. } => {
                let cpu_ns = cpu_ns & !ESTIMATED;
                self.busy_ns += cpu_ns;
                if let Some(job) = self.jobs.get_mut(&job) {
                    job.cpu_ns += cpu_ns;
                }
            }
            Event::Wait {
                from_ns,
                to_ns,
                job,
                kind,
                ..
            } => {
                let wait_ns = to_ns.saturating_sub(from_ns);
                if matches!(kind, WaitKind::Gil | WaitKind::Loop) {
                    self.lag(wait_ns);
                }
                if let Some(job) = self.jobs.get_mut(&job) {
                    job.wait_ns += wait_ns;
                }
            }
            Event::Block {
                from_ns,
                ready_ns,
                to_ns,
                job,
                kind,
                ..
            } => {
                let late_ns = to_ns.saturating_sub(ready_ns);
                self.lag(late_ns);
                if let Some(job) = self.jobs.get_mut(&job) {
                    let blocked_ns = ready_ns.saturating_sub(from_ns);
                    job.wait_ns += late_ns;
                    if WAITING_KINDS.contains(&kind) {
                        job.wait_ns += blocked_ns;
                    } else {
                        job.io_ns += blocked_ns;
                    }
                }
            }
            _ => {}
        }
    }

    /// The largest lateness since the last call, ns.
    pub fn take_worst_lag_ns(&mut self) -> u64 {
        std::mem::take(&mut self.worst_lag_ns)
    }

    /// Jobs before `first` are not followed: recording was off, and their ends may have been missed. Sums stay.
    pub fn follow_from(&mut self, first: u64) {
        self.first = first;
        self.jobs.clear();
    }

    /// Jobs in progress.
    pub fn in_progress(&self) -> usize {
        self.jobs.len()
    }

    /// When the oldest of them arrived, ns; 0 = there is none.
    pub fn oldest_ns(&self) -> u64 {
        let arrivals = self.jobs.values().map(|job| job.arrival_ns);
        arrivals.min().unwrap_or(0)
    }

    fn lag(&mut self, late_ns: u64) {
        self.worst_lag_ns = self.worst_lag_ns.max(late_ns);
        let bucket = (64 - (late_ns / 1000).leading_zeros()).min(31);
        self.by_lag[bucket as usize] += 1;
        self.lag_ns += late_ns;
    }

    fn close(&mut self, number: u64, at_ns: u64, status: u16) {
        let Some(job) = self.jobs.remove(&number) else {
            return;
        };
        let failed = u64::from(status == 1 || status >= 500);
        self.closed += 1;
        self.failed += failed;
        let sums = self.routes.entry(job.route).or_default();
        let latency_ns = at_ns.saturating_sub(job.arrival_ns);
        sums.jobs += 1;
        sums.failed += failed;
        sums.latency_ns += latency_ns;
        sums.cpu_ns += job.cpu_ns;
        sums.io_ns += job.io_ns;
        sums.wait_ns += job.wait_ns;
        sums.by_latency[bucket_of(latency_ns)] += 1;
    }
}

fn bucket_of(latency_ns: u64) -> usize {
    let micros = (latency_ns as f64 / 1000.0).max(1.0);
    ((micros.log2() * 4.0).ceil() as usize).min(BUCKETS - 1)
}
