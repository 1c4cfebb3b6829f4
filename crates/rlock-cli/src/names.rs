//! Keys and owners, which may be any bytes, as text.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStringExt;

use serde::Serializer;

/// The bytes of an argument.
pub(crate) fn bytes(argument: &OsString) -> Vec<u8> {
    argument.clone().into_vec()
}

/// A name for a terminal: control characters and bytes that are not UTF-8 as `\x1b`, so that no key can move
/// the cursor; a backslash is doubled.
pub(crate) fn shown(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                c if c.is_control() => {
                    let mut buffer = [0; 4];
                    escape(&mut text, c.encode_utf8(&mut buffer).as_bytes());
                }
                c => text.push(c),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

/// A name for JSON: as it is where it is UTF-8, and else as [`shown`].
pub(crate) fn json(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) => text.to_string(),
        Err(_) => shown(name),
    }
}

/// A name in JSON, for serde.
pub(crate) fn serialized<S: Serializer>(name: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&json(name))
}

/// A number of things.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A text of at most `width` characters, with `…` in place of its middle: owners differ at their end.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_string();
    }
    let kept = width.saturating_sub(1);
    let head = kept.div_ceil(2);
    let tail = length.saturating_sub(kept.saturating_sub(head));
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(tail).collect();
    if width == 0 { String::new() } else { format!("{start}…{end}") }
}

/// A text of at most `width` characters, with `…` in place of its end.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    let start: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { start } else { start + "…" }
}

/// Bytes as a part of a URL, or of a list: everything that could end it is percent-encoded.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |&byte: &u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    bytes.iter().map(encode).collect()
}

/// The bytes of a text that [`encoded`] made.
pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut parts = text.split('%');
    bytes.extend(parts.next()?.bytes());
    for part in parts {
        let (number, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(number, 16).ok()?);
        bytes.extend(rest.bytes());
    }
    Some(bytes)
}

fn escape(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_fit() {
        let cases = [
            ("alice:1", 7, "alice:1", "alice:1"),
            ("0123456789:1", 7, "012…9:1", "012345…"),
            ("0123456789:1", 2, "0…", "0…"),
            ("0123456789:1", 1, "…", "…"),
            ("0123456789:1", 0, "", ""),
            ("äöüßäöüß", 4, "äö…ß", "äöü…"),
        ];
        for (text, width, middle, end) in cases {
            assert_eq!(
                (shortened(text, width).as_str(), cut(text, width).as_str()),
                (middle, end),
                "{width}"
            );
        }
    }

    #[test]
    fn names_of_any_bytes_are_shown() {
        let cases: [(&[u8], &str, &str); 5] = [
            (b"invoice:7", "invoice:7", "invoice:7"),
            ("büro".as_bytes(), "büro", "büro"),
            (b"a\x1b[2Jb\n", "a\\x1b[2Jb\\x0a", "a\x1b[2Jb\n"),
            (b"a\\b", "a\\\\b", "a\\b"),
            (b"\xff\x00z", "\\xff\\x00z", "\\xff\\x00z"),
        ];
        for (name, text, in_json) in cases {
            assert_eq!((shown(name).as_str(), json(name).as_str()), (text, in_json));
        }
    }
}
