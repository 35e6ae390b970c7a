//! Blocks of a segment, each with a flag that its user clears when the block is no longer used; taken back when room is needed.

use super::mapping::Mapping;
use super::room::{aligned, Room};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module.
pub struct Lender {
    pub data: Arc<Mapping>,
    /// Where the flags are.
    pub control: Arc<Mapping>,
    /// Held for book-keeping only: never while Python code runs.
    lent: Mutex<Lent>,
    lent_bytes: AtomicU64,
}

struct Lent {
    room: Room,
    free_words: Vec<u32>,
    /// Flag word and offset of each block that may be in use.
    blocks: Vec<(u32, usize)>,
}

impl Lender {
    /// Lends what is in `data`; its flags are the words of `control` from `words.0` up to `words.1`, exclusive.
    pub fn new(data: Arc<Mapping>, control: Arc<Mapping>, words: (u32, u32)) -> Self {
        let lent = Lent {
            room: Room::new(data.length()),
            free_words: (words.0..words.1).rev().collect(),
            blocks: Vec::new(),
        };
        Self {
            data,
            control,
            lent: Mutex::new(lent),
            lent_bytes: AtomicU64::new(0),
        }
    }

    /// What is given out, as far as it is known.
    pub fn lent_bytes(&self) -> u64 {
        self.lent_bytes.load(Ordering::Relaxed)
    }

    /// Frees the blocks that are no longer used.
    pub fn take_back(&self) {
        let Lent {
            room,
            free_words,
            blocks,
        } = &mut *self.lent();
        let mut back = 0;
        blocks.retain(|&(word, offset)| {
            let is_used = self.is_set(word);
            if !is_used {
                back += room.give_back(offset);
                free_words.push(word);
            }
            is_used
        });
        self.lent_bytes.fetch_sub(back as u64, Ordering::Relaxed);
    }

    /// Gives a block, its flag set, as word and offset; None when there is no room or no flag.
    pub fn lend(&self, length: usize) -> Option<(u32, usize)> {
        let lent = &mut *self.lent();
        let word = *lent.free_words.last()?;
        let flag = self.flag(word)?;
        let offset = lent.room.take(length)?;
        lent.free_words.pop();
        lent.blocks.push((word, offset));
        self.lent_bytes
            .fetch_add(aligned(length) as u64, Ordering::Relaxed);
        flag.store(1, Ordering::Release);
        Some((word, offset))
    }

    /// Gives a flag without a block, set; None when there is none.
    pub fn lend_flag(&self) -> Option<u32> {
        let lent = &mut *self.lent();
        let word = *lent.free_words.last()?;
        self.flag(word)?.store(1, Ordering::Release);
        lent.free_words.pop();
        Some(word)
    }

    /// Takes back a flag that has no block.
    pub fn flag_back(&self, word: u32) {
        self.lent().free_words.push(word);
    }

    /// Whether this flag is set.
    pub fn is_set(&self, word: u32) -> bool {
        self.flag(word)
            .is_some_and(|flag| flag.load(Ordering::Acquire) != 0)
    }

    /// Clears a flag: nobody will see its block.
    pub fn clear(&self, word: u32) {
        if let Some(flag) = self.flag(word) {
            flag.store(0, Ordering::Release);
        }
    }

    fn flag(&self, word: u32) -> Option<&AtomicU64> {
        self.control.word(word as usize)
    }

    fn lent(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
