import io.micrometer.core.instrument.MeterRegistry;
import java.util.Locale;
import java.util.function.Consumer;
import rlock.client.Event;

record LockMetrics(MeterRegistry registry) implements Consumer<Event> {
  @Override
  public void accept(Event event) {
    String kind = event.kind().name().toLowerCase(Locale.ROOT);
    registry.counter("rlock.events", "kind", kind).increment();
    switch (event.kind()) {
      case ACQUIRED, TIMED_OUT -> registry.timer("rlock.wait", "kind", kind).record(event.duration());
      case RELEASED, LOST -> registry.timer("rlock.hold", "kind", kind).record(event.duration());
      default -> {}
    }
  }
}
