//! A door before a server: a TCP port that passes every byte on, or does to it what a fault wants.
//!
//! Who comes in is connected to the server behind, and what goes either way is passed on in order: at once, or
//! as late and as slowly as faults have it. Whoever keeps doors drives them on a runtime of their own, since
//! they are part of the network and not of the load. Leans on `clock`, `wire` and tokio's sockets.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as PlainListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::clock::Clock;
use super::wire::{Piece, Wire, Wires};
use crate::machine::Time;
use crate::net::pace::Pace;

/// Most bytes of one way that a door holds in its hands; the rest waits with the sender, as behind the window
/// of a TCP connection.
const WINDOW_BYTES: usize = 4 << 20;
/// Most bytes that are read at a time, and so few that there is to be new room for them.
const READ_BYTES: usize = 64 << 10;
const LEAST_ROOM: usize = 4 << 10;
/// Before the next try to let somebody in, after the system refused.
const ACCEPT_AGAIN: Duration = Duration::from_millis(10);

/// What a fault does to one way through a door, for as long as it lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    /// What is under way or is sent is lost. With both ways cut, connections are reset and new ones too; with
    /// one, the others live on, and those that lost something are reset at the end.
    Cut,
    /// What is under way or is sent waits.
    Hold,
    /// Each byte is so much later.
    Slow(Time),
    /// No more than so many bits in a second pass.
    Limit(u64),
}

/// One of the two ways through a door.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Course {
    /// To the server behind it.
    In,
    /// From that server.
    Out,
}

/// What is wrong with one way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Way {
    cuts: u32,
    holds: u32,
    slower: Time,
    /// Bits per second.
    limits: Vec<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Ways {
    inward: Way,
    outward: Way,
    /// How often all connections were reset.
    resets: u64,
    /// How often every trouble was ended at once: what was taken up before waits no longer.
    freed: u64,
}

/// Bytes that the connections of a door hold in their hands.
type Held = Arc<AtomicUsize>;

/// A door, to be disturbed by whoever has it. Its connections end with it.
#[derive(Debug)]
pub(super) struct Door {
    address: SocketAddr,
    ways: watch::Sender<Ways>,
    held: Held,
}

/// Whoever sits at a door and lets in who comes.
pub(super) struct Keeper {
    listener: PlainListener,
    target: SocketAddr,
    ways: watch::Receiver<Ways>,
    wires: Wires,
    held: Held,
}

impl Door {
    /// A door on a free port of 127.0.0.1 before the port `target`, and its keeper.
    ///
    /// # Errors
    /// There is no free port.
    pub(super) fn before(target: u16, wires: Wires) -> io::Result<(Self, Keeper)> {
        let listener = PlainListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let (ways, seen) = watch::channel(Ways::default());
        let held = Held::default();
        let door = Self {
            address: listener.local_addr()?,
            ways,
            held: Arc::clone(&held),
        };
        let keeper = Keeper {
            listener,
            target: SocketAddr::from((Ipv4Addr::LOCALHOST, target)),
            ways: seen,
            wires,
            held,
        };
        Ok((door, keeper))
    }

    /// Where it is.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// A trouble of one way begins.
    pub(super) fn begin(&self, course: Course, trouble: Trouble) {
        self.ways.send_modify(|ways| {
            ways.of_mut(course).begin(trouble);
            if trouble == Trouble::Cut && ways.are_cut() {
                ways.resets += 1;
            }
        });
    }

    /// A trouble of one way is over.
    pub(super) fn end(&self, course: Course, trouble: Trouble) {
        self.ways
            .send_modify(|ways| ways.of_mut(course).end(trouble));
    }

    /// Every trouble is over, and what is late goes on at once.
    pub(super) fn free(&self) {
        self.ways.send_modify(|ways| {
            (ways.inward, ways.outward) = (Way::default(), Way::default());
            ways.freed += 1;
        });
    }

    /// Whether nothing is in its hands. Bytes that wait in sockets for it to read them are not.
    pub(super) fn is_empty(&self) -> bool {
        self.held.load(Ordering::Relaxed) == 0
    }
}

