//! How fast the cores of this machine compute now: what a loop of fixed work takes.
//!
//! A core's speed changes with its clock, its temperature, and what its other thread or another guest of the machine
//! does. Comparisons of two recordings need it: a slow machine is no slow release.

use crate::clock;
use std::hint::black_box;

/// Words of the table: 8 kB, within any first-level cache.
const WORDS: usize = 2048;
const ROUNDS: usize = 12_000;

/// What the loop takes, ns of the calling thread's CPU clock; the lesser of two, since interrupts count too.
///
/// Several chains of dependent loads, sums and branches: bound by what a core does at once, as an interpreter is.
///
/// Cost: 0.06 ms of CPU.
pub fn loop_ns() -> u32 {
    let mut table = [0u32; WORDS];
    for (place, word) in table.iter_mut().enumerate() {
        *word = (place as u32).wrapping_mul(0x9e37_79b9);
    }
    let timed = || {
        let from_ns = clock::thread_cpu_ns();
        black_box(work(black_box(&table)));
        clock::thread_cpu_ns().saturating_sub(from_ns)
    };
    timed().min(timed()).min(u64::from(u32::MAX)) as u32
}

fn work(table: &[u32; WORDS]) -> u32 {
    let mut chains = [1u32, 2, 3, 4];
    for round in 0..ROUNDS as u32 {
        for (number, chain) in chains.iter_mut().enumerate() {
            let word = table[(*chain ^ round) as usize % WORDS];
            *chain = if word & (1 << number) == 0 {
                chain.rotate_left(5).wrapping_add(word)
            } else {
                chain.wrapping_mul(5) ^ word
            };
        }
    }
    chains.iter().fold(0, |sum, chain| sum ^ chain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_is_not_left_out_and_takes_little() {
        let least = (0..5).map(|_| loop_ns()).min().unwrap();
        assert!((5_000..50_000_000).contains(&least), "{least} ns");
    }
}
