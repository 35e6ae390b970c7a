//! One request: until when an answer is of use, where its time went, what went wrong.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use serde::Serialize;

pub struct Job {
    pub user_id: u64,
    pub now_s: i64,
    began: Instant,
    deadline: Duration,
    pub stages: Mutex<Stages>,
    pub problems: Mutex<Vec<Problem>>,
    /// The ids before the business rules; empty when nothing was ranked.
    pub ranked: Mutex<Vec<u32>>,
    /// CPU of the process while the ranking path ran: other requests' too, so it means something only when requests
    /// come one at a time.
    pub path: Mutex<Duration>,
}

/// Why an answer is less than it could be.
#[derive(Clone, Serialize)]
pub struct Problem {
    pub part: &'static str,
    pub reason: String,
    pub effect: String,
}

/// Names in the order in which they ran, and what each took.
#[derive(Clone, Default)]
pub struct Stages(pub Vec<(&'static str, Stage)>);

#[derive(Clone, Copy, Default)]
pub struct Stage {
    pub wall: Duration,
    pub cpu: Duration,
}

/// A stage as answers tell it. Waiting for this service's own loop is not told from I/O here: it is a few µs.
#[derive(Serialize)]
pub struct Row {
    wall_ms: f64,
    cpu_ms: f64,
    io_ms: f64,
    wait_ms: f64,
}

impl Stages {
    pub fn add(&mut self, name: &'static str, wall: Duration, cpu: Duration) {
        let at = self
            .0
            .iter()
            .position(|stage| stage.0 == name)
            .unwrap_or_else(|| {
                self.0.push((name, Stage::default()));
                self.0.len() - 1
            });
        self.0[at].1.wall += wall;
        self.0[at].1.cpu += cpu;
    }

    pub fn rows(&self) -> serde_json::Map<String, serde_json::Value> {
        let row = |stage: &Stage| Row {
            wall_ms: milliseconds(stage.wall),
            cpu_ms: milliseconds(stage.cpu),
            io_ms: milliseconds(stage.wall.saturating_sub(stage.cpu)),
            wait_ms: 0.0,
        };
        let value = |stage: &Stage| serde_json::to_value(row(stage)).expect("numbers");
        self.0
            .iter()
            .map(|(name, stage)| ((*name).to_owned(), value(stage)))
            .collect()
    }
}

impl Job {
    pub fn new(user_id: u64, now_s: i64, deadline: Duration) -> Self {
        let began = Instant::now();
        Self {
            user_id,
            now_s,
            began,
            deadline,
            stages: Mutex::default(),
            problems: Mutex::default(),
            ranked: Mutex::default(),
            path: Mutex::default(),
        }
    }

    /// When this share of the deadline is used up.
    pub fn until(&self, share: f64) -> tokio::time::Instant {
        (self.began + self.share(share)).into()
    }

    /// So much of the deadline, from whenever.
    pub fn share(&self, share: f64) -> Duration {
        self.deadline.mul_f64(share)
    }

    pub fn degraded(
        &self,
        part: &'static str,
        reason: impl Into<String>,
        effect: impl Into<String>,
    ) {
        let problem = Problem {
            part,
            reason: reason.into(),
            effect: effect.into(),
        };
        self.problems
            .lock()
            .expect("no thread died with it")
            .push(problem);
    }

    /// Adds to a stage what was measured elsewhere.
    pub fn took(&self, stage: &'static str, wall: Duration, cpu: Duration) {
        self.stages
            .lock()
            .expect("no thread died with it")
            .add(stage, wall, cpu);
    }

    /// A stretch of pure computation.
    pub fn computing<T>(&self, stage: &'static str, work: impl FnOnce() -> T) -> T {
        let (wall, cpu) = (Instant::now(), thread_cpu());
        let result = work();
        self.took(stage, wall.elapsed(), thread_cpu() - cpu);
        result
    }

    /// What the future gives; its CPU and its time count for the stage.
    pub async fn running<T>(&self, stage: &'static str, work: impl Future<Output = T>) -> T {
        let wall = Instant::now();
        let (result, cpu) = Measured {
            work: Box::pin(work),
            cpu: Duration::ZERO,
        }
        .await;
        self.took(stage, wall.elapsed(), cpu);
        result
    }
}

struct Measured<F> {
    work: Pin<Box<F>>,
    cpu: Duration,
}

impl<F: Future> Future for Measured<F> {
    type Output = (F::Output, Duration);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let began = thread_cpu();
        let polled = self.work.as_mut().poll(context);
        self.cpu += thread_cpu() - began;
        polled.map(|result| (result, self.cpu))
    }
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

pub fn thread_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

pub fn process_cpu() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock(which: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock exists on Linux and `time` is ours.
    unsafe { libc::clock_gettime(which, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
