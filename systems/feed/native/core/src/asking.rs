//! Which records are asked of which shard, and how the answers lie: keys of a bucket in one MGET, all of a shard's in
//! one write.

use crate::layout::BUCKETS;
use crate::resp::{self, Replies};

/// The commands for each shard.
pub struct Asking {
    pub commands: Vec<Vec<u8>>,
    /// Ids asked of each shard.
    pub counts: Vec<usize>,
    /// Of each id: its shard, its place among that shard's values.
    places: Vec<(u8, u32)>,
}

impl Asking {
    /// `shard_of_bucket` says where each bucket lies, by number below `shards`.
    pub fn new(ids: &[u32], shard_of_bucket: &[u8; BUCKETS], shards: usize) -> Self {
        let mut buckets: Vec<Vec<u32>> = vec![Vec::new(); BUCKETS];
        for (place, id) in ids.iter().enumerate() {
            buckets[*id as usize % BUCKETS].push(place as u32);
        }
        let mut made = Self {
            commands: vec![Vec::new(); shards],
            counts: vec![0; shards],
            places: vec![(0, 0); ids.len()],
        };
        let mut key = Vec::with_capacity(24);
        for (bucket, places) in buckets
            .iter()
            .enumerate()
            .filter(|(_, places)| !places.is_empty())
        {
            let shard = usize::from(shard_of_bucket[bucket]);
            let bytes = &mut made.commands[shard];
            resp::head(bytes, b'*', places.len() + 1);
            resp::argument(bytes, b"MGET");
            for &place in places {
                key.clear();
                key.push(b'{');
                resp::decimal(&mut key, bucket as u64);
                key.push(b'}');
                resp::decimal(&mut key, u64::from(ids[place as usize]));
                resp::argument(bytes, &key);
                made.places[place as usize] = (shard as u8, made.counts[shard] as u32);
                made.counts[shard] += 1;
            }
        }
        made
    }

    /// The records in the order of the ids; None where the store has none or a shard has not answered. `replies` are by
    /// shard.
    pub fn values<'a>(&self, replies: &[Option<&'a Replies>]) -> Vec<Option<&'a [u8]>> {
        let value = |&(shard, place): &(u8, u32)| replies[usize::from(shard)]?.get(place as usize);
        self.places.iter().map(value).collect()
    }
}
