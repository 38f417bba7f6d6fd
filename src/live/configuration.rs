//! What a file says of its server, as the configuration of a real one.
//!
//! Leans on the settings of `scenario`.

use crate::scenario::{Settings, SyncPolicy};

/// Configuration for servers of our own: those of
/// [`SETTINGS_OF_REAL_SERVERS`](crate::scenario::SETTINGS_OF_REAL_SERVERS) that are not as by
/// default. Empty when there are none.
pub fn configuration(settings: &Settings) -> String {
    let server = settings.server.clone().unwrap_or_default();
    let default = crate::scenario::ServerSettings::default();
    let mut batch = String::new();
    if server.batches_per_stream != default.batches_per_stream {
        batch += &format!(" max_inflight_per_stream: {}", server.batches_per_stream);
    }
    if server.batches_per_server != default.batches_per_server {
        batch += &format!(" max_inflight_total: {}", server.batches_per_server);
    }
    if server.atomic_batch_messages != default.atomic_batch_messages {
        batch += &format!(" max_msgs: {}", server.atomic_batch_messages);
    }
    if server.batch_idle_timeout != default.batch_idle_timeout {
        let timeout = server.batch_idle_timeout.0.as_nanos();
        batch += &format!(" timeout: \"{timeout}ns\"");
    }
    let mut jetstream = String::new();
    if !batch.is_empty() {
        jetstream += &format!(" limits {{ batch {{{batch} }} }}");
    }
    if server.ingest_messages != default.ingest_messages {
        jetstream += &format!(" max_buffered_msgs: {}", server.ingest_messages);
    }
    if server.ingest_bytes != default.ingest_bytes {
        jetstream += &format!(" max_buffered_size: {}", server.ingest_bytes.0);
    }
    let disk = settings.disk.as_ref();
    if disk.is_some_and(|disk| disk.sync == SyncPolicy::Always) {
        jetstream += " sync_interval: always";
    }
    if jetstream.is_empty() {
        String::new()
    } else {
        format!("jetstream {{{jetstream} }}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{SETTINGS_OF_REAL_SERVERS, Scenario};

    fn with(sections: &str) -> String {
        let text = format!("format = 1\nabout = \"x\"\n[[publishers]]\n{sections}");
        configuration(&Scenario::parse("x.toml", &text).unwrap().settings)
    }

    #[test]
    fn each_setting_of_a_real_server_is_written_and_no_default() {
        assert_eq!(with("[server]\n[disk]\nwrite_latency = \"1ms\"\n"), "");
        for key in SETTINGS_OF_REAL_SERVERS {
            let (section, name) = key.split_once('.').unwrap();
            let (value, written) = match name {
                "atomic_batch_messages" => ("7", "max_msgs: 7"),
                "batch_idle_timeout" => ("\"700ms\"", "timeout: \"700000000ns\""),
                "batches_per_server" => ("7", "max_inflight_total: 7"),
                "batches_per_stream" => ("7", "max_inflight_per_stream: 7"),
                "ingest_bytes" => ("\"2KiB\"", "max_buffered_size: 2048"),
                "ingest_messages" => ("7", "max_buffered_msgs: 7"),
                "sync" => ("\"always\"", "sync_interval: always"),
                other => panic!("{other}"),
            };
            let text = with(&format!("[{section}]\n{name} = {value}\n"));
            assert!(text.contains(written), "{key}: {text}");
        }
    }
}
