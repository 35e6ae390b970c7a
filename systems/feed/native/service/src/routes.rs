//! The service over HTTP: the routes of service/application.py.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use feed_core::layout::MOST_ACTIVE;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use serde_json::{json, Map, Value};

use crate::feeds::Feeds;
use crate::job::{process_cpu, Job, Problem, Stages};

const DEADLINE_HEADER: &str = "x-envoy-expected-rq-timeout-ms";
const DEADLINE_MS: std::ops::RangeInclusive<f64> = 10.0..=60_000.0;
/// Reasons of problems that are told apart, at most: some have numbers in them.
const MOST_REASONS: usize = 50;
/// History 1, models 4, shards 3, paging 1, and the request itself: what goes on at the same time, at most.
const TASKS: usize = 10;

pub struct Service {
    feeds: Feeds,
    deadline_ms: f64,
    now_s: i64,
    totals: Mutex<Totals>,
}

#[derive(Default)]
struct Totals {
    requests: u64,
    path: Duration,
    problems: BTreeMap<&'static str, u64>,
    reasons: BTreeMap<String, u64>,
    stages: Stages,
}

/// An answer's body, fields in the order of the Python service.
#[derive(Serialize)]
struct Answer<'a> {
    user: u64,
    variant: &'static str,
    feed: Option<&'a str>,
    from: usize,
    total: usize,
    ids: &'a [u32],
    next: Option<String>,
    degraded: &'a [Problem],
    #[serde(skip_serializing_if = "Option::is_none")]
    stages: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    coroutines: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ranked: Option<&'a [u32]>,
}

type Reply = Response<Full<Bytes>>;

impl Service {
    pub fn new(feeds: Feeds, deadline_ms: f64, now_s: i64) -> Self {
        Self {
            feeds,
            deadline_ms,
            now_s,
            totals: Mutex::default(),
        }
    }

    pub async fn answer(&self, request: Request<Incoming>) -> Reply {
        if request.method() != Method::GET {
            return reply(
                StatusCode::METHOD_NOT_ALLOWED,
                "text/plain",
                "405: Method Not Allowed".to_owned(),
            );
        }
        let answered = match request.uri().path() {
            "/feed" => self.first(&request).await,
            "/totals" => Ok(self.totals()),
            "/health" => Ok(reply(StatusCode::OK, "text/plain", "ok".to_owned())),
            path => match path.strip_prefix("/feed/") {
                Some(token) => self.later(&request, token).await,
                None => Ok(reply(
                    StatusCode::NOT_FOUND,
                    "text/plain",
                    "404: Not Found".to_owned(),
                )),
            },
        };
        answered.unwrap_or_else(|refusal| {
            as_json(
                StatusCode::BAD_REQUEST,
                json!({ "error": refusal }).to_string(),
            )
        })
    }

    async fn first(&self, request: &Request<Incoming>) -> Result<Reply, String> {
        let job = self.job(request, whole(request, "user", None, 1)? as u64)?;
        let ids = self.feeds.feed(&job).await;
        let token = token_of(job.user_id);
        let is_kept = self.feeds.keep(&job, &token, &ids).await;
        self.answered(request, &job, &ids, is_kept.then_some(&token))
    }

    async fn later(&self, request: &Request<Incoming>, token: &str) -> Result<Reply, String> {
        let user = token.split('-').next().and_then(|text| text.parse().ok());
        let user = user.ok_or_else(|| {
            refusal(
                "asking for a page",
                "feed",
                token,
                "what an answer gave as `feed`",
            )
        })?;
        let job = self.job(request, user)?;
        let ids = match self.feeds.kept(&job, token).await {
            Some(ids) => ids,
            None => self.feeds.feed(&job).await,
        };
        self.answered(request, &job, &ids, Some(token))
    }

    fn job(&self, request: &Request<Incoming>, user: u64) -> Result<Job, String> {
        let text = request
            .headers()
            .get(DEADLINE_HEADER)
            .map(|value| value.to_str().unwrap_or("?"));
        let deadline_ms = match text {
            None | Some("") => self.deadline_ms,
            Some(text) => text
                .parse()
                .ok()
                .filter(|deadline: &f64| !deadline.is_nan())
                .ok_or_else(|| {
                    refusal("reading a deadline", DEADLINE_HEADER, text, "milliseconds")
                })?,
        };
        let deadline_ms = deadline_ms.clamp(*DEADLINE_MS.start(), *DEADLINE_MS.end());
        Ok(Job::new(
            user,
            self.now_s,
            Duration::from_secs_f64(deadline_ms / 1000.0),
        ))
    }

