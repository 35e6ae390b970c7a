//! Maps and sets by addresses and numbers of our own. Nobody outside chooses these, so a multiplication hashes them.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;
pub type NumberSet<K> = HashSet<K, BuildHasherDefault<NumberHasher>>;

/// Fibonacci hashing, for one number: the tables look at the highest and the lowest bits.
#[derive(Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}
