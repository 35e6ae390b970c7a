//! What comes next: a heap of four children a node, by time, then class, then order of entry.
//!
//! Why four children: half the levels of a binary heap, and the children of a node share a cache line or two.

/// Two things at the same instant go by class, then by order of entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A new request comes before one that goes on.
    New = 0,
    Other = 1,
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    at: u64,
    order: u64,
    what: T,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Heap<T> {
    entries: Vec<Entry<T>>,
    pushed: u64,
}

impl<T: Copy> Default for Heap<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            pushed: 0,
        }
    }
}

impl<T: Copy> Heap<T> {
    /// When the next one is; `u64::MAX` = never.
    pub fn next_at(&self) -> u64 {
        self.entries.first().map_or(u64::MAX, |entry| entry.at)
    }

    /// Adds one.
    pub fn push(&mut self, at: u64, class: Class, what: T) {
        self.pushed += 1;
        let order = (class as u64) << 62 | self.pushed;
        let entry = Entry { at, order, what };
        let mut hole = self.entries.len();
        self.entries.push(entry);
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if before(&self.entries[parent], &entry) {
                break;
            }
            self.entries[hole] = self.entries[parent];
            hole = parent;
        }
        self.entries[hole] = entry;
    }

    /// Takes the next one out.
    pub fn pop(&mut self) -> Option<T> {
        let last = self.entries.pop()?;
        let Some(first) = self.entries.first() else {
            return Some(last.what);
        };
        let what = first.what;
        let size = self.entries.len();
        let mut hole = 0;
        loop {
            let child = hole * 4 + 1;
            if child >= size {
                break;
            }
            let mut least = child;
            for other in child + 1..size.min(child + 4) {
                if before(&self.entries[other], &self.entries[least]) {
                    least = other;
                }
            }
            if before(&last, &self.entries[least]) {
                break;
            }
            self.entries[hole] = self.entries[least];
            hole = least;
        }
        self.entries[hole] = last;
        Some(what)
    }
}

fn before<T>(one: &Entry<T>, other: &Entry<T>) -> bool {
    (one.at, one.order) < (other.at, other.order)
}

#[cfg(test)]
mod tests {
    use super::super::random::{Purpose, Stream};
    use super::*;

    #[test]
    fn they_come_by_time_then_class_then_entry() {
        let mut heap = Heap::default();
        heap.push(5, Class::Other, 'b');
        heap.push(5, Class::Other, 'c');
        heap.push(5, Class::New, 'a');
        heap.push(1, Class::Other, '0');
        let found: Vec<char> = std::iter::from_fn(|| heap.pop()).collect();
        assert_eq!(found, ['0', 'a', 'b', 'c']);
        assert_eq!(heap.next_at(), u64::MAX);
    }

    #[test]
    fn any_order_of_entry_leaves_sorted() {
        let mut stream = Stream::of(1, Purpose::Choice, 0);
        let mut heap = Heap::default();
        let mut times: Vec<u64> = (0..1000).map(|_| stream.below(300) as u64).collect();
        times.iter().for_each(|&at| heap.push(at, Class::Other, at));
        times.sort_unstable();
        assert!(std::iter::from_fn(|| heap.pop()).eq(times));
    }
}
