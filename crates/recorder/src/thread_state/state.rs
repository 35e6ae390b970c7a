//! This thread's state: its place, and how it is made, held and ended.

use super::unit::{blank, Unit, NEXT_UNIT};
use crate::ring::{Ring, THREAD_EVENTS};
use crate::switch::{self, on};
use crate::{known_threads, names, pending, thread_registry};
use greenlane_process::cpu::CpuMeter;
use greenlane_process::{clock, forks, our_threads};
use greenlane_recording_format::event::{Event, UnitKind, NO_JOB};
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{compiler_fence, AtomicBool, Ordering};
use std::sync::Arc;

/// What one OS thread does now.
pub(super) struct ThreadState {
    /// A function of this module works on it: code that interrupts the function (a signal handler that writes, a libc
    /// call that the function itself makes) finds no state.
    pub(super) busy: AtomicBool,
    pub(super) ring: Arc<Ring>,
    pub(super) thread: u32,
    pub(super) generation: u64,
    /// [`switch::times`] when it was made or looked at last.
    times: u32,
    /// The thread's own unit, from a Box that is freed with the state.
    pub(super) own: *mut Unit,
    pub(super) own_id: u32,
    pub(super) named: bool,
    pub(super) is_loop: bool,
    /// The running unit: `own`, or one that its probe keeps alive. Null = between two.
    pub(super) current: *mut Unit,
    /// Since when it runs; 0 = it does not.
    pub(super) from_ns: u64,
    /// Waits for the GIL on this thread so far, and when the running slice began.
    pub(super) gil_ns: u64,
    pub(super) gil_at_from_ns: u64,
    pub(super) cpu: CpuMeter,
    /// `leave`s without their `enter`.
    pub(super) away: u32,
    pub(super) left_ns: u64,
    pub(super) left_kind: u8,
    pub(super) timed_out: bool,
    pub(super) gil_at_left_ns: u64,
    /// When the first libc call since `leave` began, and GIL waits by then: until then the thread gave the GIL away, and
    /// the thread that got it may have got the core too.
    pub(super) called_ns: u64,
    pub(super) gil_at_called_ns: u64,
    /// The last libc call to return since `leave`: when, its number, and GIL waits by then.
    pub(super) returned_ns: u64,
    pub(super) gil_at_return_ns: u64,
    /// When it was back: it had a core again.
    pub(super) back_ns: u64,
    /// The kernel's stamp of the bytes that this call has read; 0 = none.
    pub(super) read_ns: u64,
    /// The loop's last poll: when it returned, and whether it had blocked.
    pub(super) polled_ns: u64,
    pub(super) previous_poll_ns: u64,
    pub(super) poll_blocked: bool,
    /// Kernel's stamp of bytes read since then.
    pub(super) stamp_ns: u64,
    pub(super) gc_from_ns: u64,
    /// The block on a socket that the running unit has just come from: its first read may know better when the bytes
    /// were there. Written before anything else is.
    pub(super) pending: Option<Event>,
}

/// What the thread-local place holds: not yet made, or this thread is ending.
const NONE: *mut ThreadState = ptr::null_mut();
const ENDED: *mut ThreadState = ptr::without_provenance_mut(1);

thread_local! {
    static STATE: Cell<*mut ThreadState> = const { Cell::new(NONE) };
    static GUARD: EndGuard = const { EndGuard };
}

/// Ends the state with its thread.
struct EndGuard;

impl Drop for EndGuard {
    fn drop(&mut self) {
        let state = STATE.with(|place| place.replace(ENDED));
        if !state.is_null() && state != ENDED {
            // SAFETY: made by `make` from a Box on this thread; nobody else has the pointer, and the place is cleared.
            let mut state = unsafe { Box::from_raw(state) };
            // Else its last slice would be known by its `Running` events alone, as one that used all its time.
            if is_recording() && state.current == state.own && is_of_this_process(&raw mut *state) {
                let gil_ns = state.gil_ns;
                state.end(clock::monotonic_ns(), gil_ns);
            }
            if let Some(block) = state.pending.take() {
                state.push_unordered(block);
            }
            // SAFETY: from a Box in `make`. Nobody reaches it but through the state.
            drop(unsafe { Box::from_raw(state.own) });
            state.ring.end();
            known_threads::forget();
        }
    }
}

/// This thread's state while one function works on it.
pub(super) struct StateGuard(&'static mut ThreadState);

impl Deref for StateGuard {
    type Target = ThreadState;
    fn deref(&self) -> &ThreadState {
        self.0
    }
}

impl DerefMut for StateGuard {
    fn deref_mut(&mut self) -> &mut ThreadState {
        self.0
    }
}

impl Drop for StateGuard {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.0.busy.store(false, Ordering::Relaxed);
    }
}

