//! The servers of a run as faults see them: which has which number, who leads the stream, and whether
//! all have caught up.
//!
//! Asks over connections of its own: one to each server that we started, one in all to servers that
//! are not ours. Nothing is asked while nobody wants to know; a new leader is heard of by the advisory
//! that it sends. Leans on `connect` and `local`.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use futures_util::stream::{FuturesUnordered, select_all};
use futures_util::{Stream, StreamExt as _};
use serde_json::Value;

use super::connect::Connector;
use super::error::{LiveError, clean};
use super::local::LocalServers;
use super::target::Target;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks at something that is to become true.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// Every server of ours may tell the same advisory; so many are remembered.
const REMEMBERED: usize = 64;

/// The servers of a run.
pub(super) struct Cluster<'a> {
    /// The stream whose leader counts, the first of the run.
    stream: String,
    /// The other streams of the run.
    others: Vec<String>,
    /// What subjects of the API begin with.
    api_prefix: String,
    own: Option<&'a LocalServers>,
    lines: Vec<Client>,
    /// Names of servers, by number.
    names: RefCell<Vec<String>>,
    /// Who leads, as far as is known.
    leader: Cell<Option<u8>>,
    /// How many elections were heard of.
    elections: Cell<u32>,
}

impl<'a> Cluster<'a> {
    /// Connects to the servers of `target`, `own` if they are ours.
    ///
    /// # Errors
    /// A connection cannot be opened.
    pub(super) async fn connect(
        target: &Target,
        own: Option<&'a LocalServers>,
    ) -> Result<Self, LiveError> {
        let mut lines = Vec::new();
        match own {
            Some(servers) => {
                for url in servers.urls() {
                    let connector = Connector::new(std::slice::from_ref(url))?;
                    lines.push(connector.connect().await?.client);
                }
            }
            None => lines.push(target.connector().alike().connect().await?.client),
        }
        let names = own.map_or_else(Vec::new, |own| own.names().to_vec());
        let others = target.streams().iter().skip(1);
        let cluster = Self {
            stream: target.first_stream().to_owned(),
            others: others.map(|stream| stream.name.clone()).collect(),
            api_prefix: target.connection().api_prefix.clone(),
            own,
            lines,
            names: RefCell::new(names),
            leader: Cell::new(None),
            elections: Cell::new(0),
        };
        if let Some(info) = cluster.info().await {
            cluster.name_servers(&info);
        }
        cluster.leader.set(cluster.ask_leader().await);
        Ok(cluster)
    }

