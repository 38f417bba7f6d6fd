//! What the event substrate needs to be true of the pinned tokio, fact by fact.
//!
//! A failure here after a bump of tokio means that `src/sim/substrate/event/mod.rs` (`park`,
//! `advance`, `set_fence`) no longer stands on firm ground: read how the new version parks a
//! current-thread runtime with a paused clock, change those functions, then these facts.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

const MS: fn(u64) -> Duration = Duration::from_millis;
const US: fn(u64) -> Duration = Duration::from_micros;
const CHECK: &str = "tokio has changed: see the head of this file";

type Hook = Box<dyn FnMut()>;

thread_local! {
    static PARK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    static FENCE: RefCell<Option<Pin<Box<Sleep>>>> = const { RefCell::new(None) };
}

fn runtime() -> LocalRuntime {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .on_thread_park(|| {
            let hook = PARK.take();
            if let Some(mut hook) = hook {
                hook();
                PARK.replace(Some(hook));
            }
        })
        .build_local(LocalOptions::default())
        .unwrap()
}

fn on_park(hook: impl FnMut() + 'static) {
    PARK.replace(Some(Box::new(hook)));
}

fn advance(step: Duration) {
    let _ = pin!(tokio::time::advance(step)).poll(&mut Context::from_waker(Waker::noop()));
}

/// The moments, since the start, at which the runtime was about to park while `main` ran.
fn parks(
    main: impl Future<Output = ()>,
    mut hook: impl FnMut(Duration) + 'static,
) -> Vec<Duration> {
    let seen = std::rc::Rc::new(RefCell::new(Vec::new()));
    let told = std::rc::Rc::clone(&seen);
    let runtime = runtime();
    let start = runtime.block_on(async { Instant::now() });
    on_park(move || {
        let now = start.elapsed();
        told.borrow_mut().push(now);
        hook(now);
    });
    runtime.block_on(main);
    PARK.take();
    FENCE.take();
    seen.take()
}

#[test]
fn the_hook_runs_before_the_park_and_may_wake() {
    let waker = std::rc::Rc::new(RefCell::new(None::<Waker>));
    let wakes = std::rc::Rc::clone(&waker);
    let polls = Cell::new(0);
    let main = poll_fn(|context| {
        polls.set(polls.get() + 1);
        waker.replace(Some(context.waker().clone()));
        match polls.get() {
            3 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    });
    let parks = parks(main, move |_| {
        if let Some(waker) = wakes.take() {
            waker.wake();
        }
    });
    assert_eq!(parks, [MS(0), MS(0)], "{CHECK}");
}

#[test]
fn the_first_poll_of_an_advance_moves_the_clock_exactly_and_nothing_else_does_then() {
    let mut step = 0;
    let main = async { sleep(MS(5)).await };
    let parks = parks(main, move |_| {
        step += 1;
        match step {
            1 => advance(Duration::from_nanos(300_001)),
            2 => advance(Duration::from_nanos(699_999)),
            _ => {}
        }
    });
    // The runtime jumps only where the hook did nothing: from 1 ms to 5 ms.
    let exact = [MS(0), Duration::from_nanos(300_001), MS(1)];
    assert_eq!(parks, exact, "{CHECK}");
}

#[test]
fn the_runtime_jumps_to_its_next_timer_and_no_further() {
    let woken = RefCell::new(Vec::new());
    let main = async {
        let start = Instant::now();
        for wait in [MS(3), US(10), Duration::from_secs(3_600)] {
            sleep(wait).await;
            woken.borrow_mut().push(start.elapsed());
        }
    };
    parks(main, |_| {});
    // Timers fire at whole milliseconds from the start of the runtime.
    let hour = MS(4) + Duration::from_secs(3_600);
    assert_eq!(woken.take(), [MS(3), MS(4), hour], "{CHECK}");
}

#[test]
fn timers_that_are_due_fire_without_a_jump_after_the_hook_moved_the_clock() {
    let woken = Cell::new(Duration::ZERO);
    let main = async {
        let start = Instant::now();
        sleep(MS(1)).await;
        woken.set(start.elapsed());
        sleep(MS(1)).await;
    };
    let mut parks = parks(main, |now| {
        if now < MS(1) {
            advance(US(500));
        }
    });
    assert_eq!(woken.get(), MS(1), "{CHECK}");
    // A park right after the main future was woken does not jump: it comes round once more.
    parks.dedup();
    assert_eq!(parks, [MS(0), US(500), MS(1)], "{CHECK}");
}

#[test]
fn a_timer_that_is_set_by_the_hook_alone_stops_the_jump() {
    let main = async {
        let fence = sleep_until(Instant::now());
        FENCE.replace(Some(Box::pin(fence)));
        sleep(MS(50)).await;
    };
    let mut stops = [MS(10), MS(20), MS(90)].into_iter();
    let parks = parks(main, move |now| {
        let Some(stop) = stops.next() else { return };
        FENCE.with_borrow_mut(|fence| {
            let fence = fence.as_mut().unwrap();
            fence.as_mut().reset(Instant::now() + (stop - now));
        });
    });
    assert_eq!(parks, [MS(0), MS(10), MS(20)], "{CHECK}");
}
