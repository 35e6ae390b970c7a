//! What one OS thread does now: which unit runs on it, for which job, since when.
//!
//! On a plain thread there is one unit, the thread's own. On a loop's thread (`enter_loop`) units take turns: the probe
//! of the loop calls [`suspend`] and [`resume`]. Blocking calls come from two sides: [`leave`] and [`enter`] from the
//! Python probes, which know the kind, and [`blocked`] and [`gil_waited`] from the redirected libc calls, which know the
//! exact times. Either works without the other; without the second, ready times are bounds.
//!
//! Everything here is called on the thread that it speaks of, and is safe to call anywhere: from C code without the
//! GIL, in a forked child, while the thread is torn down.

use super::live::WAITING_KINDS;
use super::ring::{Ring, LOOP_EVENTS, THREAD_EVENTS};
use super::spent::Spent;
use super::{held, names, on, sampler, writer};
use crate::calls::threads;
use crate::{clock, forks};
use greenlane_core::recording::event::{
    Event, Text, UnitKind, WaitKind, HELD_THE_LOOP, NO_JOB, READY_EXACT,
};
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{compiler_fence, AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

/// A slice this long is worth a look at the thread's CPU clock, a system call. Shorter ones count as all CPU but for
/// their waits, and what they took is kept off the next look.
const CPU_LOOK_NS: u64 = 250_000;
/// A blocking call shorter than this did not block: the slice goes on.
const BLOCKED_NS: u64 = 20_000;
/// The same for libc calls outside of the probes' calls.
const BLOCKED_UNSEEN_NS: u64 = 50_000;
/// A wait for the GIL shorter than this is not written down.
const WAITED_NS: u64 = 10_000;
/// On a loop's thread: a call that blocks all units this long is written down.
const HELD_NS: u64 = 1_000_000;
/// A slice this long is cut at its next wait for the GIL.
const LONGEST_NS: u64 = 50_000_000;
/// Bit of a slice's CPU that was not measured: what stands below is the most that it can be. The writer takes it off.
pub const ESTIMATED: u64 = 1 << 63;

/// Something that runs: a thread, greenlet or task. Lives at one address from its first `resume` until it is dropped.
pub struct Unit {
    pub id: u32,
    pub job: u64,
    pub phase: u16,
    /// When it was suspended; 0 = it runs, or is new.
    pub left_ns: u64,
    /// It became ready in [known, ready]; `ready_ns` 0 = unknown.
    pub known_ns: u64,
    pub ready_ns: u64,
    /// What it is blocked on: `phase.Kind`.
    pub kind: u8,
    pub flags: u8,
    pub call: Text,
    pub peer: Text,
    /// The first bytes read since its last job: (ns, by the kernel's stamp); 0 = none.
    pub arrival_ns: u64,
    pub arrival_exact: bool,
    /// When its I/O last became ready; 0 = never.
    pub io_ready_ns: u64,
    /// Where its time went so far.
    pub spent: Spent,
}

struct Strand {
    /// A function of this module works on it: whoever comes in between (a signal handler that writes, a libc call that
    /// the function itself makes) finds no strand.
    busy: AtomicBool,
    ring: Arc<Ring>,
    thread: u32,
    generation: u64,
    /// The thread's own unit, from a Box that is freed with the strand.
    own: *mut Unit,
    own_id: u32,
    named: bool,
    is_loop: bool,
    /// The running unit: `own`, or one that its probe keeps alive. Null = between two.
    current: *mut Unit,
    /// Since when it runs; 0 = it does not.
    from_ns: u64,
    /// Waits for the GIL on this thread so far, and when the running slice began.
    gil_ns: u64,
    gil_at_from_ns: u64,
    /// The thread's CPU clock at the last look, and what unmeasured slices used since.
    cpu_read_ns: u64,
    unread_ns: u64,
    /// `leave`s without their `enter`.
    away: u32,
    left_ns: u64,
    left_kind: u8,
    gil_at_left_ns: u64,
    /// When the first libc call since `leave` began, and GIL waits by then: until then the thread gave the GIL away, and
    /// whoever got it may have got the core too.
    called_ns: u64,
    gil_at_called_ns: u64,
    /// The last libc call to return since `leave`: when, its number, and GIL waits by then.
    returned_ns: u64,
    gil_at_return_ns: u64,
    /// The kernel's stamp of the bytes that this call has read; 0 = none.
    read_ns: u64,
    /// The loop's last poll: when it returned, and whether it had blocked.
    polled_ns: u64,
    previous_poll_ns: u64,
    poll_blocked: bool,
    /// Kernel's stamp of bytes read since then.
    stamp_ns: u64,
    gc_from_ns: u64,
    /// The block on a socket that the running unit has just come from: its first read may know better when the bytes
    /// were there. Written before anything else is.
    pending: Option<Event>,
}

/// What the thread-local place holds: not yet made, or this thread is ending.
const NONE: *mut Strand = ptr::null_mut();
const ENDED: *mut Strand = ptr::without_provenance_mut(1);

thread_local! {
    static STRAND: Cell<*mut Strand> = const { Cell::new(NONE) };
    static GUARD: Guard = const { Guard };
}

/// Ends the strand with its thread.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        let strand = STRAND.with(|place| place.replace(ENDED));
        if !strand.is_null() && strand != ENDED {
            // SAFETY: made by `make` from a Box on this thread; nobody else has the pointer, and the place is cleared.
            let mut strand = unsafe { Box::from_raw(strand) };
            if let Some(block) = strand.pending.take() {
                strand.put(block);
            }
            // SAFETY: from a Box in `make`. Nobody reaches it but through the strand.
            drop(unsafe { Box::from_raw(strand.own) });
            strand.ring.end();
            threads::forget();
        }
    }
}

