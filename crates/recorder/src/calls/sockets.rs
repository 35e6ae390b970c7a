//! What is known of this process's sockets, by descriptor, and the kernel's stamps on them.
//!
//! With `SO_TIMESTAMPNS` on a TCP socket, `recvmsg` tells when the kernel got the bytes that it gives (of several
//! segments: the last one). A redirected `recv` is then carried out as `recvmsg`: one system call, as before, nothing
//! looked at in advance, no error taken from the application. What the application sees stays the same:
//!
//! - it calls `recvmsg` itself: its ancillary bytes and flags would show the stamp, so the socket is given up before;
//! - it asks for stamps itself, or hands the socket's TLS to the kernel: given up too;
//! - the descriptor means something else by now: `recvmsg` then refuses it, or descriptors passed with the bytes are
//!   closed, as `recv` would have done.
//!
//! A process that is `exec`ed and inherits a stamped socket sees the stamps if it uses `recvmsg`.

use super::errno::Errno;
use super::originals::real;
use super::{peers, realtime, symbols};
use crate::switch::on;
use crate::thread_state;
use greenlane_process::forks;
use libc::{c_int, c_void, iovec, msghdr, size_t, socklen_t, ssize_t};
use std::mem::{transmute, zeroed};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};

type SetSockOpt =
    unsafe extern "C-unwind" fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;

/// Higher descriptors are not stamped.
const MOST: usize = 1 << 16;

/// We have asked for stamps on it.
pub const STAMPED: u8 = 1;
/// It came from `accept`: what is read from it first is a request.
pub const ACCEPTED: u8 = 2;
/// Nothing has been read from it yet.
const FRESH: u8 = 4;
/// Never to be stamped.
const REFUSED: u8 = 8;
/// Accepted from a stamped listener, perhaps made before that was stamped.
const UNSURE: u8 = 16;
/// Its `recvmsg` was looked after.
const CHECKED: u8 = 32;

static FLAGS: [AtomicU8; MOST] = [const { AtomicU8::new(0) }; MOST];
/// Of an accepted connection: when the bytes came that were read from it last, ns, twice; one more if the kernel says
/// so. Before the first ones: when it was accepted. 0 = nobody has seen it.
///
/// The last ones, as a request begins when its head is whole, and the kernel stamps the last byte of what is read. They
/// are of this connection, so no other one's are taken for them, on any thread and after any time.
static ARRIVALS: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
/// Whether stamps are wanted.
static WANTED: AtomicBool = AtomicBool::new(false);
/// Whether any socket was ever stamped.
static EVER: AtomicBool = AtomicBool::new(false);
/// How many sockets were stamped, and how many stamps were read.
pub static SOCKETS: AtomicU64 = AtomicU64::new(0);
pub static STAMPS: AtomicU64 = AtomicU64::new(0);
/// How many sockets were given up because of what the application does.
pub static GIVEN_UP: AtomicU64 = AtomicU64::new(0);

/// Whether stamps are wanted from now on.
pub fn want(wanted: bool) {
    WANTED.store(wanted, Ordering::Relaxed);
}

fn place(fd: c_int) -> Option<&'static AtomicU8> {
    FLAGS.get(usize::try_from(fd).ok()?)
}

/// What is known of `fd`.
#[inline]
pub fn flags(fd: c_int) -> u8 {
    place(fd).map_or(0, |place| place.load(Ordering::Relaxed))
}

fn add(fd: c_int, flags: u8) {
    if let Some(place) = place(fd) {
        place.fetch_or(flags, Ordering::Relaxed);
    }
}

fn take(fd: c_int, wanted: u8) -> u8 {
    // Mostly there is nothing to take, and a look costs less.
    match place(fd) {
        Some(place) if flags(fd) & wanted != 0 => {
            place.fetch_and(!wanted, Ordering::Relaxed) & wanted
        }
        _ => 0,
    }
}

/// An option's number; None if `fd` has none such.
fn option(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as socklen_t;
    // SAFETY: writes at most `length` bytes into a local.
    let failed = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &mut length) };
    (failed == 0).then_some(value)
}

/// A `send` shorter than this is not looked at.
const LONG_NS: u64 = 250_000;

