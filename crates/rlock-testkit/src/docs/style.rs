//! The wording of what users and operators read: patterns that a reader stumbles over, and the better word for each.

use regex::Regex;

use super::prose::Prose;

/// A wording that is not used.
struct Pattern {
    /// What it looks like, without regard to case; a space stands for any white space, a line's end included.
    bad: &'static str,
    /// What makes a match harmless after all; empty if nothing does.
    unless: &'static str,
    /// What to write.
    better: &'static str,
}

/// Every pattern. Clauses in place of nouns come first, the glossary's words last.
const PATTERNS: [Pattern; 25] = [
    Pattern {
        bad: r"\bwho(?:ever|m)?\b[^.?!|¶]*(?:[.!|¶]|$)",
        unless: "",
        better: "a noun: holder, waiter, reader, writer, owner, client, \"a client that …\"",
    },
    Pattern {
        bad: r"(?:^|[.|¶:] )what (?:[a-su-z]|t[^o])[^.?!|¶]* (?:is|are|has|have|can|may|must|gets?|cannot) [^.?!|¶]*\.",
        unless: "",
        better: "a noun as the subject, not a clause",
    },
    Pattern {
        bad: r"\b(?:some|any|every|no)(?:body|one)\b|\b(?:(?:replicaof|slaveof) )?no one\b",
        unless: r"no one (?:command|server|test|line|place)|of no one",
        better: "\"another client\", \"no client\", or the passive",
    },
    Pattern {
        bad: r"\b(?:we|our|ours|ourselves)\b",
        unless: "",
        better: "\"rlock\", \"the module\" or \"native\"",
    },
    Pattern {
        bad: r"\b(?:what|if|when|as|than) one (?:wants|has|gets|may|can|must|should|knows|needs|does)\b|\bone's\b",
        unless: "",
        better: "\"you\"",
    },
    Pattern {
        bad: r"\bredisson's(?:[.,;:)|¶]| (?:that|which|whose|is|are|was|has|have|may|can|waits?|stands?|listens?|and|or|at|in|with|before)\b)",
        unless: "",
        better: "\"a Redisson client\", \"a Redisson waiter\"",
    },
    Pattern {
        bad: r"\bso (?:many|much|long|few|often)\b",
        unless: "",
        better: "the number, the time or the rule",
    },
    Pattern {
        bad: r"\bthen(?:[.;:)|]|\s*¶|$)|\b(?:is|are|was|were|has|have|can|may|must) then\b",
        unless: "",
        better: "say when, or leave it out",
    },
    Pattern {
        bad: r"\bsuch(?: [^a]| a[^s]|[.,;:|)¶]|$)",
        unless: "",
        better: "\"this\", \"like this\", or the thing itself",
    },
    Pattern {
        bad: r"\b(?:is|are|was|were) to (?:be|have|run|last|wait|hold|get|know|stop|go|do)\b",
        unless: "",
        better: "\"must\", \"will\", or the plain verb",
    },
    Pattern { bad: r"\b(?:has|have|had) to\b", unless: "", better: "\"must\"" },
    Pattern {
        bad: r"\b\w+ (?:is|are|was|were) no \w+",
        unless: r"^there|no (?:longer|more|larger|smaller|later|earlier|older|newer|less|worse|better)",
        better: "\"is not a …\"",
    },
    Pattern {
        bad: r"\b(?:is|are|was|were) none\b|\bthat there (?:is|are) not\b",
        unless: "",
        better: "\"does not exist\", \"unknown\", or the effect",
    },
    Pattern {
        bad: r"\b(?:is|are|was|were|be|been|being|gets?) told\b|\btell(?:s|ing)? of\b|\btold of\b",
        unless: "",
        better: "receives, is answered, is notified; shows, reports",
    },
    Pattern {
        bad: r"\bhear(?:s|d)? (?:of|from)\b|\bheard again\b|\bbe(?:en)? heard\b",
        unless: r"^heard from$",
        better: "learns, is notified; \"confirmed\" for a grant",
    },
    Pattern {
        bad: r"\blook(?:s|ed|ing)? (?:at|whether|after)\b",
        unless: r"look at it, and commit",
        better: "checks, retries, reads, manages",
    },
    Pattern {
        bad: r"\b(?:go(?:es)?|going|went) on\b|\bcomes? and goes?\b|\b(?:that|which) (?:goes|comes|went|came)\b(?: \w+)?",
        unless: r"(?:comes|came|goes) (?:from|to|first|last|after|before|later|with)",
        better: "continues, disconnects, arrives, acquires and releases",
    },
    Pattern {
        bad: r"\b(?:be|is|was|been) had\b|\bthere is nothing\b",
        unless: "",
        better: "acquired; \"nothing …\" as the subject",
    },
    Pattern {
        bad: r"\b(?:take|takes|taken|took|taking) (?:it |them |the lock |a grant )?back\b",
        unless: "",
        better: "revoke (a grant), undo, withdraw",
    },
    Pattern { bad: r"\b(?:give|gives|given|gave|giving) (?:\w+ ){0,3}back\b", unless: "", better: "release" },
    Pattern {
        bad: r"\b(?:over)?sle(?:ep|eps|pt) (?:through|beyond)\b|\boversle(?:ep|eps|pt)\b",
        unless: "",
        better: "misses a wake-up; is paused",
    },
    Pattern {
        bad: r"\b(?:those|they|ones?) that (?:waits?|reads?|writes?)\b|\b(?:waiter|owner|client)s? that waits?\b",
        unless: "",
        better: "waiter, reader, writer",
    },
    Pattern {
        bad: r"\bforeign(?:[^-\w]|$)",
        unless: "",
        better: "Redisson (clients, waiters), or \"other clients\"",
    },
    Pattern {
        bad: r"\ball the same\b|\bby (?:it|them)selves\b|\blest\b|\bwithal\b|\bof (?:its|one's|their) own\b[^.]*\bof (?:its|one's|their) own\b",
        unless: "",
        better: "plain words",
    },
    Pattern { bad: r"\bpart(?:y|ies)\b", unless: r"third.part", better: "owner" },
];

