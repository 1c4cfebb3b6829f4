//! Replies that are errors.

use redis::Value;

use crate::error::Error;

/// A reply that is an error: the command was not carried out.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The first word of the server's error, such as `LOADING`.
    pub code: String,
    /// The words after it.
    pub details: String,
}

impl Refusal {
    /// Whether the same command may well succeed a little later.
    pub fn passes(&self) -> bool {
        ["LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "UNBLOCKED", "UNTIED"]
            .contains(&self.code.as_str())
    }

    /// Whether the connection is an old one of its owner, whose hold another connection has untied.
    pub fn is_untied(&self) -> bool {
        self.code == "UNTIED"
    }

    /// Whether the server has become a replica.
    pub fn is_read_only(&self) -> bool {
        self.code == "READONLY"
    }

    /// The server's text.
    pub fn message(&self) -> String {
        format!("{} {}", self.code, self.details)
    }
}

/// The error of a command that was refused.
impl From<&Refusal> for Error {
    fn from(refusal: &Refusal) -> Error {
        let message = refusal.message();
        match refusal.code.as_str() {
            "ERR" if refusal.details.to_ascii_lowercase().starts_with("unknown command") => {
                Error::UnknownCommand { message }
            }
            "NOPERM" | "NOAUTH" | "WRONGPASS" => Error::Permission { message },
            _ => Error::Refused { message },
        }
    }
}

/// The reply, or the server's refusal.
///
/// # Errors
///
/// The refusal, if the reply is an error.
pub fn answer(value: Value) -> Result<Value, Refusal> {
    match value {
        Value::ServerError(error) => Err(Refusal {
            code: error.code().to_string(),
            details: error.details().unwrap_or_default().to_string(),
        }),
        value => Ok(value),
    }
}
