//! What the keys have in common: those that have answered lately, how many of them are ill, what slots they are owed.

use std::collections::VecDeque;

/// A key that has not answered for so long says nothing about the others, ns. Arbitrary: the longest open time.
pub const LATELY_NS: u64 = 60_000_000_000;
/// With fewer keys nothing is said to be common.
const KEYS_LEAST: u32 = 3;

/// What one key adds to the sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyShare {
    /// It has answered lately, or has a rule of its own.
    pub counts: bool,
    pub ill: bool,
    /// Calls short of its guaranteed minimum.
    pub owed: u32,
    /// That is so by a rule of its own: promised by somebody.
    pub promised: bool,
    /// Calls in progress and parked orders, if it has never answered.
    pub strange_running: u32,
    pub strange_parked: u64,
}

/// Sums over keys, each O(1) to keep.
#[derive(Debug, Default)]
pub struct RecentOutcomes {
    /// (answered, key, generation): one entry a key, looked at again when it is old.
    queue: VecDeque<(u64, u32, u32)>,
    keys: u32,
    ill: u32,
    owed: u64,
    promised: u64,
    strange_running: u32,
    strange_parked: u64,
}

impl RecentOutcomes {
    /// A key has answered that is not in the queue.
    pub fn push(&mut self, answered_ns: u64, key: u32, generation: u32) {
        self.queue.push_back((answered_ns, key, generation));
    }

    /// Takes out the next entry that is to be looked at again.
    pub fn pop_old(&mut self, now_ns: u64) -> Option<(u32, u32)> {
        let &(answered_ns, key, generation) = self.queue.front()?;
        if now_ns.saturating_sub(answered_ns) <= LATELY_NS {
            return None;
        }
        self.queue.pop_front();
        Some((key, generation))
    }

    /// A key's share is another one now.
    pub fn change(&mut self, before: KeyShare, after: KeyShare) {
        for (share, sign) in [(before, -1i32), (after, 1)] {
            let (running, parked) = (share.strange_running as i32, share.strange_parked as i64);
            self.strange_running = self.strange_running.wrapping_add_signed(sign * running);
            self.strange_parked = self
                .strange_parked
                .wrapping_add_signed(i64::from(sign) * parked);
            if !share.counts {
                continue;
            }
            self.keys = self.keys.wrapping_add_signed(sign);
            self.ill = self.ill.wrapping_add_signed(sign * i32::from(share.ill));
            let owed = i64::from(sign) * i64::from(share.owed);
            let sum = if share.promised {
                &mut self.promised
            } else {
                &mut self.owed
            };
            *sum = sum.wrapping_add_signed(owed);
        }
    }

    /// Calls in progress of the keys that have never answered.
    pub fn strange_running(&self) -> u32 {
        self.strange_running
    }

    /// Parked orders of the keys that have never answered.
    pub fn strange_parked(&self) -> u64 {
        self.strange_parked
    }

    /// Whether any key has answered lately.
    pub fn any(&self) -> bool {
        self.keys > 0
    }

    /// Whether most keys are ill: then the reason is not theirs.
    pub fn common(&self) -> bool {
        self.keys >= KEYS_LEAST && self.ill * 2 > self.keys
    }

    /// Slots that only keys below their guaranteed minimum may take.
    ///
    /// What rules of single keys promise, and of what the general rule does at most a tenth of the slots: thousands of
    /// keys are owed more than there is.
    pub fn reserved_slots(&self, slots: u32) -> u32 {
        let owed = self.owed.min(u64::from(slots / 10));
        let reserved = self.promised.saturating_add(owed);
        u32::try_from(reserved)
            .unwrap_or(u32::MAX)
            .min(slots.saturating_sub(1))
    }
}
