//! A Redis client with as much as the feed needs: commands written in one go, replies read into one buffer.

use std::io;
use std::sync::Mutex;

use feed_core::resp::Replies;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Connections to one server. A request has one for itself; one whose request was given up is closed, never used again.
pub struct Server {
    port: u16,
    idle: Mutex<Vec<TcpStream>>,
}

impl Server {
    pub fn new(port: u16) -> Self {
        Self {
            port,
            idle: Mutex::default(),
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends `commands` and waits for `expected` replies; nested ones (of MGET) count as their parts.
    pub async fn ask(&self, commands: &[u8], expected: usize) -> io::Result<Replies> {
        let idle = self.idle.lock().expect("no thread died with it").pop();
        let (mut stream, is_new) = match idle {
            Some(stream) => (stream, false),
            None => (connected(self.port).await?, true),
        };
        match exchanged(&mut stream, commands, expected).await {
            Err(error) if !is_new && error.kind() != io::ErrorKind::InvalidData => {
                // The server was restarted meanwhile: what is idle is of its life before.
                self.idle.lock().expect("no thread died with it").clear();
                stream = connected(self.port).await?;
                let replies = exchanged(&mut stream, commands, expected).await?;
                self.idle
                    .lock()
                    .expect("no thread died with it")
                    .push(stream);
                Ok(replies)
            }
            Err(error) => Err(error),
            Ok(replies) => {
                self.idle
                    .lock()
                    .expect("no thread died with it")
                    .push(stream);
                Ok(replies)
            }
        }
    }
}

async fn connected(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn exchanged(
    stream: &mut TcpStream,
    commands: &[u8],
    expected: usize,
) -> io::Result<Replies> {
    stream.write_all(commands).await?;
    let mut replies = Replies::new(expected);
    loop {
        if stream.read_buf(replies.buffer()).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if replies
            .read()
            .map_err(|refused| io::Error::new(io::ErrorKind::InvalidData, refused))?
        {
            return Ok(replies);
        }
    }
}
