//! How to get into servers of the user's own: options, the environment, or a context of the NATS command
//! line. None of its options takes a secret, which any process
//! could read there.
//!
//! Leans on `live`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde::Deserialize;

use super::exit::Failure;
use crate::live::{Access, Connector, Identity, LiveError};
use crate::scenario::InputError;

/// Largest context, credentials or seed file that is read.
const LARGEST_BYTES: u64 = 1 << 20;

/// How to get in
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Access to --servers")]
pub(super) struct AccessArguments {
    /// A context of the NATS command line: addresses, credentials, TLS, domain
    #[arg(long, value_name = "NAME", conflicts_with = "local")]
    context: Option<String>,
    /// User name; the password is NATS_PASSWORD in the environment
    #[arg(long, value_name = "NAME", conflicts_with_all = ["local", "creds", "nkey"])]
    user: Option<String>,
    /// Credentials file: JWT and seed
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["local", "nkey"])]
    creds: Option<PathBuf>,
    /// File with the seed of an nkey
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "local")]
    nkey: Option<PathBuf>,
    /// Certificates that the servers are trusted by, as PEM
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "local")]
    tlsca: Option<PathBuf>,
    /// Certificate of the client, as PEM
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "local", requires = "tlskey")]
    tlscert: Option<PathBuf>,
    /// Key of that certificate, as PEM
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "local", requires = "tlscert")]
    tlskey: Option<PathBuf>,
    /// TLS before the greeting, where servers want the handshake first
    #[arg(long, conflicts_with = "local")]
    tlsfirst: bool,
    /// JetStream domain
    #[arg(long, value_name = "NAME", conflicts_with_all = ["local", "js_api_prefix"])]
    js_domain: Option<String>,
    /// What subjects of the JetStream API begin with, instead of $JS.API
    #[arg(long, value_name = "SUBJECT", conflicts_with = "local")]
    js_api_prefix: Option<String>,
}

/// The environment, as far as it counts.
pub(super) struct Environment {
    /// `NATS_PASSWORD`.
    pub(super) password: Option<String>,
    /// `NATS_TOKEN`.
    pub(super) token: Option<String>,
    /// Where contexts are.
    pub(super) contexts: Option<PathBuf>,
    /// The home folder, which `~` stands for in a context.
    pub(super) home: Option<PathBuf>,
}

impl Environment {
    /// That of this process.
    pub(super) fn of_process() -> Self {
        let text = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        let home = std::env::home_dir();
        let config = text("XDG_CONFIG_HOME").map(PathBuf::from);
        let config = config.or_else(|| Some(home.as_ref()?.join(".config")));
        Self {
            password: text("NATS_PASSWORD"),
            token: text("NATS_TOKEN"),
            contexts: config.map(|config| config.join("nats/context")),
            home,
        }
    }
}

/// A context of the NATS command line, as far as it counts. What it sets besides must be empty, where
/// leaving it out would connect otherwise than it says.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Context {
    url: String,
    user: String,
    password: String,
    token: String,
    creds: String,
    nkey: String,
    cert: String,
    key: String,
    ca: String,
    tls_first: bool,
    jetstream_domain: String,
    jetstream_api_prefix: String,
    nsc: String,
    user_jwt: String,
    inbox_prefix: String,
    socks_proxy: String,
}