impl Ways {
    const fn of(&self, course: Course) -> &Way {
        match course {
            Course::In => &self.inward,
            Course::Out => &self.outward,
        }
    }

    const fn of_mut(&mut self, course: Course) -> &mut Way {
        match course {
            Course::In => &mut self.inward,
            Course::Out => &mut self.outward,
        }
    }

    const fn are_cut(&self) -> bool {
        self.inward.cuts > 0 && self.outward.cuts > 0
    }

    /// Whether a connection cannot be made: that takes both ways.
    const fn refuse(&self) -> bool {
        self.inward.cuts > 0 || self.outward.cuts > 0
    }

    const fn are_held(&self) -> bool {
        self.inward.holds > 0 || self.outward.holds > 0
    }
}

impl Way {
    fn begin(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Cut => self.cuts += 1,
            Trouble::Hold => self.holds += 1,
            Trouble::Slow(by) => self.slower += by,
            Trouble::Limit(bits_per_second) => self.limits.push(bits_per_second),
        }
    }

    fn end(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Cut => self.cuts = self.cuts.saturating_sub(1),
            Trouble::Hold => self.holds = self.holds.saturating_sub(1),
            Trouble::Slow(by) => self.slower = self.slower - by,
            Trouble::Limit(rate) => {
                if let Some(place) = self.limits.iter().position(|it| *it == rate) {
                    self.limits.swap_remove(place);
                }
            }
        }
    }

    /// The smallest rate of those that are on.
    fn limit(&self) -> Option<u64> {
        self.limits.iter().copied().min()
    }
}

impl Keeper {
    /// Lets in who comes, as long as the door is there.
    pub(super) async fn keep(self, clock: Clock) {
        // Its port was bound for it: within a runtime that has sockets this does not fail.
        let Ok(listener) = TcpListener::from_std(self.listener) else {
            return;
        };
        loop {
            match listener.accept().await {
                Ok((client, _)) => {
                    let passage = Passage {
                        target: self.target,
                        ways: self.ways.clone(),
                        wires: self.wires.clone(),
                        held: Arc::clone(&self.held),
                        clock,
                    };
                    tokio::spawn(passage.pass(client));
                }
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            }
        }
    }
}

/// One connection through a door.
struct Passage {
    target: SocketAddr,
    ways: watch::Receiver<Ways>,
    wires: Wires,
    held: Held,
    clock: Clock,
}

/// A connection is not to live on.
struct Broken;

impl Passage {
    /// Passes on what goes either way until both ends are done, or it breaks.
    async fn pass(self, mut client: TcpStream) {
        // A cut that begins while it is made is about it, too.
        let resets = self.ways.borrow().resets;
        let Some(mut server) = self.open().await else {
            return reset(&client);
        };
        let passed = {
            // Small frames are not to wait for each other here.
            let (_, _) = (client.set_nodelay(true), server.set_nodelay(true));
            let (from_client, to_client) = client.split();
            let (from_server, to_server) = server.split();
            let inward = self.carry(Course::In, from_client, to_server);
            let outward = self.carry(Course::Out, from_server, to_client);
            tokio::select! {
                biased;
                () = self.broken(resets) => Err(Broken),
                passed = async { tokio::try_join!(inward, outward) } => passed.map(drop),
            }
        };
        if passed.is_err() {
            reset(&client);
            reset(&server);
        }
    }

    /// Connects to the server behind, once nothing holds the way there.
    async fn open(&self) -> Option<TcpStream> {
        let mut ways = self.ways.clone();
        let free = |ways: &Ways| ways.refuse() || !ways.are_held();
        if ways.wait_for(free).await.ok()?.refuse() {
            return None;
        }
        TcpStream::connect(self.target).await.ok()
    }

    /// Ends when all connections of the door were reset more often than `resets`, or the door is gone.
    async fn broken(&self, resets: u64) {
        let mut ways = self.ways.clone();
        // The error is that the door is gone.
        let _ = ways.wait_for(|ways| ways.resets != resets).await;
    }