/// Whether the `send` of `sent` bytes cannot have waited for room: little was sent, and nothing else is left of what was
/// there before. On loopback the system may run the receiver first; that the call took `took_ns` is its doing then.
///
/// Cost: two system calls after a long `send`.
pub fn had_room(fd: c_int, sent: i64, took_ns: u64) -> bool {
    if took_ns < LONG_NS || sent <= 0 || flags(fd) == 0 {
        return false;
    }
    let mut queued: c_int = 0;
    // SAFETY: writes an int.
    let failed = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut queued) };
    let room = option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap_or(0);
    failed == 0 && i64::from(queued) <= sent && sent < i64::from(room) / 4
}

fn set_stamps(fd: c_int, wanted: c_int) -> bool {
    let length = size_of::<c_int>() as socklen_t;
    let value = (&raw const wanted).cast();
    // SAFETY: reads an int. Our own import could lead through an executable's stub to ourselves.
    unsafe {
        let setsockopt: SetSockOpt = transmute(real(symbols::SETSOCKOPT));
        setsockopt(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, value, length) == 0
    }
}

fn is_tcp(fd: c_int) -> bool {
    option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Some(libc::IPPROTO_TCP)
}

/// Asks for stamps on `fd`, if it is a TCP socket. Two system calls, at most.
pub fn stamp(fd: c_int) {
    if !WANTED.load(Ordering::Relaxed) || flags(fd) & (STAMPED | REFUSED) != 0 {
        return;
    }
    if place(fd).is_some() && is_tcp(fd) && set_stamps(fd, 1) {
        EVER.store(true, Ordering::Relaxed);
        SOCKETS.fetch_add(1, Ordering::Relaxed);
        add(fd, STAMPED);
    }
}

/// Stops stamps on `fd` for good.
#[cold]
fn give_up(fd: c_int) {
    add(fd, REFUSED);
    if take(fd, STAMPED) != 0 && is_tcp(fd) {
        GIVEN_UP.fetch_add(1, Ordering::Relaxed);
        set_stamps(fd, 0);
    }
}

/// The application calls `recvmsg` on `fd`, or has just called it: it must not see our stamps.
#[inline]
pub fn before_recvmsg(fd: c_int) {
    if EVER.load(Ordering::Relaxed) && flags(fd) & CHECKED == 0 {
        look_after_recvmsg(fd);
    }
}

#[cold]
fn look_after_recvmsg(fd: c_int) {
    let errno = Errno::keep();
    add(fd, CHECKED);
    if flags(fd) & STAMPED != 0 {
        give_up(fd);
    } else if flags(fd) & REFUSED == 0
        && option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) == Some(1)
        && is_tcp(fd)
    {
        // A copy of a descriptor that we had stamped.
        set_stamps(fd, 0);
    }
    errno.restore();
}

/// `fd` came from `accept` on `listener` at `now_ns`.
pub fn note_accept(listener: c_int, fd: c_int, now_ns: u64) {
    let Some(place) = place(fd) else { return };
    ARRIVALS[fd as usize].store(now_ns << 1, Ordering::Relaxed);
    let inherited = flags(listener) & (STAMPED | REFUSED);
    let unsure = if inherited & STAMPED != 0 { UNSURE } else { 0 };
    place.store(ACCEPTED | FRESH | inherited | unsure, Ordering::Relaxed);
    if inherited == 0 {
        stamp(listener);
        stamp(fd);
    }
}

/// A read of this long has waited for its bytes.
const WAITED_NS: u64 = 50_000;

/// Bytes were read from the accepted `fd` by a call from `from_ns` to `to_ns`; `stamp_ns`: when the kernel got them, 0 =
/// it does not say.
///
/// The first ones without a stamp came after the connection was accepted, and after what the reader has waited for: else
/// they may have waited for it, as in a pool's queue.
pub fn note_arrival(fd: c_int, stamp_ns: u64, from_ns: u64, to_ns: u64) {
    let Some(place) = usize::try_from(fd).ok().and_then(|fd| ARRIVALS.get(fd)) else {
        return;
    };
    let first = take(fd, FRESH) != 0 && to_ns.saturating_sub(from_ns) < WAITED_NS;
    let arrival = match (stamp_ns, first) {
        (0, false) => to_ns << 1,
        (0, true) => {
            let since_ns = thread_state::last_poll_ns().min(to_ns) << 1;
            place.load(Ordering::Relaxed).max(since_ns)
        }
        (stamp_ns, _) => stamp_ns << 1 | 1,
    };
    place.store(arrival, Ordering::Relaxed);
}

