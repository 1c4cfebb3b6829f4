//! The text of metrics.

use std::collections::BTreeMap;

use prometheus::TextEncoder;
use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};

/// Names and values of labels.
pub(super) type Labels<'a> = &'a [(&'static str, &'a str)];

/// A metric.
#[derive(Debug, Clone, Copy)]
pub(super) struct Definition {
    /// Its name without the suffix, as the module calls its field.
    pub(super) field: &'static str,
    pub(super) suffix: &'static str,
    pub(super) kind: MetricType,
    pub(super) help: &'static str,
}

/// A value that rises and falls.
pub(super) const fn gauge(field: &'static str, help: &'static str) -> Definition {
    Definition { field, suffix: "", kind: MetricType::GAUGE, help }
}

/// A number of events since a start; its name ends with `_total`.
pub(super) const fn counter(field: &'static str, help: &'static str) -> Definition {
    Definition { field, suffix: "_total", kind: MetricType::COUNTER, help }
}

/// The metrics so far, by name.
#[derive(Default)]
pub(super) struct Page(BTreeMap<String, MetricFamily>);

impl Page {
    /// Adds a value of a counter or a gauge.
    pub(super) fn add(&mut self, definition: Definition, labels: Labels<'_>, value: f64) {
        let mut metric = labelled(labels);
        if definition.kind == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        self.push(definition, metric);
    }

    /// Adds a histogram: how many were up to each bound, all, and their sum.
    pub(super) fn add_histogram(
        &mut self,
        definition: Definition,
        labels: Labels<'_>,
        up_to: &[(f64, u64)],
        (count, sum): (u64, f64),
    ) {
        let bucket = |(bound, count): &(f64, u64)| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*bound);
            bucket.set_cumulative_count(*count);
            bucket
        };
        let mut histogram = Histogram::default();
        histogram.set_bucket(up_to.iter().map(bucket).collect());
        histogram.set_sample_count(count);
        histogram.set_sample_sum(sum);
        let mut metric = labelled(labels);
        metric.set_histogram(histogram);
        self.push(definition, metric);
    }

    fn push(&mut self, definition: Definition, metric: Metric) {
        let name = format!("{}{}", definition.field, definition.suffix);
        let family = self.0.entry(name.clone()).or_default();
        family.set_name(name);
        family.set_help(definition.help.to_string());
        family.set_field_type(definition.kind);
        family.mut_metric().push(metric);
    }

    /// The metrics in Prometheus' text format.
    pub(super) fn text(self) -> Result<String, prometheus::Error> {
        let families: Vec<MetricFamily> = self.0.into_values().collect();
        TextEncoder::new().encode_to_string(&families)
    }
}

fn labelled(labels: Labels<'_>) -> Metric {
    let label = |(name, value): &(&str, &str)| {
        let mut label = LabelPair::default();
        label.set_name((*name).to_string());
        label.set_value((*value).to_string());
        label
    };
    Metric::from_label(labels.iter().map(label).collect())
}
