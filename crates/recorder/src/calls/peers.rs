//! Which accepted connection is from a peer: for servers that tell an application the peer's address, and hand its
//! requests over in native code (granian).

use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use std::mem::zeroed;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};

/// The descriptor of the last connection that was accepted from each port; 0 = none.
static BY_PORT: [AtomicU16; 1 << 16] = [const { AtomicU16::new(0) }; 1 << 16];

/// `fd` was accepted, from the address that `accept` has written to `from`, if it was asked for it.
///
/// # Safety
/// `from` is null or an address of its family's size.
pub unsafe fn note_peer(fd: c_int, from: *const sockaddr) {
    // SAFETY: the caller says so.
    let peer = if from.is_null() {
        None
    } else {
        unsafe { address_in(from) }
    };
    if let (Some(peer), Ok(fd)) = (peer, u16::try_from(fd)) {
        BY_PORT[usize::from(peer.port())].store(fd, Ordering::Relaxed);
    }
}

/// `fd` was accepted before anybody looked.
pub fn forget_peer(fd: c_int) {
    if let (Some(peer), Ok(fd)) = (peer_of(fd), u16::try_from(fd)) {
        BY_PORT[usize::from(peer.port())].store(fd, Ordering::Relaxed);
    }
}

/// The descriptor of the connection from `peer`; None = unknown, or a later one of another machine had the same port.
///
/// Cost: a system call.
pub fn connection_from(peer: SocketAddr) -> Option<c_int> {
    let fd = match BY_PORT[usize::from(peer.port())].load(Ordering::Relaxed) {
        0 => return None,
        fd => c_int::from(fd),
    };
    let found = peer_of(fd)?;
    (found.port() == peer.port() && found.ip().to_canonical() == peer.ip().to_canonical())
        .then_some(fd)
}

fn peer_of(fd: c_int) -> Option<SocketAddr> {
    // SAFETY: plain numbers, for which zero is valid; the kernel writes at most `length` bytes.
    unsafe {
        let mut address: sockaddr_storage = zeroed();
        let mut length = size_of_val(&address) as socklen_t;
        let failed = libc::getpeername(fd, (&raw mut address).cast(), &mut length);
        if failed == 0 {
            address_in((&raw const address).cast())
        } else {
            None
        }
    }
}

/// # Safety
/// As `accepted`, not null.
unsafe fn address_in(address: *const sockaddr) -> Option<SocketAddr> {
    // SAFETY: the caller says so; each family has its own layout.
    unsafe {
        match c_int::from((*address).sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)))
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                Some(SocketAddr::new(IpAddr::V6(ip), u16::from_be(v6.sin6_port)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_peer_has_its_own_connection_as_long_as_it_is_open() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, peer) = listener.accept().unwrap();
        assert_eq!(connection_from(peer), None);
        forget_peer(server.as_raw_fd());
        assert_eq!(connection_from(peer), Some(server.as_raw_fd()));
        let elsewhere = SocketAddr::new("10.0.0.1".parse().unwrap(), peer.port());
        assert_eq!(connection_from(elsewhere), None);
        let mapped = SocketAddr::new("::ffff:127.0.0.1".parse().unwrap(), peer.port());
        assert_eq!(connection_from(mapped), Some(server.as_raw_fd()));
        drop((server, client));
        assert_eq!(connection_from(peer), None);
    }
}
