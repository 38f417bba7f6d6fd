//! Seeded randomness and simulated time, for the threads that ask for it and for no other.
//!
//! Code of others takes random bytes and the time from the C library: hash keys of the standard
//! library, names of inboxes, shuffles of server lists, `Instant::now`. In a deterministic
//! simulation both must follow from the seed. On Linux with glibc (x86-64 and aarch64) this crate
//! defines `getrandom`, `syscall` and `clock_gettime` anew, and the linker prefers them. On a
//! thread that is armed they answer from the seed and from the simulated time; on every other
//! thread they pass the call on, and randomness stays random.
//!
//! Elsewhere nothing is defined, and arming is refused.
//!
//! This is the one crate of the project with unsafe code. Leans on `libc`.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64",
    not(target_feature = "crt-static"),
    not(miri)
))]
mod interpose;

/// What this binary can do: the same condition as for the module that does it.
const SUPPORTED: bool = cfg!(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64",
    not(target_feature = "crt-static"),
    not(miri)
));

/// What the clocks of an armed thread show when nothing has elapsed, in seconds: those that count
/// from the start of the machine, and those that show the date.
#[cfg_attr(not(test), allow(dead_code, reason = "not used without support"))]
const MONOTONIC_SECONDS: u64 = 1_000_000;
#[cfg_attr(not(test), allow(dead_code, reason = "not used without support"))]
const REALTIME_SECONDS: u64 = 1_767_225_600;

/// Whether threads can be armed in this binary.
pub const fn is_supported() -> bool {
    SUPPORTED
}

/// Why a thread was not armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The platform has no support: Linux with glibc on x86-64 or aarch64, linked dynamically, has.
    Unsupported,
    /// The thread is armed already.
    ArmedAlready,
    /// The thread has hash keys that were drawn before, so its maps would not follow the seed.
    DrawnAlready,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsupported => {
                "client code of others can be simulated on Linux with glibc on x86-64 or aarch64 only"
            }
            Self::ArmedAlready => "the thread is armed already",
            Self::DrawnAlready => "the thread has drawn random keys before it was armed",
        })
    }
}

impl std::error::Error for Refused {}

/// What an armed thread knows.
#[derive(Clone, Copy)]
struct State {
    generator: u64,
    draws: u64,
    elapsed_ns: u64,
}

thread_local! {
    // Without a destructor, so that it can be read at any time, even while a thread ends.
    static STATE: Cell<Option<State>> = const { Cell::new(None) };
}

/// Keeps a thread armed.
#[derive(Debug)]
#[must_use = "dropping it disarms the thread"]
pub struct Armed(PhantomData<*const ()>);

/// Arms this thread: from now on its randomness follows from `seed`, and its clocks stand still but
/// for [`set_elapsed_ns`].
///
/// A thread that is armed must not wait with a timeout for another: its clocks do not move.
///
/// # Errors
/// See [`Refused`]. The thread is then as it was.
pub fn arm(seed: u64) -> Result<Armed, Refused> {
    if !SUPPORTED {
        return Err(Refused::Unsupported);
    }
    if STATE.get().is_some() {
        return Err(Refused::ArmedAlready);
    }
    STATE.set(Some(State {
        generator: seed,
        draws: 0,
        elapsed_ns: 0,
    }));
    let armed = Armed(PhantomData);
    // The standard library draws the keys of a thread's maps at their first use, and keeps them.
    let _keys = std::hash::RandomState::new();
    match STATE.get() {
        Some(state) if state.draws > 0 => Ok(armed),
        _ => Err(Refused::DrawnAlready),
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        STATE.set(None);
    }
}

/// Runs `action` on a new thread that is armed with `seed`, and waits for it. A panic goes on in the
/// caller.
///
/// A new thread, because a thread keeps what it has drawn: hash keys, generators of crates.
///
/// # Errors
/// See [`Refused`]; `action` did not run.
pub fn isolated<T: Send>(seed: u64, action: impl FnOnce() -> T + Send) -> Result<T, Refused> {
    if !SUPPORTED {
        return Err(Refused::Unsupported);
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _armed = arm(seed)?;
            Ok(action())
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Whether this thread is armed.
pub fn is_armed() -> bool {
    STATE.get().is_some()
}

/// Sets the clocks of this thread to so many nanoseconds after it was armed. Without effect on a
/// thread that is not.
#[inline]
pub fn set_elapsed_ns(elapsed_ns: u64) {
    if let Some(state) = STATE.get() {
        STATE.set(Some(State {
            elapsed_ns,
            ..state
        }));
    }
}

/// Fills `bytes` from the seed; `false`, and nothing done, on a thread that is not armed.
#[cfg_attr(not(test), allow(dead_code, reason = "not used without support"))]
fn fill(bytes: &mut [u8]) -> bool {
    let Ok(Some(mut state)) = STATE.try_with(Cell::get) else {
        return false;
    };
    for piece in bytes.chunks_mut(8) {
        let word = next_word(&mut state.generator).to_le_bytes();
        piece.copy_from_slice(&word[..piece.len()]);
    }
    state.draws += 1;
    STATE.set(Some(state));
    true
}

/// The next word of a generator: SplitMix64, one addition and a mix of its bits.
fn next_word(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Seconds and nanoseconds that an armed thread's clock shows, counted from `start` seconds.
#[cfg_attr(not(test), allow(dead_code, reason = "not used without support"))]
#[inline]
fn shown(start: u64) -> Option<(u64, u64)> {
    let state = STATE.try_with(Cell::get).ok().flatten()?;
    let elapsed_ns = state.elapsed_ns;
    Some((
        start + elapsed_ns / 1_000_000_000,
        elapsed_ns % 1_000_000_000,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_follow_from_the_seed_and_only_where_armed() {
        let draw = |seed| {
            isolated(seed, || {
                let mut bytes = [0; 13];
                assert!(fill(&mut bytes));
                bytes
            })
        };
        let mut bytes = [7; 4];
        assert!(!fill(&mut bytes));
        assert_eq!(bytes, [7; 4]);
        if is_supported() {
            assert_eq!(draw(1), draw(1));
            assert_ne!(draw(1), draw(2));
        } else {
            assert_eq!(draw(1), Err(Refused::Unsupported));
        }
    }

    #[test]
    fn clocks_show_what_they_are_set_to() {
        assert_eq!(shown(MONOTONIC_SECONDS), None);
        let seen = isolated(1, || {
            set_elapsed_ns(2_000_000_005);
            (shown(MONOTONIC_SECONDS), shown(REALTIME_SECONDS))
        });
        let wanted = (
            Some((MONOTONIC_SECONDS + 2, 5)),
            Some((REALTIME_SECONDS + 2, 5)),
        );
        assert_eq!(seen.is_ok(), is_supported());
        assert!(seen.is_err() || seen == Ok(wanted));
    }
}
