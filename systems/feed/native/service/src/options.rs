//! How the service is started.

use std::path::PathBuf;

use serde::Deserialize;

pub const USAGE: &str =
    "feed-service --addresses site.json --port 8000 [--deadline-ms 500] [--now-s 1763700000] [--threads 1]";

pub struct Options {
    pub addresses: Addresses,
    pub port: u16,
    /// Of requests that bring none.
    pub deadline_ms: f64,
    /// The present, Unix time; the made world's by default.
    pub now_s: i64,
    pub threads: usize,
}

/// Where the parts of the site listen: what `python -m feed.site` wrote.
#[derive(Deserialize)]
pub struct Addresses {
    pub shards: Vec<u16>,
    pub history: u16,
    pub models: Models,
    /// Folder with model.json.
    pub model: PathBuf,
}

/// Base URLs of the first-level models.
#[derive(Deserialize)]
pub struct Models {
    pub popular: String,
    pub taste: String,
    pub nearby: String,
    pub similar: String,
}

impl Options {
    /// Of the command line's arguments; an error says what was found and expected.
    pub fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut addresses, mut port) = (None, None);
        let (mut deadline_ms, mut now_s, mut threads) = (500.0, feed_core::layout::NOW_S as i64, 1);
        while let Some(flag) = arguments.next() {
            let value = arguments
                .next()
                .ok_or_else(|| format!("reading options: {flag} without a value"))?;
            match flag.as_str() {
                "--addresses" => addresses = Some(read_addresses(&value)?),
                "--port" => port = Some(number(&flag, &value)?),
                "--deadline-ms" => deadline_ms = number(&flag, &value)?,
                "--now-s" => now_s = number(&flag, &value)?,
                "--threads" => threads = number(&flag, &value)?,
                _ => return Err(format!("reading options: {flag}, expected one of {USAGE}")),
            }
        }
        Ok(Self {
            addresses: addresses.ok_or("reading options: no --addresses")?,
            port: port.ok_or("reading options: no --port")?,
            deadline_ms,
            now_s,
            threads,
        })
    }
}

fn number<T: std::str::FromStr>(flag: &str, value: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("reading options: {flag}={value:?}, expected a number"))
}

fn read_addresses(path: &str) -> Result<Addresses, String> {
    let text =
        std::fs::read(path).map_err(|error| format!("reading addresses: {path}: {error}"))?;
    serde_json::from_slice(&text).map_err(|error| format!("reading addresses: {path}: {error}"))
}
