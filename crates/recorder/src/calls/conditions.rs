//! Waits for another thread of the process, native ones too: condition variables (librdkafka, gRPC, C++) and futexes
//! (Rust's and abseil's locks). The GIL's are [`gil`]'s; others count as a driver's: they end when it has an answer.

use super::originals::real;
use super::redirected::{begin_call, end_call, is_recorded, CallTime, DRIVER};
use super::{gil, sockets, symbols, waking};
use crate::switch::on;
use greenlane_interpreter::gil::{is_condition, is_switched};
use libc::{c_int, c_long, clockid_t, pthread_cond_t, pthread_mutex_t, timespec};
use std::mem::transmute;

/// Of `FUTEX_*`: with their flags taken off, those that wait.
const FUTEX_WAITS: [c_long; 4] = [0, 6, 9, 11];
const FUTEX_FLAGS: c_long = 128 | 256;

/// Calls `wait`, and says how long it was blocked.
#[inline]
unsafe fn measure_wait<T: Copy + Into<i64>>(index: usize, wait: impl FnOnce() -> T) -> T {
    if !is_recorded() {
        return wait();
    }
    let from_ns = begin_call();
    let result = wait();
    end_call(index, CallTime::Blocked(DRIVER), from_ns, result.into());
    result
}

/// In the place of the C function of this name.
pub unsafe extern "C-unwind" fn pthread_cond_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the function of this name, called as the caller did.
    unsafe {
        let real: gil::TimedWait = transmute(real(symbols::COND_TIMEDWAIT));
        if on() && is_condition(condition as usize) {
            return gil::wait_until(condition, mutex, until, real);
        }
        measure_wait(symbols::COND_TIMEDWAIT, || real(condition, mutex, until))
    }
}

/// In the place of the C function of this name.
pub unsafe extern "C-unwind" fn pthread_cond_wait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the function of this name, called as the caller did.
    unsafe {
        let real: gil::Wait = transmute(real(symbols::COND_WAIT));
        if on() && is_switched(condition as usize) {
            return gil::wait(condition, mutex, real);
        }
        measure_wait(symbols::COND_WAIT, || real(condition, mutex))
    }
}

/// In the place of the C function of this name.
pub unsafe extern "C-unwind" fn pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int {
    // SAFETY: the function of this name, called as the caller did.
    unsafe {
        let real: unsafe extern "C-unwind" fn(*mut pthread_cond_t) -> c_int =
            transmute(real(symbols::COND_SIGNAL));
        if is_condition(condition as usize) {
            waking::note_release();
        }
        real(condition)
    }
}

/// In the place of the C function of this name, which the interpreter does not call.
pub unsafe extern "C-unwind" fn pthread_cond_clockwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the function of this name, called as the caller did.
    unsafe {
        let real: unsafe extern "C-unwind" fn(
            *mut pthread_cond_t,
            *mut pthread_mutex_t,
            clockid_t,
            *const timespec,
        ) -> c_int = transmute(real(symbols::COND_CLOCKWAIT));
        measure_wait(symbols::COND_CLOCKWAIT, || {
            real(condition, mutex, clock, until)
        })
    }
}

/// In the place of the C function of this name, with as many arguments as a system call has. libuv closes by it.
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    one: c_long,
    two: c_long,
    three: c_long,
    four: c_long,
    five: c_long,
    six: c_long,
) -> c_long {
    // SAFETY: the function of this name, called as the caller did.
    unsafe {
        let real: unsafe extern "C-unwind" fn(
            c_long,
            c_long,
            c_long,
            c_long,
            c_long,
            c_long,
            c_long,
        ) -> c_long = transmute(real(symbols::SYSCALL));
        match number {
            libc::SYS_close => sockets::closes(one as c_int),
            libc::SYS_futex if FUTEX_WAITS.contains(&(two & !FUTEX_FLAGS)) => {
                return measure_wait(symbols::SYSCALL, || {
                    real(number, one, two, three, four, five, six)
                });
            }
            _ => {}
        }
        real(number, one, two, three, four, five, six)
    }
}
