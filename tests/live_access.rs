//! Getting into servers that want to know who comes: passwords, tokens, nkeys, credentials, TLS, domains.
//!
//! Each test has a nats-server of its own on 127.0.0.1, and runs the binary against it.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use rcgen::{
    CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair as Key,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate::live::{Surroundings, find_server};

const SECRET: &str = "hunter2-secret";
const FILE: &str = "about = \"A hundred messages\"\nformat = 1\n[[publishers]]\nmessages = 100\n\
                    [[probes]]\noperation = \"info\"\nevery = \"10ms\"\n";

/// A nats-server with JetStream and what `config` adds, which goes with its folder when it is dropped.
struct Server {
    child: Child,
    folder: TempDir,
    port: u16,
}

struct Done {
    code: Option<i32>,
    /// Everything that was written: the result, and stderr.
    all: String,
    err: String,
}

impl Server {
    fn start(folder: TempDir, config: &str) -> Self {
        let binary = find_server(None, &Surroundings::of_process(), &mut |_| {})
            .unwrap()
            .path;
        // Let go again at once, for the server to take.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .unwrap()
            .port();
        let store = folder.path().join("store");
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\nserver_name: \"access\"\n{config}\njetstream {{ store_dir: {store:?}, domain: \"hub\" }}\n"
        );
        let path = folder.path().join("server.conf");
        std::fs::write(&path, text).unwrap();
        std::fs::write(folder.path().join("a.toml"), FILE).unwrap();
        let log = folder.path().join("server.log");
        let child = Command::new(binary)
            .arg("-c")
            .arg(&path)
            .arg("-l")
            .arg(&log)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self {
            child,
            folder,
            port,
        };
        for _ in 0..500 {
            let ready =
                std::fs::read_to_string(&log).is_ok_and(|log| log.contains("Server is ready"));
            if ready && TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return server;
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
        panic!("{}", std::fs::read_to_string(log).unwrap_or_default());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn live(&self, scheme: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Done {
        let url = format!("{scheme}127.0.0.1:{}", self.port);
        self.run(&[&["--servers", &url], arguments].concat(), environment)
    }

    fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Done {
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["live", "a.toml", "--json"])
            .args(arguments)
            .current_dir(self.folder.path())
            .env("XDG_CONFIG_HOME", self.folder.path())
            .env_remove("NATS_PASSWORD")
            .env_remove("NATS_TOKEN")
            .envs(environment.iter().copied())
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        let all = String::from_utf8_lossy(&output.stdout).into_owned() + &err;
        Done {
            code: output.status.code(),
            all,
            err,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Done {
    #[track_caller]
    fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.all);
        assert!(
            !self.all.contains(SECRET),
            "a secret was told: {}",
            self.all
        );
        self
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn passwords_come_from_the_environment_and_go_nowhere() {
    let config = format!("authorization {{ user: me, password: {SECRET:?} }}");
    let server = Server::start(folder(), &config);
    let user = ["--user", "me"];
    let told = server
        .live("nats://", &user, &[("NATS_PASSWORD", SECRET)])
        .expect(0);
    assert!(
        told.all.contains("--user me"),
        "the replay says who: {}",
        told.all
    );
    server
        .live(&format!("nats://me:{SECRET}@"), &[], &[])
        .expect(0);
    let refused = server
        .live("nats://", &user, &[("NATS_PASSWORD", "wrong")])
        .expect(3);
    assert!(
        refused.err.contains("refuses these credentials"),
        "{}",
        refused.err
    );
    server.live("nats://", &[], &[]).expect(3);
    let missing = server.live("nats://", &user, &[]).expect(2);
    assert!(missing.err.contains("NATS_PASSWORD"), "{}", missing.err);
}

#[test]
fn a_token_comes_from_the_environment_or_a_context() {
    let server = Server::start(folder(), &format!("authorization {{ token: {SECRET:?} }}"));
    server
        .live("nats://", &[], &[("NATS_TOKEN", SECRET)])
        .expect(0);
    server.live("nats://", &[], &[]).expect(3);
    let contexts = server.path("nats/context");
    std::fs::create_dir_all(&contexts).unwrap();
    let url = format!("nats://127.0.0.1:{}", server.port);
    let context = json!({ "url": url, "token": SECRET, "jetstream_domain": "hub" });
    std::fs::write(contexts.join("lab.json"), context.to_string()).unwrap();
    server.run(&["--context", "lab"], &[]).expect(0);
    server.run(&["--context", "absent"], &[]).expect(2);
    let nobody = server
        .run(&["--user", "me"], &[("NATS_PASSWORD", SECRET)])
        .expect(2);
    assert!(
        nobody.err.contains("name them with --servers"),
        "{}",
        nobody.err
    );
}

#[test]
fn a_domain_is_where_the_api_is() {
    let server = Server::start(folder(), "");
    let inside = server
        .live("nats://", &["--js-domain", "hub"], &[])
        .expect(0);
    let (result, _) = inside.all.rsplit_once('}').unwrap();
    let result: Value = serde_json::from_str(&format!("{result}}}")).unwrap();
    let calls = &result["api_calls"]["info"];
    assert!(
        calls["answered"].as_u64() > Some(0),
        "probes find it too: {calls}"
    );
    server
        .live("nats://", &["--js-api-prefix", "$JS.hub.API"], &[])
        .expect(0);
    let nowhere = server
        .live("nats://", &["--js-domain", "nowhere"], &[])
        .expect(3);
    assert!(nowhere.err.contains("JetStream is off"), "{}", nowhere.err);
}

#[test]
fn an_nkey_signs_what_the_server_asks() {
    let pair = KeyPair::new_user();
    let server = Server::start(
        folder(),
        &format!(
            "authorization {{ users: [ {{ nkey: {} }} ] }}",
            pair.public_key()
        ),
    );
    let seed = server.path("user.nk");
    std::fs::write(&seed, pair.seed().unwrap()).unwrap();
    let told = server
        .live("nats://", &["--nkey", "user.nk"], &[])
        .expect(0);
    assert!(!told.all.contains(&pair.seed().unwrap()));
    std::fs::write(&seed, KeyPair::new_user().seed().unwrap()).unwrap();
    server
        .live("nats://", &["--nkey", "user.nk"], &[])
        .expect(3);
}

/// A JWT of NATS: `claims` of `subject`, signed by `issuer`.
fn jwt(issuer: &KeyPair, subject: &KeyPair, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let head = part(&json!({ "typ": "JWT", "alg": "ed25519-nkey" }));
    let body = part(&json!({
        "jti": "1", "iat": 1_700_000_000, "name": "it", "iss": issuer.public_key(),
        "sub": subject.public_key(), "nats": claims,
    }));
    let signed = format!("{head}.{body}");
    let signature = URL_SAFE_NO_PAD.encode(issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}

#[test]
fn a_credentials_file_gets_in_where_accounts_are_jwts() {
    let operator = KeyPair::new_operator();
    // JetStream needs an account of the server's own besides that of the user.
    let (account, system, user) = (
        KeyPair::new_account(),
        KeyPair::new_account(),
        KeyPair::new_user(),
    );
    let of_operator = json!({ "type": "operator", "version": 2 });
    let of_operator = jwt(&operator, &operator, &of_operator);
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
        "conn": -1, "leaf": -1, "mem_storage": -1, "disk_storage": -1,
    });
    let plain = json!({ "type": "account", "version": 2 });
    let with_jetstream = json!({ "type": "account", "version": 2, "limits": limits });
    let of_user = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 });
    let of_user = jwt(&account, &user, &of_user);
    let config = format!(
        "operator: {of_operator}\nsystem_account: {}\nresolver: MEMORY\n\
         resolver_preload: {{ {}: {}, {}: {} }}\n",
        system.public_key(),
        account.public_key(),
        jwt(&operator, &account, &with_jetstream),
        system.public_key(),
        jwt(&operator, &system, &plain),
    );
    let server = Server::start(folder(), &config);
    let creds = |user: &KeyPair| {
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{of_user}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            user.seed().unwrap()
        );
        std::fs::write(server.path("user.creds"), text).unwrap();
    };
    creds(&user);
    let told = server
        .live("nats://", &["--creds", "user.creds"], &[])
        .expect(0);
    assert!(!told.all.contains(&user.seed().unwrap()) && !told.all.contains(&of_user));
    creds(&KeyPair::new_user());
    server
        .live("nats://", &["--creds", "user.creds"], &[])
        .expect(3);
    server
        .live("nats://", &["--creds", "absent.creds"], &[])
        .expect(2);
}

