//! Texts that events name by number: routes, calls, thread names, stacks. Interned once a process, never forgotten.
//!
//! No lock is held over a `fork()`: somebody else's handler may wait there for a thread that wants it. The texts stand
//! in slots that are whole at any moment; a child that finds the index locked makes another one from them.

use greenlane_recording_format::event::Text;
use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// More texts than this are one text, [`OTHER`]: names come from outside.
const MOST: usize = 1 << 16;
/// So are those beyond this many bytes in all: somebody may ask for a hundred thousand long addresses.
const MOST_BYTES: usize = 16 << 20;
/// Longer texts are cut, bytes.
const LONGEST: usize = 8192;
/// What a text beyond the most is called.
const OTHER: &str = "(other)";

/// The text with number n is in slot n - 1. Unused slots take no memory.
static SLOTS: [AtomicPtr<&'static str>; MOST + 1] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST + 1];
/// How many slots are filled.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Never freed: a forked child may find it in use, and leaves it. Null: there is none yet.
static INDEX: AtomicPtr<Mutex<Index>> = AtomicPtr::new(ptr::null_mut());
static WATCHED: Once = Once::new();

/// Finds numbers by texts.
struct Index {
    numbers: HashMap<&'static str, Text>,
    bytes: usize,
}

impl Index {
    fn of_slots() -> Self {
        let filled = 1..=COUNT.load(Ordering::Acquire) as Text;
        let numbers: HashMap<_, _> = filled.map(|number| (of(number), number)).collect();
        let bytes = numbers.keys().map(|text| text.len()).sum();
        Self { numbers, bytes }
    }

    fn add(&mut self, text: &str) -> Text {
        let text: &'static str = Box::leak(Box::from(text));
        let count = self.numbers.len();
        SLOTS[count].store(Box::into_raw(Box::new(text)), Ordering::Release);
        COUNT.store(count + 1, Ordering::Release);
        self.bytes += text.len();
        let number = count as Text + 1;
        self.numbers.insert(text, number);
        number
    }
}

extern "C" fn in_child() {
    // SAFETY: null, or from a Box that is never freed.
    let index = unsafe { INDEX.load(Ordering::Acquire).as_ref() };
    if index.is_some_and(|index| index.try_lock().is_err()) {
        INDEX.store(ptr::null_mut(), Ordering::Release);
    }
}

fn index() -> &'static Mutex<Index> {
    let found = INDEX.load(Ordering::Acquire);
    // SAFETY: null, or from a Box that is never freed.
    if let Some(index) = unsafe { found.as_ref() } {
        return index;
    }
    WATCHED.call_once(|| {
        // SAFETY: the handler tries one mutex and writes one atomic. Without memory for it, a child that was forked
        // while another thread interned a text waits for ever.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    let made = Box::into_raw(Box::new(Mutex::new(Index::of_slots())));
    match INDEX.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: from the Box above, which nobody frees now.
        Ok(_) => unsafe { &*made },
        Err(theirs) => {
            // SAFETY: nobody else has seen ours; theirs is never freed.
            unsafe {
                drop(Box::from_raw(made));
                &*theirs
            }
        }
    }
}

/// The number of `text`; 0 for the empty one.
pub fn text(text: &str) -> Text {
    if text.is_empty() {
        return 0;
    }
    let text = shorten(text);
    let mut index = index().lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&number) = index.numbers.get(text) {
        return number;
    }
    if index.numbers.len() < MOST && index.bytes + text.len() <= MOST_BYTES {
        return index.add(text);
    }
    match index.numbers.get(OTHER) {
        Some(&number) => number,
        None => index.add(OTHER),
    }
}

/// The text with that number; the empty one for 0 and for numbers that nobody was given.
pub fn of(number: Text) -> &'static str {
    let slot = (number as usize).wrapping_sub(1);
    if slot >= COUNT.load(Ordering::Acquire) {
        return "";
    }
    // SAFETY: slots below the count hold leaked boxes.
    unsafe { *SLOTS[slot].load(Ordering::Acquire) }
}

fn shorten(text: &str) -> &str {
    if text.len() <= LONGEST {
        return text;
    }
    let mut end = LONGEST;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_from_outside_do_not_fill_the_memory() {
        let other = |number: u32| text(&format!("{number:08}{}", "x".repeat(LONGEST)));
        let first = other(0);
        for number in 1..3000 {
            other(number);
        }
        assert_eq!(other(0), first);
        assert_eq!(other(3000), text(OTHER));
        let bytes: usize = (1..=COUNT.load(Ordering::Acquire) as Text)
            .map(|number| of(number).len())
            .sum();
        assert!(bytes <= MOST_BYTES + OTHER.len());
    }

    #[test]
    fn a_child_of_a_thread_that_waits_for_the_index_goes_on() {
        let known = text("before the fork");
        let held = index().lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the child asks for two texts and leaves.
        match unsafe { libc::fork() } {
            0 => {
                let is_whole = text("before the fork") == known && text("after it") != 0;
                // SAFETY: no return.
                unsafe { libc::_exit(i32::from(!is_whole)) }
            }
            child => {
                drop(held);
                let mut status = -1;
                // SAFETY: the child is ours.
                unsafe { libc::waitpid(child, &mut status, 0) };
                assert_eq!(status, 0);
            }
        }
    }
}
