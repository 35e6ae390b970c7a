//! What stands in the place of the C library's blocking calls: the call itself, and two looks at the clock.
//!
//! They run in other people's code: without the GIL, in threads that know nothing of Python, in signal handlers, in the
//! child of a `vfork`. So they allocate nothing, take no lock, keep `errno` and let a cancelled thread unwind. On a
//! thread without a thread state, or when nothing is recorded, they only call.
//!
//! Cost: off 2 ns; on about 60 ns, most of it the clock.

use super::errno::Errno;
use super::originals::real;
use super::{peers, sockets, symbols};
use crate::known_threads;
use crate::pending;
use crate::switch::on;
use crate::thread_state;
use greenlane_process::clock;
use libc::{
    addrinfo, c_char, c_int, c_uint, c_void, clockid_t, epoll_event, fd_set, id_t, idtype_t, iovec,
    mmsghdr, msghdr, nfds_t, off_t, pid_t, pollfd, rusage, sem_t, siginfo_t, sigset_t, size_t,
    sockaddr, socklen_t, ssize_t, timespec, timeval,
};
use std::cell::Cell;
use std::mem::transmute;
use std::sync::atomic::{AtomicU32, Ordering};

/// Of `phase.Kind`.
const SOCKET: u8 = 0;
const DNS: u8 = 2;
const SELECT: u8 = 3;
const SLEEP: u8 = 4;
const LOCK: u8 = 5;
const PROCESS: u8 = 8;
pub(super) const DRIVER: u8 = 9;

/// The calls' names as texts of the recording.
static TEXTS: [AtomicU32; symbols::COUNT] = [const { AtomicU32::new(0) }; symbols::COUNT];

thread_local! {
    /// Whether this thread's loop waits by `epoll`: then its other polls are not the loop's.
    static BY_EPOLL: Cell<bool> = const { Cell::new(false) };
}

/// Gives the function number `index` its name in the recording.
pub fn name(index: usize, text: u32) {
    TEXTS[index].store(text, Ordering::Relaxed);
}

fn text(index: usize) -> u32 {
    TEXTS[index].load(Ordering::Relaxed)
}

/// Where a call's time goes.
#[derive(Clone, Copy)]
pub(super) enum CallTime {
    /// Blocked on this kind.
    Blocked(u8),
    /// Waited for one of Python's locks.
    Locked,
    /// Bytes sent over this socket.
    Sent(c_int),
    /// Slept, if nothing woke it, for so long, and until this moment, monotonic; 0 = unknown.
    SleptFor(u64),
    SleptUntil(u64),
    /// Socket or file, as the descriptor is.
    Bytes(c_int),
    /// A poll that only loops use, and one that others use too. The flag: its timeout is 0.
    LoopPoll(c_int, bool),
    Poll(bool),
}

/// The call has end_call `result`.
#[inline(never)]
pub(super) fn end_call(index: usize, call_time: CallTime, from_ns: u64, result: i64) {
    let errno = Errno::keep();
    let to_ns = clock::monotonic_ns();
    let kind = match call_time {
        CallTime::Blocked(kind) => kind,
        CallTime::Locked => LOCK,
        CallTime::Sent(_) => SOCKET,
        CallTime::SleptFor(_) | CallTime::SleptUntil(_) => SLEEP,
        CallTime::Bytes(fd) if sockets::flags(fd) != 0 => SOCKET,
        CallTime::Bytes(_) => DRIVER,
        CallTime::LoopPoll(..) | CallTime::Poll(_) => SELECT,
    };
    if is_of_loop(call_time) {
        thread_state::loop_polled(from_ns, to_ns, u32::try_from(result).unwrap_or(0));
    } else {
        if matches!(call_time, CallTime::LoopPoll(..) | CallTime::Poll(_))
            && !thread_state::is_loop()
        {
            thread_state::thread_polled(from_ns, to_ns);
        }
        if matches!(call_time, CallTime::Locked) {
            thread_state::waits_for_lock(0);
        }
        let until_ns = match call_time {
            CallTime::Sent(fd) if sockets::had_room(fd, result, to_ns - from_ns) => from_ns,
            CallTime::Sent(fd) => blocked_until(fd, from_ns, to_ns),
            // It cannot have blocked: what took so long was the operating system's.
            CallTime::LoopPoll(_, true) | CallTime::Poll(true) | CallTime::SleptFor(0) => from_ns,
            CallTime::SleptUntil(due_ns) if (1..=from_ns).contains(&due_ns) => from_ns,
            CallTime::SleptFor(ns) if result == 0 => {
                slept_until(from_ns.saturating_add(ns), from_ns, to_ns)
            }
            CallTime::SleptUntil(due_ns) if result == 0 => slept_until(due_ns, from_ns, to_ns),
            _ => to_ns,
        };
        thread_state::record_block((kind, text(index)), from_ns, until_ns, to_ns, 0);
    }
    errno.restore();
}

