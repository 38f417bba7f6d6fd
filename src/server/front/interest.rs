//! Who has subscribed to what.
//!
//! Filters without wildcards are found by one look-up; those with wildcards lie under the tokens
//! before their first wildcard, so that an inbox filter such as `_INBOX.x.>` is found by one look-up
//! as well. Leans on `nats::subject`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::batch::message::ConnectionId;
use crate::nats::subject::{self, WILDCARD_ONE, WILDCARD_REST};
use crate::nats::wire::Token;

/// Tokens of a fast-ingest reply subject behind its prefix: sequence, operation, `$FI`.
const REPLY_TOKENS: usize = 3;
/// The last of them.
const REPLY_END: &str = "$FI";

/// One subscription.
#[derive(Clone, Debug)]
pub(super) struct Subscription {
    pub(super) connection: ConnectionId,
    /// The client's id of it.
    pub(super) name: Token,
    filter: Box<str>,
    pub(super) queue: Option<Arc<str>>,
    pub(super) delivered: u64,
    /// It ends after so many messages; 0: it does not.
    pub(super) most: u64,
}

impl Subscription {
    pub(super) fn new(
        connection: ConnectionId,
        name: Token,
        filter: &str,
        queue: Option<&str>,
    ) -> Self {
        Self {
            connection,
            name,
            filter: filter.into(),
            queue: queue.map(Into::into),
            delivered: 0,
            most: 0,
        }
    }

    /// Bytes of the texts.
    pub(super) fn bytes(&self) -> usize {
        let queue = self.queue.as_ref().map_or(0, |queue| queue.len());
        self.filter.len() + self.name.as_bytes().len() + queue
    }

    /// It has had all the messages that it may have.
    pub(super) const fn is_over(&self) -> bool {
        self.most > 0 && self.delivered >= self.most
    }
}

/// All subscriptions of a server.
#[derive(Clone, Debug)]
pub(super) struct Interest {
    subscriptions: BTreeMap<u64, Subscription>,
    next: u64,
    literal: BTreeMap<Box<str>, BTreeSet<u64>>,
    /// By the tokens before the first wildcard, with a dot behind each.
    wild: BTreeMap<Box<str>, BTreeSet<u64>>,
    /// How many filters have so many tokens before their first wildcard.
    depths: BTreeMap<usize, usize>,
    /// By queue: its members, and whose turn it is.
    queues: BTreeMap<Arc<str>, (usize, u64)>,
    version: u64,
}

impl Interest {
    pub(super) const fn new() -> Self {
        Self {
            subscriptions: BTreeMap::new(),
            next: 0,
            literal: BTreeMap::new(),
            wild: BTreeMap::new(),
            depths: BTreeMap::new(),
            queues: BTreeMap::new(),
            version: 0,
        }
    }

    /// Changes with every subscription that comes or goes.
    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Subscription> {
        self.subscriptions.get_mut(&number)
    }

    pub(super) fn get(&self, number: u64) -> Option<&Subscription> {
        self.subscriptions.get(&number)
    }

