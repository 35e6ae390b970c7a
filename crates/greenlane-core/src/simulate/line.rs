//! Those who want a process's CPU, in the order in which they get it.

use super::set_up::Order;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Smaller goes first.
pub type Key = (i64, u64);

/// See the module.
#[derive(Clone, Debug)]
pub enum Line {
    Turns(VecDeque<u32>),
    Keyed(BinaryHeap<Reverse<(Key, u32)>>),
}

impl Line {
    /// Nobody wants it yet.
    pub fn new(order: Order) -> Self {
        match order {
            Order::Turns => Self::Turns(VecDeque::new()),
            Order::Oldest | Order::First => Self::Keyed(BinaryHeap::new()),
        }
    }

    /// One more. `key` says where, unless it goes by turns.
    pub fn push(&mut self, who: u32, key: Key) {
        match self {
            Self::Turns(queue) => queue.push_back(who),
            Self::Keyed(heap) => heap.push(Reverse((key, who))),
        }
    }

    /// Who is next.
    pub fn pop(&mut self) -> Option<u32> {
        match self {
            Self::Turns(queue) => queue.pop_front(),
            Self::Keyed(heap) => heap.pop().map(|Reverse((_, who))| who),
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        match self {
            Self::Turns(queue) => queue.len(),
            Self::Keyed(heap) => heap.len(),
        }
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Turns(queue) => queue.is_empty(),
            Self::Keyed(heap) => heap.is_empty(),
        }
    }
}
