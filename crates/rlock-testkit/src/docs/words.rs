//! Splitting a command line into words, as a shell or as the Redis client does.

/// Whose quoting a line follows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Quoting {
    /// `$ redis-cli …`: a POSIX shell, without variables and the like.
    Shell,
    /// `127.0.0.1:6379> …`: the client's own prompt, with `\xHH` and `\n` in double quotes.
    Client,
}

/// The words of `line` as bytes; an error names the quote that is not closed.
pub(super) fn split(line: &str, quoting: Quoting) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut bytes = line.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' => words.extend(word.take()),
            b'"' | b'\'' => quoted(byte, &mut bytes, quoting, word.get_or_insert_default())?,
            b'\\' if quoting == Quoting::Shell => {
                let next = bytes.next().ok_or("a backslash at the end")?;
                word.get_or_insert_default().push(next);
            }
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Appends what is up to the closing quote.
fn quoted(
    quote: u8,
    bytes: &mut impl Iterator<Item = u8>,
    quoting: Quoting,
    word: &mut Vec<u8>,
) -> Result<(), String> {
    let unclosed = || format!("a {} that is not closed", quote as char);
    loop {
        match bytes.next().ok_or_else(unclosed)? {
            byte if byte == quote => return Ok(()),
            b'\\' if quote == b'"' || quoting == Quoting::Client => {
                let next = bytes.next().ok_or_else(unclosed)?;
                escaped(next, quote, bytes, quoting, word)?;
            }
            byte => word.push(byte),
        }
    }
}

/// Appends what a backslash and `byte` mean between quotes.
fn escaped(
    byte: u8,
    quote: u8,
    bytes: &mut impl Iterator<Item = u8>,
    quoting: Quoting,
    word: &mut Vec<u8>,
) -> Result<(), String> {
    let verbatim = match quoting {
        Quoting::Shell => !b"\"\\$`".contains(&byte),
        Quoting::Client => quote == b'\'' && byte != quote,
    };
    if verbatim {
        word.extend([b'\\', byte]);
    } else if quoting == Quoting::Client && byte == b'x' {
        let mut digit = || bytes.next().and_then(|digit| (digit as char).to_digit(16));
        let value = digit().zip(digit()).ok_or("\\x without two hexadecimal digits")?;
        word.push((value.0 * 16 + value.1) as u8);
    } else if quoting == Quoting::Client {
        word.push(match byte {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'a' => 7,
            b'b' => 8,
            other => other,
        });
    } else {
        word.push(byte);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> Vec<String> {
        let words = split(line, Quoting::Shell).unwrap();
        words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn a_shell_line() {
        assert_eq!(
            shell(r#"SET k "a \"b\" \n" 'c\d' e\ f '' x"y"z"#),
            ["SET", "k", r#"a "b" \n"#, r"c\d", "e f", "", "xyz"]
        );
        assert!(split("'a", Quoting::Shell).is_err());
    }

    #[test]
    fn a_client_line() {
        let words = split(r#"SET "\x00\xffk\n" 'it\'s \x' a\b"#, Quoting::Client).unwrap();
        assert_eq!(words, [&b"SET"[..], b"\x00\xffk\n", br"it's \x", br"a\b"]);
        assert!(split(r#""\xg0""#, Quoting::Client).is_err());
    }
}