/// A sleep that lasts so much too long has waited for the processor: a slice this long is measured.
const LATE_NS: u64 = 250_000;

/// When a sleep until `due_ns` was over.
fn slept_until(due_ns: u64, from_ns: u64, to_ns: u64) -> u64 {
    if due_ns > from_ns && to_ns.saturating_sub(due_ns) > LATE_NS {
        due_ns
    } else {
        to_ns
    }
}

/// Length or end of a sleep, ns.
///
/// # Safety
/// `time` is null or valid.
unsafe fn ns_of(time: *const timespec) -> u64 {
    // SAFETY: the caller says so.
    unsafe { time.as_ref() }.map_or(0, |time| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let ns = u64::try_from(time.tv_nsec).unwrap_or(0);
        seconds.saturating_mul(1_000_000_000).saturating_add(ns)
    })
}

/// Whether a poll's timeout is 0; null is for ever. See [`ns_of`].
unsafe fn no_time(timeout: *const timespec) -> bool {
    // SAFETY: the caller says so.
    !timeout.is_null() && unsafe { ns_of(timeout) } == 0
}

/// The same of `select`'s.
unsafe fn no_time_val(timeout: *const timeval) -> bool {
    // SAFETY: the caller says so.
    unsafe { timeout.as_ref() }.is_some_and(|time| time.tv_sec == 0 && time.tv_usec == 0)
}

/// What a `clock_nanosleep` asks for; see [`ns_of`].
unsafe fn sleep_time(clock: clockid_t, flags: c_int, time: *const timespec) -> CallTime {
    // SAFETY: the caller says so.
    let ns = unsafe { ns_of(time) };
    match (flags & libc::TIMER_ABSTIME != 0, clock) {
        (false, _) => CallTime::SleptFor(ns),
        (true, libc::CLOCK_MONOTONIC) => CallTime::SleptUntil(ns),
        (true, _) => CallTime::SleptUntil(0),
    }
}

/// A loop's call this long is looked at twice.
const LONG_NS: u64 = 200_000;

/// When a call on a socket came back, or its begin if it cannot have blocked: the socket of a loop does not, and what
/// took so long was the operating system's.
fn blocked_until(fd: c_int, from_ns: u64, to_ns: u64) -> u64 {
    if to_ns.saturating_sub(from_ns) < LONG_NS || !thread_state::is_loop() {
        return to_ns;
    }
    // SAFETY: asks for a descriptor's flags.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags >= 0 && flags & libc::O_NONBLOCK != 0 {
        from_ns
    } else {
        to_ns
    }
}

fn is_of_loop(call_time: CallTime) -> bool {
    match call_time {
        CallTime::LoopPoll(fd, _) if thread_state::is_loop() => {
            if !BY_EPOLL.replace(true) {
                thread_state::waits_by(fd);
            }
            true
        }
        CallTime::Poll(_) => thread_state::is_loop() && !BY_EPOLL.get(),
        _ => false,
    }
}

/// `got` bytes have been read from `fd`, with the kernel's real-time stamp or 0.
#[inline(never)]
fn read_from(index: usize, fd: c_int, from_ns: u64, got: ssize_t, stamp_ns: u64) {
    let errno = Errno::keep();
    let to_ns = clock::monotonic_ns();
    let flags = sockets::flags(fd);
    let came_ns = sockets::moment(stamp_ns, to_ns);
    if got > 0 {
        if came_ns != 0 {
            sockets::came_with_stamp(fd);
        } else if flags & sockets::STAMPED != 0 {
            sockets::note_unstamped_read(fd);
        }
    }
    let kind = if flags != 0 { SOCKET } else { DRIVER };
    let until_ns = blocked_until(fd, from_ns, to_ns);
    thread_state::record_block((kind, text(index)), from_ns, until_ns, to_ns, came_ns);
    if got > 0 && flags & sockets::ACCEPTED != 0 {
        sockets::note_arrival(fd, came_ns, from_ns, to_ns);
    }
    errno.restore();
}

