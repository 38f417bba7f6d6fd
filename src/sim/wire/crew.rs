//! What runs on the hosts of a world: the server, and each publisher with its real client.
//!
//! Leans on `seat`, `serve` and `load`.

use std::rc::Rc;
use std::time::Duration;

use async_nats::jetstream;
use async_nats::{Client, ConnectOptions};
use tokio::net::TcpListener;

use super::clock::ServerClock;
use super::seat::{Seat, Shared};
use super::{PORT, SERVER};
use crate::batch::fast::publisher;
use crate::client::connection_of_a_publisher;
use crate::load::{ClientCode, MessageMaker, Plan, Prober, Runner};
use crate::machine::Time;
use crate::scenario::Settings;
use crate::serve::serve;

/// What subjects of the modelled API begin with.
const API: &str = "$JS.API";
/// Between two attempts to open the first connection.
const RETRY: Duration = Duration::from_millis(100);
/// Longest time for the last bytes of a publisher to leave it.
const FAREWELL: Duration = Duration::from_secs(5);

/// The server: for as long as the world stands.
pub(super) async fn server(shared: Rc<Shared>) {
    let hub = Rc::clone(&shared.hub);
    let clock = Rc::new(ServerClock(Rc::clone(&shared.clock)));
    if let Ok(listener) = TcpListener::bind((SERVER, PORT)).await {
        // it ends with the world
        let _ = serve(listener, hub, clock, std::future::pending()).await;
    }
}

/// What a publisher runs with.
pub(super) struct Publisher {
    pub(super) client: ClientCode,
    pub(super) settings: publisher::Settings,
    pub(super) cost: Time,
    pub(super) plan: Plan,
    pub(super) maker: MessageMaker,
    pub(super) time_limit: Time,
    /// How many publishers and probes there are: the run starts when all are connected.
    pub(super) crew: usize,
}

/// A publisher, from its connection to its last word.
pub(super) async fn publisher(seat: Seat, publisher: Publisher) {
    let client = connect().await;
    seat.connect(Some(client.clone()));
    let shared = &seat.shared;
    begin(shared, publisher.crew).await;
    let runner = Runner::new(
        &seat,
        jetstream::new(client.clone()),
        publisher.client,
        publisher.settings,
        publisher.plan,
        publisher.maker,
    );
    let mut at_work = AtWork {
        runner: runner.at_cost(publisher.cost),
        shared,
        is_done: false,
    };
    at_work.runner.run().await;
    at_work.is_done = true;
    drop(at_work);
    // what was published and not committed may still be in the client
    let _ = tokio::time::timeout(FAREWELL, client.flush()).await;
    // and what a fault makes late is still on the connection
    seat.all_dealt_with(publisher.time_limit).await;
    seat.connect(None);
    drop(client);
    shared.done.set(shared.done.get() + 1);
    shared.publishing.set(shared.publishing.get() - 1);
    shared.published.notify_waiters();
    shared.clock.pause();
}

/// One more is connected; ends when the run starts.
async fn begin(shared: &Shared, crew: usize) {
    shared.connected.set(shared.connected.get() + 1);
    if shared.connected.get() == crew {
        shared.clock.start();
    }
    shared.clock.started().await;
}

/// Probe number `id` of the file, one of a crew of so many.
pub(super) async fn probe(seat: Seat, settings: Rc<Settings>, id: u32, crew: usize) {
    let _done = Done(Rc::clone(&seat.shared));
    let client = connect().await;
    let shared = &seat.shared;
    let prober = Prober::prepare(client.clone(), API, &settings, id).await;
    begin(shared, crew).await;
    // The server is the model, and its stream is there.
    if let Ok(prober) = prober {
        prober.run(&seat, shared.all_published()).await;
    }
    drop(client);
}

/// Notes that a probe is done, when the run ends first, too: nobody waits for it.
struct Done(Rc<Shared>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.done.set(self.0.done.get() + 1);
        self.0.clock.pause();
    }
}

/// A runner that is interrupted if it is dropped before its end: when the run ends, hosts crash.
struct AtWork<'w> {
    runner: Runner<'w, Seat>,
    shared: &'w Shared,
    is_done: bool,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.runner.interrupt();
            let unfinished = &self.shared.unfinished;
            unfinished.set(unfinished.get() + 1);
        }
    }
}

/// A connection to the server, however long it takes.
async fn connect() -> Client {
    loop {
        let options = connection_of_a_publisher(ConnectOptions::new());
        match options.connect(format!("nats://{SERVER}:{PORT}")).await {
            Ok(client) => return client,
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}
