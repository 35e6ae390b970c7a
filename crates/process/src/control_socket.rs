//! A Unix socket that a thread of ours answers: one line in, one out, one connection after the other.
//!
//! The thread makes the socket in a table of descriptors of its own: the program cannot close it, and its forked
//! children do not have it. Where the kernel gives no such table, the socket is given up once the program has closed it.

use crate::descriptors::{self, Identity};
use crate::signals;
use libc::{c_int, c_short};
use std::ffi::CString;
use std::fs::{self, Permissions};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{mpsc, Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long one connection may hold the thread. A client that is no program of ours does not keep the others out.
const CONNECTION: Duration = Duration::from_secs(1);
/// After a failing accept (no descriptors left): try again, do not spin.
const PAUSE_MS: c_int = 500;
/// Longer than a conversation.
const PATIENCE: Duration = Duration::from_secs(3);
/// Wakes the thread, which has it blocked, and nobody else.
const WAKE: c_int = libc::SIGURG;

/// Answers a line of at most so many bytes; None: it was longer.
pub trait Answer: FnMut(Option<&[u8]>) -> Vec<u8> + Send + 'static {}
impl<T: FnMut(Option<&[u8]>) -> Vec<u8> + Send + 'static> Answer for T {}

/// A socket that is served, by a thread of the process that made it.
pub struct Serving {
    pid: u32,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    /// The thread, while it may be sent a signal.
    thread: Option<libc::pid_t>,
    stops: bool,
}

/// Makes the socket at `path`, for its owner alone, and answers there until [`Serving::stop`]. Another file at `path` is
/// replaced.
pub fn serve(path: &Path, longest: usize, answer: impl Answer) -> Result<Serving> {
    let state = Arc::<(Mutex<State>, Condvar)>::default();
    let (report, reported) = mpsc::sync_channel(1);
    let (path, shared) = (path.to_owned(), Arc::clone(&state));
    signals::with_all_blocked(|| {
        std::thread::Builder::new()
            .name("greenlane-control".to_owned())
            .spawn(move || {
                descriptors::take_own_table();
                match Listener::new(path) {
                    Ok(listener) => {
                        // SAFETY: no arguments, no failure.
                        locked(&shared.0).thread = Some(unsafe { libc::gettid() });
                        let _ = report.send(Ok(()));
                        listener.answer_until(&shared.0, longest, answer);
                    }
                    Err(error) => drop(report.send(Err(error))),
                }
                locked(&shared.0).thread = None;
                shared.1.notify_all();
            })
    })?;
    reported
        .recv()
        .unwrap_or_else(|_| Err(ErrorKind::Other.into()))?;
    let pid = std::process::id();
    Ok(Serving { pid, state })
}

impl Serving {
    /// Whether the calling process made it, and not its parent.
    pub fn is_own(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Ends the thread, which removes the socket's file if it is still that; waits for it, at most some seconds. In a
    /// forked child nothing happens.
    pub fn stop(&self) {
        if !self.is_own() {
            return;
        }
        let mut state = locked(&self.state.0);
        state.stops = true;
        // SAFETY: no arguments, no failure.
        if state.thread == Some(unsafe { libc::gettid() }) {
            return; // An answer ends its own socket.
        }
        if let Some(thread) = state.thread {
            // SAFETY: the thread lives as long as it stands there, and has blocked the signal.
            unsafe { libc::syscall(libc::SYS_tgkill, self.pid, thread, WAKE) };
        }
        let waited = self
            .state
            .1
            .wait_timeout_while(state, PATIENCE, |state| state.thread.is_some());
        drop(waited);
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Listener {
    socket: OwnedFd,
    /// Readable when this thread is to look whether it stops.
    woken: OwnedFd,
    identity: Option<Identity>,
    path: PathBuf,
    inode: u64,
}

impl Listener {
    fn new(path: PathBuf) -> Result<Self> {
        // As long as the name in place, so it fits as well.
        let private = path.with_file_name(format!(".{}.new", std::process::id()));
        let made = Self::make(&private, path);
        if made.is_err() {
            let _ = fs::remove_file(private);
        }
        made
    }

    fn make(private: &Path, path: PathBuf) -> Result<Self> {
        let _ = fs::remove_file(private);
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: the set is a local; the descriptors are new.
        let (socket, woken) = unsafe {
            let mut wakes = std::mem::zeroed();
            libc::sigemptyset(&mut wakes);
            libc::sigaddset(&mut wakes, WAKE);
            let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
            (
                owned(libc::socket(libc::AF_UNIX, kind, 0))?,
                owned(libc::signalfd(-1, &wakes, flags))?,
            )
        };
        bind(&socket, private)?;
        // Before it listens: until then whoever connects is refused, so there is no moment at which others come in.
        fs::set_permissions(private, Permissions::from_mode(0o600))?;
        // SAFETY: the socket is ours.
        checked(unsafe { libc::listen(socket.as_raw_fd(), 8) })?;
        let inode = fs::symlink_metadata(private)?.ino();
        fs::rename(private, &path)?;
        let identity = Identity::behind(socket.as_raw_fd());
        Ok(Self {
            socket,
            woken,
            identity,
            path,
            inode,
        })
    }

    fn answer_until(self, state: &Mutex<State>, longest: usize, mut answer: impl Answer) {
        while !locked(state).stops && self.is_ours() {
            if !wait(
                &[self.woken.as_raw_fd(), self.socket.as_raw_fd()],
                libc::POLLIN,
                -1,
            ) {
                continue;
            }
            if locked(state).stops || !self.is_ours() {
                break;
            }
            match self.accept() {
                // A client that fails is gone.
                Ok(connection) => drop(converse(connection, longest, &mut answer)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => drop(wait(&[self.woken.as_raw_fd()], libc::POLLIN, PAUSE_MS)),
            }
        }
        if fs::symlink_metadata(&self.path).is_ok_and(|about| about.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
        if !self.is_ours() {
            // The numbers are the program's.
            std::mem::forget((self.socket, self.woken));
        }
    }

    fn is_ours(&self) -> bool {
        Identity::behind(self.socket.as_raw_fd()) == self.identity
    }

    fn accept(&self) -> Result<UnixStream> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let fd = self.socket.as_raw_fd();
        // SAFETY: whose address it is is not asked for.
        let accepted = unsafe { libc::accept4(fd, ptr::null_mut(), ptr::null_mut(), flags) };
        owned(accepted).map(UnixStream::from)
    }
}

fn bind(socket: &OwnedFd, path: &Path) -> Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let bytes = name.as_bytes_with_nul();
    // SAFETY: the address is a local, and the name fits into it.
    unsafe {
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        if bytes.len() > address.sun_path.len() {
            return Err(Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        ptr::copy_nonoverlapping(
            bytes.as_ptr().cast(),
            address.sun_path.as_mut_ptr(),
            bytes.len(),
        );
        let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        checked(libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            length,
        ))
    }
}

/// Reads a line, or what comes before the end, and writes what is answered.
fn converse(mut connection: UnixStream, longest: usize, answer: &mut impl Answer) -> Result<()> {
    let until = Instant::now() + CONNECTION;
    let mut line = Vec::new();
    let mut piece = [0; 8192];
    let ended = loop {
        within(&connection, libc::POLLIN, until)?;
        let count = match connection.read(&mut piece) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        line.extend_from_slice(&piece[..count]);
        if line.len() > longest {
            break None;
        }
        if let Some(end) = line.iter().position(|&byte| byte == b'\n') {
            break Some(end);
        }
        if count == 0 {
            break Some(line.len());
        }
    };
    let answered = match ended {
        Some(0) => return Ok(()),
        Some(end) => answer(Some(&line[..end])),
        None => answer(None),
    };
    let until = Instant::now() + CONNECTION;
    let mut left = &answered[..];
    while !left.is_empty() {
        within(&connection, libc::POLLOUT, until)?;
        match connection.write(left) {
            Ok(count) => left = &left[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn within(connection: &UnixStream, events: c_short, until: Instant) -> Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    if !left.is_zero()
        && wait(
            &[connection.as_raw_fd()],
            events,
            left.as_millis() as c_int + 1,
        )
    {
        return Ok(());
    }
    Err(ErrorKind::TimedOut.into())
}

/// Whether one of these has something by then.
fn wait(fds: &[RawFd], events: c_short, timeout_ms: c_int) -> bool {
    let mut asked: Vec<_> = fds
        .iter()
        .map(|&fd| libc::pollfd {
            fd,
            events,
            revents: 0,
        })
        .collect();
    // SAFETY: the array is a local.
    unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, timeout_ms) > 0 }
}

fn owned(fd: RawFd) -> Result<OwnedFd> {
    checked(fd)?;
    // SAFETY: the caller has just got it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn checked(result: c_int) -> Result<()> {
    if result < 0 {
        return Err(Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_answers_and_leaves_nothing() {
        let folder = std::env::temp_dir().join(format!("greenlane-control-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("1.sock");
        for _ in 0..2 {
            let served = serve(&path, 10, |line| line.unwrap_or(b"too long").to_vec()).unwrap();
            for (said, answered) in [
                ("hello\n", "hello"),
                ("a long sentence\n", "too long"),
                ("\n", ""),
            ] {
                let mut client = UnixStream::connect(&path).unwrap();
                client.write_all(said.as_bytes()).unwrap();
                let mut found = String::new();
                client.read_to_string(&mut found).unwrap();
                assert_eq!(found, answered);
            }
            served.stop();
            served.stop();
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        }
        assert!(serve(&folder.join("absent/1.sock"), 10, |_| Vec::new()).is_err());
        fs::remove_dir(folder).unwrap();
    }
}
