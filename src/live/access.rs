//! How to get in: who we say we are, how the connection is secured, and where the JetStream API is.
//!
//! Secrets are held here and nowhere else; nothing prints them. Leans on async-nats.

use std::fmt;
use std::path::PathBuf;

use async_nats::{ConnectOptions, ServerAddr};

/// Where the JetStream API is unless a domain or a prefix says otherwise.
const API: &str = "$JS.API";

/// What a connection is opened with, besides the addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// Who we say we are.
    pub identity: Identity,
    /// Certificates that servers are trusted by, as PEM; none: those of the system.
    pub root_certificates: Option<PathBuf>,
    /// Certificate and key of the client, as PEM.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// TLS before the greeting of the server, where the server wants that (`handshake_first`).
    pub tls_first: bool,
    /// What subjects of the JetStream API begin with, without a dot at the end.
    pub api_prefix: String,
}

/// Who a client says it is. What the addresses say counts where this is `Addresses`.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Identity {
    /// As the addresses say: `user:password@` or `token@`; nobody, if they say nothing.
    #[default]
    Addresses,
    /// A user with a password.
    User {
        /// The name.
        name: String,
        /// The password.
        password: String,
    },
    /// A token.
    Token(String),
    /// The seed of an nkey.
    Nkey(String),
    /// The text of a credentials file: a JWT, and the seed of its nkey.
    Credentials(String),
}

impl Default for Access {
    fn default() -> Self {
        Self {
            identity: Identity::Addresses,
            root_certificates: None,
            client_certificate: None,
            tls_first: false,
            api_prefix: API.to_owned(),
        }
    }
}

impl Access {
    /// The prefix of the API in a JetStream domain.
    pub fn prefix_of_domain(domain: &str) -> String {
        format!("$JS.{domain}.API")
    }

    /// Whether this can be used at all.
    ///
    /// # Errors
    /// The text of a credentials file holds none; what is missing, in words.
    pub fn check(&self) -> Result<(), String> {
        self.options().map(drop).map_err(|why| why.to_string())
    }

    /// Options of a connection; none of the identity where the addresses say it.
    ///
    /// # Errors
    /// The text of a credentials file holds none.
    pub(super) fn options(&self) -> std::io::Result<ConnectOptions> {
        let options = ConnectOptions::new();
        let mut options = match &self.identity {
            Identity::Addresses => options,
            Identity::User { name, password } => {
                options.user_and_password(name.clone(), password.clone())
            }
            Identity::Token(token) => options.token(token.clone()),
            Identity::Nkey(seed) => options.nkey(seed.clone()),
            Identity::Credentials(text) => options.credentials(text)?,
        };
        if let Some(path) = &self.root_certificates {
            options = options
                .add_root_certificates(path.clone())
                .require_tls(true);
        }
        if let Some((certificate, key)) = &self.client_certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
            options = options.require_tls(true);
        }
        Ok(if self.tls_first {
            options.tls_first()
        } else {
            options
        })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Addresses => "Addresses",
            Self::User { .. } => "User(…)",
            Self::Token(_) => "Token(…)",
            Self::Nkey(_) => "Nkey(…)",
            Self::Credentials(_) => "Credentials(…)",
        })
    }
}

/// `options` with the credentials in the URLs, which async-nats leaves to its caller.
pub(super) fn with_credentials(
    options: ConnectOptions,
    addresses: &[ServerAddr],
) -> ConnectOptions {
    let named = addresses.iter().find_map(|address| {
        let user = address.username()?;
        Some((
            percent_decoded(user),
            address.password().map(percent_decoded),
        ))
    });
    match named {
        None => options,
        Some((user, Some(password))) => options.user_and_password(user, password),
        Some((token, None)) => options.token(token),
    }
}

/// Text from a URL with `%41` and the like as the characters that they stand for.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = tail
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_prints_a_secret() {
        let secret = || "hunter2".to_owned();
        for identity in [
            Identity::User {
                name: "me".to_owned(),
                password: secret(),
            },
            Identity::Token(secret()),
            Identity::Nkey(secret()),
            Identity::Credentials(secret()),
        ] {
            let access = Access {
                identity,
                ..Access::default()
            };
            assert!(!format!("{access:?}").contains("hunter2"));
        }
    }

    #[test]
    fn a_text_without_credentials_is_refused() {
        let access = Access {
            identity: Identity::Credentials("nothing".to_owned()),
            ..Access::default()
        };
        assert!(access.options().is_err());
        assert!(Access::default().options().is_ok());
    }

    #[test]
    fn escapes_in_credentials_are_undone() {
        assert_eq!(percent_decoded("p%40ss%2"), "p@ss%2");
        assert_eq!(percent_decoded("%zz%C3%A4"), "%zzä");
    }
}
