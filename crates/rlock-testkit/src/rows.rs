//! Stored measurements as JSON in which each measurement is a line, so that a diff shows which of them changed.

use std::io::{Result, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Lists of objects inside this number of lists stay in the line of their measurement.
const DEEPEST: usize = 2;

/// The value as JSON: each field of the outermost object is a line, and each object in a list.
///
/// # Errors
///
/// Where `serde_json` cannot write the value.
pub fn rows(value: &impl Serialize) -> serde_json::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Rows::default()))?;
    text.push(b'\n');
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[derive(Default)]
struct Rows {
    open: Vec<Open>,
}

/// An object, or a list and whether it has rows.
#[derive(PartialEq)]
enum Open {
    Object,
    List { has_rows: bool },
}

impl Rows {
    fn lists(&self) -> usize {
        self.open.iter().filter(|open| **open != Open::Object).count()
    }

    fn close<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &str) -> Result<()> {
        let closed = self.open.pop();
        if self.open.is_empty() || closed == Some(Open::List { has_rows: true }) {
            line(writer, self.lists() + usize::from(!self.open.is_empty()))?;
        }
        writer.write_all(bracket.as_bytes())
    }
}

fn line<W: ?Sized + Write>(writer: &mut W, indent: usize) -> Result<()> {
    write!(writer, "\n{:1$}", "", 2 * indent)
}

impl Formatter for Rows {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.open.push(Open::List { has_rows: false });
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.close(writer, "]")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        let lists = self.lists();
        if let Some(Open::List { has_rows }) = self.open.last_mut().filter(|_| lists <= DEEPEST) {
            *has_rows = true;
            line(writer, lists + 1)?;
        }
        self.open.push(Open::Object);
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.close(writer, "}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> Result<()> {
        let is_outermost = self.open.len() == 1;
        match (is_outermost, first) {
            (true, true) => line(writer, 1),
            (true, false) => writer.write_all(b",").and_then(|()| line(writer, 1)),
            (false, true) => Ok(()),
            (false, false) => writer.write_all(b", "),
        }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::rows;

    #[test]
    fn each_measurement_is_a_line() {
        let ratios = json!([{ "to": "PING", "ratio": 1.5 }, { "to": "SET", "ratio": 2.0 }]);
        let value = json!({
            "a": 1,
            "b": { "load": [0.5, 1.0], "name": "x" },
            "c": [{ "costs": [{ "ratios": ratios }, { "ratios": [] }], "depth": 1 }, { "costs": [], "depth": 2 }],
            "d": { "e": [{ "us": 1 }], "f": [] },
        });
        let text = rows(&value).unwrap();
        let expected = r#"{
  "a": 1,
  "b": {"load": [0.5,1.0], "name": "x"},
  "c": [
    {"costs": [
      {"ratios": [{"ratio": 1.5, "to": "PING"},{"ratio": 2.0, "to": "SET"}]},
      {"ratios": []}
    ], "depth": 1},
    {"costs": [], "depth": 2}
  ],
  "d": {"e": [
    {"us": 1}
  ], "f": []}
}
"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
