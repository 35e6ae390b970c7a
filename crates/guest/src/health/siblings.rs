//! The other processes of a service: those that answer at the same address.
//!
//! Each has a socket in the abstract namespace, whose name begins with the address: it leaves no file, and goes with its
//! process. A process that connects is given a line.

use super::status::{Shared, Status};
use libc::c_int;
use std::fs;
use std::io::{Read, Result, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// A process that has not answered by then is said not to.
const PATIENCE: Duration = Duration::from_millis(30);

pub struct Siblings {
    prefix: String,
    pub name: UnixAddr,
    listener: UnixListener,
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
        let mut asked: Vec<_> = pids
            .filter_map(|pid| Some((pid, self.connect(pid)?, String::new())))
            .collect();
        let mut told = Vec::new();
        while !asked.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let fds = asked.iter().map(|(_, stream, _)| stream.as_raw_fd());
            let fds: Vec<_> = std::iter::once(self.fd()).chain(fds).collect();
            if left.is_zero() || !wait(&fds, left.as_millis() as i32 + 1).iter().any(|&is| is) {
                break;
            }
            self.answer(shared);
            asked.retain_mut(|(_, stream, line)| match stream.read_to_string(line) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => true,
                _ => {
                    told.extend(Status::read(line));
                    false
                }
            });
        }
        let silent = asked.into_iter().map(|(pid, ..)| Status {
            pid,
            parent: 0,
            ok: false,
            live: true,
            reason: "the process does not answer: stopped, or without a core".to_owned(),
        });
        told.extend(silent);
        told
    }

    fn pids(&self) -> impl Iterator<Item = u32> {
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
        pids.into_iter()
    }

    /// None: it is gone, or another user's.
    fn connect(&self, pid: u32) -> Option<UnixStream> {
        let name = UnixAddr::from_abstract_name(format!("{}{pid}", self.prefix)).ok()?;
        let stream = UnixStream::connect_addr(&name).ok()?;
        stream.set_nonblocking(true).ok()?;
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
