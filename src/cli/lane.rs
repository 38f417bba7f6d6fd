//! `--lane` and `--substrate`: how a file is simulated.
//!
//! Leans on `scenario`.

use clap::{Args, ValueEnum};

use crate::scenario::{Lane, Settings, Substrate};

/// How to simulate; absent: what the clients of the file need.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(super) struct LaneArguments {
    /// Lane: pure machines on an event queue, or real client code in bytes; the default is event,
    /// or wire for a file with a client that has code of its own
    #[arg(long, value_enum)]
    lane: Option<LaneWord>,
    /// Network under the wire lane
    #[arg(long, value_enum)]
    substrate: Option<SubstrateWord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LaneWord {
    /// Pure machines on an event queue
    Event,
    /// Real client code, the client protocol in bytes
    Wire,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SubstrateWord {
    /// Exact time, bandwidth and windows
    Event,
    /// The crate turmoil: steps of a millisecond, no bandwidth or window, no cuts, 200 publishers
    Turmoil,
}

impl LaneArguments {
    /// The lane of a file.
    ///
    /// # Errors
    /// A substrate is asked for and the event lane is meant, which has none.
    pub(super) fn lane(self, settings: &Settings) -> Result<Lane, String> {
        let lane = match self.lane {
            None => settings.lane(),
            Some(LaneWord::Event) => Lane::Event,
            Some(LaneWord::Wire) => Lane::Wire(Substrate::Event),
        };
        match (lane, self.substrate) {
            (Lane::Event, Some(_)) => {
                Err("--substrate is for the wire lane; add --lane wire".to_owned())
            }
            (Lane::Wire(_), Some(SubstrateWord::Event)) => Ok(Lane::Wire(Substrate::Event)),
            (Lane::Wire(_), Some(SubstrateWord::Turmoil)) => Ok(Lane::Wire(Substrate::Turmoil)),
            (lane, None) => Ok(lane),
        }
    }

    /// The same arguments on a command line.
    pub(super) fn words(self) -> Vec<String> {
        let word = |value: Option<clap::builder::PossibleValue>| {
            value.map(|value| value.get_name().to_owned())
        };
        let lane = word(self.lane.and_then(|lane| lane.to_possible_value()));
        let substrate = word(self.substrate.and_then(|word| word.to_possible_value()));
        [("--lane", lane), ("--substrate", substrate)]
            .into_iter()
            .filter_map(|(flag, word)| Some([flag.to_owned(), word?]))
            .flatten()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        lane: LaneArguments,
    }

    fn parse(words: &[&str]) -> LaneArguments {
        let words = std::iter::once("x").chain(words.iter().copied());
        Command::parse_from(words).lane
    }

    #[test]
    fn the_file_decides_where_nobody_else_does() {
        let text = "format = 1\nabout = \"x\"\n[[publishers]]\n";
        let core = Scenario::parse("a", text).unwrap().settings;
        let extra = Scenario::parse("a", &format!("{text}client = \"jetstream-extra\"\n"));
        let extra = extra.unwrap().settings;
        let wire = Lane::Wire(Substrate::Event);
        assert_eq!(parse(&[]).lane(&core), Ok(Lane::Event));
        assert_eq!(parse(&[]).lane(&extra), Ok(wire));
        assert_eq!(parse(&["--lane", "wire"]).lane(&core), Ok(wire));
        assert!(parse(&["--substrate", "event"]).lane(&core).is_err());
        let both = ["--lane", "wire", "--substrate", "event"];
        assert_eq!(parse(&both).words(), both);
    }
}
