//! Texts that events name by number: routes, calls, thread names, stacks. Interned once a process, never forgotten.
//!
//! The table's lock is held for a look-up; over a `fork()` it is held by the forking thread (inside libc's `fork`,
//! where no Python runs), so that the child's copy is whole and free.

use greenlane_recording_format::event::Text;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

/// More texts than this are one text, [`OTHER`]: names come from outside.
const MOST: usize = 1 << 16;
/// And so are those beyond so many bytes of all: somebody asks for a hundred thousand long addresses.
const MOST_BYTES: usize = 16 << 20;
/// Longer texts are cut, bytes.
const LONGEST: usize = 8192;
/// What a text beyond the most is called.
const OTHER: &str = "(other)";

#[derive(Default)]
struct Table {
    numbers: HashMap<Arc<str>, Text>,
    texts: Vec<Arc<str>>,
    bytes: usize,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);
static WATCHED: Once = Once::new();

thread_local! {
    static HELD_OVER_FORK: Cell<Option<MutexGuard<'static, Option<Table>>>> = const { Cell::new(None) };
}

extern "C" fn before_fork() {
    let _ = HELD_OVER_FORK.try_with(|held| held.set(Some(table())));
}

extern "C" fn after_fork() {
    let _ = HELD_OVER_FORK.try_with(Cell::take);
}

fn table() -> MutexGuard<'static, Option<Table>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of `text`; 0 for the empty one.
pub fn text(text: &str) -> Text {
    if text.is_empty() {
        return 0;
    }
    WATCHED.call_once(|| {
        // SAFETY: the functions take and give back one mutex; a failure (no memory) leaves a child's copy to chance.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
    });
    let text = shortened(text);
    let mut table = table();
    let table = table.get_or_insert_with(Table::default);
    if let Some(&number) = table.numbers.get(text) {
        return number;
    }
    let text = if table.texts.len() < MOST && table.bytes + text.len() <= MOST_BYTES {
        text
    } else {
        OTHER
    };
    if let Some(&number) = table.numbers.get(text) {
        return number;
    }
    let shared: Arc<str> = Arc::from(text);
    table.bytes += shared.len();
    table.texts.push(Arc::clone(&shared));
    let number = table.texts.len() as Text;
    table.numbers.insert(shared, number);
    number
}

/// The texts from number `known` + 1 on.
pub fn since(known: usize) -> Vec<Arc<str>> {
    let table = table();
    let texts = table.as_ref().map_or(&[][..], |table| &table.texts);
    texts.get(known..).unwrap_or_default().to_vec()
}

fn shortened(text: &str) -> &str {
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
        let texts = since(0);
        assert!(texts.iter().map(|text| text.len()).sum::<usize>() <= MOST_BYTES + OTHER.len());
        assert_eq!(text("short"), text(OTHER));
    }
}
