//! A picture as SVG text: boxes, lines and words, in colours for light and for dark pages.
//!
//! The picture has its own background: it is readable on any page, also where a page is dark and the reader's
//! system is not.

use std::fmt::Write;

/// The width of every picture: what a page shows without scaling it down.
pub(crate) const WIDTH: u32 = 760;

const STYLE: &str = include_str!("picture.css");

/// Whether a text begins at its place or has its middle there.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Anchor {
    Start,
    Middle,
}

/// A text and the space that it takes at most, for the test that no two overlap.
#[derive(Debug)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) struct Placed {
    pub(crate) text: String,
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

/// A picture that is being drawn.
#[derive(Debug)]
pub(crate) struct Picture {
    height: u32,
    title: &'static str,
    description: &'static str,
    body: String,
    placed: Vec<Placed>,
    boxes: Vec<[u32; 4]>,
}

impl Picture {
    /// An empty picture; the description is for readers with a screen reader.
    pub(crate) fn new(height: u32, title: &'static str, description: &'static str) -> Self {
        let mut picture =
            Self { height, title, description, body: String::new(), placed: Vec::new(), boxes: Vec::new() };
        picture.text(24, 36, "title", title);
        picture
    }

    /// A box with round corners.
    pub(crate) fn rect(&mut self, [x, y, width, height]: [u32; 4], class: &str) {
        self.boxes.push([x, y, width, height]);
        let _ = writeln!(
            self.body,
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>"#
        );
    }

    /// Words that begin at `x`, on the base line `y`.
    pub(crate) fn text(&mut self, x: u32, y: u32, class: &str, text: &str) {
        self.words(x, y, class, Anchor::Start, text);
    }

    /// Words around `x`.
    pub(crate) fn centred(&mut self, x: u32, y: u32, class: &str, text: &str) {
        self.words(x, y, class, Anchor::Middle, text);
    }

    /// Words on one line.
    fn words(&mut self, x: u32, y: u32, class: &str, anchor: Anchor, text: &str) {
        let name = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
        };
        let escaped = escape(text);
        let _ = writeln!(
            self.body,
            r#"<text class="{class}" x="{x}" y="{y}" text-anchor="{name}">{escaped}</text>"#
        );
        self.placed.push(place(f64::from(x), f64::from(y), class, anchor, text));
    }

    /// Lines of words below each other.
    pub(crate) fn lines(&mut self, x: u32, y: u32, class: &str, lines: &[&str]) {
        for (index, line) in (0..).zip(lines) {
            self.text(x, y + index * 19, class, line);
        }
    }

    /// A bar with words in its middle.
    pub(crate) fn bar(&mut self, [x, y, width, height]: [u32; 4], class: &str, words: &str, text: &str) {
        self.rect([x, y, width, height], class);
        if !text.is_empty() {
            self.centred(x + width / 2, y + height / 2 + 5, words, text);
        }
    }

    /// A line through points.
    pub(crate) fn line(&mut self, points: &[[u32; 2]], class: &str) {
        self.path(points, class, "");
    }

    /// A line through points that ends with a head.
    pub(crate) fn arrow(&mut self, points: &[[u32; 2]], class: &str) {
        let head = if class.contains("red") { "red" } else { "plain" };
        self.path(points, class, &format!(r#" marker-end="url(#{head})""#));
    }

    fn path(&mut self, points: &[[u32; 2]], class: &str, end: &str) {
        let points: Vec<String> = points.iter().map(|[x, y]| format!("{x},{y}")).collect();
        let _ = writeln!(self.body, r#"<polyline class="line {class}" points="{}"{end}/>"#, points.join(" "));
    }

    /// A cross: something ends here by force.
    pub(crate) fn cross(&mut self, x: u32, y: u32) {
        self.line(&[[x - 6, y - 6], [x + 6, y + 6]], "red thick");
        self.line(&[[x - 6, y + 6], [x + 6, y - 6]], "red thick");
    }

    /// All texts.
    #[cfg(test)]
    pub(crate) fn placed(&self) -> &[Placed] {
        &self.placed
    }

    /// All boxes: left, top, width and height.
    #[cfg(test)]
    pub(crate) fn boxes(&self) -> &[[u32; 4]] {
        &self.boxes
    }

    /// Its size.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (f64, f64) {
        (f64::from(WIDTH), f64::from(self.height))
    }

    /// The file's text.
    pub(crate) fn finish(&self) -> String {
        let (height, title, description) = (self.height, escape(self.title), escape(self.description));
        let (inner_width, inner_height) = (WIDTH - 1, height - 1);
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t d">
<title id="t">{title}</title>
<desc id="d">{description}</desc>
<style>
{STYLE}</style>
<defs>
<marker id="plain" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path class="head" d="M0,0.5 L8,4 L0,7.5 Z"/></marker>
<marker id="red" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path class="head-red" d="M0,0.5 L8,4 L0,7.5 Z"/></marker>
<pattern id="doubt" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="doubt-ground" width="8" height="8"/><rect class="doubt-stripe" width="3" height="8"/></pattern>
</defs>
<rect class="ground" x="0.5" y="0.5" width="{inner_width}" height="{inner_height}" rx="8"/>
{}</svg>
"##,
            self.body
        )
    }
}

/// The space that words take where the font is wide.
fn place(x: f64, y: f64, class: &str, anchor: Anchor, text: &str) -> Placed {
    let has = |name: &str| class.split(' ').any(|word| word == name);
    let size = if has("title") {
        18.0
    } else if has("small") || has("code") {
        13.0
    } else {
        14.0
    };
    let width: f64 = if has("code") {
        text.chars().count() as f64 * 0.61
    } else {
        let bold = if has("strong") || has("title") { 1.12 } else { 1.0 };
        text.chars().map(width_of).sum::<f64>() * bold
    };
    let width = width * size;
    let left = match anchor {
        Anchor::Start => x,
        Anchor::Middle => x - width / 2.0,
    };
    let (top, bottom) = (y - size * 0.8, y + size * 0.2);
    Placed { text: text.to_string(), left, top, right: left + width, bottom }
}

/// The width of a letter to its height in DejaVu Sans, the widest of the usual fonts.
fn width_of(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | '\'' => 0.28,
        ' ' | '.' | ',' | ':' | ';' | 'f' | 'r' | 't' | '(' | ')' | '-' => 0.41,
        'm' | 'w' | 'M' | 'W' | '→' | '…' => 1.0,
        'A'..='Z' => 0.78,
        _ => 0.64,
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
