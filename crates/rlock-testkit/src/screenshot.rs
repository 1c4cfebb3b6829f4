//! Pictures of a terminal's screen, and which parts of a text differ from run to run.

use std::fmt::Write;

use regex::Regex;

/// The colour of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// The terminal's own.
    Plain,
    /// An error.
    Red,
    /// A warning.
    Yellow,
    /// Less important.
    Dim,
    /// Dark on a light bar.
    Inverse,
}

/// A character of the screen.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The character; a blank where the cell is empty.
    pub symbol: String,
    /// Its colour.
    pub ink: Ink,
    /// Whether it is bold.
    pub is_bold: bool,
}

impl Cell {
    fn is_blank(&self) -> bool {
        self.symbol == " "
    }

    fn colour(&self) -> &'static str {
        match self.ink {
            Ink::Plain => "#f0f6fc",
            Ink::Red => "#ff7b72",
            Ink::Yellow => "#e3b341",
            Ink::Dim => "#9198a1",
            Ink::Inverse => "#0d1117",
        }
    }
}

/// The width of a character.
const WIDTH: usize = 9;

/// The height of a line.
const HEIGHT: usize = 20;

/// The screen as SVG: each word at its column, so that fonts of any width fit.
pub fn svg(rows: &[Vec<Cell>], title: &str, description: &str) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let (width, height) = (columns * WIDTH + 40, rows.len() * HEIGHT + 40);
    let mut text = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t d">
<title id="t">{title}</title>
<desc id="d">{description}</desc>
<style>text {{ font-family: ui-monospace, SFMono-Regular, "SF Mono", Menlo, Consolas, "Liberation Mono", "DejaVu Sans Mono", monospace; font-size: 14px; white-space: pre; }} .b {{ font-weight: 600; }}</style>
<rect width="{width}" height="{height}" rx="6" fill="#0d1117" stroke="#3d444d"/>
"##
    );
    for (row, cells) in rows.iter().enumerate() {
        let y = row * HEIGHT + 34;
        if cells.first().is_some_and(|cell| cell.ink == Ink::Inverse) {
            let (y, width) = (y - 15, columns * WIDTH);
            let _ = writeln!(text, r##"<rect x="20" y="{y}" width="{width}" height="20" fill="#9198a1"/>"##);
        }
        for (column, word) in words(cells) {
            let symbols: String = word.iter().map(|cell| cell.symbol.as_str()).collect();
            let escaped = symbols.replace('&', "&amp;").replace('<', "&lt;");
            let class = if word[0].is_bold { r#" class="b""# } else { "" };
            let (x, length, fill) = (column * WIDTH + 20, word.len() * WIDTH, word[0].colour());
            let _ = writeln!(
                text,
                r#"<text{class} x="{x}" y="{y}" textLength="{length}" lengthAdjust="spacingAndGlyphs" fill="{fill}">{escaped}</text>"#
            );
        }
    }
    text + "</svg>\n"
}

/// The words of a line, with their columns.
fn words(cells: &[Cell]) -> impl Iterator<Item = (usize, &[Cell])> {
    let ends = cells.split(Cell::is_blank).scan(0, |column, word| {
        let start = *column;
        *column += word.len() + 1;
        Some((start, word))
    });
    ends.filter(|(_, word)| !word.is_empty())
}

/// A text with `#` in place of each number and of each time with its units, `█` for each bar, and one blank for several. The rest
/// does not differ between runs.
pub fn without_numbers(text: &str) -> String {
    // A time may have two numbers: 1m 2s.
    let patterns = [(r"\d[\d.msh]*(?: +\d[\d.msh]*)*", "#"), ("█+", "█"), (" +", " ")];
    let replaced = |text: String, (pattern, with)| {
        Regex::new(pattern).expect("a pattern").replace_all(&text, with).into_owned()
    };
    patterns.into_iter().fold(text.to_owned(), replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_at_its_column() {
        let cell = |symbol: char| Cell { symbol: symbol.to_string(), ink: Ink::Plain, is_bold: false };
        let picture = svg(&["a  <b".chars().map(cell).collect()], "title", "description");
        assert!(picture.contains(
            r##"x="20" y="34" textLength="9" lengthAdjust="spacingAndGlyphs" fill="#f0f6fc">a</text>"##
        ));
        assert!(picture.contains(r#"x="47" y="34" textLength="18""#) && picture.contains(">&lt;b</text>"));
    }

    #[test]
    fn numbers_are_left_out() {
        let cases = [
            ("waits  1m02s  ████  a", "waits # █ a"),
            ("waits 999ms ██ a", "waits # █ a"),
            ("10.0.0.1:6379 24", "#:#"),
            ("none", "none"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_numbers(text), expected);
        }
    }
}
