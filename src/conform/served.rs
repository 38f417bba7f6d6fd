//! The model behind a socket of our own, for the time of a run: a real peer with real bytes, real
//! time and the limits that a case wants.
//!
//! Leans on `serve`, and on `real` for reaching it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::Options;
use super::local::{Servers, Started};
use super::model::server_model;
use super::run::Stop;
use crate::event::{Event, Observer};
use crate::fault::Faults;
use crate::machine::Time;
use crate::nats::version::ServerVersion;
use crate::seed::Seed;
use crate::serve::{Hub, RealClock, serve};
use crate::server::{Server, ServerModel, front};

/// A served model on a thread of its own; ended when dropped.
pub(super) struct ServedModel {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ServedModel {
    fn drop(&mut self) {
        // Gone already only if the thread is.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Starts a model of this version, with as many servers as there are replicas and with these batch
/// limits.
///
/// # Errors
/// It does not come up.
pub(super) fn start(
    version: ServerVersion,
    replicas: u64,
    limits: Option<&Map<String, Value>>,
    options: &Options,
) -> Result<Started, Stop> {
    let model = server_model(ServerModel::of(version), replicas, limits)?;
    let (stop, stopped) = oneshot::channel();
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        let answer = sender.clone();
        if let Err(error) = run(model, stopped, &sender) {
            // The caller waits for this.
            let _ = answer.send(Err(error.to_string()));
        }
    });
    let served = ServedModel {
        stop: Some(stop),
        thread: Some(thread),
    };
    let broken = |why: String| Stop::Surroundings(format!("cannot serve the model: {why}"));
    let url = receiver.recv().map_err(|error| broken(error.to_string()))?;
    Started::connect(&url.map_err(broken)?, Servers::Model(served), options)
}

/// Nobody watches.
struct Nobody;

impl Observer for Nobody {
    fn see(&mut self, _at: Time, _event: &Event) {}
}

/// Tells its URL and serves until it is stopped.
fn run(
    model: ServerModel,
    stopped: oneshot::Receiver<()>,
    url: &mpsc::Sender<Result<String, String>>,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        // The caller is gone only if it panicked.
        let _ = url.send(Ok(format!("nats://{}", listener.local_addr()?)));
        let hub = Hub::new(
            Server::new(model).into(),
            front::Options::default(),
            Faults::default(),
            Seed(1),
            Box::new(Nobody),
        );
        let stop = async {
            let _ = stopped.await;
        };
        let clock = Rc::new(RealClock::start(1_000));
        serve(listener, Rc::new(RefCell::new(hub)), clock, stop).await
    })
}
