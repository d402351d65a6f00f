// SPDX-License-Identifier: Apache-2.0
//! What is served: files in folders, and the two kinds of templates that stand for files.
//!
//! Both are written for Caddy (Go's text/template) and filled in here by the little that they use: a live playlist,
//! whose window slides with the clock (apps/standins/hls.py), and a repeated segment of a film, which has a head and the
//! rest of another segment (apps/standins/clip.py). A template with anything else is an error, not a guess.

use std::{
    error::Error,
    fs, io,
    path::{Component, Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const BEGIN: &[u8] = b"<|sojourn:";
const END: &[u8] = b":sojourn|>";
const LIVE: &str = "/live/";

pub struct Content {
    pub body: Bytes,
    pub media_type: &'static str,
}

pub struct Site {
    /// Prefixes of paths and their folders, longest prefix first.
    folders: Vec<(String, PathBuf)>,
}

impl Site {
    /// Returns the site of words `PREFIX=FOLDER`.
    pub fn of(words: &[String]) -> Result<Site> {
        let mut folders = Vec::new();
        for word in words {
            let (prefix, folder) = word.split_once('=').ok_or_else(|| format!("{word}: is not PREFIX=FOLDER"))?;
            folders.push((prefix.to_owned(), PathBuf::from(folder)));
        }
        folders.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Ok(Site { folders })
    }

    /// Returns what a path of a request names, None if nothing.
    pub fn content(&self, path: &str) -> Result<Option<Content>> {
        let path = if path == "/watch" { "/index.html" } else { path };
        let Some(decoded) = decoded(path) else { return Ok(None) };
        let Some((prefix, folder)) = self.folders.iter().find(|(prefix, _)| decoded.starts_with(prefix.as_str()))
        else {
            return Ok(None);
        };
        // A prefix that is a file's whole path is that file's.
        let name = if prefix.ends_with('/') { &decoded[prefix.len()..] } else { &decoded[1..] };
        let Some(mut file) = within(folder, name) else { return Ok(None) };
        if file.is_dir() {
            file.push("index.html");
        }
        let mut body = match fs::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let media_type = media_type(&file);
        if prefix == LIVE {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
            body = playlist(&String::from_utf8(body)?, now)?.into_bytes();
        } else if file.extension().is_some_and(|it| it == "m4s") {
            body = segment(body, folder)?;
        }
        Ok(Some(Content { body: body.into(), media_type }))
    }
}

/// Returns the file of a folder that a decoded path names; None if the path leaves the folder.
fn within(folder: &Path, path: &str) -> Option<PathBuf> {
    let relative = Path::new(path);
    relative
        .components()
        .all(|it| matches!(it, Component::Normal(_) | Component::CurDir))
        .then(|| folder.join(relative))
}

/// Decodes the percent-encoded octets of a path (RFC 3986, 2.1); None if it is not UTF-8 then.
fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn media_type(file: &Path) -> &'static str {
    match file.extension().and_then(|it| it.to_str()).unwrap_or_default() {
        "css" => "text/css; charset=utf-8",
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "m3u8" => "application/vnd.apple.mpegurl",
        "m4s" => "video/iso.segment",
        "mp4" => "video/mp4",
        "mpd" => "application/dash+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "svg" => "image/svg+xml",
        "ts" => "video/mp2t",
        "vtt" => "text/vtt; charset=utf-8",
        "wasm" => "application/wasm",
        "webm" => "video/webm",
        _ => "application/octet-stream",
    }
}

/// Returns a segment with its one action, if it has any, replaced: `substr N -1 (include "PATH")`, the bytes of a
/// file in `folder` from N on.
fn segment(template: Vec<u8>, folder: &Path) -> Result<Vec<u8>> {
    let Some(begin) = position(&template, BEGIN) else { return Ok(template) };
    let inside = begin + BEGIN.len();
    let end = inside + position(&template[inside..], END).ok_or("a template without an end")?;
    let action = std::str::from_utf8(&template[inside..end])?;
    let unknown = || format!("unknown template: {action}");
    let (skipped, path) = action
        .strip_prefix("substr ")
        .and_then(|it| it.strip_suffix("\")"))
        .and_then(|it| it.split_once(" -1 (include \"/"))
        .ok_or_else(unknown)?;
    let file = within(folder, path).ok_or_else(unknown)?;
    let original = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let rest = original.get(skipped.parse::<usize>()?..).ok_or_else(unknown)?;
    let after = &template[end + END.len()..];
    if position(after, BEGIN).is_some() {
        return Err("a template with two actions".into());
    }
    Ok([&template[..begin], rest, after].concat())
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|it| it == part)
}

/// Returns a playlist at `now`, Unix ms. One that is no template, such as the master playlist, is returned as it is.
fn playlist(template: &str, now: i64) -> Result<String> {
    if !template.contains("{{") {
        return Ok(template.to_owned());
    }
    let begun = number(template, "(now).UnixMilli ")?;
    let length = number(template, &format!("(now).UnixMilli {begun}) "))?;
    let window = number(template, "(sub $on_air ")?;
    let end = number(template, "(min (add1 $on_air) ")?;
    let on_air = (now - begun) / length;
    let first = (on_air - window + 1).max(1);
    let (_, text) = template.rsplit_once("-}}").ok_or("a playlist without a window")?;
    let (head, repeated) = text.split_once("{{- range ").ok_or("a playlist without segments")?;
    let (_, repeated) = repeated.split_once("}}").ok_or("a playlist with an open action")?;
    let (entry, tail) = repeated.split_once("{{- end }}").ok_or("a playlist without an end of segments")?;
    let head = head.trim().replace("{{ $first }}", &first.to_string());
    let entries = (first..end.min(on_air + 1)).map(|number| entry.trim_end().replace("{{ . }}", &number.to_string()));
    let text = format!("{head}{}{tail}", entries.collect::<String>());
    if text.contains("{{") {
        return Err("a playlist with an unknown action".into());
    }
    Ok(text)
}

/// Returns the number in a template that follows `before`.
fn number(template: &str, before: &str) -> Result<i64> {
    let (_, after) = template.split_once(before).ok_or_else(|| format!("a playlist without {before}"))?;
    let digits = after.find(|it: char| !it.is_ascii_digit()).unwrap_or(after.len());
    Ok(after[..digits].parse()?)
}
