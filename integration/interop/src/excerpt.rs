//! The lines of a failed part that tell what failed: the whole of its output is far above.

/// A line with one of these says what failed.
const MARKS: [&str; 2] = ["FAILED", "panicked"];

/// How many lines follow each of them.
const AFTER: usize = 4;

/// How many lines come from the end, where the part says why it ended.
const LAST: usize = 3;

/// How many lines of a part are shown at most; the first failure may have led to the others.
const MOST: usize = 40;

/// The lines that say what failed, with what follows each; `…` stands for what is left out.
pub(crate) fn of(output: &str) -> String {
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let marked = |line: &&str| MARKS.iter().any(|mark| line.contains(mark));
    let is_last = |at: usize| at.saturating_add(LAST) >= lines.len();
    let follows =
        |at: usize| lines.get(at.saturating_sub(AFTER)..=at).is_some_and(|near| near.iter().any(marked));
    let (mut shown, mut gap, mut text) = (0, false, String::new());
    for (at, line) in lines.iter().enumerate() {
        if is_last(at) || shown < MOST - LAST && follows(at) {
            text.push_str(if std::mem::take(&mut gap) { "…\n" } else { "" });
            text.push_str(line);
            text.push('\n');
            shown += 1;
        } else {
            gap = true;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_shown_with_what_follows() {
        let output = "=== part ===\n  0.1 s  one: ok\n  0.2 s  two: FAILED: lost\n\tat a\n\tat b\n\tat c\n\tat d\n\tat e\n\n  \
                      0.3 s  three: ok\nthread 'main' panicked at x.rs:1:\nwhy\n1 passed, 2 failed\npart: java: 1\n(part: 2 s)";
        let shown = "…\n  0.2 s  two: FAILED: lost\n\tat a\n\tat b\n\tat c\n\tat d\n…\nthread 'main' panicked at x.rs:1:\nwhy\n\
                     1 passed, 2 failed\npart: java: 1\n(part: 2 s)\n";
        assert_eq!(of(output), shown);
    }

    #[test]
    fn without_a_mark_the_end_is_shown() {
        assert_eq!(of("a\nb\nc\nd\n"), "…\nb\nc\nd\n");
        assert_eq!(of("a\n"), "a\n");
        assert_eq!(of(""), "");
    }

    #[test]
    fn many_failures_are_cut() {
        let output: String = (0..100).map(|number| format!("{number}: FAILED\n")).collect();
        let shown = of(&output);
        assert_eq!(shown.lines().count(), MOST + 1);
        assert!(
            shown.starts_with("0: FAILED\n")
                && shown.ends_with("36: FAILED\n…\n97: FAILED\n98: FAILED\n99: FAILED\n"),
            "{shown}"
        );
    }
}
