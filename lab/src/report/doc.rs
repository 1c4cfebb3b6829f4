//! docs/BENCHMARKS.md, and its tables of a run for the terminal.

use minijinja::context;
use minijinja::value::Serde;

use super::{stalls, targets, template};
use crate::results::Results;
use crate::scale::Scale;
use crate::store::{self, Stored};
use crate::threads;

/// The page.
pub(crate) fn page(stored: &Stored, scale: Option<&Scale>) -> String {
    let main = &stored.main;
    let values = context! {
        main => Serde(main),
        others => Serde(&stored.others),
        targets => Serde(targets::rows(stored)),
        client_targets => Serde(main.client.as_ref().map(targets::of_client)),
        instructions => Serde(stored.all().map(|results| store::of(&stored.instructions, results)).collect::<Vec<_>>()),
        hand_offs => Serde(store::of(&stored.hand_offs, main)),
        growth => Serde(store::of(&stored.growth, main)),
        limits => Serde(&stored.limits),
        stalls => Serde(main.stalls.as_ref().map(stalls::cases)),
        scale => Serde(scale),
        threads => Serde(&stored.threads),
        computed => stored.threads.as_ref().map(threads::computed),
        systems => Serde(&stored.systems),
    };
    template::page("BENCHMARKS", values)
}

/// All that was measured, for the terminal.
pub(crate) fn everything(results: &Results) -> String {
    let cases = results.stalls.as_ref().map(stalls::cases);
    let values = context! { results => Serde(results), cases => Serde(cases) };
    template::shown("tables", "everything(results, cases)", values)
}
