import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.metrics.DoubleHistogram;
import io.opentelemetry.api.metrics.Meter;
import java.util.Locale;
import java.util.function.Consumer;
import rlock.client.Event;

class LockTelemetry implements Consumer<Event> {
  private final DoubleHistogram durations; // its count is the number of events

  LockTelemetry(Meter meter) {
    durations = meter.histogramBuilder("rlock.event.duration").setUnit("s").build();
  }

  @Override
  public void accept(Event event) {
    var kind = Attributes.of(AttributeKey.stringKey("kind"), event.kind().name().toLowerCase(Locale.ROOT));
    durations.record(event.duration().toNanos() / 1e9, kind);
  }
}
