//! Releases of nats-server whose behaviour is known from recorded exchanges.
//!
//! Leans on nothing of ours.

use std::fmt;

/// A release of nats-server, oldest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum ServerVersion {
    /// 2.14.0: the first with fast ingest.
    V2_14_0,
    /// 2.14.6.
    V2_14_6,
    /// 2.15.1.
    #[default]
    V2_15_1,
}

impl ServerVersion {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::V2_14_0, Self::V2_14_6, Self::V2_15_1];

    /// As the server writes it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::V2_14_0 => "2.14.0",
            Self::V2_14_6 => "2.14.6",
            Self::V2_15_1 => "2.15.1",
        }
    }

    /// The version with this text.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.text() == text)
    }

    /// Highest JetStream API level of the server.
    pub const fn api_level(self) -> u32 {
        match self {
            Self::V2_14_0 | Self::V2_14_6 => 4,
            Self::V2_15_1 => 5,
        }
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_lead_back_to_their_versions() {
        for version in ServerVersion::ALL {
            assert_eq!(ServerVersion::from_text(version.text()), Some(version));
        }
        assert_eq!(ServerVersion::from_text("2.15"), None);
        assert!(ServerVersion::ALL.is_sorted());
    }
}
