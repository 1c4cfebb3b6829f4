//! Testing the documentation: its examples are run, its statements traced to tests, its words checked.
//!
//! Here rather than in the test itself, so that the parsers have tests of their own.

mod code;
mod console;
mod identifiers;
mod markdown;
mod prose;
mod source;
mod style;
mod trace;

pub use code::code;
pub use console::{ExampleReport, check_examples};
pub use identifiers::identifier_findings;
pub use prose::Prose;
pub use style::{Finding, Style};
pub use trace::untraced_statements;