/// Certificates in `folder`: `ca.pem`, and pairs for a server, a client, and one server long ago.
fn certificates(folder: &Path) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, Key::generate().unwrap()).unwrap();
    std::fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    for (name, usage, last_year) in [
        ("server", ExtendedKeyUsagePurpose::ServerAuth, 4_000),
        ("expired", ExtendedKeyUsagePurpose::ServerAuth, 2_001),
        ("client", ExtendedKeyUsagePurpose::ClientAuth, 4_000),
    ] {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(last_year, 1, 1);
        let key = Key::generate().unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        std::fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

/// The `tls` block of a server that shows the certificate `name`.
fn tls(folder: &Path, name: &str, more: &str) -> String {
    let path = |name: String| folder.join(name).display().to_string();
    format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, {more} }}",
        path(format!("{name}.pem")),
        path(format!("{name}.key")),
        path("ca.pem".to_owned()),
    )
}

#[test]
fn tls_is_checked_against_the_certificates_that_are_given() {
    let folder = folder();
    certificates(folder.path());
    let config = tls(folder.path(), "server", "verify: true");
    let server = Server::start(folder, &config);
    let (ca, client) = (
        ["--tlsca", "ca.pem"],
        ["--tlscert", "client.pem", "--tlskey", "client.key"],
    );
    server
        .live("tls://", &[&ca[..], &client[..]].concat(), &[])
        .expect(0);
    // Unknown to the system, and without a certificate of the client.
    server.live("tls://", &[], &[]).expect(3);
    server.live("tls://", &ca, &[]).expect(3);
    server.live("tls://", &["--tlsca", "a.toml"], &[]).expect(2);
}

#[test]
fn a_certificate_that_has_expired_is_about_the_surroundings() {
    let folder = folder();
    certificates(folder.path());
    let config = tls(folder.path(), "expired", "");
    let server = Server::start(folder, &config);
    let refused = server.live("tls://", &["--tlsca", "ca.pem"], &[]).expect(3);
    assert!(
        refused.err.to_lowercase().contains("expired"),
        "{}",
        refused.err
    );
}

#[test]
fn a_handshake_may_come_first() {
    let folder = folder();
    certificates(folder.path());
    let config = tls(folder.path(), "server", "handshake_first: true");
    let server = Server::start(folder, &config);
    server
        .live("tls://", &["--tlsca", "ca.pem", "--tlsfirst"], &[])
        .expect(0);
}
