//! Packed records from the cluster: keys of a bucket in one MGET, all of a shard's in one write.

use std::io;

use crc::{Crc, CRC_16_XMODEM};
use feed_core::layout::{BUCKETS, SHARDS, SLOTS};

use crate::redis::{self, Replies, Server};

/// What the shards answered, and how the values lie in it.
pub struct Records {
    shards: Vec<io::Result<Replies>>,
    /// Of each id: its shard, its place among that shard's replies.
    places: Vec<(u8, u32)>,
    /// Ids asked of each shard.
    asked: [usize; SHARDS],
}

impl Records {
    /// The records in the order of the ids; None where the store has none or its shard did not answer.
    pub fn values(&self) -> Vec<Option<&[u8]>> {
        let value = |&(shard, place): &(u8, u32)| match &self.shards[usize::from(shard)] {
            Ok(replies) => replies.get(place as usize),
            Err(_) => None,
        };
        self.places.iter().map(value).collect()
    }

    /// Shards that did not answer: number, why, how many items were asked of it.
    pub fn lost(&self) -> impl Iterator<Item = (usize, &io::Error, usize)> {
        let failed =
            |(shard, found): (usize, &'_ io::Result<Replies>)| found.as_ref().err().map(|_| shard);
        let lost: Vec<usize> = self.shards.iter().enumerate().filter_map(failed).collect();
        lost.into_iter().filter_map(|shard| {
            Some((shard, self.shards[shard].as_ref().err()?, self.asked[shard]))
        })
    }
}

/// The commands for each shard.
struct Commands {
    bytes: [Vec<u8>; SHARDS],
    asked: [usize; SHARDS],
    places: Vec<(u8, u32)>,
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
        let commands = self.commands(ids);
        let ask = |shard: usize| {
            let (server, bytes, asked) = (
                &self.shards[shard],
                &commands.bytes[shard],
                commands.asked[shard],
            );
            async move {
                let answer = tokio::time::timeout_at(until, server.ask(bytes, asked)).await;
                answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            }
        };
        let (first, second, third) = tokio::join!(ask(0), ask(1), ask(2));
        Records {
            shards: vec![first, second, third],
            places: commands.places,
            asked: commands.asked,
        }
    }

    fn commands(&self, ids: &[u32]) -> Commands {
        let mut buckets: Vec<Vec<u32>> = vec![Vec::new(); BUCKETS];
        for (place, id) in ids.iter().enumerate() {
            buckets[*id as usize % BUCKETS].push(place as u32);
        }
        let mut made = Commands {
            bytes: Default::default(),
            asked: [0; SHARDS],
            places: vec![(0, 0); ids.len()],
        };
        let mut key = Vec::with_capacity(24);
        for (bucket, places) in buckets
            .iter()
            .enumerate()
            .filter(|(_, places)| !places.is_empty())
        {
            let shard = usize::from(self.shard_of_bucket[bucket]);
            let bytes = &mut made.bytes[shard];
            redis::head(bytes, b'*', places.len() + 1);
            redis::argument(bytes, b"MGET");
            for &place in places {
                key.clear();
                key.push(b'{');
                redis::decimal(&mut key, bucket as u64);
                key.push(b'}');
                redis::decimal(&mut key, u64::from(ids[place as usize]));
                redis::argument(bytes, &key);
                made.places[place as usize] = (shard as u8, made.asked[shard] as u32);
                made.asked[shard] += 1;
            }
        }
        made
    }
}