/// A process that waits for something to do is no child on its way to another program: its recording begins.
#[inline]
pub(super) fn begin_at(call_time: CallTime) {
    if matches!(call_time, CallTime::LoopPoll(..) | CallTime::Poll(_)) {
        pending::begin();
    }
}

/// Whether the calling thread's calls are recorded.
#[inline]
pub(super) fn is_recorded() -> bool {
    on() && known_threads::is_known()
}

/// The same for bytes read from `fd`: a request's first bytes make its thread known. No signal handler reads those.
#[inline]
fn wanted_from(fd: c_int) -> bool {
    if !on() {
        return false;
    }
    if !known_threads::is_known() {
        if sockets::flags(fd) & sockets::ACCEPTED == 0 {
            return false;
        }
        let errno = Errno::keep();
        thread_state::begin_here();
        errno.restore();
    }
    true
}

/// The call begins now.
#[inline(never)]
pub(super) fn begin_call() -> u64 {
    thread_state::calling();
    clock::monotonic_ns()
}

/// The call of function number `index` begins now.
#[inline]
pub(super) fn called_for(index: usize) -> u64 {
    let now_ns = begin_call();
    if [
        symbols::SEM_WAIT,
        symbols::SEM_TIMEDWAIT,
        symbols::SEM_CLOCKWAIT,
    ]
    .contains(&index)
    {
        thread_state::waits_for_lock(now_ns);
    }
    now_ns
}

macro_rules! redirected {
    ($($(#[$about:meta])* $name:ident($($argument:ident: $type:ty),*) -> $result:ty, $index:ident, $call_time:expr;)+) => {$(
        /// In the place of the C function of this name.
        $(#[$about])*
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            // SAFETY: the function of this name, called as the caller did.
            unsafe {
                let real: unsafe extern "C-unwind" fn($($type),*) -> $result =
                    transmute(real(symbols::$index));
                // Before the call: `select` writes into its timeout.
                let call_time = $call_time;
                begin_at(call_time);
                if !is_recorded() {
                    return real($($argument),*);
                }
                let from_ns = called_for(symbols::$index);
                let result = real($($argument),*);
                end_call(symbols::$index, call_time, from_ns, result as i64);
                result
            }
        }
    )+};
}

pub(super) use redirected;

redirected! {
    send(fd: c_int, bytes: *const c_void, length: size_t, flags: c_int) -> ssize_t, SEND, CallTime::Sent(fd);
    sendto(fd: c_int, bytes: *const c_void, length: size_t, flags: c_int, to: *const sockaddr, to_length: socklen_t) -> ssize_t,
        SENDTO, CallTime::Sent(fd);
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t, SENDMSG, CallTime::Sent(fd);
    sendfile(to: c_int, from: c_int, at: *mut off_t, count: size_t) -> ssize_t, SENDFILE, CallTime::Blocked(SOCKET);
    sendfile64(to: c_int, from: c_int, at: *mut off_t, count: size_t) -> ssize_t, SENDFILE64, CallTime::Blocked(SOCKET);
    write(fd: c_int, bytes: *const c_void, length: size_t) -> ssize_t, WRITE, CallTime::Bytes(fd);
    writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t, WRITEV, CallTime::Bytes(fd);
    readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t, READV, CallTime::Bytes(fd);
    fsync(fd: c_int) -> c_int, FSYNC, CallTime::Blocked(DRIVER);
    fdatasync(fd: c_int) -> c_int, FDATASYNC, CallTime::Blocked(DRIVER);
    flock(fd: c_int, operation: c_int) -> c_int, FLOCK, CallTime::Blocked(LOCK);
    poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int, POLL, CallTime::Poll(timeout_ms == 0);
    __poll_chk(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int, room: size_t) -> c_int, POLL_CHK,
        CallTime::Poll(timeout_ms == 0);
    ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int, PPOLL,
        CallTime::Poll(no_time(timeout));
    __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, room: size_t) -> c_int,
        PPOLL_CHK, CallTime::Poll(no_time(timeout));
    select(count: c_int, read: *mut fd_set, write: *mut fd_set, other: *mut fd_set, timeout: *mut timeval) -> c_int,
        SELECT, CallTime::Poll(no_time_val(timeout));
    pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, other: *mut fd_set, timeout: *const timespec,
        mask: *const sigset_t) -> c_int, PSELECT, CallTime::Poll(no_time(timeout));
    epoll_wait(fd: c_int, events: *mut epoll_event, room: c_int, timeout_ms: c_int) -> c_int, EPOLL_WAIT,
        CallTime::LoopPoll(fd, timeout_ms == 0);
    epoll_pwait(fd: c_int, events: *mut epoll_event, room: c_int, timeout_ms: c_int, mask: *const sigset_t) -> c_int,
        EPOLL_PWAIT, CallTime::LoopPoll(fd, timeout_ms == 0);
    epoll_pwait2(fd: c_int, events: *mut epoll_event, room: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int,
        EPOLL_PWAIT2, CallTime::LoopPoll(fd, no_time(timeout));
    nanosleep(time: *const timespec, left: *mut timespec) -> c_int, NANOSLEEP,
        CallTime::SleptFor(ns_of(time));
    clock_nanosleep(clock: clockid_t, flags: c_int, time: *const timespec, left: *mut timespec) -> c_int,
        CLOCK_NANOSLEEP, sleep_time(clock, flags, time);
    usleep(microseconds: c_uint) -> c_int, USLEEP,
        CallTime::SleptFor(u64::from(microseconds) * 1_000);
    sleep(seconds: c_uint) -> c_uint, SLEEP,
        CallTime::SleptFor(u64::from(seconds) * 1_000_000_000);
    sem_wait(semaphore: *mut sem_t) -> c_int, SEM_WAIT, CallTime::Locked;
    sem_timedwait(semaphore: *mut sem_t, until: *const timespec) -> c_int, SEM_TIMEDWAIT, CallTime::Locked;
    sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, until: *const timespec) -> c_int,
        SEM_CLOCKWAIT, CallTime::Locked;
    waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t, WAITPID, CallTime::Blocked(PROCESS);
    wait4(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t, WAIT4, CallTime::Blocked(PROCESS);
    waitid(kind: idtype_t, id: id_t, found: *mut siginfo_t, options: c_int) -> c_int, WAITID, CallTime::Blocked(PROCESS);
    getaddrinfo(node: *const c_char, service: *const c_char, hints: *const addrinfo, found: *mut *mut addrinfo) -> c_int,
        GETADDRINFO, CallTime::Blocked(DNS);
}

