//! The keys that could begin a call, by how many free slots they need for it, then by turn.
//!
//! What a key needs follows from its calls in progress (see [`slots_needed`]), so that a change of the free slots moves no key:
//! `first` looks at one entry for each distinct need within the free slots, and there are at most about
//! the root of twice the slots of those.

use std::collections::{BTreeMap, BTreeSet};

/// Where a key stands: slots needed, round, place.
pub type Standing = (u32, u64, u64);

/// See the module.
#[derive(Debug, Default)]
pub struct Ready {
    by_need: BTreeMap<u32, BTreeSet<(u64, u64, u32)>>,
    keys: u32,
}

impl Ready {
    /// Puts a key in.
    pub fn insert(&mut self, key: u32, standing: Standing) {
        let (need, round, place) = standing;
        self.keys += 1;
        self.by_need
            .entry(need)
            .or_default()
            .insert((round, place, key));
    }

    /// Takes a key out of where it stands.
    pub fn remove(&mut self, key: u32, standing: Standing) {
        let (need, round, place) = standing;
        if let Some(keys) = self.by_need.get_mut(&need) {
            self.keys -= u32::from(keys.remove(&(round, place, key)));
            if keys.is_empty() {
                self.by_need.remove(&need);
            }
        }
    }

    /// How many keys are in.
    pub fn keys(&self) -> u32 {
        self.keys
    }

    /// The key whose turn it is among those that need at most `free` slots: round, place, key.
    pub fn first(&self, free: u32) -> Option<(u64, u64, u32)> {
        self.by_need
            .range(..=free)
            .filter_map(|(_, keys)| keys.first())
            .min()
            .copied()
    }
}

/// Free slots that a key with `running` calls needs to begin another.
///
/// 0 = any free one, as long as it has less than its guaranteed minimum. Above that a key may have `most / (1 - most)`
/// times as many calls in progress as slots are free: alone it ends at the share `most`, two such keys at a third each
/// for one half, and however many there are, some slots stay free for those that want few. This is the dynamic threshold
/// of shared switch buffers (Choudhury and Hahne, 1998).
pub fn slots_needed(running: u32, least: u32, most_frac: f64) -> u32 {
    if running < least {
        return 0;
    }
    if most_frac >= 1.0 {
        return 1;
    }
    let times = most_frac.max(0.0) / (1.0 - most_frac.max(0.0));
    let need = (f64::from(running) / times).floor();
    if need < f64::from(u32::MAX - 1) {
        need as u32 + 1
    } else {
        u32::MAX
    }
}
