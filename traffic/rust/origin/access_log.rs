// SPDX-License-Identifier: Apache-2.0
//! A line of JSON per request, with the fields of Caddy's access log.

use std::{
    fs::File,
    io::Write,
    net::SocketAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::{header::HeaderMap, Request, Response};

pub struct AccessLog {
    file: File,
}

impl AccessLog {
    pub fn new(file: File) -> AccessLog {
        AccessLog { file }
    }

    /// Adds a request from a client, its answer, and how many bytes of a body that took how long.
    pub fn add(
        &mut self,
        from: SocketAddr,
        request: &Request<()>,
        response: &Response<()>,
        size: usize,
        duration: Duration,
    ) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let uri = request.uri();
        let line = format!(
            concat!(
                r#"{{"level":"info","ts":{:.6},"logger":"http.log.access","msg":"handled request","#,
                r#""request":{{"remote_ip":{},"remote_port":"{}","proto":"HTTP/3.0","method":{},"host":{},"uri":{},"#,
                r#""headers":{}}},"user_id":"","duration":{:.6},"size":{},"status":{},"resp_headers":{}}}"#,
                "\n"
            ),
            now.as_secs_f64(),
            quoted(from.ip().to_string().as_bytes()),
            from.port(),
            quoted(request.method().as_str().as_bytes()),
            quoted(uri.authority().map_or("", |it| it.as_str()).as_bytes()),
            quoted(uri.path_and_query().map_or("", |it| it.as_str()).as_bytes()),
            headers(request.headers()),
            duration.as_secs_f64(),
            size,
            response.status().as_u16(),
            headers(response.headers()),
        );
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            eprintln!("access log: {error}");
        }
    }
}

fn headers(of: &HeaderMap) -> String {
    let entries = of.keys().map(|name| {
        let values: Vec<String> = of.get_all(name).iter().map(|value| quoted(value.as_bytes())).collect();
        format!("{}:[{}]", quoted(canonical(name.as_str()).as_bytes()), values.join(","))
    });
    format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
}

/// Returns a header's name in the case of HTTP/1.1: `Content-Type`.
fn canonical(name: &str) -> String {
    let words = name.split('-').map(|word| word[..1.min(word.len())].to_ascii_uppercase() + &word[1.min(word.len())..]);
    words.collect::<Vec<_>>().join("-")
}

/// Returns a JSON string (RFC 8259, 7); octets that are not UTF-8 are replaced.
fn quoted(text: &[u8]) -> String {
    let mut json = String::from("\"");
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            control if control < ' ' => json.push_str(&format!("\\u{:04x}", control as u32)),
            other => json.push(other),
        }
    }
    json.push('"');
    json
}