    /// Carries what goes one way until its sender is done.
    async fn carry(
        &self,
        course: Course,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) -> Result<(), Broken> {
        let mut ways = self.ways.clone();
        let (held, wire) = (Arc::clone(&self.held), self.wires.of(course));
        let mut load = Load::new(held, wire, ways.borrow().freed);
        let mut buffer = BytesMut::new();
        loop {
            let (way, freed) = {
                let ways = ways.borrow_and_update();
                (ways.of(course).clone(), ways.freed)
            };
            if freed != load.freed {
                load.hurry(freed);
            }
            if way.cuts > 0 {
                load.lose();
            } else if load.has_lost {
                return Err(Broken);
            }
            let is_open = way.holds == 0;
            let may_read = is_open && !load.has_ended && load.bytes < WINDOW_BYTES;
            if buffer.capacity() < LEAST_ROOM {
                buffer.reserve(READ_BYTES);
            }
            tokio::select! {
                biased;
                changed = ways.changed() => changed.map_err(|_| Broken)?,
                put = load.put_down(&self.clock, way.limit(), &mut to), if is_open && !load.parcels.is_empty() => {
                    if put.map_err(|_| Broken)? == Put::Last {
                        return to.shutdown().await.map_err(|_| Broken);
                    }
                }
                read = from.read_buf(&mut buffer), if may_read => {
                    read.map_err(|_| Broken)?;
                    load.take_up(self.clock.now() + way.slower, buffer.split().freeze());
                }
            }
        }
    }
}

/// What is on its way.
struct Load {
    /// Each with the time at which it arrives; the end of the stream has no bytes.
    parcels: VecDeque<(Time, Bytes)>,
    bytes: usize,
    /// Those of all loads of the door.
    held: Held,
    wire: Wire,
    /// What is on the wire, if there is a limit.
    piece: Option<Piece>,
    /// How often the door had been freed when this was last looked at.
    freed: u64,
    has_ended: bool,
    has_lost: bool,
}

#[derive(PartialEq, Eq)]
enum Put {
    Some,
    /// The sender is done, and everything has arrived.
    Last,
}

impl Load {
    const fn new(held: Held, wire: Wire, freed: u64) -> Self {
        Self {
            parcels: VecDeque::new(),
            bytes: 0,
            held,
            wire,
            piece: None,
            freed,
            has_ended: false,
            has_lost: false,
        }
    }

    fn take_up(&mut self, arrival: Time, bytes: Bytes) {
        self.has_ended = bytes.is_empty();
        self.bytes += bytes.len();
        self.held.fetch_add(bytes.len(), Ordering::Relaxed);
        self.parcels.push_back((arrival, bytes));
    }

