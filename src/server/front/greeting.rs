//! What server and client say of themselves: `INFO` and `CONNECT`.
//!
//! Leans on the versions and lines of `nats`.

use serde::Deserialize;
use serde_json::json;

use super::Options;
use super::connection::ClientOptions;
use crate::batch::message::ConnectionId;
use crate::nats::version::ServerVersion;
use crate::nats::wire::Line;

/// The JSON of an `INFO` for one client.
pub(super) fn info(
    options: &Options,
    version: ServerVersion,
    id: ConnectionId,
    client_ip: &str,
) -> Line {
    let info = json!({
        "server_id": options.server_id,
        "server_name": options.server_id,
        "version": version.text(),
        "proto": 1,
        "go": concat!("tidegate ", env!("CARGO_PKG_VERSION")),
        "host": options.host,
        "port": options.port,
        "headers": true,
        "max_payload": options.max_payload_bytes,
        "jetstream": true,
        "client_id": u64::from(id.0) + 1,
        "client_ip": client_ip,
        "api_lvl": version.api_level(),
    });
    // JSON has its line ends escaped: it is a line.
    Line::new(&info.to_string()).unwrap_or_else(Line::empty)
}

/// What a client says; what it leaves out is as nats-server takes it.
#[derive(Deserialize)]
#[serde(default)]
struct Connect {
    verbose: bool,
    pedantic: bool,
    echo: bool,
    headers: bool,
    no_responders: bool,
}

impl Default for Connect {
    fn default() -> Self {
        Self {
            verbose: true,
            pedantic: true,
            echo: true,
            headers: false,
            no_responders: false,
        }
    }
}

/// Reads the JSON of a `CONNECT`; `None`: the client is cut off, as nats-server does it without a
/// word. That goes for no-responders messages without headers, too.
pub(super) fn connect(json: &str) -> Option<ClientOptions> {
    // A list would do for serde, in the order of the fields.
    if !json.starts_with('{') {
        return None;
    }
    let connect: Connect = serde_json::from_str(json).ok()?;
    if connect.no_responders && !connect.headers {
        return None;
    }
    Some(ClientOptions {
        verbose: connect.verbose,
        pedantic: connect.pedantic,
        echo: connect.echo,
        headers: connect.headers,
        no_responders: connect.no_responders,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_leaves_out_is_the_servers_default() {
        let options = connect("{}").unwrap();
        assert!(options.verbose && options.pedantic && options.echo && !options.headers);
        for bad in [
            "",
            "[]",
            "{bad",
            r#"{"verbose":"x"}"#,
            r#"{"no_responders":true}"#,
        ] {
            assert_eq!(connect(bad), None, "{bad}");
        }
    }
}
