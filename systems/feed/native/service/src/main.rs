//! The feed's service fully in Rust: same requests, same answers as `python -m feed.service`, for comparison.
//!
//! It is what a rewrite reaches: Tokio, hyper, Redis spoken by hand, the features and the evaluator of feed-core.

mod feeds;
mod items;
mod job;
mod options;
mod redis;
mod routes;
mod user;

use std::process::ExitCode;
use std::sync::Arc;

use feed_core::forest::Forest;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use feeds::Feeds;
use items::Items;
use options::{Options, USAGE};
use redis::Server;
use routes::Service;

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\nhint: {USAGE}");
            return ExitCode::from(2);
        }
    };
    let mut builder = match options.threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(options.threads).enable_all().build();
    match runtime
        .map_err(|error| error.to_string())
        .and_then(|runtime| runtime.block_on(serve(options)))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: Options) -> Result<(), String> {
    let path = options.addresses.model.join("model.json");
    let text = std::fs::read(&path)
        .map_err(|error| format!("reading the model: {}: {error}", path.display()))?;
    let forest = Forest::from_json(&text).map_err(|error| error.to_string())?;
    let items = Items::new(&options.addresses.shards);
    let feeds = Feeds::new(
        Server::new(options.addresses.history),
        items,
        forest,
        options.addresses.models,
    );
    let service = Arc::new(Service::new(feeds, options.deadline_ms, options.now_s));
    let listener = TcpListener::bind(("127.0.0.1", options.port)).await;
    let listener =
        listener.map_err(|error| format!("listening: port={}: {error}", options.port))?;
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let service = service.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let service = service.clone();
                async move { Ok::<_, std::convert::Infallible>(service.answer(request).await) }
            });
            // A client that went away is not our error.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}