    fn answered(
        &self,
        request: &Request<Incoming>,
        job: &Job,
        ids: &[u32],
        token: Option<&str>,
    ) -> Result<Reply, String> {
        let from = whole(request, "from", Some(0), 0)?;
        let size = whole(request, "size", Some(MOST_ACTIVE), 1)?;
        let end = from.saturating_add(size);
        let problems = job.problems.lock().expect("no thread died with it");
        let next = token
            .filter(|_| end < ids.len())
            .map(|token| format!("/feed/{token}?from={end}&size={size}"));
        let mut answer = Answer {
            user: job.user_id,
            variant: "compiled",
            feed: token,
            from,
            total: ids.len(),
            ids: &ids[from.min(ids.len())..end.min(ids.len())],
            next,
            degraded: &problems,
            stages: None,
            coroutines: None,
            ranked: None,
        };
        let mut body = job.computing("answer", || {
            serde_json::to_string(&answer).expect("an answer is JSON")
        });
        let ranked = job.ranked.lock().expect("no thread died with it");
        let stages = job.stages.lock().expect("no thread died with it");
        self.totals
            .lock()
            .expect("no thread died with it")
            .count(job, &problems, &stages);
        if parameter(request, "stages").is_some_and(|value| !value.is_empty()) {
            (answer.stages, answer.coroutines) = (Some(stages.rows()), Some(TASKS));
            answer.ranked = Some(&ranked);
            body = serde_json::to_string(&answer).expect("an answer is JSON");
        }
        Ok(as_json(StatusCode::OK, body))
    }

    fn totals(&self) -> Reply {
        let totals = self.totals.lock().expect("no thread died with it");
        let body = json!({
            "requests": totals.requests,
            "tasks": totals.requests * TASKS as u64,
            "bytes_moved": 0,
            "path_cpu_ms": totals.path.as_secs_f64() * 1000.0,
            "problems": totals.problems,
            "reasons": totals.reasons,
            "stages": totals.stages.rows(),
            "cpu_ms": process_cpu().as_secs_f64() * 1000.0,
            "pids": [std::process::id()],
        });
        as_json(StatusCode::OK, body.to_string())
    }
}

impl Totals {
    fn count(&mut self, job: &Job, problems: &[Problem], stages: &Stages) {
        self.requests += 1;
        self.path += *job.path.lock().expect("no thread died with it");
        for problem in problems {
            *self.problems.entry(problem.part).or_default() += 1;
            let mut reason = format!("{}: {}", problem.part, problem.reason);
            if !self.reasons.contains_key(&reason) && self.reasons.len() >= MOST_REASONS {
                reason = "others".to_owned();
            }
            *self.reasons.entry(reason).or_default() += 1;
        }
        for (name, stage) in &stages.0 {
            self.stages.add(name, stage.wall, stage.cpu);
        }
    }
}

/// A new feed's token; it tells whose feed it is.
fn token_of(user: u64) -> String {
    let mut random = [0; 6];
    getrandom::fill(&mut random).expect("Linux gives random bytes");
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{user}-{digits}")
}

fn parameter<'a>(request: &'a Request<Incoming>, name: &str) -> Option<&'a str> {
    let pairs = request.uri().query().unwrap_or("").split('&');
    pairs
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// A whole number of the query.
fn whole(
    request: &Request<Incoming>,
    name: &str,
    default: Option<usize>,
    least: usize,
) -> Result<usize, String> {
    let text = parameter(request, name);
    if let (None, Some(default)) = (text, default) {
        return Ok(default);
    }
    let value = text
        .and_then(|text| text.parse().ok())
        .filter(|&value: &usize| value >= least);
    let shown = text.unwrap_or("None");
    value.ok_or_else(|| {
        refusal(
            "asking for a feed",
            name,
            shown,
            &format!("a whole number from {least}"),
        )
    })
}

fn refusal(what: &str, name: &str, value: &str, rule: &str) -> String {
    format!("{what}: {name}='{value}', expected {rule}")
}

fn as_json(status: StatusCode, body: String) -> Reply {
    reply(status, "application/json; charset=utf-8", body)
}

fn reply(status: StatusCode, kind: &str, body: String) -> Reply {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, kind.parse().expect("a media type"));
    response
}
