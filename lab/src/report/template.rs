//! The templates in lab/pages, and the functions by which they show figures and names.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, Error, UndefinedBehavior, context};

use super::{stalls, targets};
use crate::client::Who;
use crate::clients::Library;
use crate::contender::Contender;
use crate::contention::Protocol;
use crate::memory::What;
use crate::redisson::Java;
use crate::scale;
use crate::spread::Spread;
use crate::stalls::Scenario;
use crate::systems::{self, System};
use crate::threads::Load;
use crate::uncontended::BASES;

const TEMPLATES: [(&str, &str); 4] = [
    ("BENCHMARKS", include_str!("../../pages/BENCHMARKS.md.in")),
    ("SCALE", include_str!("../../pages/SCALE.md.in")),
    ("tables", include_str!("../../pages/tables.md.in")),
    ("scale", include_str!("../../pages/scale.md.in")),
];

/// A page with these values. A name that no value has is an error, and panics.
pub(crate) fn page(name: &str, values: Value) -> String {
    let environment = environment();
    let text = environment.get_template(name).and_then(|template| template.render(values));
    spaced(&text.unwrap_or_else(|error| panic!("{name}: {error:#}")))
}

/// What a macro of a template makes of these arguments, for the terminal.
pub(crate) fn shown(template: &str, call: &str, values: Value) -> String {
    let source = format!("{{% import '{template}' as it %}}{{{{ it.{call} }}}}");
    spaced(&environment().render_str(&source, values).unwrap_or_else(|error| panic!("{call}: {error:#}")))
}

/// One empty line at most, as Markdown needs it, and one newline at the end.
fn spaced(text: &str) -> String {
    let mut text = text.trim().to_string() + "\n";
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    text
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the usual delimiters"));
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    for (name, text) in TEMPLATES {
        environment.add_template(name, text).unwrap_or_else(|error| panic!("{name}: {error:#}"));
    }
    environment.add_filter("number", number);
    environment.add_filter("whole", |spread: Serde<Spread>| median(spread.0).replace(".00", ""));
    environment.add_filter("median", |spread: Serde<Spread>| median(spread.0));
    environment.add_filter("figure", |spread: Serde<Spread>| figure(spread.0));
    environment.add_filter("grouped", |value: f64| grouped(value as u64));
    environment.add_filter("hundreds", |value: f64| grouped((value / 100.0).round() as u64 * 100));
    environment.add_filter("about", about);
    environment
        .add_filter("verdict", |value: f64, most: f64| if value <= most { "met" } else { "**missed**" });
    environment.add_filter("judged", |value: f64, most: f64| {
        if value <= most { number(value) } else { format!("**{}**", number(value)) }
    });
    environment.add_filter("having", having);
    environment.add_filter("label", |name: &str, kind: &str| {
        kinds(kind).into_iter().find(|one| one.0 == name).map_or(name.into(), |one| one.1)
    });
    environment.add_function("kinds", |kind: &str| {
        let kinds = kinds(kind).into_iter();
        kinds.map(|(name, label, more)| context! { name, label, ..more }).collect::<Vec<Value>>()
    });
    environment.add_global("sizes", systems::SIZES.to_vec());
    environment.add_global("connections", systems::CONNECTIONS.to_vec());
    environment.add_global("bases", BASES.map(Contender::name).to_vec());
    environment.add_global(
        "goals",
        context! { growth => targets::GROWTH, longest_ms => stalls::LONGEST_MS, stall_growth => stalls::GROWTH },
    );
    environment
}

/// The name of each kind in the results, that for readers, and what else is said of it, in the order of the tables.
fn kinds(kind: &str) -> Vec<(String, String, Value)> {
    match kind {
        "contender" => named(Contender::ALL, Contender::name, Contender::label),
        "protocol" => named(Protocol::ALL, Protocol::name, Protocol::label),
        "memory" => named(What::ALL, What::name, What::label),
        "client" => named(Who::ALL, Who::name, Who::label),
        "java" => named(Java::ALL, Java::name, Java::label),
        "scenario" => named(Scenario::ALL, Scenario::name, Scenario::label),
        "restart" => named(systems::What::ALL, systems::What::name, systems::What::label),
        "load" => named(Load::ALL, |load| load.name, |load| load.label),
        "filled" => named(scale::What::ALL, scale::What::name, scale::What::label),
        "tied" => named(scale::Kind::ALL, scale::Kind::name, scale::Kind::label),
        "state" => named(scale::State::ALL, scale::State::name, scale::State::label),
        "line" => named(scale::LINES, |line| line.name, |line| line.label),
        "library" => {
            let more = Library::ALL
                .map(|one| context! { guarantees => one.guarantees(), is_own => one.own() == one });
            with(named(Library::ALL, Library::name, Library::label), more)
        }
        "system" => {
            let more = System::ALL.map(|one| {
                let promise = one.promise();
                context! { durability => promise.durability, freed_by => promise.freed_by, is_loaded => one.is_loaded() }
            });
            with(named(System::ALL, System::name, |one| one.promise().label), more)
        }
        _ => Vec::new(),
    }
}

fn named<T: Copy, N: Into<String>, L: Into<String>>(
    all: impl IntoIterator<Item = T>,
    name: fn(T) -> N,
    label: fn(T) -> L,
) -> Vec<(String, String, Value)> {
    all.into_iter().map(|one| (name(one).into(), label(one).into(), context! {})).collect()
}

fn with(
    mut kinds: Vec<(String, String, Value)>,
    more: impl IntoIterator<Item = Value>,
) -> Vec<(String, String, Value)> {
    kinds.iter_mut().zip(more).for_each(|(kind, more)| kind.2 = more);
    kinds
}

/// Those of a list whose attributes have all of these values.
fn having(list: &Value, values: Kwargs) -> Result<Vec<Value>, Error> {
    let wanted: Vec<(&str, Value)> =
        values.args().map(|name| Ok((name, values.get(name)?))).collect::<Result<_, Error>>()?;
    let is_it =
        |one: &Value| wanted.iter().all(|(name, value)| one.get_attr(name).is_ok_and(|own| own == *value));
    Ok(list.try_iter()?.filter(is_it).collect())
}

/// A figure and its spread: `1.74 (1.70–1.79)`, or only the figure if the spread does not show.
pub(super) fn figure(spread: Spread) -> String {
    let [median, low, high] = [spread.median, spread.p10, spread.p90].map(number);
    if low == high { median } else { format!("{median} ({low}–{high})") }
}

/// A figure without its spread.
fn median(spread: Spread) -> String {
    number(spread.median)
}

/// With as many digits as say something.
pub(super) fn number(value: f64) -> String {
    match value {
        _ if value >= 100.0 => grouped(value.round() as u64),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// In three digits: more would claim to be exact.
fn about(value: f64) -> String {
    let digits = value.max(1.0).log10() as i32 - 2;
    let unit = 10_f64.powi(digits.max(0));
    grouped(((value / unit).round() * unit) as u64)
}

/// `12345` as `12,345`.
pub(super) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        let shown = [0.034, 1.2345, 12.345, 123.45, 12_345.0].map(number);
        assert_eq!(shown, ["0.03", "1.23", "12.3", "123", "12,345"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        let shown = [12.4, 123.4, 1_234.0, 98_765.0, 1_234_567.0].map(about);
        assert_eq!(shown, ["12", "123", "1,230", "98,800", "1,230,000"]);
    }
}
