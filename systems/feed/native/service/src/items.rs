//! Packed records from the cluster.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use crc::{Crc, CRC_16_XMODEM};
use feed_core::asking::Asking;
use feed_core::layout::{BUCKETS, SLOTS};
use feed_core::resp::{self, Replies};

use crate::redis::Server;

/// One that has not said by then who has what hangs, perhaps: the next one is asked.
const LOCATED_WITHIN: Duration = Duration::from_millis(100);

/// What the shards answered.
pub struct Records {
    asking: Asking,
    shards: Vec<io::Result<Replies>>,
    /// As answers call the shards: their places in the site's file.
    names: Vec<usize>,
}

impl Records {
    /// The records in the order of the ids; None where the store has none or its shard did not answer.
    pub fn values(&self) -> Vec<Option<&[u8]>> {
        let replies: Vec<_> = self
            .shards
            .iter()
            .map(|shard| shard.as_ref().ok())
            .collect();
        self.asking.values(&replies)
    }

    /// Shards that did not answer: name, why, how many items were asked of it.
    pub fn lost(&self) -> impl Iterator<Item = (usize, &io::Error, usize)> {
        let shards = self.shards.iter().zip(&self.asking.counts).zip(&self.names);
        shards.filter_map(|((found, &count), &name)| Some((name, found.as_ref().err()?, count)))
    }
}

/// Which shard has which bucket.
struct Table {
    shards: Vec<Arc<Server>>,
    shard_of_bucket: [u8; BUCKETS],
    names: Vec<usize>,
}

pub struct Items {
    /// The masters of the site's file; the first that answers tells who has what.
    known: Vec<Arc<Server>>,
    /// None = to be asked for.
    table: Mutex<Option<Arc<Table>>>,
}

impl Items {
    pub fn new(ports: &[u16]) -> Self {
        Self {
            known: ports
                .iter()
                .map(|&port| Arc::new(Server::new(port)))
                .collect(),
            table: Mutex::default(),
        }
    }

    /// Asks all shards at once; who has not answered in time counts as failed. An error: nobody knows where items lie.
    pub async fn fetched(&self, ids: &[u32], until: tokio::time::Instant) -> io::Result<Records> {
        let table = within(until, self.located()).await?;
        let asking = Asking::new(ids, &table.shard_of_bucket, table.shards.len());
        let ask = |shard: usize| {
            let (server, bytes, count) = (
                &table.shards[shard],
                &asking.commands[shard],
                asking.counts[shard],
            );
            async move {
                if count == 0 {
                    return Ok(Replies::new(0));
                }
                within(until, server.ask(bytes, count)).await
            }
        };
        let shards = together((0..table.shards.len()).map(ask)).await;
        let has_moved = |error: &io::Error| error.to_string().contains("MOVED");
        if shards
            .iter()
            .flat_map(|shard| shard.as_ref().err())
            .any(has_moved)
        {
            // The next request asks again who has what.
            *self.table.lock().expect("no thread died with it") = None;
        }
        let names = table.names.clone();
        Ok(Records {
            asking,
            shards,
            names,
        })
    }

    async fn located(&self) -> io::Result<Arc<Table>> {
        if let Some(table) = &*self.table.lock().expect("no thread died with it") {
            return Ok(table.clone());
        }
        let mut nodes = Vec::new();
        resp::command(&mut nodes, &[b"CLUSTER", b"NODES"]);
        for server in &self.known {
            let until = tokio::time::Instant::now() + LOCATED_WITHIN;
            let Ok(replies) = within(until, server.ask(&nodes, 1)).await else {
                continue;
            };
            let text = String::from_utf8_lossy(replies.get(0).unwrap_or_default());
            if let Some(table) = self.read(&text) {
                let table = Arc::new(table);
                *self.table.lock().expect("no thread died with it") = Some(table.clone());
                return Ok(table);
            }
        }
        let ports: Vec<u16> = self.known.iter().map(|server| server.port()).collect();
        Err(io::Error::other(format!(
            "asking for the cluster's slots: ports={ports:?}, expected one that answers"
        )))
    }

