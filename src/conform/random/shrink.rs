//! Makes a case that fails as small as it stays failing: fewer acts and messages, a plainer stream.
//!
//! Leans on `play`. Chunks are left out by halves, as in delta debugging.

use serde_json::{Map, Value};

use super::super::run::{Difference, Stop};
use super::play::{Act, Play};

/// Says how a case fails, if it does.
pub(super) type Fails<'a> = dyn FnMut(&Play) -> Result<Option<Difference>, Stop> + 'a;

/// Most attempts: each is a whole case.
const ATTEMPTS_MAX: usize = 400;
/// Keys of a configuration that a stream of the vector format has.
const KEPT_KEYS: &[&str] = &["name", "subjects", "num_replicas"];

/// The smallest case found that fails, however it does, and how.
///
/// # Errors
/// What `fails` gives.
pub(super) fn shrink(
    play: Play,
    difference: Difference,
    fails: &mut Fails<'_>,
) -> Result<(Play, Difference), Stop> {
    let mut shrinker = Shrinker {
        play,
        difference,
        attempts: 0,
        fails,
    };
    shrinker.cut_tail();
    loop {
        let before = shrinker.play.clone();
        shrinker.leave_out_operations()?;
        shrinker.leave_out_headers()?;
        shrinker.leave_out_keys()?;
        if shrinker.play == before {
            return Ok((shrinker.play, shrinker.difference));
        }
    }
}

struct Shrinker<'a, 'b> {
    play: Play,
    difference: Difference,
    attempts: usize,
    fails: &'a mut Fails<'b>,
}

impl Shrinker<'_, '_> {
    /// Keeps a smaller case if it fails, too.
    fn offer(&mut self, play: Play) -> Result<bool, Stop> {
        if self.attempts >= ATTEMPTS_MAX {
            return Ok(false);
        }
        self.attempts += 1;
        let Some(difference) = (self.fails)(&play)? else {
            return Ok(false);
        };
        self.play = play;
        self.difference = difference;
        self.cut_tail();
        Ok(true)
    }

    /// What comes behind the step that fails has no part in it.
    fn cut_tail(&mut self) {
        let step = self.difference.step;
        let acts = step.map_or(0, |step| self.play.act_of(step) + 1);
        self.play.acts.truncate(acts);
    }

    fn leave_out_operations(&mut self) -> Result<(), Stop> {
        let mut chunk = apart(&self.play.acts).len();
        while chunk > 0 {
            let mut at = 0;
            loop {
                let mut pieces = apart(&self.play.acts);
                if at >= pieces.len() {
                    break;
                }
                pieces.drain(at..(at + chunk).min(pieces.len()));
                let smaller = Play {
                    acts: together(pieces),
                    ..self.play.clone()
                };
                if !self.offer(smaller)? {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
        Ok(())
    }

    fn leave_out_headers(&mut self) -> Result<(), Stop> {
        let mut index = 0;
        loop {
            let pieces = apart(&self.play.acts);
            let Some(piece) = pieces.get(index) else {
                return Ok(());
            };
            for line in (0..header_lines(&piece.act)).rev() {
                let mut pieces = apart(&self.play.acts);
                if let Some(piece) = pieces.get_mut(index) {
                    remove_header(&mut piece.act, line);
                }
                let plainer = Play {
                    acts: together(pieces),
                    ..self.play.clone()
                };
                self.offer(plainer)?;
            }
            index += 1;
        }
    }

    fn leave_out_keys(&mut self) -> Result<(), Stop> {
        let keys: Vec<String> = self.play.config.keys().cloned().collect();
        for key in keys {
            if !KEPT_KEYS.contains(&key.as_str()) {
                let mut plainer = self.play.clone();
                plainer.config.remove(&key);
                self.offer(plainer)?;
            }
        }
        Ok(())
    }
}

/// One operation, or one look.
struct Piece {
    /// Messages of one write have the same number.
    write: usize,
    /// A write of one message, or whatever else it is.
    act: Act,
}

fn apart(acts: &[Act]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (write, act) in acts.iter().enumerate() {
        match act {
            Act::Write(messages) => pieces.extend(messages.iter().map(|message| Piece {
                write,
                act: Act::Write(vec![message.clone()]),
            })),
            Act::Get(..) | Act::Call(..) | Act::Stored => pieces.push(Piece {
                write,
                act: act.clone(),
            }),
        }
    }
    pieces
}

fn together(pieces: Vec<Piece>) -> Vec<Act> {
    let mut acts: Vec<(usize, Act)> = Vec::new();
    for Piece { write, act } in pieces {
        match (acts.last_mut(), act) {
            (Some((last, Act::Write(messages))), Act::Write(more)) if *last == write => {
                messages.extend(more);
            }
            (_, act) => acts.push((write, act)),
        }
    }
    acts.into_iter().map(|(_, act)| act).collect()
}

fn header_lines(act: &Act) -> usize {
    match act {
        Act::Write(messages) => {
            let lines = messages.iter().filter_map(|message| message.get("headers"));
            lines.filter_map(Value::as_array).map(Vec::len).sum()
        }
        Act::Get(..) | Act::Call(..) | Act::Stored => 0,
    }
}

/// Without lines left there is no header block.
fn remove_header(act: &mut Act, line: usize) {
    let Act::Write(messages) = act else { return };
    for message in messages {
        remove_line(message, line);
    }
}

fn remove_line(message: &mut Map<String, Value>, line: usize) {
    let Some(Value::Array(lines)) = message.get_mut("headers") else {
        return;
    };
    if line < lines.len() {
        lines.remove(line);
    }
    if lines.is_empty() {
        message.remove("headers");
    }
}