    fn put_off(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The door was freed once more: nothing waits for its time any longer.
    fn hurry(&mut self, freed: u64) {
        self.freed = freed;
        for (arrival, _) in &mut self.parcels {
            *arrival = Time::ZERO;
        }
    }

    /// Everything is lost. That the sender is done comes out when the connection is reset.
    fn lose(&mut self) {
        self.has_lost |= !self.parcels.is_empty();
        self.parcels.clear();
        self.piece = None;
        self.put_off(self.bytes);
    }

    /// Passes on a piece of what comes first, when its time has come. Nothing has happened if it is dropped
    /// before its end, but that the piece stays on the wire.
    async fn put_down(
        &mut self,
        clock: &Clock,
        limit: Option<u64>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<Put> {
        let Some((arrival, parcel)) = self.parcels.front_mut() else {
            return Ok(Put::Some);
        };
        wait_until(clock, *arrival).await;
        if parcel.is_empty() {
            return Ok(Put::Last);
        }
        if limit.is_none() && self.piece.is_some() {
            self.wire.open();
        }
        self.piece
            .take_if(|piece| Some(piece.bits_per_second) != limit);
        if let Some(rate) = limit
            && self.piece.is_none()
        {
            let bytes = parcel.len().min(Pace::piece_bytes(rate));
            self.piece = Some(self.wire.take(clock.now(), rate, (*arrival, bytes)));
        }
        let mut most = parcel.len();
        if let Some(piece) = self.piece {
            wait_until(clock, piece.at).await;
            most = piece.bytes;
        }
        let written = to.write(&parcel[..most]).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        if let Some(piece) = &mut self.piece {
            piece.bytes -= written;
        }
        self.piece.take_if(|piece| piece.bytes == 0);
        let _ = parcel.split_to(written);
        if parcel.is_empty() {
            self.parcels.pop_front();
        }
        self.put_off(written);
        Ok(Put::Some)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.put_off(self.bytes);
    }
}

async fn wait_until(clock: &Clock, at: Time) {
    if at > clock.now()
        && let Some(at) = clock.instant(at)
    {
        tokio::time::sleep_until(at.into()).await;
    }
}

/// Lets a connection end with a reset as it is dropped.
fn reset(stream: &TcpStream) {
    // One that has failed already needs none.
    let _ = stream.set_zero_linger();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A door, a client that has come in by it, and the server's end of that.
    struct Lab {
        door: Door,
        client: TcpStream,
        server: TcpStream,
        listener: TcpListener,
    }

    impl Lab {
        async fn new() -> Self {
            Self::with(Wires::Own).await
        }

        async fn with(wires: Wires) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (door, keeper) =
                Door::before(listener.local_addr().unwrap().port(), wires).unwrap();
            tokio::spawn(keeper.keep(Clock::start()));
            let client = TcpStream::connect(door.address()).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            Self {
                door,
                client,
                server,
                listener,
            }
        }

        async fn sent_in(&mut self, text: &[u8]) {
            self.client.write_all(text).await.unwrap();
        }

        async fn arrives(&mut self, text: &[u8]) {
            let mut found = vec![0; text.len()];
            self.server.read_exact(&mut found).await.unwrap();
            assert_eq!(found, text);
        }

        /// Whether nothing comes for 100 ms.
        async fn is_silent(stream: &mut TcpStream) -> bool {
            let mut byte = [0];
            let reading = stream.read(&mut byte);
            tokio::time::timeout(Duration::from_millis(100), reading)
                .await
                .is_err()
        }

        async fn is_empty_soon(&self) {
            let looking = async {
                while !self.door.is_empty() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            let patience = Duration::from_secs(10);
            tokio::time::timeout(patience, looking).await.unwrap();
        }

        /// Whether a new client is turned away with a reset.
        async fn turns_away(&self) -> bool {
            let Ok(mut late) = TcpStream::connect(self.door.address()).await else {
                return true;
            };
            late.read(&mut [0]).await.is_err()
        }
    }

    #[tokio::test]
    async fn bytes_pass_both_ways_and_so_does_the_end() {
        let mut lab = Lab::new().await;
        let text = vec![7; 3 * READ_BYTES];
        lab.sent_in(&text).await;
        lab.arrives(&text).await;
        lab.server.write_all(b"back").await.unwrap();
        lab.client.shutdown().await.unwrap();
        assert_eq!(lab.server.read(&mut [0]).await.unwrap(), 0);
        drop(lab.server);
        let mut back = String::new();
        lab.client.read_to_string(&mut back).await.unwrap();
        assert_eq!(back, "back");
    }

    #[tokio::test]
    async fn a_hold_of_one_way_keeps_back_that_way_and_loses_nothing() {
        let mut lab = Lab::new().await;
        lab.door.begin(Course::In, Trouble::Hold);
        lab.sent_in(b"held").await;
        assert!(Lab::is_silent(&mut lab.server).await);
        lab.server.write_all(b"x").await.unwrap();
        assert_eq!(lab.client.read(&mut [0]).await.unwrap(), 1);
        lab.door.end(Course::In, Trouble::Hold);
        lab.arrives(b"held").await;
    }

    #[tokio::test]
    async fn whoever_comes_during_a_hold_gets_in_at_its_end() {
        let lab = Lab::new().await;
        lab.door.begin(Course::Out, Trouble::Hold);
        let _late = TcpStream::connect(lab.door.address()).await.unwrap();
        let waiting = tokio::time::timeout(Duration::from_millis(100), lab.listener.accept());
        assert!(waiting.await.is_err());
        lab.door.end(Course::Out, Trouble::Hold);
        assert!(lab.listener.accept().await.is_ok());
    }

    #[tokio::test]
    async fn a_cut_of_both_ways_resets_who_is_there_and_turns_others_away() {
        let mut lab = Lab::new().await;
        lab.door.begin(Course::In, Trouble::Cut);
        lab.door.begin(Course::Out, Trouble::Cut);
        assert!(lab.client.read(&mut [0]).await.is_err());
        assert!(lab.server.read(&mut [0]).await.is_err());
        assert!(lab.turns_away().await);
        lab.door.end(Course::In, Trouble::Cut);
        lab.door.end(Course::Out, Trouble::Cut);
        assert!(TcpStream::connect(lab.door.address()).await.is_ok());
        assert!(lab.listener.accept().await.is_ok());
    }

    #[tokio::test]
    async fn a_cut_of_one_way_loses_what_goes_there_and_is_noticed_at_its_end() {
        let mut lab = Lab::new().await;
        lab.door.begin(Course::In, Trouble::Cut);
        lab.sent_in(b"lost").await;
        assert!(Lab::is_silent(&mut lab.server).await);
        assert!(lab.turns_away().await);
        lab.server.write_all(b"x").await.unwrap();
        assert_eq!(lab.client.read(&mut [0]).await.unwrap(), 1);
        lab.door.end(Course::In, Trouble::Cut);
        assert!(lab.server.read(&mut [0]).await.is_err());
    }

    #[tokio::test]
    async fn a_cut_of_one_way_that_lost_nothing_is_never_noticed() {
        let mut lab = Lab::new().await;
        lab.door.begin(Course::In, Trouble::Cut);
        assert!(Lab::is_silent(&mut lab.server).await);
        lab.door.end(Course::In, Trouble::Cut);
        lab.sent_in(b"on").await;
        lab.arrives(b"on").await;
    }

    #[tokio::test]
    async fn slow_bytes_come_late_in_order_and_not_one_after_the_other() {
        let mut lab = Lab::new().await;
        let clock = Clock::start();
        lab.door
            .begin(Course::In, Trouble::Slow(Time::from_millis(60)));
        for part in [b"a", b"b", b"c"] {
            lab.sent_in(part).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        lab.door
            .end(Course::In, Trouble::Slow(Time::from_millis(60)));
        lab.sent_in(b"d").await;
        lab.arrives(b"abcd").await;
        let took = clock.now();
        assert!(took >= Time::from_millis(60), "{took:?}");
        assert!(took < Time::from_millis(160), "{took:?}");
    }

    /// What a second client sends, and what comes of it.
    async fn through(lab: &Lab, bytes: usize) -> Vec<u8> {
        let mut client = TcpStream::connect(lab.door.address()).await.unwrap();
        let (mut server, _) = lab.listener.accept().await.unwrap();
        client.write_all(&vec![9; bytes]).await.unwrap();
        drop(client);
        let mut found = Vec::new();
        server.read_to_end(&mut found).await.unwrap();
        found
    }

    /// 20,000 bytes at 800 kbit/s.
    const FIFTH: Time = Time::from_millis(200);

    #[tokio::test]
    async fn bytes_take_at_least_as_long_as_the_limit_of_their_way_has_them() {
        let mut lab = Lab::new().await;
        lab.door.begin(Course::In, Trouble::Limit(1_000_000_000));
        lab.door.begin(Course::In, Trouble::Limit(800_000));
        let text: Vec<u8> = (0..20_000).map(|at| at as u8).collect();
        let clock = Clock::start();
        lab.sent_in(&text).await;
        // The way back is as wide as ever.
        lab.server.write_all(&[1; 100_000]).await.unwrap();
        let mut back = vec![0; 100_000];
        lab.client.read_exact(&mut back).await.unwrap();
        lab.arrives(&text).await;
        assert!(clock.now() >= FIFTH, "{:?}", clock.now());
        lab.is_empty_soon().await;
    }

    #[tokio::test]
    async fn connections_on_one_wire_share_its_rate() {
        let wires = Wires::Shared {
            inward: Wire::default(),
            outward: Wire::default(),
        };
        let lab = Lab::with(wires).await;
        lab.door.begin(Course::In, Trouble::Limit(800_000));
        let clock = Clock::start();
        let both = tokio::join!(through(&lab, 10_000), through(&lab, 10_000));
        assert_eq!(both.0.len() + both.1.len(), 20_000);
        assert!(clock.now() >= FIFTH, "{:?}", clock.now());
    }

    #[tokio::test]
    async fn what_waits_at_the_end_of_a_limit_goes_on_at_once() {
        let mut lab = Lab::new().await;
        let least = Trouble::Limit(1_000);
        lab.door.begin(Course::In, least);
        let text = vec![5; 100_000];
        lab.sent_in(&text).await;
        lab.door.end(Course::In, least);
        let patience = Duration::from_secs(60);
        let arriving = tokio::time::timeout(patience, lab.arrives(&text));
        arriving.await.unwrap();
    }

    /// The sender finds its socket full long before everything is sent.
    #[tokio::test]
    async fn a_limited_way_pushes_back() {
        let mut lab = Lab::new().await;
        lab.door.begin(Course::In, Trouble::Limit(1_000));
        let much = vec![0; 8 * WINDOW_BYTES];
        let held = || lab.door.held.load(Ordering::Relaxed);
        let is_full = async {
            while held() < WINDOW_BYTES {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            biased;
            _ = lab.client.write_all(&much) => panic!("all of it was taken"),
            () = is_full => {}
        }
        assert!(held() < WINDOW_BYTES + READ_BYTES);
    }

    #[tokio::test]
    async fn troubles_add_up_and_freedom_ends_them_all() {
        let mut lab = Lab::new().await;
        lab.door.begin(Course::In, Trouble::Hold);
        lab.door.begin(Course::In, Trouble::Hold);
        lab.door.end(Course::In, Trouble::Hold);
        lab.sent_in(b"x").await;
        assert!(Lab::is_silent(&mut lab.server).await);
        lab.door.free();
        lab.arrives(b"x").await;
    }

    #[tokio::test]
    async fn freedom_lets_what_was_slowed_down_arrive_at_once() {
        let mut lab = Lab::new().await;
        let hour = Trouble::Slow(Time::from_secs(3_600));
        lab.door.begin(Course::In, hour);
        lab.sent_in(b"late").await;
        assert!(Lab::is_silent(&mut lab.server).await);
        lab.door.free();
        lab.sent_in(b"r").await;
        let patience = Duration::from_secs(10);
        let arriving = tokio::time::timeout(patience, lab.arrives(b"later"));
        arriving.await.unwrap();
    }

    #[tokio::test]
    async fn a_door_is_empty_once_what_was_late_has_arrived_or_is_lost() {
        let mut lab = Lab::new().await;
        let hour = Trouble::Slow(Time::from_secs(3_600));
        assert!(lab.door.is_empty());
        lab.door.begin(Course::In, hour);
        lab.sent_in(b"late").await;
        assert!(Lab::is_silent(&mut lab.server).await);
        assert!(!lab.door.is_empty());
        lab.door.free();
        lab.arrives(b"late").await;
        lab.is_empty_soon().await;
        lab.door.begin(Course::In, hour);
        lab.sent_in(b"lost").await;
        assert!(Lab::is_silent(&mut lab.server).await);
        assert!(!lab.door.is_empty());
        lab.door.begin(Course::In, Trouble::Cut);
        lab.door.begin(Course::Out, Trouble::Cut);
        lab.is_empty_soon().await;
    }
}
