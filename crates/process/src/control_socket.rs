//! A Unix socket that our threads answer: one line in, one out, one connection after the other.
//!
//! One thread listens, in a table of descriptors of its own: the program cannot close the socket, and its forked children
//! do not have it. Where the kernel gives no such table, the socket is given up once the program has closed it. Another
//! thread answers: code of the program may run there (a collection of garbage, for one), and needs the program's table.

use crate::descriptors::{self, Identity};
use crate::{our_threads, signals};
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

/// How long one connection may hold the thread. A foreign client does not keep the others out.
const CONNECTION: Duration = Duration::from_secs(1);
/// After a failing accept (no descriptors left): try again, do not spin.
const PAUSE_MS: c_int = 500;
/// Longer than a conversation.
const PATIENCE: Duration = Duration::from_secs(3);
/// Wakes the thread, which has it blocked, and nobody else.
const WAKE: c_int = libc::SIGURG;

/// Answers a line of at most this many bytes; None: it was longer.
pub trait Answer: FnMut(Option<&[u8]>) -> Vec<u8> + Send + 'static {}
impl<T: FnMut(Option<&[u8]>) -> Vec<u8> + Send + 'static> Answer for T {}

/// A socket that is served, by threads of the process that made it.
pub struct Serving {
    pid: u32,
    shared: Arc<SharedServer>,
}

#[derive(Default)]
struct SharedServer {
    state: Mutex<ServerState>,
    ended: Condvar,
}

#[derive(Default)]
struct ServerState {
    /// Who listens, while it may be sent a signal.
    listens: Option<libc::pid_t>,
    answers: Option<libc::pid_t>,
    stops: bool,
    /// Stops listening and answering.
    over: bool,
}

/// A line for the thread that answers, and where it gives what it says.
type Question = (Option<Vec<u8>>, mpsc::SyncSender<Vec<u8>>);

/// Makes the socket at `path`, for its owner alone, and answers there until [`Serving::stop`]. Another file at `path` is
/// replaced.
pub fn serve(path: &Path, longest: usize, mut answer: impl Answer) -> Result<Serving> {
    let shared = Arc::<SharedServer>::default();
    let (report, reported) = mpsc::sync_channel(1);
    let (ask, asked) = mpsc::sync_channel::<Question>(0);
    let (path, listening) = (path.to_owned(), Arc::clone(&shared));
    start(move || {
        descriptors::unshare_descriptors();
        match Listener::new(path) {
            Ok(listener) => {
                listening.state().listens = Some(this_thread());
                let _ = report.send(Ok(()));
                listener.listen_until(&listening, longest, &ask);
            }
            Err(error) => drop(report.send(Err(error))),
        }
        listening.state().listens = None;
    })?;
    let made = reported.recv();
    made.unwrap_or_else(|_| Err(ErrorKind::Other.into()))?;
    let pid = std::process::id();
    let serving = Serving { pid, shared };
    let answering = Arc::clone(&serving.shared);
    let started = start(move || {
        answering.state().answers = Some(this_thread());
        for (line, told) in asked {
            let _ = told.send(answer(line.as_deref()));
        }
        // What it holds goes before anybody hears that this is over.
        drop(answer);
        answering.state().over = true;
        answering.ended.notify_all();
    });
    if started.is_err() {
        serving.shared.state().over = true;
        serving.stop();
    }
    started.map(|()| serving)
}

fn start(run: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().name("greenlane-control".to_owned());
    let run = || {
        our_threads::mark();
        run();
    };
    signals::with_all_blocked(|| thread.spawn(run)).map(drop)
}

fn this_thread() -> libc::pid_t {
    // SAFETY: no arguments, no failure.
    unsafe { libc::gettid() }
}

impl SharedServer {
    fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Serving {
    /// Whether the calling process made it, and not its parent.
    pub fn is_own(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Ends the threads, and removes the socket's file if it is still that; waits for an answer that is under way, at
    /// most some seconds. In a forked child nothing happens.
    pub fn stop(&self) {
        if !self.is_own() {
            return;
        }
        let mut state = self.shared.state();
        state.stops = true;
        if let Some(thread) = state.listens {
            // SAFETY: the thread lives as long as it stands there, and has blocked the signal.
            unsafe { libc::syscall(libc::SYS_tgkill, self.pid, thread, WAKE) };
        }
        if state.answers == Some(this_thread()) {
            return; // An answer ends its own socket.
        }
        let waited = self
            .shared
            .ended
            .wait_timeout_while(state, PATIENCE, |state| !state.over);
        drop(waited);
    }
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
                own(libc::socket(libc::AF_UNIX, kind, 0))?,
                own(libc::signalfd(-1, &wakes, flags))?,
            )
        };
        bind(&socket, private)?;
        // Before it listens: until then connections are refused, so there is no moment at which others come in.
        fs::set_permissions(private, Permissions::from_mode(0o600))?;
        // SAFETY: the socket is ours.
        check(unsafe { libc::listen(socket.as_raw_fd(), 8) })?;
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

    fn listen_until(self, shared: &SharedServer, longest: usize, ask: &mpsc::SyncSender<Question>) {
        while !shared.state().stops && self.is_ours() {
            if !wait(
                &[self.woken.as_raw_fd(), self.socket.as_raw_fd()],
                libc::POLLIN,
                -1,
            ) {
                continue;
            }
            if shared.state().stops || !self.is_ours() {
                break;
            }
            match self.accept() {
                // A client that fails is gone.
                Ok(connection) => drop(converse(connection, longest, ask)),
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
        own(accepted).map(UnixStream::from)
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
        check(libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            length,
        ))
    }
}

/// Reads a line, or what comes before the end, and writes what is answered.
fn converse(
    mut connection: UnixStream,
    longest: usize,
    ask: &mpsc::SyncSender<Question>,
) -> Result<()> {
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
    if ended == Some(0) {
        return Ok(());
    }
    let line = ended.map(|end| line[..end].to_vec());
    let (told, answered) = mpsc::sync_channel(1);
    let gone = |_| Error::from(ErrorKind::Other);
    ask.send((line, told)).map_err(|_| ErrorKind::Other)?;
    let answered = answered.recv().map_err(gone)?;
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

fn own(fd: RawFd) -> Result<OwnedFd> {
    check(fd)?;
    // SAFETY: the caller has just got it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(result: c_int) -> Result<()> {
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
