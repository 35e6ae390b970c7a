//! One process: who has its CPU, who wants it, and what else of it is taken.

use super::gil::Waiters;
use super::looped::Looped;
use super::permits::ProcessPermits;
use greenlane_policy::shed::Shed;
use std::collections::VecDeque;

/// The loop's thread among those that want the CPU; others are jobs on threads of their own.
pub const LOOP: u32 = u32::MAX;

/// See the module.
#[derive(Debug)]
pub struct Process {
    /// Who wants its GIL.
    pub line: Waiters,
    /// Who computes.
    pub running: Option<u32>,
    /// Between two turns: who wants the CPU now queues behind those who have waited.
    pub turning: bool,
    pub last: Option<u32>,
    /// Number of the present turn, and of its present end.
    pub turn: u32,
    /// CPU time when the turn began, how long it is, and what of it is the switch, ns.
    pub began_cpu_ns: u64,
    pub stretch_ns: u64,
    pub switch_ns: u64,
    pub busy_ns: u64,
    /// Places taken, and requests that are its own, those that wait for a place among them.
    pub in_progress: u32,
    pub in_flight: u32,
    /// Places that the front knows of.
    pub at_once: u32,
    /// Who waits for a place; of those the ones that are expected to ask for a permit.
    pub light: VecDeque<u32>,
    pub heavy: VecDeque<u32>,
    pub permits: Option<ProcessPermits>,
    pub looped: Option<Looped>,
    /// Work for the one native thread.
    pub placed: VecDeque<u32>,
    pub placed_busy: bool,
    /// Requests for the thread that accepts, of those that run on threads.
    pub door: VecDeque<u32>,
    pub door_busy: bool,
    /// Who goes on between two turns, having kept the GIL.
    pub kept: Option<u32>,
    /// Who need not queue if it wants the CPU immediately.
    pub keeper: Option<u32>,
    /// By lane.
    pub sheds: Vec<Shed>,
}

impl Process {
    /// It idles.
    pub fn new(line: Waiters) -> Self {
        Self {
            line,
            running: None,
            turning: false,
            last: None,
            turn: 0,
            began_cpu_ns: 0,
            stretch_ns: 0,
            switch_ns: 0,
            busy_ns: 0,
            in_progress: 0,
            in_flight: 0,
            at_once: 0,
            light: VecDeque::new(),
            heavy: VecDeque::new(),
            permits: None,
            looped: None,
            placed: VecDeque::new(),
            placed_busy: false,
            door: VecDeque::new(),
            door_busy: false,
            kept: None,
            keeper: None,
            sheds: Vec::new(),
        }
    }

    /// Whether nobody computes.
    pub fn idles(&self) -> bool {
        self.running.is_none() && !self.turning
    }
}
