//! Addresses, and connections to them that never block.

use rustix::io::Errno;
use rustix::net::{
    connect, socket_with, sockopt, AddressFamily, SocketAddrUnix, SocketFlags, SocketType,
};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(SocketAddrUnix),
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connected {
    /// It is there, or will be: a send tells.
    Begun,
    /// A Unix listener's backlog is full. Where a blocking client would sleep the kernel tells nobody when there is room:
    /// it has to be asked again.
    Full,
}

impl Address {
    /// Of "host:port" or "unix:/path". A host's name is looked up, once, and may block.
    pub fn parse(text: &str) -> Result<Self, std::io::Error> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(SocketAddrUnix::new(path)?));
        }
        text.to_socket_addrs()?
            .next()
            .map(Self::Tcp)
            .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::AddrNotAvailable))
    }

    /// A socket for it.
    pub fn socket(&self) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = socket_with(self.family(), SocketType::STREAM, flags, None)?;
        if let Self::Tcp(_) = self {
            sockopt::set_tcp_nodelay(&fd, true)?;
        }
        Ok(fd)
    }

    /// Begins to connect; `Full` may be asked again with the same socket.
    pub fn connect(&self, fd: &OwnedFd) -> Result<Connected, Errno> {
        let begun = match self {
            Self::Tcp(address) => connect(fd, address),
            Self::Unix(address) => connect(fd, address),
        };
        match begun {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(Connected::Begun),
            // For TCP it means that no local port is left, not that somebody should wait.
            Err(Errno::AGAIN) if matches!(self, Self::Unix(_)) => Ok(Connected::Full),
            Err(Errno::AGAIN) => Err(Errno::ADDRNOTAVAIL),
            Err(error) => Err(error),
        }
    }

    fn family(&self) -> AddressFamily {
        match self {
            Self::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Self::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
            Self::Unix(_) => AddressFamily::UNIX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_with_a_port_or_a_path() {
        let Ok(Address::Tcp(address)) = Address::parse("127.0.0.1:80") else {
            panic!("not TCP")
        };
        assert_eq!(address.port(), 80);
        assert!(matches!(
            Address::parse("[::1]:80"),
            Ok(Address::Tcp(SocketAddr::V6(_)))
        ));
        assert!(matches!(
            Address::parse("unix:/run/it"),
            Ok(Address::Unix(_))
        ));
        assert!(Address::parse("127.0.0.1").is_err());
        assert!(Address::parse(&format!("unix:/{}", "x".repeat(200))).is_err());
    }
}
