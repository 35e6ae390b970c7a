//! The other processes of a service: those that answer at the same address.
//!
//! Each has a socket in the abstract namespace, whose name begins with the address: it leaves no file, and goes with its
//! process. A process that connects is given a line.

use super::status::{Shared, Status};
use libc::c_int;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fs;
use std::io::{Error, Read, Result, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// A process that has not answered by then is said not to.
const PATIENCE: Duration = Duration::from_millis(30);

pub struct Siblings {
    prefix: String,
    pub name: UnixAddr,
    listener: UnixListener,
    /// Those that have answered, and are still there.
    known: RefCell<HashSet<u32>>,
}

impl Siblings {
    pub fn new(address: SocketAddr) -> Result<Self> {
        let prefix = format!("greenlane-health {address} ");
        let name = UnixAddr::from_abstract_name(format!("{prefix}{}", std::process::id()))?;
        let listener = UnixListener::bind_addr(&name)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            prefix,
            name,
            listener,
            known: RefCell::default(),
        })
    }

    pub fn fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }

    /// Tells those that ask how this process is.
    pub fn answer(&self, shared: &Shared) {
        while let Ok((mut sibling, _)) = self.listener.accept() {
            let line = shared.status().line();
            let _ = sibling.set_nonblocking(true);
            let _ = sibling.write_all(line.as_bytes());
        }
    }

    /// How the others are. Answers their own questions meanwhile.
    pub fn ask(&self, shared: &Shared) -> Vec<Status> {
        let until = Instant::now() + PATIENCE;
        let pids = self.pids();
        let mut known = self.known.borrow_mut();
        known.retain(|pid| pids.contains(pid));
        let (mut asked, mut silent, mut told) = (Vec::new(), Vec::new(), Vec::new());
        for pid in pids {
            match self.connect(pid) {
                Ok(stream) => asked.push((pid, stream, String::new())),
                // Too many wait for its answer already. One that never gave one may be anybody's.
                Err(error)
                    if error.raw_os_error() == Some(libc::EAGAIN) && known.contains(&pid) =>
                {
                    silent.push(pid);
                }
                Err(_) => {} // It is gone, or another user's.
            }
        }
        while !asked.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let fds = asked.iter().map(|(_, stream, _)| stream.as_raw_fd());
            let fds: Vec<_> = std::iter::once(self.fd()).chain(fds).collect();
            if left.is_zero() || !wait(&fds, left.as_millis() as i32 + 1).iter().any(|&is| is) {
                break;
            }
            self.answer(shared);
            asked.retain_mut(|(pid, stream, line)| match stream.read_to_string(line) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => true,
                _ => {
                    if let Some(status) = Status::read(line) {
                        known.insert(*pid);
                        told.push(status);
                    }
                    false
                }
            });
        }
        silent.extend(asked.into_iter().map(|(pid, ..)| pid));
        told.extend(silent.into_iter().map(|pid| Status {
            pid,
            parent: 0,
            ok: false,
            live: true,
            reason: "the process does not answer: stopped, or without a core".to_owned(),
        }));
        told
    }

    fn pids(&self) -> Vec<u32> {
        let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let prefix = format!(" @{}", self.prefix);
        let own = std::process::id();
        let names = sockets
            .lines()
            .filter_map(|line| line.split_once(&prefix)?.1.parse().ok());
        // A listener's line comes again for each connection of it.
        let mut pids: Vec<_> = names.filter(|&pid| pid != own).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    fn connect(&self, pid: u32) -> Result<UnixStream> {
        let name = UnixAddr::from_abstract_name(format!("{}{pid}", self.prefix))?;
        let stream = connect(&name)?;
        // SAFETY: the kernel fills a local, and no arguments.
        let own = unsafe {
            let mut peer: libc::ucred = std::mem::zeroed();
            let mut length = size_of::<libc::ucred>() as libc::socklen_t;
            let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
            let (fd, peer_at) = (stream.as_raw_fd(), (&raw mut peer).cast());
            libc::getsockopt(fd, level, name, peer_at, &mut length) == 0
                && peer.uid == libc::getuid()
        };
        own.then_some(stream)
            .ok_or_else(|| Error::from_raw_os_error(libc::EPERM))
    }
}

/// A connection that does not block; `EAGAIN`: too many wait there already.
pub fn connect(name: &UnixAddr) -> Result<UnixStream> {
    let name = name.as_abstract_name().unwrap_or_default();
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the address is a local; the descriptor is new, and the stream's from here.
    unsafe {
        let mut at: libc::sockaddr_un = std::mem::zeroed();
        at.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (to, from) in at.sun_path[1..].iter_mut().zip(name) {
            *to = *from as libc::c_char;
        }
        let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
        let fd = libc::socket(libc::AF_UNIX, kind, 0);
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        let stream = UnixStream::from_raw_fd(fd);
        if libc::connect(fd, (&raw const at).cast(), length as libc::socklen_t) < 0 {
            return Err(Error::last_os_error());
        }
        Ok(stream)
    }
}

/// Which of these can be read, after at most so long.
pub fn wait(fds: &[RawFd], timeout_ms: c_int) -> Vec<bool> {
    let asked = fds.iter().map(|&fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    let mut asked: Vec<_> = asked.collect();
    // SAFETY: the array is a local.
    unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, timeout_ms) };
    asked.iter().map(|one| one.revents != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_backlog_blocks_nobody() {
        let name = format!("greenlane-test backlog {}", std::process::id());
        let name = UnixAddr::from_abstract_name(name).unwrap();
        let gone = connect(&name).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ECONNREFUSED));
        let listener = UnixListener::bind_addr(&name).unwrap();
        // SAFETY: an open descriptor, and a number.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let first = connect(&name).unwrap();
        let full = connect(&name).unwrap_err();
        assert_eq!(full.raw_os_error(), Some(libc::EAGAIN));
        let (mut accepted, _) = listener.accept().unwrap();
        accepted.write_all(b"fine").unwrap();
        drop(accepted);
        let mut line = String::new();
        (&first).read_to_string(&mut line).unwrap();
        assert_eq!(line, "fine");
    }
}
