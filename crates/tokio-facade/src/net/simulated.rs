//! What a socket does with polls alone, for a simulated [`Stream`]. Leans on `hook`.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::task::{Context, Poll, Waker};

use bytes::BufMut;

use crate::hook::Stream;
use crate::io::{Interest, ReadBuf, Ready};

/// The time to live that simulated sockets tell.
pub(super) const TIME_TO_LIVE: u32 = 64;

/// Most bytes that one read into a growing buffer takes.
const PIECE_BYTES: usize = 8 << 10;

pub(super) async fn peek(stream: &dyn Stream, buffer: &mut [u8]) -> io::Result<usize> {
    let mut buffer = ReadBuf::new(buffer);
    poll_fn(|context| stream.poll_peek(context, &mut buffer)).await
}

/// Waits until one of `interest` would not wait.
pub(super) async fn ready(stream: &dyn Stream, interest: Interest) -> io::Result<Ready> {
    poll_fn(|context| {
        let mut ready = Ready::EMPTY;
        if interest.is_readable() && stream.poll_read_ready(context)?.is_ready() {
            ready |= Ready::READABLE;
        }
        if interest.is_writable() && stream.poll_write_ready(context)?.is_ready() {
            ready |= Ready::WRITABLE;
        }
        match ready.is_empty() {
            true => Poll::Pending,
            false => Poll::Ready(Ok(ready)),
        }
    })
    .await
}

pub(super) fn try_read(stream: &dyn Stream, buffer: &mut [u8]) -> io::Result<usize> {
    let mut buffer = ReadBuf::new(buffer);
    at_once(|context| stream.poll_read(context, &mut buffer))?;
    Ok(buffer.filled().len())
}

/// Fills the first buffer that has room, and no further one.
pub(super) fn try_read_vectored(
    stream: &dyn Stream,
    buffers: &mut [IoSliceMut<'_>],
) -> io::Result<usize> {
    match buffers.iter_mut().find(|buffer| !buffer.is_empty()) {
        Some(buffer) => try_read(stream, buffer),
        None => Ok(0),
    }
}

pub(super) fn try_read_buf<B: BufMut>(stream: &dyn Stream, buffer: &mut B) -> io::Result<usize> {
    let mut piece = [0; PIECE_BYTES];
    let room = buffer.remaining_mut().min(PIECE_BYTES);
    let count = try_read(stream, &mut piece[..room])?;
    buffer.put_slice(&piece[..count]);
    Ok(count)
}

pub(super) fn try_write_vectored(
    stream: &dyn Stream,
    buffers: &[IoSlice<'_>],
) -> io::Result<usize> {
    at_once(|context| stream.poll_write(context, buffers))
}

/// The result of a poll that must not wait. A stream keeps no waker that does nothing, so whoever
/// waits already goes on waiting.
pub(super) fn at_once<T>(
    poll: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<T>>,
) -> io::Result<T> {
    match poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

pub(super) fn unsupported(what: &str) -> io::Error {
    let message = format!("a simulated socket has no `{what}`");
    io::Error::new(io::ErrorKind::Unsupported, message)
}

pub(super) fn network_is_gone() -> io::Error {
    let message = "the simulated network is gone";
    io::Error::new(io::ErrorKind::NetworkUnreachable, message)
}

pub(super) fn no_address() -> io::Error {
    let message = "could not resolve to any address";
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
