//! The functions of the C library whose calls are redirected, and where to.

use super::{gil, redirected as to, sockets};
use std::ffi::CStr;

/// One function.
pub struct Wanted {
    pub name: &'static CStr,
    /// Which stands in its place.
    pub place: *const (),
    /// Redirected in the interpreter's object only.
    pub interpreter_only: bool,
}

// SAFETY: addresses of functions and constants.
unsafe impl Sync for Wanted {}

macro_rules! wanted {
    ($($index:ident $name:literal $place:path, $only:literal;)+) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        #[repr(usize)]
        enum Index { $($index,)+ }
        $(#[doc = concat!("Number of `", $name, "`.")] pub const $index: usize = Index::$index as usize;)+
        /// How many there are.
        pub const COUNT: usize = NAMES.len();
        const NAMES: [&str; [$($name,)+].len()] = [$($name,)+];
        /// All, by name.
        pub static WANTED: [Wanted; COUNT] = [$(
            Wanted {
                // A name without a NUL inside, and one at its end.
                name: match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a NUL inside of a name"),
                },
                place: $place as *const (),
                interpreter_only: $only,
            },
        )+];
    };
}

wanted! {
    POLL_CHK "__poll_chk" to::__poll_chk, false;
    PPOLL_CHK "__ppoll_chk" to::__ppoll_chk, false;
    READ_CHK "__read_chk" to::__read_chk, false;
    RECV_CHK "__recv_chk" to::__recv_chk, false;
    RECVFROM_CHK "__recvfrom_chk" to::__recvfrom_chk, false;
    ACCEPT "accept" to::accept, false;
    ACCEPT4 "accept4" to::accept4, false;
    CLOCK_NANOSLEEP "clock_nanosleep" to::clock_nanosleep, false;
    CLOSE "close" sockets::close, false;
    CONNECT "connect" to::connect, false;
    EPOLL_PWAIT "epoll_pwait" to::epoll_pwait, false;
    EPOLL_PWAIT2 "epoll_pwait2" to::epoll_pwait2, false;
    EPOLL_WAIT "epoll_wait" to::epoll_wait, false;
    FDATASYNC "fdatasync" to::fdatasync, false;
    FLOCK "flock" to::flock, false;
    FSYNC "fsync" to::fsync, false;
    GETADDRINFO "getaddrinfo" to::getaddrinfo, false;
    GETSOCKOPT "getsockopt" to::getsockopt, false;
    LISTEN "listen" sockets::listen, false;
    NANOSLEEP "nanosleep" to::nanosleep, false;
    POLL "poll" to::poll, false;
    PPOLL "ppoll" to::ppoll, false;
    PSELECT "pselect" to::pselect, false;
    COND_TIMEDWAIT "pthread_cond_timedwait" gil::pthread_cond_timedwait, true;
    COND_WAIT "pthread_cond_wait" gil::pthread_cond_wait, true;
    READ "read" to::read, false;
    READV "readv" to::readv, false;
    RECV "recv" to::recv, false;
    RECVFROM "recvfrom" to::recvfrom, false;
    RECVMMSG "recvmmsg" to::recvmmsg, false;
    RECVMSG "recvmsg" to::recvmsg, false;
    SELECT "select" to::select, false;
    SEM_CLOCKWAIT "sem_clockwait" to::sem_clockwait, false;
    SEM_TIMEDWAIT "sem_timedwait" to::sem_timedwait, false;
    SEM_WAIT "sem_wait" to::sem_wait, false;
    SEND "send" to::send, false;
    SENDFILE "sendfile" to::sendfile, false;
    SENDFILE64 "sendfile64" to::sendfile64, false;
    SENDMSG "sendmsg" to::sendmsg, false;
    SENDTO "sendto" to::sendto, false;
    SETSOCKOPT "setsockopt" sockets::setsockopt, false;
    SLEEP "sleep" to::sleep, false;
    USLEEP "usleep" to::usleep, false;
    WAIT4 "wait4" to::wait4, false;
    WAITID "waitid" to::waitid, false;
    WAITPID "waitpid" to::waitpid, false;
    WRITE "write" to::write, false;
    WRITEV "writev" to::writev, false;
}

/// The number of the function called `name`.
pub fn index_of(name: &CStr) -> Option<usize> {
    WANTED.binary_search_by(|wanted| wanted.name.cmp(name)).ok()
}

/// [`index_of`] finds a name by halving: they ascend.
const _: () = {
    let mut index = 1;
    while index < COUNT {
        assert!(is_less(
            NAMES[index - 1].as_bytes(),
            NAMES[index].as_bytes()
        ));
        index += 1;
    }
};

const fn is_less(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() {
        if one[at] != other[at] {
            return one[at] < other[at];
        }
        at += 1;
    }
    one.len() < other.len()
}
