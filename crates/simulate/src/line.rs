//! Those who want a process's CPU, in the order in which they get it.

use super::gil::Waiters;
use super::set_up::Order;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Smaller goes first.
pub type Key = (i64, u64);

/// Which of those who wait for a GIL is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taker {
    /// Whom a signal wakes.
    Woken,
    /// Who has asked for it.
    Asker,
}

/// See the module.
#[derive(Clone, Debug)]
pub enum Line {
    Turns(VecDeque<u32>),
    Keyed(BinaryHeap<Reverse<(Key, u32)>>),
    Gil(Waiters),
}

impl Line {
    /// Nobody wants it yet. Of a GIL: its interval, and whether wakes are counted.
    pub fn new(order: Order, interval_ns: u64, counts: bool) -> Self {
        match order {
            Order::Turns => Self::Turns(VecDeque::new()),
            Order::Oldest | Order::First => Self::Keyed(BinaryHeap::new()),
            Order::Gil => Self::Gil(Waiters::new(interval_ns, counts)),
        }
    }

    /// One more. `key` says where, unless it goes by turns; of a GIL, its second part is the time.
    pub fn push(&mut self, who: u32, key: Key) {
        match self {
            Self::Turns(queue) => queue.push_back(who),
            Self::Keyed(heap) => heap.push(Reverse((key, who))),
            Self::Gil(waiters) => waiters.push(who, key.1),
        }
    }

    /// Who is next.
    pub fn pop(&mut self, taker: Taker, now_ns: u64) -> Option<u32> {
        match self {
            Self::Turns(queue) => queue.pop_front(),
            Self::Keyed(heap) => heap.pop().map(|Reverse((_, who))| who),
            Self::Gil(waiters) if taker == Taker::Asker => waiters.pop_asker(now_ns),
            Self::Gil(waiters) => waiters.pop(now_ns),
        }
    }

    /// How long who gets it now may keep it, ns; None = as long as it wants. `slice_ns`: unless it is a GIL.
    pub fn room_ns(&self, now_ns: u64, slice_ns: u64) -> Option<u64> {
        match self {
            Self::Gil(waiters) => waiters.asked_ns().map(|at_ns| at_ns.saturating_sub(now_ns)),
            _ if slice_ns == 0 || self.is_empty() => None,
            _ => Some(slice_ns),
        }
    }

    /// Somebody else has it from now on.
    pub fn switched(&mut self, now_ns: u64) {
        if let Self::Gil(waiters) = self {
            waiters.switched(now_ns);
        }
    }

    /// Who was next has found it taken.
    pub fn missed(&mut self, now_ns: u64) {
        if let Self::Gil(waiters) = self {
            waiters.missed(now_ns);
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        match self {
            Self::Turns(queue) => queue.len(),
            Self::Keyed(heap) => heap.len(),
            Self::Gil(waiters) => waiters.len(),
        }
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
