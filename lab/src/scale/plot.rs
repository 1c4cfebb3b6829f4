//! The picture of docs/SCALE.md: the locks that a fleet gets, by the number that it asks for, and the effect of a fail-over.

use plotters::prelude::*;

use super::fleet::LINES;
use super::results::{Scale, Simulated};
use crate::report::plots::{Area, Fault, names};
use crate::report::theme::themed;

const SIZE: (u32, u32) = (980, 460);
const FONT: (&str, u32) = ("sans-serif", 14);
const TEXT: RGBColor = RGBColor(31, 35, 40);
const GREY: RGBColor = RGBColor(89, 99, 110);

/// One for each line, told apart also without red and green.
const COLOURS: [RGBColor; LINES.len()] = [
    RGBColor(86, 180, 233),
    RGBColor(0, 114, 178),
    RGBColor(26, 127, 55),
    RGBColor(230, 159, 0),
    RGBColor(207, 34, 46),
    RGBColor(204, 121, 167),
];

/// The name and the SVG text, if a fleet was simulated.
pub(crate) fn picture(scale: &Scale) -> Result<Option<(&'static str, String)>, String> {
    let name = "scale/fleet.svg";
    let Some(fleet) = &scale.fleet else { return Ok(None) };
    let svg = draw(scale, fleet).map_err(|error| format!("{name}: {error}"))?;
    Ok(Some((name, themed(&svg))))
}

fn draw(scale: &Scale, fleet: &Simulated) -> Result<String, Fault> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let title = ("sans-serif", 22, FontStyle::Bold).into_font().color(&TEXT);
        area.draw(&Text::new("A simulated fleet", (24, 16), title))?;
        let environment = &scale.environment;
        let conditions = format!(
            "100,000 processes, 1,000,000 locks; costs measured on {}, {}",
            environment.server, environment.date
        );
        area.draw(&Text::new(conditions, (24, 44), FONT.into_font().color(&GREY)))?;
        let (left, right) = area.margin(72, 8, 8, 8).split_horizontally(600);
        load(&left, fleet)?;
        outage(&right, fleet)?;
        area.present()?;
    }
    Ok(svg)
}

/// Acquisitions by the number that the fleet asks for, both axes logarithmic.
fn load(area: &Area<'_>, fleet: &Simulated) -> Result<(), Fault> {
    area.draw(&Text::new(
        "locks acquired a second, by what the fleet asks for",
        (16, 0),
        FONT.into_font().color(&TEXT),
    ))?;
    let points = |name: &str| {
        let points = fleet.points.iter().filter(|point| point.line == name);
        points.map(|point| (point.asked_per_second, point.figures.per_second)).collect::<Vec<_>>()
    };
    let all: Vec<(f64, f64)> = LINES.iter().flat_map(|line| points(line.name)).collect();
    let most = all.iter().map(|point| point.0).fold(1.0, f64::max);
    let least = all.iter().map(|point| point.0.min(point.1)).fold(most, f64::min);
    let mut chart = ChartBuilder::on(area)
        .margin_top(26)
        .margin_right(170)
        .x_label_area_size(36)
        .y_label_area_size(70)
        .build_cartesian_2d((least * 0.8..most * 1.3).log_scale(), (least * 0.8..most * 1.3).log_scale())?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT).bold_line_style(GREY.mix(0.25)).axis_style(GREY);
    mesh.label_style(FONT.into_font().color(&GREY))
        .x_desc("locks asked for a second")
        .x_labels(5)
        .y_labels(5);
    mesh.x_label_formatter(&short).y_label_formatter(&short).draw()?;
    let mut ends = Vec::new();
    for (line, colour) in LINES.iter().zip(COLOURS) {
        let points = points(line.name);
        chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(3)))?;
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 4, colour.filled())))?;
        if let Some(last) = points.last() {
            let (x, y) = chart.backend_coord(last);
            ends.push((x, y, line.label.to_string(), colour));
        }
    }
    names(area, ends, 18)
}

/// Acquisitions over time, in percent of those before.
fn outage(area: &Area<'_>, fleet: &Simulated) -> Result<(), Fault> {
    area.draw(&Text::new("a fail-over of 1 of 16: % of before", (16, 0), FONT.into_font().color(&TEXT)))?;
    let outages = &fleet.outages;
    let series = |at: usize| {
        let rates = &outages[at].per_second;
        let before = rates.iter().take(10).sum::<f64>() / 10.0;
        let percent = rates.iter().map(|rate| rate / before * 100.0);
        percent.enumerate().map(|(tick, rate)| (tick as f64 / 10.0 - 1.0, rate)).collect::<Vec<_>>()
    };
    let lines: Vec<Vec<(f64, f64)>> = (0..outages.len()).map(series).collect();
    let end = lines.iter().flatten().map(|point| point.0).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin_top(26)
        .margin_right(16)
        .x_label_area_size(36)
        .y_label_area_size(50)
        .build_cartesian_2d(-1.0..end, 0.0..300.0)?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT).bold_line_style(GREY.mix(0.25)).axis_style(GREY);
    mesh.label_style(FONT.into_font().color(&GREY)).x_desc("seconds after the kill").x_labels(6).y_labels(6);
    mesh.x_label_formatter(&|value| format!("{value:.0}"))
        .y_label_formatter(&|value| format!("{value:.0}"))
        .draw()?;
    for (at, (line, colour)) in lines.iter().zip([COLOURS[4], COLOURS[1]]).enumerate() {
        // More than fits is cut off at the top.
        let shown = line.iter().map(|(x, y)| (*x, y.min(300.0)));
        chart.draw_series(LineSeries::new(shown, colour.stroke_width(2)))?;
        let label = format!("a pause of {} s between locks", outages[at].think_ms / 1_000);
        area.draw(&Text::new(label, (76, 34 + 20 * at as i32), FONT.into_font().color(&colour)))?;
    }
    Ok(())
}

fn short(value: &f64) -> String {
    match *value {
        value if value >= 1e6 => format!("{:.0} M", value / 1e6),
        value if value >= 1e3 => format!("{:.0} k", value / 1e3),
        value => format!("{value:.0}"),
    }
}
