//! `tokio::task`, with spawns that hand on the simulated host.
//!
//! [`spawn`] and [`spawn_local`] differ from those of the real crate; the rest, `JoinSet` and
//! `LocalSet::spawn_local` among it, is the real crate's and hands nothing on. Leans on `host`.

use std::future::Future;

pub use real::task::*;

use crate::host::{Hosted, register};

/// Spawns a task, as [`real::spawn`] does. It belongs to the host of its spawner.
///
/// # Panics
/// Outside of a runtime.
#[inline]
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let hosted = Hosted::new(future);
    let key = hosted.key();
    let task = real::spawn(hosted);
    if let Some(key) = key {
        register(key, task.abort_handle());
    }
    task
}

/// Spawns a task on this thread, as [`real::task::spawn_local`] does. It belongs to the host of its
/// spawner.
///
/// # Panics
/// Outside of a `LocalSet` and of a local runtime.
#[inline]
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let hosted = Hosted::new(future);
    let key = hosted.key();
    let task = real::task::spawn_local(hosted);
    if let Some(key) = key {
        register(key, task.abort_handle());
    }
    task
}