/// The state at `place`, unless a function that was interrupted works on it.
///
/// # Safety
/// Made by `make` on this thread, and not dropped yet.
unsafe fn hold(place: *mut ThreadState) -> Option<StateGuard> {
    // SAFETY: the flag alone is looked at; nobody has it exclusively but who has set it.
    let busy = unsafe {
        let busy = &raw const (*place).busy;
        &*busy
    };
    if busy.load(Ordering::Relaxed) {
        return None;
    }
    busy.store(true, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    // SAFETY: only this thread has the pointer, and until the flag is cleared nobody else on it takes it.
    let mut held = StateGuard(unsafe { &mut *place });
    if held.times != switch::times() {
        held.begin_again();
    }
    Some(held)
}

impl ThreadState {
    /// It was off for a while: calls that began before have ended unseen, and a new file does not know the thread.
    #[cold]
    fn begin_again(&mut self) {
        self.times = switch::times();
        (self.away, self.left_ns, self.pending) = (0, 0, None);
        (self.polled_ns, self.previous_poll_ns, self.stamp_ns) = (0, 0, 0);
        let at_ns = clock::monotonic_ns();
        if self.from_ns != 0 {
            self.from_ns = at_ns;
            self.gil_at_from_ns = self.gil_ns;
        }
        self.named = false;
        self.push(Event::Unit {
            at_ns,
            unit: self.own_id,
            kind: UnitKind::Thread,
            thread: self.thread,
            parent: 0,
            name: 0,
        });
    }
}

fn is_of_this_process(place: *mut ThreadState) -> bool {
    // SAFETY: null, or made by `make`; the generation never changes.
    !place.is_null()
        && place != ENDED
        && unsafe { (&raw const (*place).generation).read() } == forks::generation()
}

/// This thread's state, if it has one of this process.
pub(super) fn find_state() -> Option<StateGuard> {
    let place = STATE.with(Cell::get);
    if !is_of_this_process(place) {
        return None;
    }
    // SAFETY: just looked at.
    unsafe { hold(place) }
}

/// This thread's state, made if need be. Allocates then; never called from a redirected libc call but `gil_waited`.
pub(super) fn state_of_this_thread() -> Option<StateGuard> {
    let place = STATE.with(Cell::get);
    if is_of_this_process(place) {
        // SAFETY: just looked at.
        return unsafe { hold(place) };
    }
    if place == ENDED {
        return None;
    }
    make()
}

#[cold]
fn make() -> Option<StateGuard> {
    // Its waits for the GIL and its reads are not the program's.
    if our_threads::is_ours() {
        return None;
    }
    // A thread in its last moments gets none.
    GUARD.try_with(|_| ()).ok()?;
    // SAFETY: gettid has no arguments and cannot fail.
    let thread = unsafe { libc::gettid() } as u32;
    let ring = Arc::new(Ring::new(THREAD_EVENTS));
    // SAFETY: reads thread-specific memory, which needs no GIL.
    let state = unsafe { pyo3::ffi::PyGILState_GetThisThreadState() } as usize;
    ring.state.store(state, Ordering::Relaxed);
    ring.thread.store(thread, Ordering::Relaxed);
    thread_registry::register(&ring);
    let own_id = NEXT_UNIT.fetch_add(1, Ordering::Relaxed);
    // Before its first slice ends the writer may say that it runs.
    ring.unit.store(own_id, Ordering::Relaxed);
    let own = Box::into_raw(Box::new(blank(own_id, NO_JOB)));
    let state = Box::into_raw(Box::new(ThreadState {
        busy: AtomicBool::new(false),
        ring,
        thread,
        generation: forks::generation(),
        times: switch::times(),
        own,
        own_id,
        named: false,
        is_loop: false,
        current: own,
        from_ns: 0,
        gil_ns: 0,
        gil_at_from_ns: 0,
        cpu: CpuMeter::of_this_thread(),
        away: 0,
        left_ns: 0,
        left_kind: 0,
        timed_out: false,
        gil_at_left_ns: 0,
        called_ns: 0,
        gil_at_called_ns: 0,
        returned_ns: 0,
        gil_at_return_ns: 0,
        back_ns: 0,
        read_ns: 0,
        polled_ns: 0,
        previous_poll_ns: 0,
        poll_blocked: false,
        stamp_ns: 0,
        gc_from_ns: 0,
        pending: None,
    }));
    // A copy from before a fork is left alone: its ring is the parent's.
    STATE.with(|place| place.set(state));
    known_threads::know();
    // SAFETY: just made, and only this thread has it.
    let mut state = unsafe { hold(state) }?;
    state.from_ns = clock::monotonic_ns();
    let at_ns = state.from_ns;
    state.push(Event::Unit {
        at_ns,
        unit: own_id,
        kind: UnitKind::Thread,
        thread,
        parent: 0,
        name: 0,
    });
    Some(state)
}

/// Whether this process's event is wanted.
pub(super) fn is_recording() -> bool {
    on()
}

/// Puts an event into this thread's ring.
pub fn emit(event: Event) {
    if is_recording() {
        pending::begin(); // The thread may be known from an earlier recording.
        if let Some(mut state) = state_of_this_thread() {
            state.push(event);
        }
    }
}

/// This thread's name has not been written down yet, and now will be.
pub fn claim_naming() -> bool {
    find_state().is_some_and(|state| !state.named && is_recording())
}

/// The thread's number in the system; 0 = it has no state.
pub fn thread() -> u32 {
    find_state().map_or(0, |state| state.thread)
}

/// Writes this thread's name down.
pub fn name_thread(name: &str) {
    if let Some(mut state) = find_state() {
        state.named = true;
        let (unit, thread) = (state.own_id, state.thread);
        state.push(Event::Unit {
            at_ns: clock::monotonic_ns(),
            unit,
            kind: UnitKind::Thread,
            thread,
            parent: 0,
            name: names::text(name),
        });
    }
}
