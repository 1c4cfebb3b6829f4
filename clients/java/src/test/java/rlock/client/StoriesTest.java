package rlock.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import rlock.client.Machine.Answer;
import rlock.client.Machine.Command;
import rlock.client.Machine.Count;
import rlock.client.Machine.Failed;
import rlock.client.Machine.Failure;
import rlock.client.Machine.Notice;
import rlock.client.Machine.Null;
import rlock.client.Machine.Output;
import rlock.client.Machine.Send;
import rlock.client.Machine.Timer;
import rlock.client.Machine.Told;
import rlock.client.RlockException.Refused;

/**
 * The machine's stories, the same for all clients: clients/conformance/machine/README.md is their
 * contract.
 */
class StoriesTest {
  private static final Path STORIES = Path.of("../conformance/machine");
  private static final Object FOR_EVER = Double.POSITIVE_INFINITY;
  private static final RlockException WHY = new Refused("server", "test");

  @TestFactory
  List<DynamicTest> stories() throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    try (Stream<Path> files = Files.walk(STORIES)) {
      files
          .filter(file -> file.toString().endsWith(".jsonl"))
          .sorted()
          .forEach(
              file ->
                  tests.add(
                      DynamicTest.dynamicTest(file.getFileName().toString(), () -> follow(file))));
    }
    assertTrue(tests.size() > 70, tests.size() + " stories");
    return tests;
  }

  private static void follow(Path file) throws IOException {
    List<String> lines = Files.readAllLines(file);
    Map<String, Object> told = fields(fields(Json.read(lines.get(0))).get("plan"));
    Plan plan =
        new Plan("a", Wire.Mode.LOCK)
            .with(
                plain -> {
                  plain.lease = ns(told.get("lease"));
                  plain.limit = ns(told.getOrDefault("wait", FOR_EVER));
                  plain.response = ns(told.getOrDefault("response", 5_000));
                  plain.grace = ns(told.getOrDefault("grace", 0));
                  plain.renew = !Boolean.FALSE.equals(told.get("renew"));
                  plain.fenced = Boolean.TRUE.equals(told.get("fenced"));
                  plain.confirmFirst = Boolean.TRUE.equals(told.get("confirm_first"));
                  plain.atLeast = ns(told.getOrDefault("at_least", 0));
                  plain.maxHold = ns(told.getOrDefault("max_hold", FOR_EVER));
                });
    Machine machine = new Machine(plan, true);
    for (String text : lines.subList(1, lines.size())) {
      Map<String, Object> line = fields(Json.read(text));
      List<Object> shown = new ArrayList<>();
      machine
          .take(ns(line.get("at")), each -> give(each, line))
          .forEach(each -> shown.add(shown(each, machine)));
      List<Object> expected = new ArrayList<>();
      ((List<?>) line.get("out")).forEach(each -> expected.add(normal(each)));
      assertEquals(expected, shown, text);
      assertEquals(line.get("state"), machine.phase.name().toLowerCase(Locale.ROOT), text);
    }
  }

  private static void give(Machine machine, Map<String, Object> line) {
    switch ((String) line.get("in")) {
      case "start" -> machine.start(false);
      case "adopt" -> machine.start(true);
      case "reply" ->
          machine.reply(((Long) line.get("n")).intValue(), ns(line.get("sent")), answer(line));
      case "message" ->
          machine.message(
              Notice.valueOf(((String) line.get("word")).toUpperCase(Locale.ROOT)),
              (Long) line.getOrDefault("token", 0L),
              ns(line.getOrDefault("lease", 0)),
              !Boolean.FALSE.equals(line.get("current")));
      case "alive" -> machine.alive(ns(line.get("sent")));
      case "down" -> machine.linkDown(Machine.NEVER);
      case "up" -> machine.linkUp();
      case "tick" -> machine.tick();
      case "cancel" -> machine.cancel();
      case "release" -> machine.release();
      case "detach" -> machine.detach();
      case "close" -> machine.lose(LostReason.CLOSED);
      default -> throw new AssertionError(line);
    }
  }

  private static Answer answer(Map<String, Object> line) {
    if (line.get("error") instanceof String error) {
      return new Failed(Failure.valueOf(error.toUpperCase(Locale.ROOT)), WHY);
    }
    Object value = line.get("value");
    if (value instanceof List<?>) {
      return Wire.acquired(value, line.get("holder_lease"));
    }
    return value == null ? new Null() : new Count((Long) value);
  }

  private static Map<String, Object> shown(Output output, Machine machine) {
    Map<String, Object> shown = new LinkedHashMap<>();
    if (output instanceof Send send) {
      shown.put("send", send.command().name());
      shown.put("n", (double) send.number());
      if (send.command() == Command.ENQUEUE) {
        shown.put("wait", (double) send.ms());
      }
      if (send.look()) {
        shown.put("look", true);
      }
      if (send.command() == Command.RENEW && send.ms() > 0) {
        shown.put("lease", (double) send.ms());
      }
      if (send.command() == Command.KEEP) {
        shown.put("send", "RENEW");
        shown.put("lease", (double) send.ms());
        shown.put("session", false);
      }
    } else if (output instanceof Timer timer) {
      shown.put("timer", timer.at() == Machine.NEVER ? null : timer.at() / (double) Machine.MS);
    } else if (output instanceof Told told) {
      switch (told.what()) {
        case ACQUIRED -> shown.put("guard", (double) told.token());
        case TIMED_OUT -> shown.put("refused", "timeout");
        case DENIED, ERROR -> shown.put("refused", told.what().name().toLowerCase(Locale.ROOT));
        case NOT_HELD -> shown.put("refused", "lost");
        case RELEASED -> shown.put("released", told.outcome().name().toLowerCase(Locale.ROOT));
        case LOST -> shown.put("lost", machine.why.name().toLowerCase(Locale.ROOT));
        default -> shown.put(told.what().name().toLowerCase(Locale.ROOT), true);
      }
    }
    return shown;
  }

  /** Numbers as doubles: an output may have a fraction. */
  private static Object normal(Object output) {
    Map<String, Object> normal = new LinkedHashMap<>();
    fields(output)
        .forEach(
            (name, value) ->
                normal.put(name, value instanceof Long n ? (Object) (double) n : value));
    return normal;
  }

  private static long ns(Object ms) {
    return ms == FOR_EVER ? Machine.NEVER : Math.round(((Number) ms).doubleValue() * Machine.MS);
  }

  @SuppressWarnings("unchecked")
  private static Map<String, Object> fields(Object json) {
    return (Map<String, Object>) json;
  }
}