/// When the request came whose bytes were read from `fd` last, and whether the kernel says so; None = unknown.
pub fn arrival_on(fd: c_int) -> Option<(u64, bool)> {
    if flags(fd) & ACCEPTED == 0 {
        return None;
    }
    match ARRIVALS[fd as usize].load(Ordering::Relaxed) {
        0 => None,
        arrival => Some((arrival >> 1, arrival & 1 == 1)),
    }
}

/// Bytes are read unseen until recording goes on: no earlier ones must be taken for them.
pub fn forget_arrivals() {
    for (fd, known) in FLAGS.iter().enumerate() {
        if known.load(Ordering::Relaxed) & ACCEPTED != 0 {
            known.fetch_and(!FRESH, Ordering::Relaxed);
            ARRIVALS[fd].store(0, Ordering::Relaxed);
        }
    }
}

/// The kernel's stamp has been read from `fd`.
pub fn came_with_stamp(fd: c_int) {
    STAMPS.fetch_add(1, Ordering::Relaxed);
    take(fd, FRESH | UNSURE);
}

/// Bytes without a stamp were read from a stamped `fd`.
pub fn note_unstamped_read(fd: c_int) {
    // The number may be another descriptor's by now: copied over it, or closed where we do not see it.
    if take(fd, UNSURE) != 0 && is_tcp(fd) {
        set_stamps(fd, 1);
    }
}

/// Receives as `recvmsg` does into `parts`: (what `recvmsg` gave, the stamp of the bytes in real time, ns, 0 = none).
/// None: no longer a socket, nothing was done.
///
/// # Safety
/// As `recvmsg`.
pub unsafe fn receive(
    fd: c_int,
    parts: *mut iovec,
    count: usize,
    flags: c_int,
) -> Option<(ssize_t, u64)> {
    #[repr(align(8))]
    #[allow(dead_code)] // Read by the kernel and by `stamp_in`.
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    // SAFETY: plain numbers and pointers, for which zero is valid.
    let mut message: msghdr = unsafe { zeroed() };
    message.msg_iov = parts;
    message.msg_iovlen = count as _;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>() as _;
    // SAFETY: the caller says so; the control bytes are ours.
    let got = unsafe {
        let recvmsg: unsafe extern "C-unwind" fn(c_int, *mut msghdr, c_int) -> ssize_t =
            transmute(real(symbols::RECVMSG));
        recvmsg(fd, &mut message, flags)
    };
    if got >= 0 {
        // SAFETY: the kernel has filled the header.
        return Some((got, unsafe { stamp_in(fd, &message) }));
    }
    // SAFETY: errno is this thread's.
    if unsafe { *libc::__errno_location() } == libc::ENOTSOCK {
        take(fd, !0);
        return None;
    }
    Some((got, 0))
}

unsafe fn stamp_in(fd: c_int, message: &msghdr) -> u64 {
    let mut stamp_ns = 0;
    // SAFETY: walks headers that the kernel wrote, within the length that it wrote.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = at.as_ref() {
            if header.cmsg_level == libc::SOL_SOCKET {
                let content = libc::CMSG_DATA(at);
                #[allow(clippy::unnecessary_cast)] // Narrower on other C libraries.
                let length = header.cmsg_len as usize;
                let bytes = length.saturating_sub(content as usize - at as usize);
                if header.cmsg_type == libc::SCM_TIMESTAMPNS && bytes >= size_of::<libc::timespec>()
                {
                    let time = content.cast::<libc::timespec>().read_unaligned();
                    stamp_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
                } else if header.cmsg_type == libc::SCM_RIGHTS {
                    drop_rights(fd, content.cast(), bytes / size_of::<c_int>());
                }
            }
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
    stamp_ns
}

/// `fd` is a local socket by now: descriptors that came with the bytes are closed, as `recv` would have done.
#[cold]
unsafe fn drop_rights(fd: c_int, first: *const c_int, count: usize) {
    take(fd, !0);
    for index in 0..count {
        // SAFETY: the kernel has put `count` descriptors there; nobody else knows them.
        unsafe { libc::close(first.add(index).read_unaligned()) };
    }
}

