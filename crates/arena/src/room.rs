//! Room of a segment, given out and taken back: first fit from the bottom.
//!
//! Why from the bottom: pages that were used are used again, so a segment costs as much memory as was ever in use at
//! once, not its size; and a page that has been written is not zeroed again by the kernel.

use std::collections::HashMap;

/// A cache line, and what Arrow recommends for its buffers.
pub const ALIGNMENT_BYTES: usize = 64;

/// `length` rounded up to whole cache lines; nothing takes one.
pub fn aligned(length: usize) -> usize {
    length.max(1).next_multiple_of(ALIGNMENT_BYTES)
}

/// Who has which bytes. Cost: linear in the number of holes, which are few.
pub struct Room {
    /// (offset, length) of each hole, by offset; no two touch.
    holes: Vec<(usize, usize)>,
    taken: HashMap<usize, usize>,
}

impl Room {
    pub fn new(size: usize) -> Self {
        Self {
            holes: vec![(0, size)],
            taken: HashMap::new(),
        }
    }

    /// The offset of `length` bytes, a multiple of 64; None when no hole is large enough.
    pub fn take(&mut self, length: usize) -> Option<usize> {
        let length = aligned(length);
        let at = self.holes.iter().position(|hole| hole.1 >= length)?;
        let (offset, room) = self.holes[at];
        if room == length {
            self.holes.remove(at);
        } else {
            self.holes[at] = (offset + length, room - length);
        }
        self.taken.insert(offset, length);
        Some(offset)
    }

    /// Takes back what `take` gave at `offset`, joins it with the holes that it touches, and says how much it was.
    pub fn give_back(&mut self, offset: usize) -> usize {
        let Some(length) = self.taken.remove(&offset) else {
            return 0;
        };
        let at = self.holes.partition_point(|hole| hole.0 < offset);
        self.holes.insert(at, (offset, length));
        self.join(at);
        if at > 0 {
            self.join(at - 1);
        }
        length
    }

    /// Joins the hole number `at` with the next one if they touch.
    fn join(&mut self, at: usize) {
        if let Some(&(next, room)) = self.holes.get(at + 1) {
            if self.holes[at].0 + self.holes[at].1 == next {
                self.holes[at].1 += room;
                self.holes.remove(at + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = ALIGNMENT_BYTES * 40;

    /// The obvious slow twin: a flag a cache line.
    struct Lines {
        used: Vec<bool>,
        taken: Vec<(usize, usize)>,
    }

    impl Lines {
        fn take(&mut self, length: usize) -> Option<usize> {
            let lines = aligned(length) / ALIGNMENT_BYTES;
            let first = (0..(self.used.len() + 1).saturating_sub(lines))
                .find(|&first| !self.used[first..first + lines].contains(&true))?;
            self.used[first..first + lines].fill(true);
            self.taken.push((first * ALIGNMENT_BYTES, lines));
            Some(first * ALIGNMENT_BYTES)
        }

        fn give_back(&mut self, which: usize) -> usize {
            let (offset, lines) = self.taken.swap_remove(which);
            let first = offset / ALIGNMENT_BYTES;
            self.used[first..first + lines].fill(false);
            offset
        }
    }

    #[test]
    fn it_gives_what_the_slow_twin_gives() {
        let mut chance = 1_u64;
        let mut draw = |below: usize| {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (chance >> 33) as usize % below
        };
        for _ in 0..200 {
            let mut room = Room::new(SIZE);
            let mut twin = Lines {
                used: vec![false; SIZE / ALIGNMENT_BYTES],
                taken: Vec::new(),
            };
            for _ in 0..100 {
                if draw(2) == 0 {
                    let length = draw(700);
                    assert_eq!(room.take(length), twin.take(length));
                } else if !twin.taken.is_empty() {
                    let which = draw(twin.taken.len());
                    let lines = twin.taken[which].1;
                    let offset = twin.give_back(which);
                    assert_eq!(room.give_back(offset), lines * ALIGNMENT_BYTES);
                }
            }
        }
    }

    #[test]
    fn all_is_one_hole_again_when_all_is_given_back() {
        let mut room = Room::new(SIZE);
        let offsets: Vec<_> = (0..20).map(|_| room.take(100).unwrap()).collect();
        assert_eq!(room.take(1), None);
        for offset in offsets
            .iter()
            .step_by(2)
            .chain(offsets.iter().skip(1).step_by(2))
        {
            assert_eq!(room.give_back(*offset), 128);
        }
        assert_eq!(room.take(SIZE), Some(0));
    }

    #[test]
    fn what_was_not_given_cannot_be_given_back() {
        let mut room = Room::new(SIZE);
        assert_eq!(room.give_back(64), 0);
        assert_eq!(room.take(SIZE), Some(0));
    }
}