    /// The servers, if they are ours.
    pub(super) const fn own(&self) -> Option<&'a LocalServers> {
        self.own
    }

    /// Who leads, as far as is known.
    pub(super) const fn leader(&self) -> Option<u8> {
        self.leader.get()
    }

    /// Whether this server may lead one of the streams: of the first is known who leads it.
    pub(super) fn may_lead(&self, server: u8) -> bool {
        !self.others.is_empty() || self.leader().is_none_or(|leader| leader == server)
    }

    /// Elections heard of so far.
    pub(super) const fn elections(&self) -> u32 {
        self.elections.get()
    }

    /// Notes that nobody leads; says whether that is news.
    pub(super) fn lost_leader(&self) -> bool {
        self.leader.take().is_some()
    }

    /// Which number stands for which server, in one sentence, where that is not known anyway.
    pub(super) fn key(&self) -> Option<String> {
        let names = self.names.borrow();
        let numbered = names.iter().enumerate();
        let said: Vec<_> = numbered
            .map(|(number, name)| format!("server {number} is {}", clean(name)))
            .collect();
        (self.own.is_none() && !said.is_empty()).then(|| said.join(", "))
    }

    /// Asks who leads the stream now.
    pub(super) async fn ask_leader(&self) -> Option<u8> {
        let info = self.info().await?;
        self.number(info["cluster"]["leader"].as_str()?)
    }

    /// Whether all servers are there, somebody leads each stream, and every replica has caught up.
    pub(super) async fn is_healthy(&self) -> bool {
        let connected = |line: &Client| line.connection_state() == State::Connected;
        if !self.lines.iter().all(connected) {
            return false;
        }
        for stream in std::iter::once(&self.stream).chain(&self.others) {
            let Some(info) = self.info_of(stream).await else {
                return false;
            };
            let mut replicas = info["cluster"]["replicas"].as_array().into_iter().flatten();
            if !replicas.all(|replica| replica["current"] == true && replica["offline"] != true) {
                return false;
            }
        }
        true
    }

    /// Asks the leader of the stream to step down.
    ///
    /// # Errors
    /// The reason, in words.
    pub(super) async fn step_down(&self) -> Result<(), String> {
        let subject = format!("{}.STREAM.LEADER.STEPDOWN.{}", self.api_prefix, self.stream);
        let answer = self.one_answer(&subject).await;
        let answer = answer.ok_or_else(|| "nobody answers".to_owned())?;
        match answer["error"]["description"].as_str() {
            Some(reason) => Err(clean(reason)),
            None => Ok(()),
        }
    }

    /// The leaders of the stream, as they are elected; `None` when one says that it has lost its
    /// quorum, and there is no other.
    ///
    /// # Errors
    /// A connection does not take the subscription.
    pub(super) async fn leaders(
        &self,
    ) -> Result<impl Stream<Item = Option<u8>> + Unpin + '_, LiveError> {
        let subject = format!("$JS.EVENT.ADVISORY.STREAM.*.{}", self.stream);
        let mut heard = Vec::new();
        for line in &self.lines {
            let subscriber = line.subscribe(subject.clone()).await;
            heard.push(subscriber.map_err(|error| LiveError::system(subject.clone(), error))?);
        }
        let mut seen = VecDeque::with_capacity(REMEMBERED);
        let news = select_all(heard).filter_map(move |message| {
            let advisory: Value = serde_json::from_slice(&message.payload).unwrap_or_default();
            let is_new = is_new(&advisory, &mut seen);
            async move {
                if is_new {
                    self.take_in(&advisory).await
                } else {
                    None
                }
            }
        });
        Ok(Box::pin(news))
    }

    async fn take_in(&self, advisory: &Value) -> Option<Option<u8>> {
        const ELECTED: &str = "io.nats.jetstream.advisory.v1.stream_leader_elected";
        const LOST: &str = "io.nats.jetstream.advisory.v1.stream_quorum_lost";
        let leader = match advisory["type"].as_str()? {
            ELECTED => {
                self.elections.set(self.elections.get() + 1);
                Some(self.number(advisory["leader"].as_str()?)?)
            }
            // One that stood still says so of the past, and has a successor.
            LOST => self.ask_leader().await,
            _ => return None,
        };
        (self.leader.replace(leader) != leader).then_some(leader)
    }

    fn number(&self, name: &str) -> Option<u8> {
        let names = self.names.borrow();
        let number = names.iter().position(|known| known == name)?;
        u8::try_from(number).ok()
    }

    /// Servers that are not ours are numbered by their names.
    fn name_servers(&self, info: &Value) {
        if self.own.is_some() {
            return;
        }
        let cluster = &info["cluster"];
        let replicas = cluster["replicas"].as_array().into_iter().flatten();
        let replicas = replicas.filter_map(|replica| replica["name"].as_str());
        let all = replicas.chain(cluster["leader"].as_str());
        let mut names: Vec<String> = all.map(str::to_owned).collect();
        names.sort_unstable();
        *self.names.borrow_mut() = names;
    }

    /// What the leader says of the stream, if there is one and it answers.
    async fn info(&self) -> Option<Value> {
        self.info_of(&self.stream).await
    }

    async fn info_of(&self, stream: &str) -> Option<Value> {
        let subject = format!("{}.STREAM.INFO.{stream}", self.api_prefix);
        let is_led = |answer: &Value| answer["cluster"]["leader"].is_string();
        self.first_answer(&subject, is_led).await
    }

    /// The answer over the one connection that has just answered a question, so that what is asked is asked
    /// once: a request to a server that is down or stands still would be heard when it is back.
    async fn one_answer(&self, subject: &str) -> Option<Value> {
        let awake = self.lines.iter().map(|line| async move {
            let info = format!("{}.STREAM.INFO.{}", self.api_prefix, self.stream);
            let asking = line.request(info, "".into());
            let answer = tokio::time::timeout(PATIENCE, asking).await.ok()?;
            answer.ok().map(|_| line)
        });
        let mut awake: FuturesUnordered<_> = awake.collect();
        let line = loop {
            if let Some(line) = awake.next().await? {
                break line;
            }
        };
        let asking = line.request(subject.to_owned(), "".into());
        let message = tokio::time::timeout(PATIENCE, asking).await.ok()?.ok()?;
        serde_json::from_slice(&message.payload).ok()
    }

    /// The first answer over any of the connections that is of use: a server may be down or stand
    /// still.
    async fn first_answer(
        &self,
        subject: &str,
        is_of_use: impl Fn(&Value) -> bool,
    ) -> Option<Value> {
        let asked = self.lines.iter().map(|line| {
            let asking = line.request(subject.to_owned(), "".into());
            async move {
                let message = tokio::time::timeout(PATIENCE, asking).await.ok()?.ok()?;
                serde_json::from_slice::<Value>(&message.payload).ok()
            }
        });
        let mut answers: FuturesUnordered<_> = asked.collect();
        while let Some(answer) = answers.next().await {
            if let Some(answer) = answer.filter(&is_of_use) {
                return Some(answer);
            }
        }
        None
    }
}

/// Whether an advisory was not seen before; it is then.
fn is_new(advisory: &Value, seen: &mut VecDeque<String>) -> bool {
    let id = advisory["id"].as_str().unwrap_or_default();
    if id.is_empty() || seen.iter().any(|known| known == id) {
        return false;
    }
    if seen.len() == REMEMBERED {
        seen.pop_front();
    }
    seen.push_back(id.to_owned());
    true
}
