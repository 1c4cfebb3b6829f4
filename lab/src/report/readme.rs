//! README's plot: what a hand-off costs and how long it takes, rlock beside Redisson's protocol.

use plotters::prelude::*;

use super::plots::{Area, Fault, names};
use super::template::number;
use crate::contention::Protocol;
use crate::results::{Contention, Results};

const SIZE: (u32, u32) = (760, 400);
const FONT: (&str, u32) = ("sans-serif", 15);
const TEXT: RGBColor = RGBColor(31, 35, 40);
const GREY: RGBColor = RGBColor(89, 99, 110);

/// What is shown, under the names that README uses.
const LINES: [(Protocol, &str, RGBColor); 3] = [
    (Protocol::Redisson, "Redisson", RGBColor(207, 34, 46)),
    (Protocol::Enqueue, "ENQUEUE", RGBColor(9, 105, 218)),
    (Protocol::Block, "BLOCK", RGBColor(26, 127, 55)),
];

type Figure = fn(&Contention) -> f64;

/// The plot: the server's CPU on the left, the time on the right.
pub(super) fn hand_offs(results: &Results) -> Result<String, Fault> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.draw(&Text::new(
            "Cost and time of a hand-off",
            (24, 16),
            ("sans-serif", 22, FontStyle::Bold).into_font().color(&TEXT),
        ))?;
        let environment = &results.environment;
        let conditions = format!(
            "by the number of waiting processes for one lock; {}, {}; Redisson: what 3.46 to 4.7 send",
            environment.server, environment.date
        );
        area.draw(&Text::new(conditions, (24, 44), FONT.into_font().color(&GREY)))?;
        let (left, right) = area.margin(68, 8, 8, 8).split_horizontally(376);
        panel(&left, results, "CPU of the server, µs", |one| one.cpu_us.median)?;
        panel(&right, results, "from the release to the next holder, µs", |one| one.latency.p50)?;
        area.present()?;
    }
    Ok(svg)
}

/// One figure of all protocols, both axes logarithmic.
fn panel(area: &Area<'_>, results: &Results, what: &str, figure: Figure) -> Result<(), Fault> {
    let lines = LINES.map(|(protocol, name, colour)| {
        let points = results.protocol(protocol.name()).into_iter();
        let points: Vec<(f64, f64)> = points.map(|one| (one.waiters as f64, figure(one))).collect();
        (name, colour, points)
    });
    let values = lines.iter().flat_map(|(_, _, points)| points).map(|point| point.1);
    let (least, most) =
        values.fold((f64::MAX, 1.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    area.draw(&Text::new(what, (16, 0), FONT.into_font().color(&TEXT)))?;
    let mut chart = ChartBuilder::on(area)
        .margin_top(26)
        .margin_right(92)
        .x_label_area_size(34)
        .y_label_area_size(60)
        .build_cartesian_2d((1.5..1_400.0).log_scale(), (least / 2.0..most * 2.0).log_scale())?;
    let label = FONT.into_font().color(&GREY);
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().light_line_style(TRANSPARENT).bold_line_style(GREY.mix(0.25)).axis_style(GREY);
    mesh.label_style(label).x_desc("waiting processes").x_labels(4).y_labels(5);
    let whole = |value: &f64| number(*value).replace(".00", "").replace(".0", "");
    mesh.x_label_formatter(&whole).y_label_formatter(&whole).draw()?;
    let mut ends = Vec::new();
    for (name, colour, points) in &lines {
        chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(3)))?;
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 4, colour.filled())))?;
        if let Some(last) = points.last() {
            let (x, y) = chart.backend_coord(last);
            ends.push((x, y, format!("{name} {}", whole(&last.1)), *colour));
        }
    }
    names(area, ends, 20)
}
