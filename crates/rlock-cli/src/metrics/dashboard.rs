//! The dashboard for Grafana, made of the panels: `rlock dashboard` prints it.

use serde_json::{Map, Value, json};

use super::panels::{Columns, Panel, ROWS, Shows};

/// The width of a line of panels.
const WIDTH: u32 = 24;

/// The dashboard as Grafana imports it.
pub(super) fn dashboard() -> Value {
    json!({
        "title": "rlock",
        "uid": "rlock",
        "description": "Locks, waiters and servers, as rlock exporter shows them. The alerts are in rlock.rules.yml.",
        "tags": ["rlock"],
        "schemaVersion": 38,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": { "from": "now-3h", "to": "now" },
        "templating": { "list": [
            { "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {} },
            variable("instance", "Exporter", "label_values(rlock_exporter_info, instance)"),
            variable("server", "Server", "label_values(rlock_up{instance=~\"$instance\"}, server)"),
        ] },
        "annotations": { "list": [] },
        "panels": panels(),
    })
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

/// A choice above the panels.
fn variable(name: &str, label: &str, definition: &str) -> Value {
    json!({
        "name": name,
        "label": label,
        "type": "query",
        "datasource": source(),
        "definition": definition,
        "query": { "query": definition, "refId": "A" },
        "includeAll": true,
        "multi": true,
        "refresh": 2,
        "sort": 1,
        "current": { "text": "All", "value": "$__all" },
    })
}

/// The headings and the panels, each at its place.
fn panels() -> Vec<Value> {
    let mut all = Vec::new();
    let mut y = 0_u32;
    for row in ROWS {
        let place = json!({ "h": 1, "w": WIDTH, "x": 0, "y": y });
        let (id, title) = (row.id, row.title);
        all.push(json!({
            "id": id, "type": "row", "title": title, "collapsed": false, "gridPos": place, "panels": [],
        }));
        y = y.saturating_add(1);
        let mut x = 0_u32;
        for panel in row.panels {
            all.push(shown(panel, x, y));
            x = x.saturating_add(panel.width);
            if x >= WIDTH {
                (x, y) = (0, y.saturating_add(panel.height));
            }
        }
    }
    all
}

/// The object with these fields too.
fn with<const N: usize>(mut object: Value, fields: [(&str, Value); N]) -> Value {
    if let Value::Object(all) = &mut object {
        all.extend(fields.map(|(name, value)| (name.to_string(), value)));
    }
    object
}

fn shown(panel: &Panel, x: u32, y: u32) -> Value {
    let (kind, defaults, options) = drawn(&panel.shows);
    let columns = match &panel.shows {
        Shows::Table(columns) => Some(columns),
        _ => None,
    };
    let overrides = columns.map_or_else(Vec::new, overrides);
    let value = json!({
        "id": panel.id,
        "type": kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": source(),
        "gridPos": { "h": panel.height, "w": panel.width, "x": x, "y": y },
        "fieldConfig": { "defaults": defaults, "overrides": overrides },
        "options": options,
        "targets": targets(panel),
    });
    let Some(columns) = columns else { return value };
    let merged = json!({ "id": "merge", "options": {} });
    with(value, [("transformations", json!([merged, organized(columns)]))])
}

/// The kind of panel in Grafana, the defaults of its values, and its options.
fn drawn(shows: &Shows) -> (&'static str, Value, Value) {
    match shows {
        Shows::Stat(unit, red) => {
            let steps = json!([{ "color": "green", "value": null }, { "color": "red", "value": red }]);
            let options = json!({
                "colorMode": "background",
                "graphMode": "none",
                "reduceOptions": { "calcs": ["lastNotNull"] },
                "textMode": "auto",
            });
            ("stat", json!({ "unit": unit, "thresholds": { "mode": "absolute", "steps": steps } }), options)
        }
        Shows::Lines(unit) => {
            let custom = json!({ "fillOpacity": 10, "showPoints": "never" });
            let options = json!({
                "legend": { "displayMode": "list", "placement": "bottom" },
                "tooltip": { "mode": "multi", "sort": "desc" },
            });
            ("timeseries", json!({ "unit": unit, "min": 0, "custom": custom }), options)
        }
        Shows::Table(columns) => {
            let mut options = json!({ "showHeader": true });
            if let Some((column, descends)) = columns.sorted_by {
                options = with(options, [("sortBy", json!([{ "displayName": column, "desc": descends }]))]);
            }
            ("table", json!({ "custom": { "filterable": true } }), options)
        }
    }
}

/// The letter of each query, and the query itself.
fn targets(panel: &Panel) -> Vec<Value> {
    let target = |(letter, (query, legend)): (char, &(&str, &str))| {
        let (query, letter) = (expression(query), letter.to_string());
        let target =
            json!({ "expr": query, "legendFormat": legend, "refId": letter, "datasource": source() });
        match panel.shows {
            Shows::Table(_) => with(target, [("format", "table".into()), ("instant", true.into())]),
            _ => target,
        }
    };
    ('A'..).zip(panel.queries).map(target).collect()
}

/// The query as Prometheus reads it.
fn expression(query: &str) -> String {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if query.ends_with("_total") && query.chars().all(is_of_name) {
        return expression(&format!("sum(rate({query}[]))"));
    }
    let mut parts = query.split("rlock_");
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let rest = part.trim_start_matches(is_of_name);
        let name = part.strip_suffix(rest).unwrap_or(part);
        let chosen =
            if rest.starts_with('{') { "" } else { "{instance=~\"$instance\", server=~\"$server\"}" };
        text += &format!("rlock_{name}{chosen}{rest}");
    }
    text.replace("[]", "[$__rate_interval]")
}

/// The columns whose values are not plain numbers.
fn overrides(columns: &Columns) -> Vec<Value> {
    let of = |column: &str, properties: Value| json!({ "matcher": { "id": "byName", "options": column }, "properties": properties });
    let up = columns.up.map(|column| {
        let states = json!({
            "0": { "text": "down", "color": "red", "index": 0 },
            "1": { "text": "up", "color": "green", "index": 1 },
        });
        of(
            column,
            json!([
                { "id": "mappings", "value": [{ "type": "value", "options": states }] },
                { "id": "custom.cellOptions", "value": { "type": "color-text" } },
            ]),
        )
    });
    let seconds = columns.seconds.iter().map(|column| of(column, json!([{ "id": "unit", "value": "s" }])));
    up.into_iter().chain(seconds).collect()
}

/// The names and the order of the columns.
fn organized(columns: &Columns) -> Value {
    let mut hidden: Map<String, Value> =
        columns.hidden.iter().map(|name| ((*name).into(), true.into())).collect();
    let (mut names, mut places) = (Map::new(), Map::new());
    for (letter, name) in ('A'..).zip(columns.values) {
        let value = format!("Value #{letter}");
        if name.is_empty() {
            hidden.insert(value, true.into());
        } else {
            names.insert(value, (*name).into());
        }
    }
    for (place, column) in columns.order.iter().enumerate() {
        let value =
            names.iter().find(|(_, name)| *name == column).map_or(*column, |(value, _)| value.as_str());
        places.insert(value.into(), place.into());
    }
    let mut options = json!({ "excludeByName": hidden });
    if !names.is_empty() {
        options = with(options, [("renameByName", names.into()), ("indexByName", places.into())]);
    }
    json!({ "id": "organize", "options": options })
}