static NEXT_UNIT: AtomicU32 = AtomicU32::new(1);

/// This thread's strand while one function works on it.
struct Held(&'static mut Strand);

impl Deref for Held {
    type Target = Strand;
    fn deref(&self) -> &Strand {
        self.0
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Strand {
        self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.0.busy.store(false, Ordering::Relaxed);
    }
}

/// The strand at `place`, unless a function that was interrupted works on it.
///
/// # Safety
/// Made by `make` on this thread, and not dropped yet.
unsafe fn hold(place: *mut Strand) -> Option<Held> {
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
    Some(Held(unsafe { &mut *place }))
}

fn is_of_this_process(place: *mut Strand) -> bool {
    // SAFETY: null, or made by `make`; the generation never changes.
    !place.is_null()
        && place != ENDED
        && unsafe { (&raw const (*place).generation).read() } == forks::generation()
}

/// This thread's strand, if it has one of this process.
fn known() -> Option<Held> {
    let place = STRAND.with(Cell::get);
    if !is_of_this_process(place) {
        return None;
    }
    // SAFETY: just looked at.
    unsafe { hold(place) }
}

/// This thread's strand, made if need be. Allocates then; never called from a redirected libc call but `gil_waited`.
fn mine() -> Option<Held> {
    let place = STRAND.with(Cell::get);
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
fn make() -> Option<Held> {
    // A thread in its last moments gets none.
    GUARD.try_with(|_| ()).ok()?;
    // SAFETY: gettid has no arguments and cannot fail.
    let thread = unsafe { libc::gettid() } as u32;
    let ring = Arc::new(Ring::new(THREAD_EVENTS));
    // SAFETY: reads thread-specific memory, which needs no GIL.
    let state = unsafe { pyo3::ffi::PyGILState_GetThisThreadState() } as usize;
    ring.state.store(state, Ordering::Relaxed);
    writer::register(&ring);
    let own_id = NEXT_UNIT.fetch_add(1, Ordering::Relaxed);
    let own = Box::into_raw(Box::new(blank(own_id, NO_JOB)));
    let strand = Box::into_raw(Box::new(Strand {
        busy: AtomicBool::new(false),
        ring,
        thread,
        generation: forks::generation(),
        own,
        own_id,
        named: false,
        is_loop: false,
        current: own,
        from_ns: 0,
        gil_ns: 0,
        gil_at_from_ns: 0,
        cpu_read_ns: clock::thread_cpu_ns(),
        unread_ns: 0,
        away: 0,
        left_ns: 0,
        left_kind: 0,
        gil_at_left_ns: 0,
        called_ns: 0,
        gil_at_called_ns: 0,
        returned_ns: 0,
        gil_at_return_ns: 0,
        read_ns: 0,
        polled_ns: 0,
        previous_poll_ns: 0,
        poll_blocked: false,
        stamp_ns: 0,
        gc_from_ns: 0,
        pending: None,
    }));
    // A copy from before a fork is left alone: its ring is the parent's.
    STRAND.with(|place| place.set(strand));
    threads::know();
    // SAFETY: just made, and only this thread has it.
    let mut strand = unsafe { hold(strand) }?;
    strand.from_ns = clock::monotonic_ns();
    let at_ns = strand.from_ns;
    strand.push(Event::Unit {
        at_ns,
        unit: own_id,
        kind: UnitKind::Thread,
        thread,
        parent: 0,
        name: 0,
    });
    Some(strand)
}

fn blank(id: u32, job: u64) -> Unit {
    Unit {
        id,
        job,
        phase: 0,
        left_ns: 0,
        known_ns: 0,
        ready_ns: 0,
        kind: 0,
        flags: 0,
        call: 0,
        peer: 0,
        arrival_ns: 0,
        arrival_exact: false,
        io_ready_ns: 0,
        spent: Spent::default(),
    }
}

impl Strand {
    fn push(&mut self, event: Event) {
        if let Some(block) = self.pending.take() {
            self.put(block);
        }
        self.put(event);
    }

    /// Goes on with a larger ring. Allocates; between two slices.
    #[cold]
    fn grow(&mut self) {
        let larger = Arc::new(Ring::new(LOOP_EVENTS));
        let state = self.ring.state.load(Ordering::Relaxed);
        larger.state.store(state, Ordering::Relaxed);
        let epoll_fd = self.ring.epoll_fd.load(Ordering::Relaxed);
        larger.epoll_fd.store(epoll_fd, Ordering::Relaxed);
        writer::register(&larger);
        let former = std::mem::replace(&mut self.ring, larger);
        former.from_ns.store(0, Ordering::Relaxed);
        former.end();
    }

    fn put(&self, event: Event) {
        if self.ring.push(event) {
            writer::wake();
        }
    }

    /// The kernel had the bytes at `stamp_ns` that the running unit has just read: they are what it was blocked on.
    fn refine(&mut self, stamp_ns: u64) {
        let Some(mut event) = self.pending.take() else {
            return;
        };
        if let Event::Block {
            from_ns,
            known_ns,
            ready_ns,
            flags,
            ..
        } = &mut event
        {
            // Later than the poll: more bytes came since, and the stamp is of the last one.
            if stamp_ns <= *ready_ns {
                *ready_ns = stamp_ns.max(*from_ns);
                *known_ns = *ready_ns;
                *flags |= READY_EXACT;
                if let Some(unit) = self.current() {
                    unit.io_ready_ns = stamp_ns;
                }
            }
        }
        self.put(event);
    }

    /// The bytes that the running unit has read last came at `stamp_ns` (0 = unknown), whenever it came to read them.
    fn came(&mut self, stamp_ns: u64) {
        if stamp_ns != 0 {
            if let Some(unit) = self.current() {
                unit.io_ready_ns = stamp_ns;
            }
        }
    }

    fn current(&mut self) -> Option<&'static mut Unit> {
        // SAFETY: null, `own`, or a unit that its probe keeps alive while it runs; only this thread looks at it.
        unsafe { self.current.as_mut() }
    }

    fn begin(&mut self, from_ns: u64, gil_ns: u64) {
        self.from_ns = from_ns;
        self.gil_at_from_ns = gil_ns;
        let (unit, job) = self
            .current()
            .map_or((0, NO_JOB), |unit| (unit.id, unit.job));
        self.ring.unit.store(unit, Ordering::Relaxed);
        self.ring.job.store(job, Ordering::Relaxed);
        self.ring.from_ns.store(from_ns, Ordering::Relaxed);
    }

    /// Ends the running slice at `to_ns`; `gil_ns` is what had been waited for the GIL by then.
    fn end(&mut self, to_ns: u64, gil_ns: u64) {
        let from_ns = std::mem::take(&mut self.from_ns);
        self.ring.from_ns.store(0, Ordering::Relaxed);
        if from_ns == 0 || to_ns <= from_ns {
            return;
        }
        let waited_ns = gil_ns.saturating_sub(self.gil_at_from_ns);
        let most_ns = (to_ns - from_ns).saturating_sub(waited_ns);
        let cpu_ns = self.cpu_of(most_ns);
        if let Some(unit) = self.current() {
            unit.spent.cpu_ns += cpu_ns & !ESTIMATED;
            let (unit, job, phase) = (unit.id, unit.job, unit.phase);
            self.push(Event::Slice {
                from_ns,
                to_ns,
                unit,
                job,
                phase,
                cpu_ns,
            });
        }
    }

    /// CPU of a slice that used at most `most_ns`.
    fn cpu_of(&mut self, most_ns: u64) -> u64 {
        if most_ns < CPU_LOOK_NS {
            self.unread_ns += most_ns;
            return most_ns | ESTIMATED;
        }
        let now_ns = clock::thread_cpu_ns();
        let used_ns = now_ns
            .saturating_sub(self.cpu_read_ns)
            .saturating_sub(self.unread_ns);
        self.cpu_read_ns = now_ns;
        self.unread_ns = 0;
        used_ns.min(most_ns)
    }

    /// Writes down that the running unit was blocked from `from_ns`, and begins its next slice at `ready_ns`.
    fn block(
        &mut self,
        from_ns: u64,
        known_ns: u64,
        ready_ns: u64,
        what: (u8, u8, Text),
        gil_ns: u64,
    ) {
        let (kind, flags, call) = what;
        if let Some(unit) = self.current() {
            if !NO_IO.contains(&kind) {
                unit.io_ready_ns = ready_ns;
            }
            unit.spent
                .blocked(kind, ready_ns.saturating_sub(from_ns), 0);
            let (unit, job) = (unit.id, unit.job);
            if flags & HELD_THE_LOOP != 0 && ready_ns - from_ns >= HELD_NS {
                held::seen(unit, job, from_ns, ready_ns);
            }
            self.push(Event::Block {
                from_ns,
                known_ns,
                ready_ns,
                to_ns: ready_ns,
                unit,
                job,
                kind,
                flags,
                call,
                peer: 0,
            });
        }
        self.begin(ready_ns, gil_ns);
    }
}

/// `phase.Kind` numbers: the last of a socket's, a poll, and what is not I/O.
const SSL: u8 = 1;
const SELECT: u8 = 3;
const NO_IO: std::ops::RangeInclusive<u8> = WAITING_KINDS;

/// Whether this process's event is wanted.
fn wanted() -> bool {
    on()
}

/// Puts an event into this thread's ring.
pub fn emit(event: Event) {
    if wanted() {
        if let Some(mut strand) = mine() {
            strand.push(event);
        }
    }
}

/// A unit of `kind`; its job is the running unit's. Number 0 (nothing is recorded of it) when off.
pub fn new_unit(kind: UnitKind, name: Text) -> Unit {
    if !wanted() {
        return blank(0, NO_JOB);
    }
    let Some(mut strand) = mine() else {
        return blank(0, NO_JOB);
    };
    let id = NEXT_UNIT.fetch_add(1, Ordering::Relaxed);
    let (parent, job) = strand
        .current()
        .map_or((0, NO_JOB), |unit| (unit.id, unit.job));
    let at_ns = clock::monotonic_ns();
    let thread = strand.thread;
    strand.push(Event::Unit {
        at_ns,
        unit: id,
        kind,
        thread,
        parent,
        name,
    });
    if job != NO_JOB {
        strand.push(Event::Attach {
            at_ns,
            unit: id,
            job,
        });
    }
    blank(id, job)
}

/// This thread runs a loop: its units take turns, its ring grows, and a blocking call holds all of them.
pub fn enter_loop() {
    if !wanted() {
        return;
    }
    if let Some(mut strand) = mine() {
        if !strand.is_loop {
            strand.is_loop = true;
            if strand.ring.events() < LOOP_EVENTS {
                strand.grow(); // Once: `asyncio.run` makes a loop a moment, again and again.
            }
        }
    }
}

/// The thread's loop has ended.
pub fn leave_loop() {
    if let Some(mut strand) = known() {
        strand.is_loop = false;
        strand.ring.epoll_fd.store(-1, Ordering::Relaxed);
    }
}

/// Ends the slice of the running `unit`: it gives way to another one of its thread.
///
/// # Safety
/// `unit` is one that lives.
pub unsafe fn suspend(unit: *mut Unit, now_ns: u64) {
    if !wanted() {
        // Switched off just now, by a thread that needs no GIL for it: who may be dropped next must not stay here.
        return forget(unit);
    }
    let Some(mut strand) = mine() else { return };
    if ptr::eq(strand.current, unit) {
        let gil_ns = strand.gil_ns;
        strand.end(now_ns, gil_ns);
    }
    strand.current = ptr::null_mut();
    strand.away = 0;
    // SAFETY: the caller says so; the strand has let go of it.
    let unit = unsafe { &mut *unit };
    unit.left_ns = now_ns;
    unit.phase = unit.phase.saturating_add(1);
    unit.known_ns = 0;
    unit.ready_ns = 0;
    unit.flags = 0;
    unit.kind = 0;
    unit.call = 0;
    unit.peer = 0;
}

/// Says that the suspended `unit` became ready in [`known_ns`, `ready_ns`]. The first word wins.
pub fn set_ready(unit: &mut Unit, known_ns: u64, ready_ns: u64, exact: bool) {
    if unit.ready_ns == 0 {
        unit.known_ns = known_ns;
        unit.ready_ns = ready_ns;
        if exact {
            unit.flags |= READY_EXACT;
        }
    }
}

/// `unit` runs now on this thread: writes down what it was blocked on, and begins its slice.
///
/// # Safety
/// `unit` must stay where it is until it is suspended, or [`forget`] is called with it.
pub unsafe fn resume(unit: *mut Unit, now_ns: u64) {
    if !wanted() {
        return;
    }
    let Some(mut strand) = mine() else { return };
    // The unit that ran before and did not say that it stops: a plain thread's own.
    let gil_ns = strand.gil_ns;
    if !ptr::eq(strand.current, unit) {
        strand.end(now_ns, gil_ns);
    }
    strand.current = unit;
    // SAFETY: the caller says so.
    let unit = unsafe { &mut *unit };
    let left_ns = std::mem::take(&mut unit.left_ns);
    if left_ns != 0 {
        // Not `clamp`, which panics when a moment was taken too early.
        let now_ns = now_ns.max(left_ns);
        let ready_ns = match unit.ready_ns {
            0 => now_ns,
            ready_ns => ready_ns.min(now_ns).max(left_ns),
        };
        let known_ns = match unit.known_ns {
            0 => left_ns.max(strand.previous_poll_ns.min(ready_ns)),
            known_ns => known_ns.min(ready_ns).max(left_ns),
        };
        if !NO_IO.contains(&unit.kind) {
            unit.io_ready_ns = ready_ns;
        }
        unit.spent
            .blocked(unit.kind, ready_ns - left_ns, now_ns - ready_ns);
        let block = Event::Block {
            from_ns: left_ns,
            known_ns,
            ready_ns,
            to_ns: now_ns,
            unit: unit.id,
            job: unit.job,
            kind: unit.kind,
            flags: unit.flags,
            call: unit.call,
            peer: unit.peer,
        };
        if unit.kind <= SSL {
            if let Some(former) = strand.pending.replace(block) {
                strand.put(former);
            }
        } else {
            strand.push(block);
        }
    }
    strand.begin(now_ns, gil_ns);
}

/// `unit` is about to be dropped.
pub fn forget(unit: *const Unit) {
    if let Some(mut strand) = known() {
        if ptr::eq(strand.current, unit) {
            let (now_ns, gil_ns) = (clock::monotonic_ns(), strand.gil_ns);
            strand.end(now_ns, gil_ns);
            strand.current = ptr::null_mut();
        }
    }
}

/// This thread's own unit, made if need be. It lives as long as the thread, in this process.
pub fn own_unit() -> Option<*mut Unit> {
    Some(mine()?.own)
}

/// The unit that runs on this thread; null = none.
pub fn running_unit() -> *mut Unit {
    known().map_or(ptr::null_mut(), |strand| strand.current)
}

/// The thread itself runs again, outside of every unit of its loop.
pub fn run_own(now_ns: u64) {
    if let Some(mut strand) = known() {
        let gil_ns = strand.gil_ns;
        strand.end(now_ns, gil_ns);
        strand.current = strand.own;
        strand.begin(now_ns, gil_ns);
    }
}

/// The running unit is about to block on `kind`. Nests; the outermost pair counts.
pub fn leave(kind: u8) {
    if !wanted() {
        return;
    }
    let Some(mut strand) = mine() else { return };
    strand.away += 1;
    if strand.away == 1 {
        strand.left_ns = clock::monotonic_ns();
        strand.left_kind = kind;
        strand.called_ns = 0;
        strand.returned_ns = 0;
        strand.read_ns = 0;
        strand.gil_at_left_ns = strand.gil_ns;
        strand.ring.from_ns.store(0, Ordering::Relaxed);
    }
}

/// A redirected libc call of this thread begins: it may block, so nobody should say that the thread runs.
/// [`blocked`] answers it.
pub fn calling() {
    if let Some(strand) = known() {
        strand.ring.from_ns.store(0, Ordering::Relaxed);
    }
}

/// Since when this thread waits for a lock; 0 = it has it, or gave up.
pub fn waits_for_lock(since_ns: u64) {
    if let Some(strand) = known() {
        strand.ring.lock_ns.store(since_ns, Ordering::Relaxed);
    }
}

/// Answers [`leave`].
pub fn enter() {
    let Some(mut strand) = known() else { return };
    if strand.away == 0 {
        return;
    }
    strand.away -= 1;
    if strand.away > 0 || !wanted() {
        return;
    }
    let now_ns = clock::monotonic_ns();
    let left_ns = std::mem::take(&mut strand.left_ns);
    if let Some(unit) = strand.current() {
        unit.phase = unit.phase.saturating_add(1);
    }
    if left_ns == 0 || now_ns.saturating_sub(left_ns) < BLOCKED_NS {
        strand.ring.from_ns.store(strand.from_ns, Ordering::Relaxed);
        return;
    }
    if strand.is_loop && strand.left_kind == SELECT {
        if strand.polled_ns > left_ns {
            return; // The redirected call has said so already, exactly.
        }
        // The loop's own poll, seen by a Python probe.
        let returned_ns = strand.returned_ns.max(left_ns);
        let to_ns = if returned_ns > left_ns {
            returned_ns
        } else {
            now_ns
        };
        drop(strand);
        return loop_polled(left_ns, to_ns, 0);
    }
    // A call that came late and did not block: what took so long was nobody's I/O, so the slice goes on until then.
    let (called_ns, read_ns) = (strand.called_ns, strand.read_ns);
    let late = called_ns > left_ns + CPU_LOOK_NS && read_ns <= left_ns;
    let (left_ns, gil_at_left_ns) = if late && strand.returned_ns < called_ns + CPU_LOOK_NS {
        (called_ns, strand.gil_at_called_ns)
    } else {
        (left_ns, strand.gil_at_left_ns)
    };
    let (known_ns, ready_ns, gil_ns) = if strand.returned_ns >= left_ns {
        (
            strand.returned_ns,
            strand.returned_ns,
            strand.gil_at_return_ns,
        )
    } else {
        (left_ns, now_ns, strand.gil_ns)
    };
    let kind = strand.left_kind;
    strand.end(left_ns, gil_at_left_ns);
    let flags = if known_ns == ready_ns { READY_EXACT } else { 0 }
        | if strand.is_loop { HELD_THE_LOOP } else { 0 };
    strand.block(left_ns, known_ns, ready_ns, (kind, flags, 0), gil_ns);
    strand.came(read_ns);
}

/// A redirected libc call of this thread was inside the kernel from `from_ns` to `to_ns`.
///
/// `kind` is `phase.Kind`, `call` its name. `stamp_ns`: when the kernel got the bytes that it read; 0 = unknown.
pub fn blocked(kind: u8, call: Text, from_ns: u64, to_ns: u64, stamp_ns: u64) {
    if !wanted() {
        return;
    }
    let Some(mut strand) = known() else { return };
    if stamp_ns != 0 {
        strand.stamp_ns = stamp_ns;
        strand.refine(stamp_ns);
        strand.came(stamp_ns);
    }
    let took_ns = to_ns.saturating_sub(from_ns);
    // The bytes were there before the operating system let the thread run.
    let ready_ns = if stamp_ns > from_ns && stamp_ns < to_ns {
        stamp_ns
    } else {
        to_ns
    };
    if strand.away > 0 {
        if strand.called_ns == 0 {
            strand.called_ns = from_ns;
            strand.gil_at_called_ns = strand.gil_ns;
        }
        // A `recv` after the `poll` that blocked is short: the wait for the GIL between them is not I/O.
        if strand.returned_ns == 0 || took_ns >= BLOCKED_NS {
            // There before the call was made, but not before the thread had set out for it.
            strand.returned_ns = match stamp_ns {
                stamp_ns if stamp_ns > strand.left_ns => stamp_ns.min(ready_ns),
                _ => ready_ns,
            };
            strand.gil_at_return_ns = strand.gil_ns;
        } else if stamp_ns > strand.left_ns && stamp_ns < strand.returned_ns {
            strand.returned_ns = stamp_ns;
        }
        strand.read_ns = stamp_ns;
        return;
    }
    let least_ns = if strand.is_loop {
        HELD_NS
    } else {
        BLOCKED_UNSEEN_NS
    };
    if took_ns < least_ns {
        strand.ring.from_ns.store(strand.from_ns, Ordering::Relaxed);
        return;
    }
    let gil_ns = strand.gil_ns;
    strand.end(from_ns, gil_ns);
    let flags = READY_EXACT | if strand.is_loop { HELD_THE_LOOP } else { 0 };
    strand.block(from_ns, ready_ns, ready_ns, (kind, flags, call), gil_ns);
    strand.came(stamp_ns);
}

/// The connection that the running unit waited for was made at `at_ns`, by the kernel.
pub fn connected(at_ns: u64) {
    if !wanted() {
        return;
    }
    if let Some(mut strand) = known() {
        strand.stamp_ns = at_ns;
        strand.refine(at_ns);
        strand.came(at_ns);
    }
}

/// Makes the strand of a thread that has none: it serves a request. Allocates; not for signal handlers.
pub fn begin_here() {
    if wanted() {
        mine();
    }
}

/// Bytes were read: the moment when they came, for the arrival of the next job. `exact`: the kernel's stamp.
pub fn bytes_came(at_ns: u64, exact: bool) {
    if !wanted() {
        return;
    }
    if let Some(unit) = known().and_then(|mut strand| strand.current()) {
        if unit.arrival_ns == 0 {
            unit.arrival_ns = at_ns;
            unit.arrival_exact = exact;
        }
    }
}

/// This thread waited for the GIL from `from_ns` to `to_ns`. Makes the strand of a thread that has none: whoever waits
/// for the GIL runs Python, and may be the one that others wait for.
pub fn gil_waited(from_ns: u64, to_ns: u64) {
    if !wanted() {
        return;
    }
    let Some(mut strand) = mine() else { return };
    let waited_ns = to_ns.saturating_sub(from_ns);
    strand.gil_ns += waited_ns;
    if waited_ns < WAITED_NS {
        return;
    }
    let began_ns = strand.from_ns;
    if began_ns != 0 && strand.away == 0 && from_ns.saturating_sub(began_ns) > LONGEST_NS {
        // A thread that computes for ever would not be seen before its end.
        let gil_ns = strand.gil_ns - waited_ns;
        strand.end(from_ns, gil_ns);
        strand.begin(to_ns, gil_ns + waited_ns);
    }
    drop(strand);
    waited(WaitKind::Gil, from_ns, to_ns);
}

/// The running unit could have run from `from_ns` to `to_ns` and did not.
pub fn waited(kind: WaitKind, from_ns: u64, to_ns: u64) {
    if !wanted() {
        return;
    }
    let Some(mut strand) = mine() else { return };
    let (unit, job) = match strand.current() {
        Some(unit) => {
            unit.spent.waited(kind, to_ns.saturating_sub(from_ns));
            (unit.id, unit.job)
        }
        None => (strand.own_id, NO_JOB),
    };
    strand.push(Event::Wait {
        from_ns,
        to_ns,
        unit,
        job,
        kind,
    });
}

/// A loop's poll was inside the kernel from `from_ns` to `to_ns`, and found `ready` descriptors.
pub fn loop_polled(from_ns: u64, to_ns: u64, _ready: u32) {
    let Some(mut strand) = known() else { return };
    strand.previous_poll_ns = strand.polled_ns;
    strand.polled_ns = to_ns;
    strand.poll_blocked = to_ns.saturating_sub(from_ns) >= WAITED_NS;
    strand.stamp_ns = 0;
    strand.ring.from_ns.store(strand.from_ns, Ordering::Relaxed);
    if wanted() && strand.poll_blocked && strand.from_ns != 0 {
        // The loop slept: its slice ends and begins anew.
        let gil_ns = strand.gil_ns;
        strand.end(from_ns, gil_ns);
        strand.begin(to_ns, gil_ns);
    }
}

/// Whether this thread runs a loop.
pub fn is_loop() -> bool {
    known().is_some_and(|strand| strand.is_loop)
}

/// This thread's loop waits by `epoll_fd`.
pub fn waits_by(epoll_fd: i32) {
    if let Some(strand) = known() {
        strand.ring.epoll_fd.store(epoll_fd, Ordering::Relaxed);
        sampler::wake();
    }
}

/// When what the last poll found became ready, [known, ready]: exact if the poll had blocked.
pub fn poll_bracket() -> Option<(u64, u64)> {
    let strand = known()?;
    if strand.polled_ns == 0 {
        return None;
    }
    let known_ns = if strand.poll_blocked {
        strand.polled_ns
    } else {
        strand.previous_poll_ns
    };
    Some((known_ns, strand.polled_ns))
}

/// The kernel's stamp of bytes that this thread has read since its loop's last poll.
pub fn last_stamp() -> Option<(u64, u64)> {
    let stamp_ns = known()?.stamp_ns;
    (stamp_ns != 0).then_some((stamp_ns, stamp_ns))
}

/// The garbage collector starts (`ends` false) or ends on this thread.
pub fn collected(ends: bool, generation: u8) {
    if !wanted() {
        return;
    }
    let Some(mut strand) = mine() else { return };
    let now_ns = clock::monotonic_ns();
    if !ends {
        strand.gc_from_ns = now_ns;
        return;
    }
    let from_ns = std::mem::take(&mut strand.gc_from_ns);
    if from_ns != 0 && now_ns - from_ns >= BLOCKED_NS {
        let unit = strand.current().map_or(strand.own_id, |unit| unit.id);
        strand.push(Event::Gc {
            from_ns,
            to_ns: now_ns,
            unit,
            generation,
        });
    }
}

/// The running unit's (number, job); (0, 0) without one.
pub fn running() -> (u32, u64) {
    known()
        .and_then(|mut strand| strand.current())
        .map_or((0, NO_JOB), |unit| (unit.id, unit.job))
}

/// Number of the running unit and where its time went so far. Its slice ends here and a new one begins: only an ended
/// one's CPU is known.
pub fn spent() -> Option<(u32, Spent)> {
    if !wanted() {
        return None;
    }
    let mut strand = mine()?;
    if strand.from_ns != 0 && strand.away == 0 {
        let (now_ns, gil_ns) = (clock::monotonic_ns(), strand.gil_ns);
        strand.end(now_ns, gil_ns);
        strand.begin(now_ns, gil_ns);
    }
    let unit = strand.current()?;
    Some((unit.id, unit.spent))
}

/// Calls `look` with the running unit, made if this thread has none.
pub fn with_unit<T>(look: impl FnOnce(&mut Unit) -> T) -> Option<T> {
    if !wanted() {
        return None;
    }
    let unit = mine()?.current()?;
    Some(look(unit))
}

/// The running unit works for `job` from now on; the one it worked for before.
pub fn attach(job: u64) -> u64 {
    attach_at(job, clock::monotonic_ns())
}

/// The same from `now_ns` on, which must be just now: the job's own events have the same time, and no gap.
pub fn attach_at(job: u64, now_ns: u64) -> u64 {
    if !wanted() {
        return NO_JOB;
    }
    let Some(mut strand) = mine() else {
        return NO_JOB;
    };
    let Some(unit) = strand.current() else {
        return NO_JOB;
    };
    let before = unit.job;
    if before != job {
        let gil_ns = strand.gil_ns;
        strand.end(now_ns, gil_ns);
        if strand.ring.is_short() {
            strand.grow();
        }
        unit.job = job;
        unit.phase = 0;
        strand.push(Event::Attach {
            at_ns: now_ns,
            unit: unit.id,
            job,
        });
        strand.begin(now_ns, gil_ns);
    }
    before
}

/// This thread's name has not been written down yet, and now will be.
pub fn is_nameless() -> bool {
    known().is_some_and(|strand| !strand.named && wanted())
}

/// The thread's number in the system; 0 = it has no strand.
pub fn thread() -> u32 {
    known().map_or(0, |strand| strand.thread)
}

/// Writes this thread's name down.
pub fn name_thread(name: &str) {
    if let Some(mut strand) = known() {
        strand.named = true;
        let (unit, thread) = (strand.own_id, strand.thread);
        strand.push(Event::Unit {
            at_ns: clock::monotonic_ns(),
            unit,
            kind: UnitKind::Thread,
            thread,
            parent: 0,
            name: names::text(name),
        });
    }
}
