//! What stands in the place of each function of [`symbols`].

use super::symbols::{self, COUNT};
use super::{conditions, files, redirected as to, sockets};

/// The address of one of our functions.
#[derive(Clone, Copy)]
pub struct Place(*const ());

// SAFETY: addresses of functions.
unsafe impl Sync for Place {}

impl Place {
    pub fn address(self) -> usize {
        self.0 as usize
    }
}

macro_rules! places {
    ($($index:ident $place:path;)+) => {{
        let mut places = [Place(std::ptr::null()); COUNT];
        $(places[symbols::$index] = Place($place as *const ());)+
        places
    }};
}

/// By number of the function.
pub static PLACES: [Place; COUNT] = places! {
    POLL_CHK to::__poll_chk;
    PPOLL_CHK to::__ppoll_chk;
    READ_CHK to::__read_chk;
    RECV_CHK to::__recv_chk;
    RECVFROM_CHK to::__recvfrom_chk;
    XSTAT files::__xstat;
    XSTAT64 files::__xstat64;
    ACCEPT to::accept;
    ACCEPT4 to::accept4;
    CLOCK_NANOSLEEP to::clock_nanosleep;
    CLOSE sockets::close;
    CONNECT to::connect;
    EPOLL_PWAIT to::epoll_pwait;
    EPOLL_PWAIT2 to::epoll_pwait2;
    EPOLL_WAIT to::epoll_wait;
    FDATASYNC to::fdatasync;
    FLOCK to::flock;
    FSTATAT files::fstatat;
    FSTATAT64 files::fstatat64;
    FSYNC to::fsync;
    GETADDRINFO to::getaddrinfo;
    GETSOCKOPT to::getsockopt;
    LISTEN sockets::listen;
    LSTAT files::lstat;
    LSTAT64 files::lstat64;
    NANOSLEEP to::nanosleep;
    OPEN files::open;
    OPEN64 files::open64;
    OPENAT files::openat;
    OPENAT64 files::openat64;
    POLL to::poll;
    PPOLL to::ppoll;
    PREAD files::pread;
    PREAD64 files::pread64;
    PREADV files::preadv;
    PREADV64 files::preadv64;
    PSELECT to::pselect;
    COND_CLOCKWAIT conditions::pthread_cond_clockwait;
    COND_SIGNAL conditions::pthread_cond_signal;
    COND_TIMEDWAIT conditions::pthread_cond_timedwait;
    COND_WAIT conditions::pthread_cond_wait;
    PWRITE files::pwrite;
    PWRITE64 files::pwrite64;
    PWRITEV files::pwritev;
    PWRITEV64 files::pwritev64;
    READ to::read;
    READV to::readv;
    RECV to::recv;
    RECVFROM to::recvfrom;
    RECVMMSG to::recvmmsg;
    RECVMSG to::recvmsg;
    SELECT to::select;
    SEM_CLOCKWAIT to::sem_clockwait;
    SEM_TIMEDWAIT to::sem_timedwait;
    SEM_WAIT to::sem_wait;
    SEND to::send;
    SENDFILE to::sendfile;
    SENDFILE64 to::sendfile64;
    SENDMSG to::sendmsg;
    SENDTO to::sendto;
    SETSOCKOPT sockets::setsockopt;
    SLEEP to::sleep;
    STAT files::stat;
    STAT64 files::stat64;
    SYSCALL conditions::syscall;
    USLEEP to::usleep;
    WAIT4 to::wait4;
    WAITID to::waitid;
    WAITPID to::waitpid;
    WRITE to::write;
    WRITEV to::writev;
};

/// Each has one.
const _: () = {
    let mut index = 0;
    while index < COUNT {
        assert!(!PLACES[index].0.is_null());
        index += 1;
    }
};
