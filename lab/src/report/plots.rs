//! The plots of the site, in docs/bench, and README's.

use plotters::coord::ranged1d::SegmentValue;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::template::number;
use super::{readme, theme};
use crate::contender::Contender;
use crate::contention::Protocol;
use crate::placement::Placement;
use crate::results::{Contention, Results};
use crate::spread::Spread;
use crate::uncontended::Setting;

const SIZE: (u32, u32) = (900, 420);
const FONT: (&str, u32) = ("sans-serif", 15);

/// What plotters says when something goes wrong.
pub(crate) type Fault = DrawingAreaErrorKind<std::io::Error>;

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// The name and the SVG text of each plot.
pub(crate) fn all(results: &Results) -> Result<Vec<(&'static str, String)>, String> {
    let cpu = (
        "server CPU per hand-off, µs, one core",
        (|one: &Contention| one.cpu_us.median) as fn(&Contention) -> f64,
    );
    let time = ("from release to the next holder, p50, µs", (|one: &Contention| one.latency.p50) as _);
    let plots = [
        ("uncontended.svg", uncontended(results)),
        ("hand-off-cpu.svg", lines(results, cpu)),
        ("hand-off-time.svg", lines(results, time)),
        ("../pictures/hand-off-cost.svg", readme::hand_offs(results)),
    ];
    let plots = plots.into_iter().map(|(name, plot)| match plot {
        Ok(svg) => Ok((name, theme::themed(&svg))),
        Err(error) => Err(format!("{name}: {error}")),
    });
    plots.collect()
}

/// The lines' names beside their ends, from the top, so far apart that none is upon another.
pub(crate) fn names(
    area: &Area<'_>,
    mut ends: Vec<(i32, i32, String, RGBColor)>,
    apart: i32,
) -> Result<(), Fault> {
    let (origin_x, origin_y) = area.get_base_pixel();
    ends.sort_by_key(|end| end.1);
    let mut free = i32::MIN;
    for (x, y, text, colour) in ends {
        let y = y.max(free);
        free = y + apart;
        let style = ("sans-serif", 14).into_font().color(&colour).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(text, (x - origin_x + 9, y - origin_y), style))?;
    }
    Ok(())
}

fn title(results: &Results, what: &str) -> String {
    format!("{what} ({}, {})", results.environment.server, results.environment.date)
}

/// The cost of an acquire and release as bars, with lines from p10 to p90.
#[expect(clippy::too_many_lines, reason = "one plot, layer by layer")]
fn uncontended(results: &Results) -> Result<String, Fault> {
    let mut svg = String::new();
    let found = results.uncontended(Setting::Plain.name(), Placement::OneCore.name(), 50);
    let costs: Vec<(&str, Spread)> = found.map_or(Vec::new(), |found| {
        let label = |name: &str| Contender::named(name).map_or("?", Contender::label);
        // The axis goes upwards, the table downwards.
        found.costs.iter().rev().map(|cost| (label(&cost.contender), cost.cpu_us)).collect()
    });
    let most = costs.iter().map(|(_, cost)| cost.p90).fold(0.0, f64::max) * 1.15;
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let caption = title(results, "server CPU per acquire + release, 50 in flight, µs");
        let mut chart = ChartBuilder::on(&area)
            .caption(caption, ("sans-serif", 17))
            .margin(12)
            .x_label_area_size(30)
            .y_label_area_size(330)
            .build_cartesian_2d(0.0..most, (0..costs.len().saturating_sub(1)).into_segmented())?;
        let label = |value: &SegmentValue<usize>| match value {
            SegmentValue::CenterOf(index) => {
                costs.get(*index).map_or(String::new(), |cost| cost.0.to_string())
            }
            _ => String::new(),
        };
        let mut mesh = chart.configure_mesh();
        mesh.disable_y_mesh().y_labels(costs.len()).y_label_formatter(&label).label_style(FONT).draw()?;
        chart.draw_series(costs.iter().enumerate().map(|(index, (_, cost))| {
            let corners = [(0.0, SegmentValue::Exact(index)), (cost.median, SegmentValue::Exact(index + 1))];
            let mut bar = Rectangle::new(corners, colour_of_bar(costs[index].0).filled());
            bar.set_margin(5, 5, 0, 0);
            bar
        }))?;
        chart.draw_series(costs.iter().enumerate().map(|(index, (_, cost))| {
            let at = |x| (x, SegmentValue::CenterOf(index));
            PathElement::new([at(cost.p10), at(cost.p90)], BLACK.stroke_width(2))
        }))?;
        chart.draw_series(costs.iter().enumerate().map(|(index, (_, cost))| {
            let text = number(cost.median);
            let place = (cost.p90, SegmentValue::CenterOf(index));
            EmptyElement::at(place) + Text::new(text, (6, -6), FONT)
        }))?;
        area.present()?;
    }
    Ok(svg)
}

fn colour_of_bar(label: &str) -> RGBColor {
    let ours = [Contender::Rlock, Contender::RlockHolds].map(Contender::label);
    if ours.contains(&label) { RGBColor(46, 125, 50) } else { RGBColor(144, 164, 174) }
}

/// A figure of all protocols by the number of waiters, both axes logarithmic.
fn lines(results: &Results, (what, figure): (&str, fn(&Contention) -> f64)) -> Result<String, Fault> {
    let mut svg = String::new();
    let values = results.contention.iter().map(figure);
    let (least, most) =
        values.fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .caption(title(results, what), ("sans-serif", 17))
            .margin(12)
            .margin_right(180)
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d((1.0..20_000.0).log_scale(), (least / 2.0..most * 2.0).log_scale())?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc("waiters").label_style(FONT).light_line_style(TRANSPARENT);
        mesh.x_label_formatter(&|value| number(*value).replace(".00", "").replace(".0", ""))
            .y_label_formatter(&|value| number(*value))
            .draw()?;
        for (index, protocol) in Protocol::ALL.into_iter().enumerate() {
            let colour = COLOURS[index];
            let line =
                results.protocol(protocol.name()).into_iter().map(|one| (one.waiters as f64, figure(one)));
            let points: Vec<(f64, f64)> = line.collect();
            chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
            chart.draw_series(points.iter().map(|point| Circle::new(*point, 4, colour.filled())))?;
            let y = 60 + 24 * index as i32;
            area.draw(&Circle::new((735, y + 7), 5, colour.filled()))?;
            area.draw(&Text::new(protocol.label(), (748, y), FONT))?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// One for each protocol, in the order of the tables; told apart also without red and green.
const COLOURS: [RGBColor; Protocol::ALL.len()] = [
    RGBColor(0, 0, 0),
    RGBColor(0, 114, 178),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(230, 159, 0),
];
