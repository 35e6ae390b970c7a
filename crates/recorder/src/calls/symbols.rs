//! The functions of the C library whose calls are redirected.

use std::ffi::CStr;

/// One function.
pub struct Wanted {
    pub name: &'static CStr,
    /// Redirected in the interpreter's object only.
    pub interpreter_only: bool,
}

macro_rules! wanted {
    ($($index:ident $name:literal $only:literal;)+) => {
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
                interpreter_only: $only,
            },
        )+];
    };
}

wanted! {
    POLL_CHK "__poll_chk" false;
    PPOLL_CHK "__ppoll_chk" false;
    READ_CHK "__read_chk" false;
    RECV_CHK "__recv_chk" false;
    RECVFROM_CHK "__recvfrom_chk" false;
    ACCEPT "accept" false;
    ACCEPT4 "accept4" false;
    CLOCK_NANOSLEEP "clock_nanosleep" false;
    CLOSE "close" false;
    CONNECT "connect" false;
    EPOLL_PWAIT "epoll_pwait" false;
    EPOLL_PWAIT2 "epoll_pwait2" false;
    EPOLL_WAIT "epoll_wait" false;
    FDATASYNC "fdatasync" false;
    FLOCK "flock" false;
    FSYNC "fsync" false;
    GETADDRINFO "getaddrinfo" false;
    GETSOCKOPT "getsockopt" false;
    LISTEN "listen" false;
    NANOSLEEP "nanosleep" false;
    POLL "poll" false;
    PPOLL "ppoll" false;
    PSELECT "pselect" false;
    COND_TIMEDWAIT "pthread_cond_timedwait" true;
    COND_WAIT "pthread_cond_wait" true;
    READ "read" false;
    READV "readv" false;
    RECV "recv" false;
    RECVFROM "recvfrom" false;
    RECVMMSG "recvmmsg" false;
    RECVMSG "recvmsg" false;
    SELECT "select" false;
    SEM_CLOCKWAIT "sem_clockwait" false;
    SEM_TIMEDWAIT "sem_timedwait" false;
    SEM_WAIT "sem_wait" false;
    SEND "send" false;
    SENDFILE "sendfile" false;
    SENDFILE64 "sendfile64" false;
    SENDMSG "sendmsg" false;
    SENDTO "sendto" false;
    SETSOCKOPT "setsockopt" false;
    SLEEP "sleep" false;
    USLEEP "usleep" false;
    WAIT4 "wait4" false;
    WAITID "waitid" false;
    WAITPID "waitpid" false;
    WRITE "write" false;
    WRITEV "writev" false;
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
