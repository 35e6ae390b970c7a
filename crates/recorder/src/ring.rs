//! One thread's events on their way to the writer: single producer, single consumer, no lock. Full = lost and counted.

use greenlane_recording_format::event::Event;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Events of a thread that runs one job at a time: some hundred a second. A busy one writes 30,000 a second, and on a
/// busy machine the writer gets its core only some tens of ms after it was woken: its ring grows to a loop's.
pub const THREAD_EVENTS: usize = 1 << 10;
/// Events of a loop's thread: some ten thousand a second.
pub const LOOP_EVENTS: usize = 1 << 14;

/// Bit of a slice's CPU that was not measured: what stands below is the most that it can be. The writer takes it off.
pub const ESTIMATED: u64 = 1 << 63;

/// See the module. Memory is touched only as far as it is used.
pub struct Ring {
    slots: Box<[UnsafeCell<MaybeUninit<Event>>]>,
    /// Written by the producer.
    head: AtomicU64,
    /// Written by the consumer.
    tail: AtomicU64,
    lost: AtomicU64,
    /// What the thread runs now: unit, job, since when (0 = nothing). A reader may see them half changed.
    pub unit: AtomicU32,
    pub job: AtomicU64,
    pub from_ns: AtomicU64,
    /// Since when the thread is in a call that may block, if it runs nothing.
    pub left_ns: AtomicU64,
    /// Since when the thread waits for a lock; 0 = it does not.
    pub lock_ns: AtomicU64,
    /// The thread's `PyThreadState`, as a number, and its number in the system; 0 = unknown.
    pub state: AtomicUsize,
    pub thread: AtomicU32,
    /// By which the thread's loop waits; -1 = it runs no loop, or waits by something else.
    pub epoll_fd: AtomicI32,
    /// The thread has ended; after the last event it can be forgotten.
    ended: AtomicBool,
}

// SAFETY: a slot is written by the one producer before `head` passes it (release) and read by the one consumer after it
// has seen that (acquire), and the other way round for `tail`.
unsafe impl Sync for Ring {}
// SAFETY: events are plain values.
unsafe impl Send for Ring {}

impl Ring {
    /// `events` must be a power of two.
    pub fn new(events: usize) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(events, || UnsafeCell::new(MaybeUninit::uninit()));
        Self {
            slots: slots.into_boxed_slice(),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            unit: AtomicU32::new(0),
            job: AtomicU64::new(0),
            from_ns: AtomicU64::new(0),
            left_ns: AtomicU64::new(0),
            lock_ns: AtomicU64::new(0),
            state: AtomicUsize::new(0),
            thread: AtomicU32::new(0),
            epoll_fd: AtomicI32::new(-1),
            ended: AtomicBool::new(false),
        }
    }

    /// How many it can hold.
    pub fn events(&self) -> usize {
        self.slots.len()
    }

    /// Puts an event in; called by its own thread only. True when the writer should be woken: a quarter full just now.
    pub fn push(&self, event: Event) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        let used = head.wrapping_sub(self.tail.load(Ordering::Acquire));
        if used >= self.slots.len() as u64 {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let slot = &self.slots[(head as usize) & (self.slots.len() - 1)];
        // SAFETY: see `Sync`; nobody reads this slot until `head` passes it.
        unsafe { (*slot.get()).write(event) };
        self.head.store(head.wrapping_add(1), Ordering::Release);
        used + 1 == self.slots.len() as u64 / 4
    }

    /// Whether the writer is late, and this a small ring; asked by the producer.
    pub fn is_short(&self) -> bool {
        let used = self.head.load(Ordering::Relaxed) - self.tail.load(Ordering::Relaxed);
        self.slots.len() < LOOP_EVENTS && used >= self.slots.len() as u64 / 2
    }

    /// Takes an event out; called by the writer only.
    pub fn pop(&self) -> Option<Event> {
        let tail = self.tail.load(Ordering::Relaxed);
        if tail == self.head.load(Ordering::Acquire) {
            return None;
        }
        let slot = &self.slots[(tail as usize) & (self.slots.len() - 1)];
        // SAFETY: see `Sync`; the slot has been written, and is not written again until `tail` passes it.
        let event = unsafe { (*slot.get()).assume_init() };
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        Some(event)
    }

    /// Events lost since the last call.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    /// No more events will come.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether nothing is in it and nothing will come.
    pub fn is_over(&self) -> bool {
        self.ended.load(Ordering::Acquire)
            && self.tail.load(Ordering::Relaxed) == self.head.load(Ordering::Acquire)
    }
}
