//! The HTTP server: one thread, some connections at a time, a short answer each.
//!
//! Its sockets are in a table of descriptors of its own: the program cannot close them, and its forked children do not
//! have them. All processes of a service listen at one address (`SO_REUSEPORT`): one that ends leaves it to the others.

use super::siblings::{wait, Siblings};
use super::status::{answer, Shared};
use greenlane_process::descriptors;
use libc::c_int;
use std::io::{Error, Read, Result, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::SocketAddr as UnixAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// For a client to say what it wants.
const PATIENCE: Duration = Duration::from_secs(1);
/// Of them at a time; over that, the oldest goes.
const MOST: usize = 64;
const HEAD_BYTES: usize = 4096;
/// How often clients that say nothing are looked at.
const TURN_MS: c_int = 100;

pub struct Server {
    listener: TcpListener,
    siblings: Siblings,
}

struct Client {
    stream: TcpStream,
    head: Vec<u8>,
    until: Instant,
}

impl Server {
    /// Its sockets are the calling thread's alone: a program that closes others' would have the thread answer on its own.
    pub fn new(address: SocketAddr) -> Result<Self> {
        if !descriptors::unshare_descriptors() {
            let needs = "a thread has no descriptors of its own: that takes Linux 5.9, and a filter that allows unshare and close_range";
            return Err(Error::other(needs));
        }
        let listener = listen(address)?;
        let siblings = Siblings::new(listener.local_addr()?)?;
        Ok(Self { listener, siblings })
    }

    pub fn answer_until_over(self, shared: &Shared) {
        let mut clients: Vec<Client> = Vec::new();
        while !shared.over.load(Ordering::Acquire) {
            let own = [self.listener.as_raw_fd(), self.siblings.fd()];
            let theirs = clients.iter().map(|client| client.stream.as_raw_fd());
            let fds: Vec<_> = own.into_iter().chain(theirs).collect();
            let ready = wait(&fds, if clients.is_empty() { -1 } else { TURN_MS });
            let now = Instant::now();
            let mut ready_clients = ready[2..].iter();
            clients.retain_mut(|client| {
                let is_ready = *ready_clients.next().unwrap_or(&false);
                client.until > now && (!is_ready || client.read(|live| self.answer(shared, live)))
            });
            if ready[1] {
                self.siblings.answer(shared);
            }
            if ready[0] {
                self.accept(&mut clients, now);
            }
        }
        drop(self);
        shared.ended.store(true, Ordering::Release);
    }

    /// Where a connection wakes it, so that it looks whether it is over.
    pub fn bell(&self) -> UnixAddr {
        self.siblings.name.clone()
    }

    fn answer(&self, shared: &Shared, live: bool) -> String {
        let mut all = self.siblings.ask(shared);
        all.push(shared.status());
        let (ok, body) = answer(all, live);
        let status = if ok {
            "200 OK"
        } else {
            "503 Service Unavailable"
        };
        let length = body.len() + 1;
        let head = "Content-Type: application/json\r\nCache-Control: no-store\r\nConnection: close";
        format!("HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}\n")
    }

    fn accept(&self, clients: &mut Vec<Client>, now: Instant) {
        match self.listener.accept() {
            Ok((stream, _)) => {
                if clients.len() == MOST {
                    clients.remove(0);
                }
                let _ = stream.set_nonblocking(true);
                let (head, until) = (Vec::new(), now + PATIENCE);
                clients.push(Client {
                    stream,
                    head,
                    until,
                });
            }
            // No descriptors left: do not spin.
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(_) => {}
        }
    }
}

impl Client {
    /// Reads on, and answers a head that is whole. False: the connection is over.
    fn read(&mut self, answer: impl FnOnce(bool) -> String) -> bool {
        let mut piece = [0; HEAD_BYTES];
        match self.stream.read(&mut piece) {
            Ok(0) => return false,
            Ok(count) => self.head.extend_from_slice(&piece[..count]),
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
        if self.head.len() > HEAD_BYTES {
            return false;
        }
        if !self.head.windows(4).any(|four| four == b"\r\n\r\n") {
            return true;
        }
        let mut words = self.head.split(|&byte| byte == b' ');
        let (head_only, path) = (
            words.next() == Some(b"HEAD"),
            words.next().unwrap_or_default(),
        );
        let mut answer = answer(path.starts_with(b"/live"));
        if head_only {
            let end = answer.find("\r\n\r\n").map_or(answer.len(), |at| at + 4);
            answer.truncate(end);
        }
        let _ = self.stream.write_all(answer.as_bytes());
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        false
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the addresses are locals; the descriptor is new, and owned from here.
    unsafe {
        let fd = libc::socket(family, kind, 0);
        checked(fd)?;
        let socket = OwnedFd::from_raw_fd(fd);
        let yes: c_int = 1;
        for name in [libc::SO_REUSEADDR, libc::SO_REUSEPORT] {
            let length = size_of::<c_int>() as libc::socklen_t;
            checked(libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                name,
                (&raw const yes).cast(),
                length,
            ))?;
        }
        let bound = match address {
            SocketAddr::V4(address) => {
                let mut at: libc::sockaddr_in = std::mem::zeroed();
                at.sin_family = libc::AF_INET as libc::sa_family_t;
                at.sin_port = address.port().to_be();
                at.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
                let length = size_of_val(&at) as libc::socklen_t;
                libc::bind(fd, (&raw const at).cast(), length)
            }
            SocketAddr::V6(address) => {
                let mut at: libc::sockaddr_in6 = std::mem::zeroed();
                at.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                at.sin6_port = address.port().to_be();
                at.sin6_addr.s6_addr = address.ip().octets();
                at.sin6_scope_id = address.scope_id();
                let length = size_of_val(&at) as libc::socklen_t;
                libc::bind(fd, (&raw const at).cast(), length)
            }
        };
        checked(bound)?;
        checked(libc::listen(fd, 64))?;
        Ok(TcpListener::from(socket))
    }
}

fn checked(result: c_int) -> Result<()> {
    if result < 0 {
        return Err(Error::last_os_error());
    }
    Ok(())
}