impl AccessArguments {
    /// Addresses of the context, and how to get in. Options win over the context, and both over the
    /// environment.
    ///
    /// # Errors
    /// Bad input: a file that cannot be read, or holds something else.
    pub(super) fn resolve(
        &self,
        environment: &Environment,
    ) -> Result<(Vec<String>, Access), Failure> {
        let (context, file) = match &self.context {
            Some(name) => read_context(name, environment)?,
            None => (Context::default(), String::new()),
        };
        let at_home = |path: &str| -> Option<PathBuf> {
            match (path.strip_prefix("~/"), &environment.home) {
                _ if path.is_empty() => None,
                (Some(rest), Some(home)) => Some(home.join(rest)),
                (Some(_) | None, _) => Some(PathBuf::from(path)),
            }
        };
        let pick = |option: &Option<PathBuf>, in_context: &str| {
            option.clone().or_else(|| at_home(in_context))
        };
        let root_certificates = pick(&self.tlsca, &context.ca);
        let certificate = pick(&self.tlscert, &context.cert);
        let key = pick(&self.tlskey, &context.key);
        let client_certificate = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                return Err(bad(
                    &file,
                    "cert",
                    "a certificate needs its key, and a key its certificate",
                ));
            }
        };
        let pems = root_certificates
            .iter()
            .chain(client_certificate.iter().flat_map(|(one, two)| [one, two]));
        for path in pems {
            if !text_of(path)?.contains("-----BEGIN ") {
                return Err(bad(&path.display().to_string(), "", "is no PEM file"));
            }
        }
        let api_prefix = match (&self.js_domain, &self.js_api_prefix) {
            (Some(domain), _) => Access::prefix_of_domain(token(domain, "--js-domain")?),
            (None, Some(prefix)) => prefix.trim_end_matches('.').to_owned(),
            (None, None) if !context.jetstream_domain.is_empty() => {
                Access::prefix_of_domain(&context.jetstream_domain)
            }
            (None, None) if !context.jetstream_api_prefix.is_empty() => context
                .jetstream_api_prefix
                .trim_end_matches('.')
                .to_owned(),
            (None, None) => Access::default().api_prefix,
        };
        let access = Access {
            identity: self.identity(&context, environment, pick)?,
            root_certificates,
            client_certificate,
            tls_first: self.tlsfirst || context.tls_first,
            api_prefix: subject(&api_prefix)?,
        };
        let urls = context
            .url
            .split(',')
            .map(str::trim)
            .filter(|url| !url.is_empty());
        Ok((urls.map(str::to_owned).collect(), access))
    }

    fn identity(
        &self,
        context: &Context,
        environment: &Environment,
        pick: impl Fn(&Option<PathBuf>, &str) -> Option<PathBuf>,
    ) -> Result<Identity, Failure> {
        // An option for one way in leaves the others of the context aside.
        let said = self.user.is_some() || self.creds.is_some() || self.nkey.is_some();
        let of_context = |text: &'_ String| if said { String::new() } else { text.clone() };
        if let Some(path) = pick(&self.creds, &of_context(&context.creds)) {
            let text = text_of(&path)?;
            let identity = Identity::Credentials(text);
            let access = Access {
                identity: identity.clone(),
                ..Access::default()
            };
            return match access.check() {
                Ok(()) => Ok(identity),
                Err(why) => Err(bad(
                    &path.display().to_string(),
                    "",
                    &format!("holds no credentials: {why}"),
                )),
            };
        }
        if let Some(path) = pick(&self.nkey, &of_context(&context.nkey)) {
            let text = text_of(&path)?;
            let seed = text
                .lines()
                .map(str::trim)
                .find(|line| line.starts_with("SU"));
            return match seed {
                Some(seed) => Ok(Identity::Nkey(seed.to_owned())),
                None => Err(bad(
                    &path.display().to_string(),
                    "",
                    "holds no seed of a user's nkey: a line that begins with SU",
                )),
            };
        }
        if let Some(name) = &self.user {
            return match &environment.password {
                Some(password) => Ok(Identity::User {
                    name: name.clone(),
                    password: password.clone(),
                }),
                None => Err(Failure::Usage(
                    "--user needs its password in the environment, as NATS_PASSWORD".to_owned(),
                )),
            };
        }
        Ok(match () {
            () if !context.user.is_empty() && !context.password.is_empty() => Identity::User {
                name: context.user.clone(),
                password: context.password.clone(),
            },
            // A user alone is a token to the NATS command line.
            () if !context.user.is_empty() => Identity::Token(context.user.clone()),
            () if !context.token.is_empty() => Identity::Token(context.token.clone()),
            () => Identity::Addresses,
        })
    }

    /// The options as words for the command that repeats a run; there is no secret among them.
    pub(super) fn words(&self) -> Vec<(&'static str, String)> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let words = [
            ("context", self.context.clone()),
            ("user", self.user.clone()),
            ("creds", path(&self.creds)),
            ("nkey", path(&self.nkey)),
            ("tlsca", path(&self.tlsca)),
            ("tlscert", path(&self.tlscert)),
            ("tlskey", path(&self.tlskey)),
            ("js-domain", self.js_domain.clone()),
            ("js-api-prefix", self.js_api_prefix.clone()),
        ];
        let said = words
            .into_iter()
            .filter_map(|(word, value)| Some((word, value?)));
        let first = self.tlsfirst.then(|| ("tlsfirst", String::new()));
        said.chain(first).collect()
    }
}