/// One place where a pattern was found.
#[derive(Debug)]
pub struct Finding {
    /// The line in the file, from 1.
    pub line: usize,
    /// The words that were found.
    pub words: String,
    /// What to write in their place.
    pub better: &'static str,
}

/// All patterns, compiled.
pub struct Style {
    patterns: Vec<(Regex, Option<Regex>, &'static str)>,
}

impl Style {
    /// The patterns of this project.
    #[must_use]
    #[track_caller]
    pub fn new() -> Style {
        let compile = |source: &str| {
            let source = format!("(?i){}", source.replace(' ', r"\s+"));
            Regex::new(&source).unwrap_or_else(|error| panic!("{source}: {error}"))
        };
        let unless = |source: &str| (!source.is_empty()).then(|| compile(source));
        let patterns = PATTERNS.iter();
        Style { patterns: patterns.map(|one| (compile(one.bad), unless(one.unless), one.better)).collect() }
    }

    /// Every place where a pattern is found, by line.
    #[must_use]
    pub fn findings(&self, prose: &Prose) -> Vec<Finding> {
        let text = prose.text();
        let mut findings = Vec::new();
        for (bad, unless, better) in &self.patterns {
            for found in bad.find_iter(text) {
                if unless.as_ref().is_some_and(|unless| unless.is_match(found.as_str())) {
                    continue;
                }
                let matched = found.as_str().trim_start_matches(SEPARATORS);
                let skipped = found.len() - matched.len();
                let before = text.get(..found.start() + skipped).unwrap_or_default();
                let line = 1 + before.matches('\n').count();
                let words: Vec<&str> = matched.split_whitespace().take(6).collect();
                findings.push(Finding { line, words: words.join(" "), better });
            }
        }
        findings.sort_by_key(|finding| finding.line);
        findings
    }
}

impl Default for Style {
    fn default() -> Style {
        Style::new()
    }
}

/// What a match may begin with before its first word.
const SEPARATORS: [char; 6] = ['\n', ' ', '.', '|', '¶', ':'];

#[cfg(test)]
mod tests {
    use super::*;

