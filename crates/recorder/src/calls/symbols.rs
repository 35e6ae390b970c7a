//! The functions of the C library whose calls are redirected.

use std::ffi::CStr;

macro_rules! wanted {
    ($($index:ident $name:literal;)+) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        #[repr(usize)]
        enum Index { $($index,)+ }
        $(#[doc = concat!("Number of `", $name, "`.")] pub const $index: usize = Index::$index as usize;)+
        /// How many there are.
        pub const COUNT: usize = NAMES.len();
        const NAMES: [&str; [$($name,)+].len()] = [$($name,)+];
        /// All, by name.
        pub static WANTED: [&CStr; COUNT] = [$(
            // A name without a NUL inside, and one at its end.
            match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a NUL inside of a name"),
            },
        )+];
    };
}

wanted! {
    POLL_CHK "__poll_chk";
    PPOLL_CHK "__ppoll_chk";
    READ_CHK "__read_chk";
    RECV_CHK "__recv_chk";
    RECVFROM_CHK "__recvfrom_chk";
    XSTAT "__xstat";
    XSTAT64 "__xstat64";
    ACCEPT "accept";
    ACCEPT4 "accept4";
    CLOCK_NANOSLEEP "clock_nanosleep";
    CLOSE "close";
    CONNECT "connect";
    EPOLL_PWAIT "epoll_pwait";
    EPOLL_PWAIT2 "epoll_pwait2";
    EPOLL_WAIT "epoll_wait";
    FDATASYNC "fdatasync";
    FLOCK "flock";
    FSTATAT "fstatat";
    FSTATAT64 "fstatat64";
    FSYNC "fsync";
    GETADDRINFO "getaddrinfo";
    GETSOCKOPT "getsockopt";
    LISTEN "listen";
    LSTAT "lstat";
    LSTAT64 "lstat64";
    NANOSLEEP "nanosleep";
    OPEN "open";
    OPEN64 "open64";
    OPENAT "openat";
    OPENAT64 "openat64";
    POLL "poll";
    PPOLL "ppoll";
    PREAD "pread";
    PREAD64 "pread64";
    PREADV "preadv";
    PREADV64 "preadv64";
    PSELECT "pselect";
    COND_CLOCKWAIT "pthread_cond_clockwait";
    COND_SIGNAL "pthread_cond_signal";
    COND_TIMEDWAIT "pthread_cond_timedwait";
    COND_WAIT "pthread_cond_wait";
    PWRITE "pwrite";
    PWRITE64 "pwrite64";
    PWRITEV "pwritev";
    PWRITEV64 "pwritev64";
    READ "read";
    READV "readv";
    RECV "recv";
    RECVFROM "recvfrom";
    RECVMMSG "recvmmsg";
    RECVMSG "recvmsg";
    SELECT "select";
    SEM_CLOCKWAIT "sem_clockwait";
    SEM_TIMEDWAIT "sem_timedwait";
    SEM_WAIT "sem_wait";
    SEND "send";
    SENDFILE "sendfile";
    SENDFILE64 "sendfile64";
    SENDMSG "sendmsg";
    SENDTO "sendto";
    SETSOCKOPT "setsockopt";
    SLEEP "sleep";
    STAT "stat";
    STAT64 "stat64";
    SYSCALL "syscall";
    USLEEP "usleep";
    WAIT4 "wait4";
    WAITID "waitid";
    WAITPID "waitpid";
    WRITE "write";
    WRITEV "writev";
}

/// The number of the function called `name`.
pub fn index_of(name: &CStr) -> Option<usize> {
    WANTED.binary_search(&name).ok()
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
