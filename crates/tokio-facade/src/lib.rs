//! The crate tokio, with a network that can be replaced at run time.
//!
//! Everything is re-exported from the real crate, which is pinned exactly, but for:
//!
//! - [`net`]: TCP and name resolution go through a [`hook::Network`] where one is installed on the
//!   thread, and to the operating system everywhere else;
//! - [`spawn`], [`task::spawn`], [`task::spawn_local`]: a task belongs to the simulated host of the
//!   task that spawned it;
//! - [`select!`]: on a thread with a network, the branch that goes first is drawn by that network.
//!
//! The workspace puts this crate in the place of tokio with `[patch.crates-io]`, so that client
//! crates that nobody changed run in the simulator and on real sockets, in one binary. Without an
//! installed network all this costs a branch for each call.
//!
//! Leans on the real crate, renamed `real`, and knows nothing of tidegate: [`hook`] is the seam.

pub use real::*;

#[cfg(feature = "net")]
pub mod hook;
#[cfg(feature = "net")]
pub mod net;

#[cfg(feature = "rt")]
mod host;
#[cfg(feature = "rt")]
pub mod task;
#[cfg(feature = "rt")]
pub use task::spawn;

/// What [`select!`] expands to; not for use by hand.
#[doc(hidden)]
#[cfg(feature = "macros")]
pub mod select_support {
    pub use real;

    /// The branch of `select!` that is polled first, of `branches`.
    #[inline]
    pub fn first_branch(branches: u32) -> u32 {
        #[cfg(feature = "net")]
        if let Some(first) = crate::hook::choose(branches) {
            return first;
        }
        real::macros::support::thread_rng_n(branches)
    }
}

/// `select!` of the real crate, with one difference: on a thread with a simulated network, the
/// network draws the branch that is polled first.
///
/// The real crate seeds that draw from a counter of the whole process, so that two simulations in
/// one process would differ. A `select!` that is `biased` draws nothing and is passed on as it is.
///
/// This names the entry of the real macro that takes the first branch as an expression, and the
/// constant in which that entry keeps the number of branches. Both are internal: the exact pin
/// keeps them, and a change does not compile.
#[cfg(feature = "macros")]
#[macro_export]
macro_rules! select {
    (biased; $($rest:tt)*) => {
        $crate::select_support::real::select! { biased; $($rest)* }
    };
    (else => $($rest:tt)*) => {
        $crate::select_support::real::select! { else => $($rest)* }
    };
    ($first:pat = $($rest:tt)*) => {
        $crate::select_support::real::select! {
            @{ start = { $crate::select_support::first_branch(BRANCHES) }; () } $first = $($rest)*
        }
    };
    () => {
        $crate::select_support::real::select! {}
    };
}
