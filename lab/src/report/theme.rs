//! Plots in colours for light and for dark pages: plotters writes one set of them.

/// What is written, and what stands for it on a dark page.
const COLOURS: [(&str, &str); 14] = [
    ("#000000", "#f0f6fc"),
    ("#1F2328", "#f0f6fc"),
    ("#59636E", "#9198a1"),
    ("#CF222E", "#f85149"),
    ("#0969DA", "#4493f8"),
    ("#1A7F37", "#3fb950"),
    ("#0072B2", "#4aa8e0"),
    ("#56B4E9", "#8fd0f5"),
    ("#009E73", "#2fc9a0"),
    ("#CC79A7", "#e29cc4"),
    ("#D55E00", "#ff8533"),
    ("#E69F00", "#f5bd47"),
    ("#2E7D32", "#3fb950"),
    ("#90A4AE", "#66757f"),
];

/// The plot on a ground of its own, light or dark as the reader's system is.
pub(crate) fn themed(svg: &str) -> String {
    let mut dark = String::new();
    for (light, other) in COLOURS.iter().filter(|(light, _)| svg.contains(light)) {
        dark += &format!(
            "  [fill=\"{light}\"] {{ fill: {other}; }}\n  [stroke=\"{light}\"] {{ stroke: {other}; }}\n"
        );
    }
    let style = format!(
        "<style>\n\
         text {{ font-family: system-ui, -apple-system, \"Segoe UI\", Roboto, \"Noto Sans\", \"Liberation Sans\", Helvetica, Arial, sans-serif; }}\n\
         .ground {{ fill: #ffffff; stroke: #d0d7de; }}\n\
         @media (prefers-color-scheme: dark) {{\n{dark}  .ground {{ fill: #0d1117; stroke: #3d444d; }}\n}}\n\
         </style>\n\
         <rect class=\"ground\" width=\"100%\" height=\"100%\" rx=\"8\"/>\n"
    );
    match svg.split_once(">\n") {
        Some((head, body)) => format!("{head}>\n{style}{body}"),
        None => svg.to_string(),
    }
}