    /// The answer to CLUSTER NODES; None when some bucket lies nowhere.
    fn read(&self, nodes: &str) -> Option<Table> {
        let owners: Vec<(u16, u16, u16)> = nodes.lines().flat_map(ranges).collect();
        let mut table = Table {
            shards: Vec::new(),
            shard_of_bucket: [0; BUCKETS],
            names: Vec::new(),
        };
        for (bucket, shard_of) in table.shard_of_bucket.iter_mut().enumerate() {
            let slot = slot_of(bucket);
            let owner = owners
                .iter()
                .find(|owner| (owner.1..=owner.2).contains(&slot));
            let port = owner?.0;
            let known = table.shards.iter().position(|shard| shard.port() == port);
            *shard_of = known.unwrap_or_else(|| {
                let name = self.known.iter().position(|server| server.port() == port);
                table.names.push(name.unwrap_or(usize::from(port)));
                // Connections of one that is known already are kept.
                let server = name.map(|name| self.known[name].clone());
                table
                    .shards
                    .push(server.unwrap_or_else(|| Arc::new(Server::new(port))));
                table.shards.len() - 1
            }) as u8;
        }
        Some(table)
    }
}

/// Port, first and last slot of each range of one node: "id 127.0.0.1:7000@17000 master - 0 0 1 connected 0-5460 5462".
fn ranges(node: &str) -> Vec<(u16, u16, u16)> {
    let words: Vec<&str> = node.split(' ').collect();
    let address = words.get(1).and_then(|word| word.split(['@', ',']).next());
    let port = address.and_then(|word| word.rsplit_once(':')?.1.parse().ok());
    let is_master = words
        .get(2)
        .is_some_and(|flags| flags.split(',').any(|flag| flag == "master"));
    let (Some(port), true) = (port, is_master) else {
        return Vec::new();
    };
    // Slots that are about to move stand in brackets, which are no numbers.
    let range = |word: &&str| {
        let (low, high) = word.split_once('-').unwrap_or((word, word));
        Some((port, low.parse().ok()?, high.parse().ok()?))
    };
    words.iter().skip(8).filter_map(range).collect()
}

fn slot_of(bucket: usize) -> u16 {
    Crc::<u16>::new(&CRC_16_XMODEM).checksum(bucket.to_string().as_bytes()) % SLOTS as u16
}

async fn within<T>(
    until: tokio::time::Instant,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let answer = tokio::time::timeout_at(until, work).await;
    answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// What all of them give, driven by one task.
async fn together<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut waiting: Vec<Pin<Box<_>>> = all.map(Box::pin).collect();
    let mut found: Vec<Option<T>> = waiting.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, found) in waiting.iter_mut().zip(&mut found) {
            if found.is_none() {
                if let Poll::Ready(value) = future.as_mut().poll(context) {
                    *found = Some(value);
                }
            }
        }
        match found.iter().all(Option::is_some) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    found.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
        aa 127.0.0.1:7000@17000,host myself,master - 0 0 1 connected 0-9000 [93->-bb]\n\
        bb 127.0.0.1:7001@17001 master - 0 1 2 connected 9001 9002-16383\n\
        cc 127.0.0.1:7002@17002 slave bb 0 1 2 connected\n";

    #[test]
    fn buckets_lie_where_the_cluster_says_however_it_is_shared_out() {
        let items = Items::new(&[7005, 7001]);
        let table = items.read(NODES).expect("all slots are there");
        for bucket in 0..BUCKETS {
            let shard = usize::from(table.shard_of_bucket[bucket]);
            let wanted = if slot_of(bucket) <= 9000 { 7000 } else { 7001 };
            assert_eq!(table.shards[shard].port(), wanted);
            // One that the site's file does not know is called by its port.
            assert_eq!(table.names[shard], if wanted == 7001 { 1 } else { 7000 });
        }
    }

    #[test]
    fn a_table_with_a_hole_is_none() {
        let items = Items::new(&[7000]);
        assert!(items.read(NODES.lines().next().expect("a line")).is_none());
        assert!(items.read("").is_none());
    }
}
