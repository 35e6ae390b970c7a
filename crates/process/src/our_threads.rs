//! Threads that are Greenlane's: what they do is no part of the program.

use std::cell::Cell;

thread_local! {
    static OURS: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread is Greenlane's until it ends.
pub fn mark() {
    OURS.with(|ours| ours.set(true));
}

/// Whether the calling thread is Greenlane's.
pub fn is_ours() -> bool {
    OURS.with(Cell::get)
}