/// How long ago the kernel last heard from the other end of a connection, to its tick, some ms; None: no connection.
pub fn since_last_ack_ns(fd: c_int) -> Option<u64> {
    // SAFETY: plain numbers.
    let mut state: libc::tcp_info = unsafe { zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes.
    let failed = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut state).cast(),
            &mut length,
        )
    };
    (failed == 0 && state.tcpi_state == ESTABLISHED)
        .then(|| u64::from(state.tcpi_last_ack_recv) * 1_000_000)
}

/// `TCP_ESTABLISHED`.
const ESTABLISHED: u8 = 1;

/// A stamp as monotonic time; 0 if it cannot be told.
pub fn moment(stamp_ns: u64, now_ns: u64) -> u64 {
    match stamp_ns {
        0 => 0,
        stamp_ns => realtime::monotonic(stamp_ns, now_ns),
    }
}

/// Stamps the sockets that there are already.
pub fn stamp_all() {
    let sockets: Vec<c_int> = all().into_iter().filter(|&fd| is_tcp(fd)).collect();
    let mut listening = Vec::new();
    for &fd in &sockets {
        if flags(fd) & STAMPED == 0 && has_stamps(fd) {
            add(fd, REFUSED); // Somebody else's.
        }
        if option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Some(1) {
            listening.extend(local_port(fd));
        }
    }
    for fd in sockets {
        stamp(fd);
        let connected = option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Some(0);
        if connected && local_port(fd).is_some_and(|port| listening.contains(&port)) {
            add(fd, ACCEPTED);
            peers::forget_peer(fd);
        }
    }
}

/// Takes our stamps off all sockets: those that we know, and those accepted while nothing was recorded, which have
/// inherited them.
pub fn unstamp_all() {
    if !EVER.load(Ordering::Relaxed) {
        return;
    }
    for fd in all() {
        let ours = flags(fd) & REFUSED == 0;
        if ours && option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) == Some(1) && is_tcp(fd) {
            set_stamps(fd, 0);
        }
        take(fd, STAMPED | UNSURE);
    }
}

fn all() -> Vec<c_int> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Whether somebody else has asked for stamps on `fd`.
fn has_stamps(fd: c_int) -> bool {
    [libc::SO_TIMESTAMP, libc::SO_TIMESTAMPNS]
        .into_iter()
        .any(|name| option(fd, libc::SOL_SOCKET, name) == Some(1))
}

fn local_port(fd: c_int) -> Option<u16> {
    // SAFETY: plain numbers, for which zero is valid.
    let mut address: libc::sockaddr_in6 = unsafe { zeroed() };
    let mut length = size_of_val(&address) as socklen_t;
    // SAFETY: writes at most `length` bytes into a local.
    let failed = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &mut length) };
    // IPv4 and IPv6 keep the port at the same place.
    (failed == 0 && address.sin6_port != 0).then_some(address.sin6_port)
}

/// `fd` is about to be closed: what was known of it is forgotten.
#[inline]
pub fn closes(fd: c_int) {
    // The child of a `vfork` closes its own copies, with our memory in its hands.
    if flags(fd) != 0 && forks::is_own_process() {
        take(fd, !0);
    }
}

/// In `close`'s place.
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    closes(fd);
    // SAFETY: the caller's call, as it is.
    unsafe {
        let close: unsafe extern "C-unwind" fn(c_int) -> c_int = transmute(real(symbols::CLOSE));
        close(fd)
    }
}

/// In `listen`'s place: sockets accepted from it inherit its stamps.
pub unsafe extern "C-unwind" fn listen(fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: the caller's call, as it is.
    let result = unsafe {
        let listen: unsafe extern "C-unwind" fn(c_int, c_int) -> c_int =
            transmute(real(symbols::LISTEN));
        listen(fd, backlog)
    };
    if result == 0 && on() {
        let errno = Errno::keep();
        stamp(fd);
        errno.restore();
    }
    result
}

/// In `setsockopt`'s place: a socket whose stamps or whose TLS the application arranges itself is given up.
pub unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    /// `SO_TIMESTAMP`, `SO_TIMESTAMPNS`, `SO_TIMESTAMPING` for 64-bit times.
    const NEW_STAMPS: std::ops::RangeInclusive<c_int> = 63..=65;
    let stamps = level == libc::SOL_SOCKET
        && (matches!(
            name,
            libc::SO_TIMESTAMP | libc::SO_TIMESTAMPNS | libc::SO_TIMESTAMPING
        ) || NEW_STAMPS.contains(&name));
    let kernel_tls = level == libc::IPPROTO_TCP && name == libc::TCP_ULP;
    if stamps || kernel_tls {
        let errno = Errno::keep();
        give_up(fd);
        errno.restore();
    }
    // SAFETY: the caller's call, as it is.
    unsafe {
        let setsockopt: SetSockOpt = transmute(real(symbols::SETSOCKOPT));
        setsockopt(fd, level, name, value, length)
    }
}