macro_rules! receiving {
    ($($name:ident($fd:ident: c_int, $bytes:ident: *mut c_void, $length:ident: size_t $(, $argument:ident: $type:ty)*),
        $index:ident, flags $flags:expr, plain $plain:expr;)+) => {$(
        /// In the place of the C function of this name; on a stamped socket carried out as `recvmsg`.
        pub unsafe extern "C-unwind" fn $name($fd: c_int, $bytes: *mut c_void, $length: size_t $(, $argument: $type)*) -> ssize_t {
            // SAFETY: the function of this name, called as the caller did, or `recvmsg` into the caller's buffer.
            unsafe {
                let real: unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t $(, $type)*) -> ssize_t =
                    transmute(real(symbols::$index));
                if !wanted_from($fd) {
                    return real($fd, $bytes, $length $(, $argument)*);
                }
                let from_ns = begin_call();
                let mut part = iovec { iov_base: $bytes, iov_len: $length };
                let (got, stamp_ns) = if $plain && sockets::can_carry($fd, $length, $flags) {
                    sockets::receive($fd, &mut part, 1, $flags)
                } else {
                    None
                }
                .unwrap_or_else(|| (real($fd, $bytes, $length $(, $argument)*), 0));
                read_from(symbols::$index, $fd, from_ns, got, stamp_ns);
                got
            }
        }
    )+};
}

receiving! {
    recv(fd: c_int, bytes: *mut c_void, length: size_t, flags: c_int), RECV, flags flags, plain true;
    __recv_chk(fd: c_int, bytes: *mut c_void, length: size_t, room: size_t, flags: c_int), RECV_CHK,
        flags flags, plain length <= room;
    recvfrom(fd: c_int, bytes: *mut c_void, length: size_t, flags: c_int, from: *mut sockaddr, from_length: *mut socklen_t),
        RECVFROM, flags flags, plain from.is_null();
    __recvfrom_chk(fd: c_int, bytes: *mut c_void, length: size_t, room: size_t, flags: c_int, from: *mut sockaddr,
        from_length: *mut socklen_t), RECVFROM_CHK, flags flags, plain from.is_null() && length <= room;
    read(fd: c_int, bytes: *mut c_void, length: size_t), READ, flags 0, plain true;
    __read_chk(fd: c_int, bytes: *mut c_void, length: size_t, room: size_t), READ_CHK, flags 0, plain length <= room;
}

