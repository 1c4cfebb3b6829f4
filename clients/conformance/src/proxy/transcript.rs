//! What went through a proxy.

use rlock_testkit::Frame;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) at: i64,
    pub(crate) connection: u64,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Opened,
    Closed,
    Request {
        words: Vec<String>,
        reply: Option<Replied>,
    },
    /// A message as the client got it.
    Message(Vec<String>),
}

#[derive(Clone, Debug)]
pub(crate) struct Replied {
    /// When the server's reply came.
    pub(crate) at: i64,
    pub(crate) value: Frame,
    /// Whether the client got it.
    pub(crate) delivered: bool,
}

impl Entry {
    /// The first word of a request.
    pub(crate) fn name(&self) -> Option<&str> {
        match &self.what {
            What::Request { words, .. } => words.first().map(String::as_str),
            _ => None,
        }
    }

    /// The words of a request of this command. One without arguments only asks whether the server knows it.
    pub(crate) fn command(&self, name: &str) -> Option<(&[String], Option<&Replied>)> {
        match &self.what {
            What::Request { words, reply }
                if words.len() > 1 && words.first().is_some_and(|first| first == name) =>
            {
                Some((words, reply.as_ref()))
            }
            _ => None,
        }
    }

    /// The name of a request about a lock.
    pub(crate) fn lock_command(&self) -> Option<&str> {
        self.name().filter(|name| name.starts_with("RLOCK.") && self.command(name).is_some())
    }

    /// Whether it is a request whose reply the client got.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(&self.what, What::Request { reply: Some(reply), .. } if reply.delivered)
    }

    /// For the log of a scenario that failed.
    pub(crate) fn line(&self, client: &str, start: i64) -> String {
        let at = (self.at - start) as f64 / 1e6;
        let what = match &self.what {
            What::Opened => "opened".to_string(),
            What::Closed => "closed".to_string(),
            What::Message(words) => format!("<- message {}", words.join(" ")),
            What::Request { words, reply: None } => format!("-> {} (no reply)", words.join(" ")),
            What::Request { words, reply: Some(reply) } => {
                let lost = if reply.delivered { "" } else { ", not delivered" };
                let after = (reply.at - self.at) as f64 / 1e6;
                format!("-> {}  = {} (after {after:.1} ms{lost})", words.join(" "), shown(&reply.value))
            }
        };
        format!("{at:10.1} {client}#{} {what}", self.connection)
    }
}

fn shown(frame: &Frame) -> String {
    match frame {
        Frame::Text(bytes) => {
            String::from_utf8_lossy(bytes.get(..60).unwrap_or(bytes)).escape_debug().to_string()
        }
        Frame::Error(text) => format!("error {}", String::from_utf8_lossy(text)),
        Frame::Int(number) => number.to_string(),
        Frame::Null => "null".to_string(),
        Frame::Array(items) | Frame::Push(items) => {
            let items: Vec<String> = items.iter().take(6).map(shown).collect();
            format!("[{}]", items.join(","))
        }
    }
}
