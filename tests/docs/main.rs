//! The documentation.

mod docs;
mod terminals;
mod words;
