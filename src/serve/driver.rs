//! A hub over sockets: one task for each connection, one for the timers, all on one thread.
//!
//! Leans on `hub` and tokio. A task reads straight into the front's buffer and writes what the front
//! has gathered, so a message is not copied on its way.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::clock::Clock;
use super::hub::Hub;
use crate::machine::Time;
use crate::net::pace::Pace;
use crate::server::message::ConnectionId;

/// A buffer with less room than this is given [`READ_BYTES`] more.
const ROOM_BYTES: usize = 4_096;
/// Room for one read.
const READ_BYTES: usize = 64 << 10;
/// A connection lets the others have a turn after so many reads and writes.
const TURNS: u32 = 16;
/// Most clients at a time.
const CONNECTIONS_MAX: usize = 10_000;
/// How long the driver rests after a connection that could not be accepted, such as for want of
/// file descriptors: by the machine's time, however fast the model's is.
const REST: Duration = Duration::from_millis(100);

/// What the tasks share.
struct Shared {
    hub: Rc<RefCell<Hub>>,
    clock: Rc<dyn Clock>,
    /// The timers' task is to look again.
    earlier: Notify,
    /// What the timers' task waits for.
    armed: Cell<Time>,
    stopped: Cell<bool>,
    stop: Notify,
}

/// Serves `hub` to all who connect to `listener`, until `stop` ends. Must run on a `LocalSet` or in
/// other surroundings where `spawn_local` works.
///
/// # Errors
/// The listener does not tell its address.
pub async fn serve(
    listener: TcpListener,
    hub: Rc<RefCell<Hub>>,
    clock: Rc<dyn Clock>,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    listener.local_addr()?;
    let shared = Rc::new(Shared {
        hub,
        clock,
        earlier: Notify::new(),
        armed: Cell::new(Time::NEVER),
        stopped: Cell::new(false),
        stop: Notify::new(),
    });
    spawn_local(keep_time(Rc::clone(&shared)));
    let accepting = accept(&listener, &shared);
    tokio::select! {
        biased;
        () = stop => {}
        () = accepting => {}
    }
    shared.stopped.set(true);
    shared.stop.notify_waiters();
    shared.earlier.notify_one();
    Ok(())
}

/// Accepts clients for ever.
async fn accept(listener: &TcpListener, shared: &Rc<Shared>) {
    let mut next = 0_u32;
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let id = ConnectionId(next);
                next = next.wrapping_add(1);
                if shared.hub.borrow().front().connections() >= CONNECTIONS_MAX {
                    shared.hub.borrow_mut().turn_away();
                    continue;
                }
                let ip = address.ip().to_string();
                spawn_local(attend(stream, id, ip, Rc::clone(shared)));
            }
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

/// Lets the hub's timers happen.
async fn keep_time(shared: Rc<Shared>) {
    while !shared.stopped.get() {
        let due = shared.hub.borrow().due();
        shared.armed.set(due);
        if due <= shared.horizon() {
            shared.pass();
            continue;
        }
        tokio::select! {
            biased;
            () = shared.earlier.notified() => {}
            () = shared.clock.sleep_until(due) => shared.pass(),
        }
    }
}

/// One client, from its greeting to its end.
async fn attend(stream: TcpStream, id: ConnectionId, ip: String, shared: Rc<Shared>) {
    // Small frames must not wait for one another; where that cannot be said it does not matter.
    let _ = stream.set_nodelay(true);
    if !shared.hub.borrow_mut().connect(shared.clock.now(), id, &ip) {
        return;
    }
    let mut client = Client {
        stream,
        id,
        output: Bytes::new(),
        up: Narrow::default(),
        down: Narrow::default(),
        shared: Rc::clone(&shared),
    };
    tokio::select! {
        biased;
        () = shared.stop.notified() => {}
        () = poll_fn(|context| client.poll(context)) => {}
    }
    let now = shared.clock.now();
    shared.hub.borrow_mut().disconnect(now, id);
    shared.look_again();
}

/// A connection at work.
struct Client {
    stream: TcpStream,
    id: ConnectionId,
    /// What is being written.
    output: Bytes,
    /// What it sends and what it is sent, while a fault limits that.
    up: Narrow,
    down: Narrow,
    shared: Rc<Shared>,
}

/// One way of a connection that carries no more than a rate: a piece is passed on when the last of it has passed.
#[derive(Default)]
struct Narrow {
    pace: Pace,
    /// There was more as soon as the last piece had passed.
    is_busy: bool,
    piece: Option<Piece>,
}

/// So many bytes, and when they have passed.
struct Piece {
    bytes: usize,
    at: Time,
    timer: Pin<Box<dyn Future<Output = ()>>>,
}