/// Whether a `recv` with these arguments can be carried out as `recvmsg`.
#[inline]
pub fn can_carry(fd: c_int, length: size_t, receive_flags: c_int) -> bool {
    const SAME: c_int =
        libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_PEEK | libc::MSG_NOSIGNAL;
    flags(fd) & STAMPED != 0 && length != 0 && receive_flags & !SAME == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of them forgets what all have noted.
    static IN_TURNS: std::sync::Mutex<()> = std::sync::Mutex::new(());

    const HOUR_NS: u64 = 3_600_000_000_000;
    const MS: u64 = 1_000_000;
    /// No descriptors of the test's own process.
    const LISTENER: c_int = 50_000;
    const ONE: c_int = 50_001;
    const OTHER: c_int = 50_002;
    const UNSTAMPED: c_int = 50_003;
    const FORGOTTEN: c_int = 50_004;

    #[test]
    fn a_request_after_an_hour_arrives_when_its_own_bytes_came() {
        let _turn = IN_TURNS.lock();
        let mut now_ns = HOUR_NS;
        note_accept(LISTENER, ONE, now_ns);
        note_accept(LISTENER, OTHER, now_ns);
        note_arrival(ONE, now_ns + 1, now_ns + 2, now_ns + 3);
        for _ in 0..3_600 {
            now_ns += HOUR_NS / 3_600;
            note_arrival(OTHER, now_ns, now_ns + 1, now_ns + 2);
        }
        assert_eq!(arrival_on(ONE), Some((HOUR_NS + 1, true)), "pipelined");
        assert_eq!(arrival_on(OTHER), Some((now_ns, true)));
        note_arrival(ONE, now_ns + 5, now_ns + 6, now_ns + 7);
        assert_eq!(arrival_on(ONE), Some((now_ns + 5, true)));
        take(ONE, !0); // As `closes` does.
        assert_eq!(arrival_on(ONE), None);
    }

    #[test]
    fn without_a_stamp_the_first_bytes_may_have_waited_since_the_accept_unless_the_read_waited() {
        let _turn = IN_TURNS.lock();
        let now_ns = HOUR_NS;
        note_accept(LISTENER, UNSTAMPED, now_ns);
        let read_ns = now_ns + 50 * MS;
        note_arrival(UNSTAMPED, 0, read_ns - 1_000, read_ns);
        assert_eq!(arrival_on(UNSTAMPED), Some((now_ns, false)));
        note_arrival(UNSTAMPED, 0, 2 * HOUR_NS, 2 * HOUR_NS + 9);
        assert_eq!(arrival_on(UNSTAMPED), Some((2 * HOUR_NS + 9, false)));
        note_accept(LISTENER, UNSTAMPED, now_ns);
        note_arrival(UNSTAMPED, 0, now_ns + 1, 2 * HOUR_NS);
        assert_eq!(arrival_on(UNSTAMPED), Some((2 * HOUR_NS, false)));
    }

    #[test]
    fn what_was_read_before_the_recording_went_on_is_unknown() {
        let _turn = IN_TURNS.lock();
        note_accept(LISTENER, FORGOTTEN, HOUR_NS);
        forget_arrivals();
        assert_eq!(arrival_on(FORGOTTEN), None);
        note_arrival(FORGOTTEN, 0, HOUR_NS + 2, HOUR_NS + 3);
        assert_eq!(
            arrival_on(FORGOTTEN),
            Some((HOUR_NS + 3, false)),
            "not when it was accepted"
        );
    }

    #[test]
    fn a_descriptor_that_was_not_accepted_tells_no_arrival() {
        assert_eq!(arrival_on(-1), None);
        assert_eq!(arrival_on(c_int::MAX), None);
        note_arrival(-1, 1, 2, 3);
        assert_eq!(arrival_on(50_009), None);
    }
}
