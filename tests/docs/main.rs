//! The documentation.

mod docs;
mod quick_start;
mod terminals;
mod words;