    /// For each pattern a sentence that has it, and one that looks similar and is fine.
    const EXAMPLES: [(&str, &str); PATTERNS.len()] = [
        ("Who polls looks every 100 ms.", "Who holds the lock?"),
        ("What comes without a token is refused too.", "The log shows what the server sent."),
        ("Nobody sleeps through a free lock.", "No client misses a wake-up, after REPLICAOF NO ONE as well."),
        ("A longer lease of ours stays.", "A longer native lease stays."),
        ("That is what one wants of a trial.", "That is what you want for a trial."),
        ("It waits for one of Redisson's that reads.", "It waits for one of Redisson's readers."),
        ("After so many hand-offs the lock is left free.", "After 100 hand-offs the lock is left free."),
        ("What the state says is in doubt then.", "Stop the server, then start it again."),
        ("Such a lock is free.", "Use a hash tag such as {name}."),
        ("The lease end that it is to have.", "The easiest way is to add a line."),
        ("It has to be renewed.", "It must be renewed."),
        ("A number in memory is no fence.", "There is no lock, and it is no longer held."),
        ("A check beside the write is none.", "An unknown argument; none of them matches."),
        ("The waiter is told null.", "The waiter receives null. It tells you why."),
        ("The owner was heard of by another call.", "The owner learns it by RENEW."),
        ("It looks whether the lock is free.", "It checks that the lock is free; look up the name."),
        ("A client that goes leaves the queue.", "A client that disconnects leaves the queue."),
        ("The lock could not be had within 5 s.", "The lock was not acquired within 5 s."),
        ("The grant is taken back.", "The grant is revoked."),
        ("It gives the lock back.", "It releases the lock."),
        ("A waiter oversleeps.", "A waiter misses its wake-up."),
        ("Those that wait are woken.", "The waiters are woken."),
        ("A foreign client deletes the key.", "Another client deletes the key; see rlock.foreign-turn-ms."),
        (
            "Use a lazy client, lest the program not start.",
            "Use a lazy client: the program starts while a server is down.",
        ),
        ("Another party holds it.", "Another owner holds it."),
    ];

    /// The patterns by number that are found in a sentence.
    fn found(style: &Style, sentence: &str) -> Vec<usize> {
        let prose = Prose::markdown(sentence);
        let findings = style.findings(&prose);
        let number = |finding: &Finding| PATTERNS.iter().position(|one| one.better == finding.better);
        findings.iter().filter_map(number).collect()
    }

    #[test]
    fn each_pattern_is_found_in_a_bad_sentence_and_not_in_a_good_one() {
        let style = Style::new();
        for (number, (bad, good)) in EXAMPLES.into_iter().enumerate() {
            assert!(found(&style, bad).contains(&number), "not found: {}", bad);
            let broken = bad.replace(' ', "\n");
            assert!(found(&style, &broken).contains(&number), "not found over lines: {}", bad);
            assert_eq!(found(&style, good), [0; 0], "{}", good);
        }
    }

    #[test]
    fn a_finding_has_the_line_of_its_words() {
        let style = Style::new();
        let findings = style.findings(&Prose::markdown("One.\n\nTwo\nthree. So\nmany four.\n"));
        let [Finding { line: 4, words, better: "the number, the time or the rule" }] = &findings[..] else {
            panic!("{findings:?}")
        };
        assert_eq!(words, "So many");
        let findings = style.findings(&Prose::markdown("It ends.\nWhat ends is gone.\n"));
        assert_eq!(findings.first().map(|one| one.line), Some(2));
    }
}
