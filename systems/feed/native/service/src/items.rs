//! Packed records from the cluster.

use std::io;

use crc::{Crc, CRC_16_XMODEM};
use feed_core::asking::Asking;
use feed_core::layout::{BUCKETS, SHARDS, SLOTS};
use feed_core::resp::Replies;

use crate::redis::Server;

/// What the shards answered.
pub struct Records {
    asking: Asking,
    shards: [io::Result<Replies>; SHARDS],
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

    /// Shards that did not answer: number, why, how many items were asked of it.
    pub fn lost(&self) -> impl Iterator<Item = (usize, &io::Error, usize)> {
        let shards = self.shards.iter().zip(&self.asking.counts).enumerate();
        shards.filter_map(|(shard, (found, &count))| Some((shard, found.as_ref().err()?, count)))
    }
}

pub struct Items {
    shards: Vec<Server>,
    /// Shard of each bucket: slots are shared out evenly, as stores/slots.py does.
    shard_of_bucket: [u8; BUCKETS],
}

impl Items {
    pub fn new(ports: &[u16]) -> Self {
        let shard = |bucket: usize| {
            let slot = usize::from(
                Crc::<u16>::new(&CRC_16_XMODEM).checksum(bucket.to_string().as_bytes()),
            ) % SLOTS;
            (0..SHARDS)
                .rev()
                .find(|shard| slot >= SLOTS * shard / SHARDS)
                .expect("the first begins at 0") as u8
        };
        Self {
            shards: ports.iter().map(|&port| Server::new(port)).collect(),
            shard_of_bucket: std::array::from_fn(shard),
        }
    }

    /// Asks all shards at once; who has not answered in time counts as failed.
    pub async fn fetched(&self, ids: &[u32], until: tokio::time::Instant) -> Records {
        let asking = Asking::new(ids, &self.shard_of_bucket, SHARDS);
        let ask = |shard: usize| {
            let (server, bytes, count) = (
                &self.shards[shard],
                &asking.commands[shard],
                asking.counts[shard],
            );
            async move {
                if count == 0 {
                    return Ok(Replies::new(0));
                }
                let answer = tokio::time::timeout_at(until, server.ask(bytes, count)).await;
                answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            }
        };
        let (first, second, third) = tokio::join!(ask(0), ask(1), ask(2));
        Records {
            shards: [first, second, third],
            asking,
        }
    }
}