    pub(super) fn add(&mut self, subscription: Subscription) -> u64 {
        let number = self.next;
        self.next += 1;
        self.version += 1;
        let filter = &subscription.filter;
        if subject::is_literal(filter) {
            self.literal
                .entry(filter.clone())
                .or_default()
                .insert(number);
        } else {
            let (head, depth) = head(filter);
            self.wild.entry(head.into()).or_default().insert(number);
            *self.depths.entry(depth).or_default() += 1;
        }
        if let Some(queue) = &subscription.queue {
            self.queues.entry(Arc::clone(queue)).or_default().0 += 1;
        }
        self.subscriptions.insert(number, subscription);
        number
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Subscription> {
        let subscription = self.subscriptions.remove(&number)?;
        self.version += 1;
        let filter = &*subscription.filter;
        if subject::is_literal(filter) {
            take_out(&mut self.literal, filter, number);
        } else {
            let (head, depth) = head(filter);
            take_out(&mut self.wild, head, number);
            if let Some(count) = self.depths.get_mut(&depth) {
                *count -= 1;
                if *count == 0 {
                    self.depths.remove(&depth);
                }
            }
        }
        if let Some(queue) = &subscription.queue
            && let Some((members, _)) = self.queues.get_mut(queue)
        {
            *members -= 1;
            if *members == 0 {
                self.queues.remove(queue);
            }
        }
        Some(subscription)
    }

    /// The subscriptions that take `subject`, in the order in which they came.
    pub(super) fn find(&self, subject: &str) -> Vec<u64> {
        let mut found: Vec<u64> = Vec::new();
        if let Some(numbers) = self.literal.get(subject) {
            found.extend(numbers);
        }
        for numbers in self.heads_of(subject) {
            found.extend(numbers.iter().filter(|number| {
                let subscription = self.subscriptions.get(number);
                subscription.is_some_and(|own| subject::matches(&own.filter, subject))
            }));
        }
        found.sort_unstable();
        found
    }

    /// The subscriptions that take every fast-ingest reply subject that begins with `prefix` (which
    /// ends in a dot, with three tokens to follow); `None` where it depends on those tokens.
    pub(super) fn find_all_under(&self, prefix: &str) -> Option<Vec<u64>> {
        let has_longer = |map: &BTreeMap<Box<str>, BTreeSet<u64>>| {
            let from = (Bound::Included(prefix), Bound::Unbounded);
            let mut keys = map.range::<str, _>(from).map(|(key, _)| &**key);
            let longer = keys.find(|key| *key != prefix);
            longer.is_some_and(|key| key.starts_with(prefix))
        };
        if has_longer(&self.literal) || has_longer(&self.wild) {
            return None;
        }
        let mut found: Vec<u64> = Vec::new();
        for numbers in self.heads_of(prefix) {
            for number in numbers {
                match covers(&self.subscriptions.get(number)?.filter, prefix) {
                    Cover::All => found.push(*number),
                    Cover::Some => return None,
                    Cover::None => {}
                }
            }
        }
        found.sort_unstable();
        Some(found)
    }

    /// Whose turn it is in a queue, of so many members that take the message.
    pub(super) fn turn(&mut self, queue: &str, members: usize) -> usize {
        let Some((_, turn)) = self.queues.get_mut(queue) else {
            return 0;
        };
        let place = *turn % members.max(1) as u64;
        *turn = turn.wrapping_add(1);
        place as usize
    }

    /// The sets of wildcard filters that lie under the first tokens of `subject`.
    fn heads_of<'a>(&'a self, subject: &'a str) -> impl Iterator<Item = &'a BTreeSet<u64>> {
        let mut ends = std::iter::once(0).chain(subject.match_indices('.').map(|(at, _)| at + 1));
        let mut depth = 0;
        self.depths
            .keys()
            .map_while(move |wanted| {
                let end = ends.nth(wanted - depth)?;
                depth = wanted + 1;
                Some(self.wild.get(&subject[..end]))
            })
            .flatten()
    }
}

/// The tokens before the first wildcard, with a dot behind each, and how many they are.
fn head(filter: &str) -> (&str, usize) {
    let (mut end, mut depth) = (0, 0);
    for token in subject::tokens(filter) {
        if matches!(token, WILDCARD_ONE | WILDCARD_REST) {
            break;
        }
        end += token.len() + 1;
        depth += 1;
    }
    (&filter[..end.min(filter.len())], depth)
}

fn take_out(map: &mut BTreeMap<Box<str>, BTreeSet<u64>>, key: &str, number: u64) {
    if let Some(numbers) = map.get_mut(key) {
        numbers.remove(&number);
        if numbers.is_empty() {
            map.remove(key);
        }
    }
}

/// Which of the reply subjects under a prefix a filter takes.
enum Cover {
    All,
    Some,
    None,
}

fn covers(filter: &str, prefix: &str) -> Cover {
    let mut filter = subject::tokens(filter);
    let body = prefix.strip_suffix('.').unwrap_or(prefix);
    for token in subject::tokens(body) {
        match filter.next() {
            Some(_) if token.is_empty() => return Cover::None,
            Some(WILDCARD_REST) => return Cover::All,
            Some(WILDCARD_ONE) => {}
            Some(wanted) if wanted == token => {}
            Some(_) | None => return Cover::None,
        }
    }
    for place in 1..=REPLY_TOKENS {
        match filter.next() {
            Some(WILDCARD_REST) => return Cover::All,
            Some(WILDCARD_ONE) => {}
            Some(REPLY_END) if place == REPLY_TOKENS => {}
            Some(_) => return Cover::Some,
            None => return Cover::None,
        }
    }
    match filter.next() {
        None => Cover::All,
        Some(_) => Cover::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interest(filters: &[&str]) -> Interest {
        let mut interest = Interest::new();
        for filter in filters {
            let name = Token::new("1").unwrap();
            interest.add(Subscription::new(ConnectionId(0), name, filter, None));
        }
        interest
    }

    #[test]
    fn every_filter_that_matches_is_found() {
        let filters = [
            "a", "a.b", "a.*", "a.>", "*", "*.b", ">", "a.*.c", "a.b.>", "b.>", "a*.b",
        ];
        let interest = interest(&filters);
        for subject in [
            "a", "a.b", "a.x", "a.b.c", "b.c", "c", "a*.b", "a..b", "", ".", "a.",
        ] {
            let expected: Vec<u64> = (0..)
                .zip(filters)
                .filter(|(_, filter)| subject::matches(filter, subject))
                .map(|(number, _)| number)
                .collect();
            assert_eq!(interest.find(subject), expected, "{subject}");
        }
    }

    #[test]
    fn what_holds_for_a_prefix_holds_for_each_subject_under_it() {
        let prefix = "_INBOX.x.id.10.ok.";
        let subject = |sequence: u64| format!("{prefix}{sequence}.1.$FI");
        for (filters, is_one) in [
            (&["_INBOX.x.>", "_INBOX.y.>", "t.>"][..], true),
            (&["_INBOX.x.*.*.*.*.*.*", "_INBOX.x.*"], true),
            (&["_INBOX.x.id.10.ok.*.*.$FI", "*.*.*.*.*.*.>"], true),
            (&["_INBOX.x.id.10.ok.7.>"], false),
            (&["_INBOX.x.id.10.ok.*.1.*"], false),
            (&["_INBOX.x.id.10.ok.7.1.$FI"], false),
            (&["_INBOX.x.id.10.ok.*.*.*.*"], true),
            (&["_INBOX.x.id.10.ok"], true),
        ] {
            let interest = interest(filters);
            match interest.find_all_under(prefix) {
                Some(found) => {
                    assert!(is_one, "{filters:?}");
                    assert_eq!(found, interest.find(&subject(7)), "{filters:?}");
                    assert_eq!(found, interest.find(&subject(8)), "{filters:?}");
                }
                None => assert!(!is_one, "{filters:?}"),
            }
        }
    }

    #[test]
    fn nothing_is_left_of_what_went() {
        let filters = ["a", "a.*", ">", "a.b.>"];
        let mut interest = interest(&filters);
        for number in 0..4 {
            assert!(interest.remove(number).is_some());
        }
        assert!(interest.literal.is_empty() && interest.wild.is_empty());
        assert!(interest.depths.is_empty() && interest.find("a.b.c").is_empty());
    }
}
