//! Independent jobs on several threads, with results handed over one by one in the order of the jobs.
//!
//! Leans on nothing of ours.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError, mpsc};

/// Jobs that may be done before the first one that is not: bounds what waits for it.
const AHEAD: usize = 1_024;

/// Does jobs `0..count` on so many threads. `work` gives `None` for a job that is left out; `take`
/// gets the results in the order of the jobs, on the thread of the caller.
///
/// # Errors
/// The first error of `take`. Jobs not begun by then are left out.
pub(super) fn in_order<R: Send, E>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Option<R> + Sync,
    mut take: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let queue = Queue::new(count);
    let (sender, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let sender = sender.clone();
            let (queue, work) = (&queue, &work);
            scope.spawn(move || {
                let _guard = ClosesOnPanic(queue);
                while let Some(index) = queue.next() {
                    // Nobody listens any more after an error.
                    let _ = sender.send((index, work(index)));
                }
            });
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        let mut wanted = 0;
        for (index, result) in &results {
            waiting.insert(index, result);
            while let Some(result) = waiting.remove(&wanted) {
                if let Some(result) = result {
                    take(result).inspect_err(|_| queue.close())?;
                }
                wanted += 1;
            }
            queue.taken_to(wanted);
        }
        Ok(())
    })
}

/// Hands out the numbers of jobs.
struct Queue {
    state: Mutex<State>,
    moved: Condvar,
}

struct State {
    next: usize,
    count: usize,
    taken: usize,
}

impl Queue {
    const fn new(count: usize) -> Self {
        Self {
            state: Mutex::new(State {
                next: 0,
                count,
                taken: 0,
            }),
            moved: Condvar::new(),
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        drop(state);
        self.moved.notify_all();
        result
    }

    /// The next job; waits while results too far ahead are not taken.
    fn next(&self) -> Option<usize> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let too_far = |state: &mut State| {
            state.next < state.count && state.next >= state.taken.saturating_add(AHEAD)
        };
        let mut state = self
            .moved
            .wait_while(state, too_far)
            .unwrap_or_else(PoisonError::into_inner);
        let index = state.next;
        (index < state.count).then(|| {
            state.next += 1;
            index
        })
    }

    fn taken_to(&self, taken: usize) {
        self.change(|state| state.taken = taken);
    }

    fn close(&self) {
        self.change(|state| state.count = 0);
    }
}

/// A job that panics must not leave the others waiting for its result.
struct ClosesOnPanic<'a>(&'a Queue);

impl Drop for ClosesOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whoever_is_first() {
        let (later_done, later) = mpsc::channel();
        let later = Mutex::new(later);
        let mut taken = Vec::new();
        let work = |index| {
            match index {
                // The first job ends after the last one.
                0 => later.lock().unwrap().recv().unwrap(),
                9 => later_done.send(()).unwrap(),
                _ => {}
            }
            (index != 4).then_some(index)
        };
        let take = |index| {
            taken.push(index);
            Ok::<(), ()>(())
        };
        in_order(10, 2, work, take).unwrap();
        assert_eq!(taken, [0, 1, 2, 3, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn an_error_ends_it_and_more_jobs_than_may_wait_are_done() {
        let mut taken = 0;
        let count = 3 * AHEAD;
        in_order(count, 3, Some, |_| {
            taken += 1;
            Ok::<(), ()>(())
        })
        .unwrap();
        assert_eq!(taken, count);
        let error = in_order(usize::MAX, 3, Some, |index| {
            if index == 5 { Err(index) } else { Ok(()) }
        });
        assert_eq!(error, Err(5));
    }
}
