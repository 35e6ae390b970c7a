//! Requests in progress, in places that are used again.

use std::ops::{Index, IndexMut};

/// Moments in which a thread needs the GIL and does nothing with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// The thread that accepts hands it to the one that runs it.
    Starting,
    /// Its thread has it, and reads it.
    Reading,
    /// It gives the GIL away for a moment before it waits for an upstream.
    Calling,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Number among all requests, by arrival.
    pub index: u64,
    pub arrival_ns: u64,
    /// When its answer is due; 0 = never.
    pub due_ns: u64,
    /// When a process began it.
    pub began_ns: u64,
    /// Since when it has wanted what it waits for.
    pub wants_ns: u64,
    /// CPU of the present burst: all of it, and what is left, ns.
    pub burst_ns: u64,
    pub left_ns: u64,
    /// CPU of its phases that have ended, ns.
    pub attained_ns: u64,
    pub route: u32,
    pub step: u32,
    pub end: u32,
    pub process: u32,
    pub phase: u32,
    /// Tells its present wait for a permit from others; 0 = none.
    pub wait: u32,
    /// It has not been picked up.
    pub fresh: bool,
    /// It holds a permit; it has asked for one.
    pub holds: bool,
    pub asked: bool,
    /// What follows once its thread has had the GIL `releases` times more.
    pub between: Option<Between>,
    /// It computes where it was placed, not where it came in.
    pub placed: bool,
    pub releases: u32,
    /// It is parked, or in progress, at the bulkheads.
    pub ordered: bool,
}

impl Job {
    /// CPU that the present burst of this job, `id`, has had, ns. `running`: see `World::slice`.
    pub fn used_ns(&self, id: u32, running: Option<(u32, u64)>) -> u64 {
        let now_ns = running.map_or(0, |(who, had_ns)| if who == id { had_ns } else { 0 });
        self.burst_ns - self.left_ns + now_ns
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    places: Vec<Job>,
    vacant: Vec<u32>,
}

impl Jobs {
    /// Puts one in.
    pub fn add(&mut self, job: Job) -> u32 {
        match self.vacant.pop() {
            Some(id) => {
                self.places[id as usize] = job;
                id
            }
            None => {
                self.places.push(job);
                self.places.len() as u32 - 1
            }
        }
    }

    /// Its place is free.
    pub fn remove(&mut self, id: u32) {
        // A wait that is over before its time limit leaves an event behind, which must not meet the next one here.
        self.places[id as usize].wait = 0;
        self.vacant.push(id);
    }

    /// In progress.
    pub fn count(&self) -> usize {
        self.places.len() - self.vacant.len()
    }
}

impl Index<u32> for Jobs {
    type Output = Job;
    fn index(&self, id: u32) -> &Job {
        &self.places[id as usize]
    }
}

impl IndexMut<u32> for Jobs {
    fn index_mut(&mut self, id: u32) -> &mut Job {
        &mut self.places[id as usize]
    }
}
