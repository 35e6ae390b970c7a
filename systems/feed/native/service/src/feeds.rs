//! The feed of a user, from question to answer: history, first-level models, filter, ranking, business rules.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use feed_core::candidates::{chosen, Named};
use feed_core::forest::Forest;
use feed_core::layout::{KEPT_S, MOST, MOST_ACTIVE};
use feed_core::ranking::Ranking;
use feed_core::resp;
use feed_core::rules::{arranged, Shown};
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode};
use hyper_util::client::legacy::{connect::HttpConnector, Client};

use crate::items::Items;
use crate::job::{process_cpu, Job};
use crate::options::Models;
use crate::redis::Server;
use crate::user::User;

pub const MODELS: [&str; 4] = ["popular", "taste", "nearby", "similar"];
// Shares of the deadline, as the Python service has them.
const HISTORY_UNTIL: f64 = 0.15;
const MODELS_UNTIL: f64 = 0.45;
const RECORDS_UNTIL: f64 = 0.70;
const RANKED_UNTIL: f64 = 0.90;
const KEPT_UNTIL: f64 = 0.97;
// No longer than so.
const KEPT_AT_MOST: f64 = 0.10;

pub struct Feeds {
    pub history: Server,
    pub items: Items,
    pub forest: Forest,
    client: Client<HttpConnector, Full<Bytes>>,
    models: [String; 4],
    /// What `popular` said last, to anybody.
    spare: Mutex<Option<Named>>,
}

impl Feeds {
    pub fn new(history: Server, items: Items, forest: Forest, models: Models) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(hyper_util::rt::TokioExecutor::new()).build(connector);
        let models = [models.popular, models.taste, models.nearby, models.similar];
        Self {
            history,
            items,
            forest,
            client,
            models,
            spare: Mutex::default(),
        }
    }

    /// Ids in the order in which they are shown; what it lacks the job says.
    pub async fn feed(&self, job: &Job) -> Vec<u32> {
        let user = self.user(job).await;
        let answers = self.answers(job, &user).await;
        let most = if user.active { MOST_ACTIVE } else { MOST };
        let ids = job.computing("filter", || chosen(&answers, &user.seen, most));
        if ids.is_empty() {
            job.degraded("models", "no model named a candidate", "the feed is empty");
            return ids;
        }
        let began = process_cpu();
        let ranked = self.ranked(job, &user, &ids).await;
        *job.path.lock().expect("no thread died with it") += process_cpu() - began;
        *job.ranked.lock().expect("no thread died with it") =
            ranked.iter().map(|item| item.item_id).collect();
        job.computing("rules", || arranged(&ranked))
    }

    async fn user(&self, job: &Job) -> User {
        let (id, mut commands) = (job.user_id.to_string(), Vec::new());
        for name in ["interests", "seen", "sellers"] {
            resp::command(&mut commands, &[b"GET", format!("{name}:{id}").as_bytes()]);
        }
        let asked =
            tokio::time::timeout_at(job.until(HISTORY_UNTIL), self.history.ask(&commands, 3));
        let found = job
            .running("history", asked)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let lacks = |reason: String| {
            job.degraded("history", reason, "the feed of an unknown user");
            User::unknown(job.user_id)
        };
        let replies = match found {
            Ok(replies) => replies,
            Err(error) => return lacks(said(&error)),
        };
        let Some(interests) = replies.get(0) else {
            return lacks("the user has no history".to_owned());
        };
        let read = || -> serde_json::Result<User> {
            let mut user: User = serde_json::from_slice(interests)?;
            user.seen = serde_json::from_slice(replies.get(1).unwrap_or(b"[]"))?;
            user.sellers = serde_json::from_slice(replies.get(2).unwrap_or(b"[]"))?;
            Ok(user)
        };
        job.computing("history", read)
            .unwrap_or_else(|_| lacks("the stored user is unreadable".to_owned()))
    }

    async fn answers(&self, job: &Job, user: &User) -> Vec<Option<Named>> {
        let body = job.computing("models", || {
            Bytes::from(serde_json::to_vec(user).expect("a user is JSON"))
        });
        let ask = |model: usize| {
            let asked = self.named(model, user.user_id, body.clone());
            tokio::time::timeout_at(job.until(MODELS_UNTIL), asked)
        };
        let all = async { tokio::join!(ask(0), ask(1), ask(2), ask(3)) };
        let (popular, taste, nearby, similar) = job.running("models", all).await;
        let mut answers = Vec::with_capacity(MODELS.len());
        for (model, answer) in [popular, taste, nearby, similar].into_iter().enumerate() {
            let answer = answer.unwrap_or_else(|_| Err("no answer in time".to_owned()));
            if let Err(reason) = &answer {
                job.degraded(
                    "models",
                    format!("{}: {reason}", MODELS[model]),
                    "its candidates are missing",
                );
            }
            answers.push(answer.ok());
        }
        self.spared(job, answers)
    }

    fn spared(&self, job: &Job, answers: Vec<Option<Named>>) -> Vec<Option<Named>> {
        let mut spare = self.spare.lock().expect("no thread died with it");
        if let Some(popular) = &answers[0] {
            *spare = Some(popular.clone());
        }
        if answers.iter().any(Option::is_some) || spare.is_none() {
            return answers;
        }
        job.degraded(
            "models",
            "no model answered",
            "the items that were popular a moment ago",
        );
        vec![spare.clone()]
    }

    async fn named(&self, model: usize, user_id: u64, body: Bytes) -> Result<Named, String> {
        let url = format!("{}/candidates/{user_id}", self.models[model]);
        let request = Request::post(url)
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        let response = self
            .client
            .request(request)
            .await
            .map_err(|error| error.to_string())?;
        if response.status() != StatusCode::OK {
            return Err(format!("status {}", response.status().as_u16()));
        }
        let body = response
            .into_body()
            .collect()
            .await
            .map_err(|error| error.to_string())?
            .to_bytes();
        Named::from_json(&body)
    }

    /// Every id once, best first; ids without a record come last, in the given order.
    async fn ranked(&self, job: &Job, user: &User, ids: &[u32]) -> Vec<Shown> {
        let unranked = || ids.iter().copied().map(Shown::lacking).collect();
        let records = job
            .running("records", self.items.fetched(ids, job.until(RECORDS_UNTIL)))
            .await;
        let records = match records {
            Ok(records) => records,
            Err(error) => {
                job.degraded("records", said(&error), "no item can be ranked");
                job.degraded("ranking", "no records", "the first level's order");
                return unranked();
            }
        };
        let mut lost: Vec<_> = records.lost().collect();
        lost.sort_by_key(|lost| lost.0);
        for (shard, error, count) in lost {
            let reason = format!("shard {shard}: {}", said(error));
            job.degraded(
                "records",
                reason,
                format!("{count} items are shown unranked, at the end"),
            );
        }
        let values = job.computing("records", || records.values());
        if values.iter().all(Option::is_none)
            || tokio::time::Instant::now() > job.until(RANKED_UNTIL)
        {
            let reason = if values.iter().any(Option::is_some) {
                "no time left"
            } else {
                "no records"
            };
            job.degraded("ranking", reason, "the first level's order");
            return unranked();
        }
        let ranking = Ranking::new(&values, &user.viewer(job.now_s), &self.forest);
        let spent = ranking.spent;
        for (stage, ns) in [
            ("features", spent.features_ns),
            ("predict", spent.predict_ns),
            ("sort", spent.sort_ns),
        ] {
            // Nothing in it waits: its time is its CPU.
            job.took(stage, Duration::from_nanos(ns), Duration::from_nanos(ns));
        }
        job.computing("sort", || with_lacking(job, &ranking, ids))
    }

    /// Keeps a feed for its later pages; false when the store does not take it.
    pub async fn keep(&self, job: &Job, token: &str, ids: &[u32]) -> bool {
        let value: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let mut set = Vec::with_capacity(value.len() + 64);
        let key = format!("feed:{token}");
        resp::command(
            &mut set,
            &[
                b"SET",
                key.as_bytes(),
                &value,
                b"EX",
                KEPT_S.to_string().as_bytes(),
            ],
        );
        let asked = tokio::time::timeout_at(patience(job), self.history.ask(&set, 1));
        let error = match job.running("paging", asked).await {
            Ok(Ok(_)) => return true,
            Ok(Err(error)) => said(&error),
            Err(_) => "no answer in time".to_owned(),
        };
        job.degraded("paging", error, "no further pages of this feed");
        false
    }

    /// A kept feed's ids.
    pub async fn kept(&self, job: &Job, token: &str) -> Option<Vec<u32>> {
        let mut get = Vec::new();
        resp::command(&mut get, &[b"GET", format!("feed:{token}").as_bytes()]);
        let asked = tokio::time::timeout_at(patience(job), self.history.ask(&get, 1));
        let found = job
            .running("paging", asked)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let reason = match &found {
            Ok(replies) => match replies.get(0) {
                Some(value) => {
                    let id = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
                    return Some(value.chunks_exact(4).map(id).collect());
                }
                None => "this feed is no longer kept".to_owned(),
            },
            Err(error) => said(error),
        };
        job.degraded(
            "paging",
            reason,
            "the feed is computed again: its order may differ",
        );
        None
    }
}