/// In the place of the C function of this name. The application looks at ancillary bytes: no stamps on its socket.
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    sockets::before_recvmsg(fd);
    // SAFETY: the caller's call, as it is.
    unsafe {
        let real: unsafe extern "C-unwind" fn(c_int, *mut msghdr, c_int) -> ssize_t =
            transmute(real(symbols::RECVMSG));
        if !wanted_from(fd) {
            return real(fd, message, flags);
        }
        let from_ns = begin_call();
        let got = real(fd, message, flags);
        read_from(symbols::RECVMSG, fd, from_ns, got, 0);
        got
    }
}

/// In the place of the C function of this name; as [`recvmsg`].
pub unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    sockets::before_recvmsg(fd);
    // SAFETY: the caller's call, as it is.
    unsafe {
        let real: unsafe extern "C-unwind" fn(
            c_int,
            *mut mmsghdr,
            c_uint,
            c_int,
            *mut timespec,
        ) -> c_int = transmute(real(symbols::RECVMMSG));
        if !is_recorded() {
            return real(fd, messages, count, flags, timeout);
        }
        let from_ns = begin_call();
        let got = real(fd, messages, count, flags, timeout);
        end_call(
            symbols::RECVMMSG,
            CallTime::Blocked(SOCKET),
            from_ns,
            i64::from(got),
        );
        got
    }
}

/// In the place of the C function of this name. A loop asks it for `SO_ERROR` when its connection has been made: the
/// kernel knows when that was.
pub unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: the function of this name, called as the caller did.
    let result = unsafe {
        let real: unsafe extern "C-unwind" fn(
            c_int,
            c_int,
            c_int,
            *mut c_void,
            *mut socklen_t,
        ) -> c_int = transmute(real(symbols::GETSOCKOPT));
        real(fd, level, name, value, length)
    };
    if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR)
        && is_recorded()
        && thread_state::is_loop()
    {
        note_connect(fd);
    }
    result
}

#[inline(never)]
fn note_connect(fd: c_int) {
    let errno = Errno::keep();
    if let Some(ago_ns) = sockets::since_last_ack_ns(fd) {
        thread_state::set_connected_ns(clock::monotonic_ns().saturating_sub(ago_ns));
    }
    errno.restore();
}

/// In the place of the C function of this name; what is read from the connection will be stamped.
pub unsafe extern "C-unwind" fn connect(
    fd: c_int,
    to: *const sockaddr,
    length: socklen_t,
) -> c_int {
    // SAFETY: the caller's call, as it is.
    unsafe {
        let real: unsafe extern "C-unwind" fn(c_int, *const sockaddr, socklen_t) -> c_int =
            transmute(real(symbols::CONNECT));
        if !on() {
            return real(fd, to, length);
        }
        let errno = Errno::keep();
        sockets::stamp(fd);
        errno.restore();
        if !known_threads::is_known() {
            return real(fd, to, length);
        }
        let from_ns = begin_call();
        let result = real(fd, to, length);
        end_call(symbols::CONNECT, CallTime::Blocked(SOCKET), from_ns, 0);
        result
    }
}

macro_rules! accepting {
    ($($name:ident($fd:ident: c_int, $from:ident: *mut sockaddr $(, $argument:ident: $type:ty)*), $index:ident;)+) => {$(
        /// In the place of the C function of this name; notes when and from whom, and what is read will be stamped.
        pub unsafe extern "C-unwind" fn $name($fd: c_int, $from: *mut sockaddr $(, $argument: $type)*) -> c_int {
            // SAFETY: the caller's call, as it is.
            unsafe {
                let real: unsafe extern "C-unwind" fn(c_int, *mut sockaddr $(, $type)*) -> c_int =
                    transmute(real(symbols::$index));
                pending::begin();
                if !on() {
                    return real($fd, $from $(, $argument)*);
                }
                let known = known_threads::is_known();
                let errno = Errno::keep();
                let from_ns = if known { begin_call() } else { 0 };
                errno.restore();
                let accepted = real($fd, $from $(, $argument)*);
                let errno = Errno::keep();
                if accepted >= 0 {
                    sockets::note_accept($fd, accepted, clock::monotonic_ns());
                    peers::note_peer(accepted, $from);
                }
                if known {
                    end_call(symbols::$index, CallTime::Blocked(SOCKET), from_ns, 0);
                }
                errno.restore();
                accepted
            }
        }
    )+};
}

accepting! {
    accept(fd: c_int, from: *mut sockaddr, length: *mut socklen_t), ACCEPT;
    accept4(fd: c_int, from: *mut sockaddr, length: *mut socklen_t, flags: c_int), ACCEPT4;
}
