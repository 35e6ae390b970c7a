//! What one OS thread does now: which unit runs on it, for which job, since when.
//!
//! On a plain thread there is one unit, the thread's own. On a loop's thread (`enter_loop`) units take turns: the probe
//! of the loop calls [`suspend`] and [`resume`]. Blocking calls come from two sides: [`leave`] and [`enter`] from the
//! Python probes, which know the kind, and [`record_block`] and [`gil_waited`] from the redirected libc calls, which know the
//! exact times. Either works without the other; without the second, ready times are bounds.
//!
//! Everything here is called on the thread that it speaks of, and is safe to call anywhere: from C code without the
//! GIL, in a forked child, while the thread is torn down.
//!
//! | module | is |
//! |---|---|
//! | [`state`] | a thread's own place, and how it is made and ended |
//! | [`unit`] | what runs: a thread, greenlet or task |
//! | [`slices`] | begin, end and CPU of a slice, and the block between two |
//! | [`turns`] | which unit of a loop runs |
//! | [`loops`] | a loop's polls |
//! | [`blocking`] | blocking calls |
//! | [`waits`] | waits for the GIL and others, and the collector |
//! | [`blocked_stack`] | the Python stack of a call that blocked a whole loop |
//! | [`job`] | whom the running unit works for |

mod blocked_stack;
mod blocking;
mod job;
mod loops;
mod slices;
mod state;
mod turns;
mod unit;
mod waits;

pub use blocking::{
    begin_here, calling, enter, leave, record_block, returned_ns, set_connected_ns, timed_out,
    waits_for_lock,
};
pub use job::{attach, attach_at, running, take_place_wait, unit_totals, with_unit};
pub use loops::{
    enter_loop, is_loop, last_poll_ns, last_stamp, leave_loop, loop_polled, poll_bracket,
    thread_polled, waits_by,
};
pub use state::{claim_naming, emit, name_thread, thread};
pub use turns::{forget, new_unit, own_unit, resume, run_own, running_unit, suspend};
pub use unit::{set_ready, Unit};
pub use waits::{gil_waited, record_collection, record_wait, took_its_turn, waited_for_a_permit};
