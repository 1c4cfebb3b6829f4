//! Every refused call and every dropped waiter needs a reason: something that happened.

use super::{Event, History, Refusal, Us, Verdict};

/// Errors by which a server reports its own state, to any later caller, however late.
const STATES: [&str; 5] = ["READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "EXECABORT"];

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    for refusal in &history.refusals {
        verdict.compared += 1;
        if history.explains(refusal) {
            *verdict.reasons.entry(refusal.reason().to_owned()).or_default() += 1;
            continue;
        }
        let dropped_waiters = ["UNBLOCKED", "dropped"].contains(&refusal.code.as_str());
        let rule = if dropped_waiters { "sent-away" } else { "answer" };
        let Refusal { who, code, text, .. } = refusal;
        let text = format!("{who} received `{code} {text}`, and nothing happened that explains it");
        verdict.violation(rule, refusal.key, refusal.told, text);
    }
}

impl Refusal {
    /// Why, in one word: that of a message, or of the sentence that says the same to a blocked client; else the error's
    /// first word.
    pub(crate) fn reason(&self) -> &str {
        const SENTENCES: [(&str, &str); 6] = [
            ("no longer the primary", "demoted"),
            // The server's own, to blocked clients as it becomes a replica.
            ("instance state changed", "demoted"),
            ("slot moved", "moved"),
            ("waits by a later call", "replaced"),
            ("is drained", "drained"),
            ("internal error", "in-doubt"),
        ];
        match self.code.as_str() {
            "dropped" => self.text.split(' ').next().unwrap_or_default(),
            "UNBLOCKED" => {
                let known = SENTENCES.iter().find(|(sentence, _)| self.text.contains(sentence));
                known.map_or("UNBLOCKED", |(_, reason)| reason)
            }
            "ERR" if self.text.contains("token") => "no-token",
            code => code,
        }
    }
}

impl History {
    /// Whether something happened that explains the refusal, during the call.
    fn explains(&self, refusal: &Refusal) -> bool {
        let reason = refusal.reason();
        let since: Us = if STATES.contains(&reason) { 0 } else { refusal.sent };
        let is_reason = |event: &Event| event.harm.answers.contains(&reason);
        let mut during =
            self.events_of(refusal.key).filter(|event| event.end >= since && event.begin <= refusal.told);
        during.any(is_reason)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Harm, check, ms, tests::event};
    use super::*;

    fn found(code: &str, text: &str, events: &[Event]) -> Vec<&'static str> {
        let (key, who) = (0, "a".to_owned());
        let refusal =
            Refusal { key, who, sent: ms(100), told: ms(200), code: code.into(), text: text.into() };
        let (keys, events) = (vec!["lock".into()], events.to_vec());
        let history = History { keys, events, refusals: vec![refusal], ..History::default() };
        check(&history).violations.iter().map(|violation| violation.rule).collect()
    }

    fn cause(begin: u64, end: u64, answers: &'static [&'static str]) -> [Event; 1] {
        [event(begin, end, Harm { answers, places: true, ..Harm::STALLS })]
    }

    #[test]
    fn no_waiter_is_dropped_without_a_reason() {
        let demoted = "this server is no longer the primary; try again on the new one";
        assert_eq!(found("UNBLOCKED", demoted, &[]), ["sent-away"]);
        assert!(found("UNBLOCKED", demoted, &cause(150, 160, &["demoted"])).is_empty());
        // Before the call, after the reply, and a different reason.
        assert_eq!(found("UNBLOCKED", demoted, &cause(50, 99, &["demoted"])), ["sent-away"]);
        assert_eq!(found("UNBLOCKED", demoted, &cause(201, 300, &["demoted"])), ["sent-away"]);
        assert_eq!(found("UNBLOCKED", demoted, &cause(150, 160, &["moved"])), ["sent-away"]);
        assert!(found("dropped", "moved write", &cause(50, 150, &["moved"])).is_empty());
        assert_eq!(found("dropped", "moved", &[]), ["sent-away"]);
        // An internal error is never in order, nor is an unknown reason.
        let all = cause(0, 300, &["demoted", "moved", "no-token", "UNBLOCKED-not"]);
        assert_eq!(found("dropped", "in-doubt", &all), ["sent-away"]);
        assert_eq!(found("UNBLOCKED", "the module had an internal error; try again", &all), ["sent-away"]);
        assert_eq!(found("UNBLOCKED", "a new sentence", &all), ["sent-away"]);
        assert_eq!(found("dropped", "", &all), ["sent-away"]);
    }

    #[test]
    fn no_call_is_refused_without_a_reason() {
        assert_eq!(found("OOM", "command not allowed", &[]), ["answer"]);
        assert!(found("OOM", "command not allowed", &cause(90, 110, &["OOM"])).is_empty());
        assert_eq!(found("TRYAGAIN", "the slot moves", &cause(90, 110, &["OOM"])), ["answer"]);
        assert_eq!(found("ERR", "the token's key holds no number", &[]), ["answer"]);
        assert!(found("ERR", "the token's key holds no number", &cause(90, 300, &["no-token"])).is_empty());
        assert_eq!(found("ERR", "something else", &cause(90, 300, &["no-token"])), ["answer"]);
        // A late caller learns of a demotion late; but no caller learns of it early.
        assert!(found("READONLY", "it is a replica", &cause(10, 20, &["READONLY"])).is_empty());
        assert_eq!(found("READONLY", "it is a replica", &cause(210, 220, &["READONLY"])), ["answer"]);
    }
}