impl Client {
    /// Writes and reads as far as that goes; ready when the connection is over.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TURNS {
            if self.shared.hub.borrow().is_broken(self.id) {
                return Poll::Ready(());
            }
            if self.shared.hub.borrow().is_held(self.id) {
                self.shared.hub.borrow_mut().wait(self.id, context.waker());
                return Poll::Pending;
            }
            let is_closing = self.shared.hub.borrow().is_closing(self.id);
            let wrote = match self.write(context) {
                Poll::Ready(Ok(wrote)) => wrote,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending if is_closing && self.down.is_on_its_way(self.shared.clock.now()) => {
                    self.shared.hub.borrow_mut().wait(self.id, context.waker());
                    return Poll::Pending;
                }
                // Who does not read its last words does without.
                Poll::Pending if is_closing => return Poll::Ready(()),
                Poll::Pending => false,
            };
            if is_closing {
                if wrote {
                    continue;
                }
                return Poll::Ready(());
            }
            match self.read(context) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(()),
                Poll::Pending if wrote => {}
                Poll::Pending => {
                    self.shared.hub.borrow_mut().wait(self.id, context.waker());
                    return Poll::Pending;
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes once; ready with false if there is nothing to write.
    fn write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.output.is_empty() {
            self.output = self.shared.hub.borrow_mut().take_output(self.id);
            if self.output.is_empty() {
                self.down.is_busy = false;
                return Poll::Ready(Ok(false));
            }
        }
        let limit = self.shared.hub.borrow().limit(self.id);
        let mut most = self.output.len();
        if let Some(rate) = limit {
            most = most.min(Pace::piece_bytes(rate));
            self.down.take_up(&*self.shared.clock, rate, most);
        }
        ready!(self.down.poll_passed(&*self.shared.clock, limit, context));
        let most = most.min(self.down.piece.as_ref().map_or(most, |piece| piece.bytes));
        let wrote = Pin::new(&mut self.stream).poll_write(context, &self.output[..most]);
        wrote.map_ok(|count| {
            self.down.put_down(count);
            self.output.advance(count);
            self.shared.hub.borrow_mut().written(self.id, count);
            true
        })
    }

    /// Reads once; ready with false at the end of the connection.
    fn read(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        let mut hub = self.shared.hub.borrow_mut();
        let limit = hub.limit(self.id);
        let Some(buffer) = hub.buffer(self.id) else {
            // To be closed: what is left is written first, and nothing more is read.
            return Poll::Pending;
        };
        if self.up.piece.is_none() {
            if buffer.capacity() - buffer.len() < ROOM_BYTES {
                buffer.reserve(READ_BYTES);
            }
            let most = limit.map_or(READ_BYTES, Pace::piece_bytes) as u64;
            // Dropped at once if it is not ready: nothing is lost then.
            let read = pin!((&mut self.stream).take(most).read_buf(buffer)).poll(context);
            let bytes = match read {
                Poll::Pending => {
                    self.up.is_busy = false;
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(false),
                Poll::Ready(Ok(bytes)) => bytes,
            };
            if let Some(rate) = limit {
                self.up.take_up(&*self.shared.clock, rate, bytes);
            }
        }
        // What has not passed stays in the buffer, of which the hub does not know yet.
        ready!(self.up.poll_passed(&*self.shared.clock, limit, context));
        self.up.piece = None;
        hub.received(self.shared.clock.now(), self.id);
        drop(hub);
        self.shared.pass_what_is_due();
        Poll::Ready(true)
    }
}

impl Narrow {
    /// So many bytes begin to pass, unless a piece does already.
    fn take_up(&mut self, clock: &dyn Clock, rate: u64, bytes: usize) {
        if self.piece.is_some() {
            return;
        }
        let now = clock.now();
        let ready = if self.is_busy { Time::ZERO } else { now };
        let at = self.pace.pass(now, rate, ready, bytes);
        self.is_busy = true;
        self.piece = Some(Piece {
            bytes,
            at,
            timer: clock.sleep_until(at),
        });
    }

    /// Whether nothing is on its way, at a limit that may have gone meanwhile.
    fn poll_passed(
        &mut self,
        clock: &dyn Clock,
        limit: Option<u64>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if limit.is_none() && self.piece.take().is_some() {
            self.pace.open();
        }
        let now = clock.now();
        match self.piece.as_mut().filter(|piece| piece.at > now) {
            Some(piece) => piece.timer.as_mut().poll(context),
            None => Poll::Ready(()),
        }
    }

    fn is_on_its_way(&self, now: Time) -> bool {
        self.piece.as_ref().is_some_and(|piece| piece.at > now)
    }

    /// So many bytes of the piece have been passed on.
    fn put_down(&mut self, bytes: usize) {
        if let Some(piece) = &mut self.piece {
            piece.bytes = piece.bytes.saturating_sub(bytes);
        }
        self.piece = self.piece.take().filter(|piece| piece.bytes > 0);
    }
}

impl Shared {
    /// What is due until then is done now.
    fn horizon(&self) -> Time {
        self.clock.now() + self.clock.slack()
    }

    /// Lets everything happen that is due.
    fn pass(&self) {
        self.hub.borrow_mut().pass(self.horizon());
    }

    /// After something came in: what follows from it at once, and the timers' task for the rest.
    fn pass_what_is_due(&self) {
        if self.hub.borrow().due() <= self.horizon() {
            self.pass();
        }
        self.look_again();
    }

    /// The timers' task looks again if something is due before what it waits for.
    fn look_again(&self) {
        if self.hub.borrow().due() < self.armed.get() {
            self.earlier.notify_one();
        }
    }
}
