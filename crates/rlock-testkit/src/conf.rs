//! The text of a server's configuration file.

/// The directives of one configuration file, in order.
#[derive(Debug, Default, Clone)]
pub(crate) struct Conf {
    directives: Vec<(String, Vec<String>)>,
}

impl Conf {
    pub(crate) fn push(&mut self, name: &str, words: Vec<String>) {
        self.directives.push((name.to_string(), words));
    }

    /// Adds a directive unless one of that name is there: what a test asks for replaces a default.
    pub(crate) fn push_default(&mut self, name: &str, words: &[&str]) {
        if self.first_word(name).is_none() {
            self.push(name, words.iter().map(ToString::to_string).collect());
        }
    }

    /// The first word of the last directive of that name: the one that is in force.
    pub(crate) fn first_word(&self, name: &str) -> Option<&str> {
        let same_name = |(other, _): &&(String, Vec<String>)| other.eq_ignore_ascii_case(name);
        let (_, words) = self.directives.iter().rev().find(same_name)?;
        Some(words.first().map_or("", String::as_str))
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (name, words) in &self.directives {
            text.push_str(name);
            for word in words {
                text.push(' ');
                text.push_str(&quoted(word));
            }
            text.push('\n');
        }
        text
    }
}

/// Splits a value at white space as a configuration line would be; an empty value is one word.
pub(crate) fn words(value: &str) -> Vec<String> {
    let words: Vec<String> = value.split_whitespace().map(str::to_string).collect();
    if words.is_empty() { vec![String::new()] } else { words }
}

/// A word in the quotes of a configuration file, so that any bytes survive.
fn quoted(word: &str) -> String {
    let mut text = String::from("\"");
    for byte in word.bytes() {
        match byte {
            b'"' | b'\\' => text.extend(['\\', byte as char]),
            b' '..=b'~' => text.push(byte as char),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_yields_to_what_is_asked_for() {
        let mut conf = Conf::default();
        conf.push("Port", words("7"));
        conf.push_default("port", &["8"]);
        assert_eq!(conf.text(), "Port \"7\"\n");
        assert_eq!(conf.first_word("port"), Some("7"));
    }
}