fn read_context(name: &str, environment: &Environment) -> Result<(Context, String), Failure> {
    let plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(Failure::Usage(format!(
            "--context {name}: no name of a context; allowed are letters, digits, `-`, `_` and `.`"
        )));
    }
    let Some(folder) = &environment.contexts else {
        return Err(Failure::Usage(
            "--context: there is no home folder to look in".to_owned(),
        ));
    };
    let path = folder.join(format!("{name}.json"));
    let text = text_of(&path)?;
    let file = path.display().to_string();
    let context: Context = serde_json::from_str(&text).map_err(|why| {
        Failure::Input(InputError {
            file: file.clone(),
            line: Some(why.line()),
            key: None,
            // Not what serde found there: it could be a secret.
            message: "no context of the NATS command line".to_owned(),
        })
    })?;
    for (key, value) in [
        ("nsc", &context.nsc),
        ("user_jwt", &context.user_jwt),
        ("inbox_prefix", &context.inbox_prefix),
        ("socks_proxy", &context.socks_proxy),
    ] {
        if !value.is_empty() {
            return Err(bad(
                &file,
                key,
                "is not supported; leave it out, or use options instead of the context",
            ));
        }
    }
    for (key, value) in [("creds", &context.creds), ("nkey", &context.nkey)] {
        if value.starts_with("op://") || value.starts_with("nsc://") {
            return Err(bad(&file, key, "must be the path of a file"));
        }
    }
    Ok((context, file))
}

fn text_of(path: &Path) -> Result<String, Failure> {
    let name = path.display().to_string();
    let bytes =
        fs::metadata(path).map_err(|why| bad(&name, "", &format!("cannot be read: {why}")))?;
    if bytes.len() > LARGEST_BYTES {
        return Err(bad(&name, "", "is larger than 1 MiB"));
    }
    fs::read_to_string(path).map_err(|why| bad(&name, "", &format!("cannot be read: {why}")))
}

/// One token of a subject.
fn token<'t>(text: &'t str, option: &str) -> Result<&'t str, Failure> {
    let fits = !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || ".*>".contains(c));
    if fits {
        Ok(text)
    } else {
        Err(Failure::Usage(format!(
            "{option} {text:?}: no domain; allowed is one token of a subject"
        )))
    }
}

/// A subject without wildcards.
fn subject(text: &str) -> Result<String, Failure> {
    let token = |token: &str| {
        !token.is_empty() && token != "*" && token != ">" && !token.contains(char::is_whitespace)
    };
    if text.split('.').all(token) {
        Ok(text.to_owned())
    } else {
        Err(Failure::Usage(format!(
            "{text:?} is no prefix of the JetStream API; allowed is a subject without wildcards"
        )))
    }
}

fn bad(file: &str, key: &str, message: &str) -> Failure {
    Failure::Input(InputError {
        file: file.to_owned(),
        line: None,
        key: (!key.is_empty()).then(|| key.to_owned()),
        message: message.to_owned(),
    })
}

/// The servers that the user named, and how to get in.
pub(super) fn access(
    servers: &[String],
    arguments: &AccessArguments,
) -> Result<(Vec<String>, Access), Failure> {
    check_servers(servers)?;
    let words = arguments.words();
    let environment = Environment::of_process();
    let (mut urls, mut access) = arguments.resolve(&environment)?;
    if !servers.is_empty() {
        urls = servers.to_vec();
    }
    if let (true, [(word, _), ..]) = (urls.is_empty(), &words[..]) {
        return Err(Failure::Usage(format!(
            "--{word} is about servers of yours; name them with --servers"
        )));
    }
    check_servers(&urls)?;
    // What an address says is nearer than what the environment says of all.
    let silent = urls.iter().all(|url| !url.contains('@'));
    if let (Identity::Addresses, true, Some(token)) = (&access.identity, silent, environment.token)
    {
        access.identity = Identity::Token(token);
    }
    Ok((urls, access))
}

