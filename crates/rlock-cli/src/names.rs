//! Keys and owners, which may be any bytes, as text.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStringExt;

/// The bytes of an argument.
pub(crate) fn bytes(argument: &OsString) -> Vec<u8> {
    argument.clone().into_vec()
}

/// A name for a terminal: control characters and what is not UTF-8 as `\x1b`, so that nobody's key can
/// move the cursor; a backslash is doubled.
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
