import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.opentelemetry.sdk.metrics.SdkMeterProvider;
import io.opentelemetry.sdk.testing.exporter.InMemoryMetricReader;
import rlock.client.Client;
import rlock.client.Settings;

/** What docs/clients/java.md says about Micrometer and OpenTelemetry, with its classes. */
public class MetricsCheck {
  public static void main(String[] arguments) throws InterruptedException {
    var registry = new SimpleMeterRegistry();
    var reader = InMemoryMetricReader.create();
    var provider = SdkMeterProvider.builder().registerMetricReader(reader).build();
    var metrics = new LockMetrics(registry).andThen(new LockTelemetry(provider.get("rlock")));
    var settings = Settings.defaults().withOnEvent(metrics);
    try (Client client = new Client(System.getenv("REDIS_URL"), settings)) {
      client.lock("metrics").run(held -> Thread.sleep(20));
    }
    check(registry.get("rlock.events").tag("kind", "acquired").counter().count() == 1);
    check(registry.get("rlock.wait").tag("kind", "acquired").timer().count() == 1);
    check(
        registry.get("rlock.hold").timer().totalTime(java.util.concurrent.TimeUnit.MILLISECONDS)
            > 19);
    var histogram = reader.collectAllMetrics().iterator().next();
    check(histogram.getName().equals("rlock.event.duration"));
    check(
        histogram.getHistogramData().getPoints().stream()
            .anyMatch(
                point ->
                    point.getAttributes().toString().contains("released")
                        && point.getSum() > 0.019));
    provider.close();
    System.out.println("metrics: ok");
  }

  private static void check(boolean holds) {
    if (!holds) {
      throw new AssertionError("not as the page says");
    }
  }
}