fn patience(job: &Job) -> tokio::time::Instant {
    let at_most = tokio::time::Instant::now() + job.share(KEPT_AT_MOST);
    job.until(KEPT_UNTIL).min(at_most)
}

/// The ranking, then what is not in it: ids without a record, and those whose record is none or another item's.
fn with_lacking(job: &Job, ranking: &Ranking, ids: &[u32]) -> Vec<Shown> {
    let mut is_ranked = vec![false; ids.len()];
    let mut shown = Vec::with_capacity(ids.len());
    for item in ranking
        .items
        .iter()
        .filter(|item| item.item_id == ids[item.place as usize])
    {
        is_ranked[item.place as usize] = true;
        let (item_id, seller_id) = (item.item_id, item.seller_id);
        shown.push(Shown {
            item_id,
            seller_id,
            category: item.category,
            boost: item.boost,
        });
    }
    let unreadable = ranking.unreadable + ranking.items.len() - shown.len();
    if unreadable > 0 {
        let effect = "those items are shown unranked, at the end";
        job.degraded("records", format!("{unreadable} are unreadable"), effect);
    }
    if ranking.older > 0 {
        let reason = format!("{} are of an older version", ranking.older);
        job.degraded("records", reason, "what they lack counts as not known");
    }
    let lacking = ids
        .iter()
        .zip(&is_ranked)
        .filter(|(_, is_ranked)| !**is_ranked);
    shown.extend(lacking.map(|(&id, _)| Shown::lacking(id)));
    shown
}

/// An error in words that stand in an answer.
fn said(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::TimedOut {
        return "no answer in time".to_owned();
    }
    error.to_string()
}
