//! `getrandom`, `syscall` and `clock_gettime` in the place of the C library's.
//!
//! A definition in the executable goes before those in shared libraries, so these are what the rest
//! of the program calls; the C library's own are found with `dlsym` and called for all threads that
//! are not armed. `syscall` is among them because crates ask for random bytes that way too. Leans on
//! the thread's state in the top of the crate.

use std::ffi::{CStr, c_int, c_long, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{clockid_t, size_t, ssize_t, timespec};

use crate::{MONOTONIC_SECONDS, REALTIME_SECONDS, fill, shown};

/// A function of the C library, looked up at its first use.
struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

static GETRANDOM: Next = Next::new(c"getrandom");
static SYSCALL: Next = Next::new(c"syscall");
static CLOCK_GETTIME: Next = Next::new(c"clock_gettime");

impl Next {
    const fn new(name: &'static CStr) -> Self {
        let address = AtomicPtr::new(ptr::null_mut());
        Self { name, address }
    }

    /// Its address; null if the C library has none.
    #[inline]
    fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        match known.is_null() {
            true => self.look_up(),
            false => known,
        }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        // SAFETY: the name is a C string, and `RTLD_NEXT` asks for the definition after the one in
        // this executable. Threads that look it up at once store the same address.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// Says that the system has no such function.
fn not_there() -> c_int {
    // SAFETY: glibc gives each thread an `errno` of its own, valid while the thread runs.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; nobody else has a reference to it.
    unsafe { *errno = libc::ENOSYS };
    -1
}

/// `getrandom(2)` of the C library, with seeded bytes on armed threads.
///
/// # Safety
/// As for the C library's: `buffer` is null, or valid for writes of `length` bytes.
// SAFETY: the name is that of the C library's function, and so are arguments and result.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: size_t, flags: c_uint) -> ssize_t {
    // SAFETY: the caller keeps the contract that `answer` has.
    if unsafe { answer(buffer, length) } {
        return length as ssize_t;
    }
    type Function = unsafe extern "C" fn(*mut c_void, size_t, c_uint) -> ssize_t;
    let next = GETRANDOM.address();
    if next.is_null() {
        return not_there() as ssize_t;
    }
    // SAFETY: not null, so it is the C library's function of this name, which has this type.
    let next = unsafe { std::mem::transmute::<*mut c_void, Function>(next) };
    // SAFETY: the arguments are the caller's.
    unsafe { next(buffer, length, flags) }
}

/// Fills the buffer from the seed; `false`, and nothing done, on a thread that is not armed.
///
/// # Safety
/// `buffer` is null, or valid for writes of `length` bytes.
#[inline]
unsafe fn answer(buffer: *mut c_void, length: size_t) -> bool {
    if !crate::is_armed() || buffer.is_null() || isize::try_from(length).is_err() {
        return false;
    }
    let buffer = buffer.cast::<u8>();
    // SAFETY: not null, and valid for `length` bytes by the caller's contract.
    unsafe { ptr::write_bytes(buffer, 0, length) };
    // SAFETY: as above, initialised by the line before, and nobody else's while the call lasts.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    fill(bytes)
}

/// `syscall(2)` of the C library, with seeded bytes for `SYS_getrandom` on armed threads.
///
/// Defined with six arguments instead of any number: on the supported platforms arguments of this
/// kind are passed in the same way, and no system call has more. Those that the caller left out are
/// passed on unread, as the C library does it.
///
/// # Safety
/// As for the C library's: whatever the call of that number asks for.
// SAFETY: the name is that of the C library's function, and arguments and result are passed like its.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    first: c_long,
    second: c_long,
    third: c_long,
    fourth: c_long,
    fifth: c_long,
    sixth: c_long,
) -> c_long {
    if number == libc::SYS_getrandom {
        let buffer = ptr::with_exposed_provenance_mut(first as usize);
        // SAFETY: these are the arguments of `getrandom`, with its contract.
        if unsafe { answer(buffer, second as size_t) } {
            return second;
        }
    }
    type Function = unsafe extern "C" fn(c_long, ...) -> c_long;
    let next = SYSCALL.address();
    if next.is_null() {
        return c_long::from(not_there());
    }
    // SAFETY: not null, so it is the C library's function of this name, which has this type.
    let next = unsafe { std::mem::transmute::<*mut c_void, Function>(next) };
    // SAFETY: the arguments are the caller's.
    unsafe { next(number, first, second, third, fourth, fifth, sixth) }
}

/// `clock_gettime(2)` of the C library, with simulated time on armed threads.
///
/// # Safety
/// As for the C library's: `time` is valid for writes.
// SAFETY: the name is that of the C library's function, and so are arguments and result.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    if crate::is_armed()
        && let Some(simulated) = simulated(clock)
        && !time.is_null()
    {
        // SAFETY: not null, and valid for writes by the caller's contract.
        unsafe { time.write(simulated) };
        return 0;
    }
    type Function = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;
    let next = CLOCK_GETTIME.address();
    if next.is_null() {
        return not_there();
    }
    // SAFETY: not null, so it is the C library's function of this name, which has this type.
    let next = unsafe { std::mem::transmute::<*mut c_void, Function>(next) };
    // SAFETY: the arguments are the caller's.
    unsafe { next(clock, time) }
}

/// What a clock shows on an armed thread; none for those that count processor time.
#[cold]
fn simulated(clock: clockid_t) -> Option<timespec> {
    let start = match clock {
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_BOOTTIME => MONOTONIC_SECONDS,
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => REALTIME_SECONDS,
        _ => return None,
    };
    let (seconds, nanoseconds) = shown(start)?;
    Some(timespec {
        tv_sec: seconds as libc::time_t,
        tv_nsec: nanoseconds as c_long,
    })
}