fn check_servers(servers: &[String]) -> Result<(), Failure> {
    if servers.iter().any(|server| server.trim().is_empty()) {
        return Err(Failure::Usage(
            "--servers: an address is empty; write one such as nats://127.0.0.1:4222".to_owned(),
        ));
    }
    match Connector::new(servers) {
        Ok(_) => Ok(()),
        Err(LiveError::Unreachable { servers, reason }) => {
            Err(Failure::Usage(format!("--servers {servers}: {reason}")))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(folder: &Path) -> Environment {
        Environment {
            password: Some("secret".to_owned()),
            token: None,
            contexts: Some(folder.to_owned()),
            home: Some(folder.to_owned()),
        }
    }

    fn with_context(text: &str) -> Result<(Vec<String>, Access), Failure> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("lab.json"), text).unwrap();
        let arguments = AccessArguments {
            context: Some("lab".to_owned()),
            ..AccessArguments::default()
        };
        arguments.resolve(&environment(folder.path()))
    }

    #[test]
    fn a_context_says_where_and_how() {
        let (urls, access) = with_context(
            r#"{ "description": "x", "url": "nats://a:1, nats://b:2", "user": "me", "password": "p",
                 "jetstream_domain": "hub", "tls_first": true, "windows_ca_certs_match": null }"#,
        )
        .unwrap();
        assert_eq!(urls, ["nats://a:1", "nats://b:2"]);
        assert_eq!(access.api_prefix, "$JS.hub.API");
        assert!(access.tls_first);
        let user = Identity::User {
            name: "me".to_owned(),
            password: "p".to_owned(),
        };
        assert_eq!(access.identity, user);
        let (_, token) = with_context(r#"{ "url": "nats://a:1", "token": "t" }"#).unwrap();
        assert_eq!(token.identity, Identity::Token("t".to_owned()));
    }

    #[test]
    fn what_a_context_cannot_say_here_is_one_clear_error() {
        for (text, part) in [
            ("{", "lab.json:1: no context"),
            (r#"{ "password": 7 }"#, "lab.json:1: no context"),
            (
                r#"{ "nsc": "nsc://o/a/u" }"#,
                "lab.json: nsc: is not supported",
            ),
            (
                r#"{ "socks_proxy": "socks5://x" }"#,
                "socks_proxy: is not supported",
            ),
            (r#"{ "creds": "op://vault/x" }"#, "creds: must be the path"),
            (r#"{ "creds": "~/absent" }"#, "absent: cannot be read"),
            (r#"{ "cert": "x" }"#, "a certificate needs its key"),
            (
                r#"{ "jetstream_api_prefix": "a.>" }"#,
                "no prefix of the JetStream API",
            ),
        ] {
            let error = with_context(text).unwrap_err();
            assert!(matches!(error, Failure::Input(_) | Failure::Usage(_)));
            assert!(error.to_string().contains(part), "{error}");
        }
        for name in ["", "../x", ".hidden", "a/b"] {
            let arguments = AccessArguments {
                context: Some(name.to_owned()),
                ..AccessArguments::default()
            };
            let error = arguments.resolve(&environment(Path::new("."))).unwrap_err();
            assert!(
                error.to_string().contains("no name of a context"),
                "{error}"
            );
        }
    }

    #[test]
    fn options_win_and_need_what_they_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            Some(path)
        };
        let resolved = |arguments: AccessArguments| {
            let environment = environment(folder.path());
            arguments.resolve(&environment).map(|(_, access)| access)
        };
        let user = resolved(AccessArguments {
            user: Some("me".to_owned()),
            ..AccessArguments::default()
        });
        assert!(
            matches!(user.unwrap().identity, Identity::User { password, .. } if password == "secret")
        );
        let seed = "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY";
        let nkey = path("user.nk", &format!("# seed\n{seed}\n"));
        let nkey = resolved(AccessArguments {
            nkey,
            ..AccessArguments::default()
        });
        assert_eq!(nkey.unwrap().identity, Identity::Nkey(seed.to_owned()));
        for (arguments, part) in [
            (
                AccessArguments {
                    nkey: path("bad.nk", "PWX"),
                    ..AccessArguments::default()
                },
                "no seed",
            ),
            (
                AccessArguments {
                    creds: path("bad.creds", "x"),
                    ..AccessArguments::default()
                },
                "no credentials",
            ),
            (
                AccessArguments {
                    tlsca: path("bad.pem", "x"),
                    ..AccessArguments::default()
                },
                "no PEM",
            ),
            (
                AccessArguments {
                    js_domain: Some("a.b".to_owned()),
                    ..AccessArguments::default()
                },
                "no domain",
            ),
        ] {
            let error = resolved(arguments).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
