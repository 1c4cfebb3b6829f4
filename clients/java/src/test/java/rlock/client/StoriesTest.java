package rlock.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

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
  private static final RlockException WHY = new Refused("server", "test");

  @TestFactory
  List<DynamicTest> stories() throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    try (Stream<Path> files = Files.list(STORIES)) {
      files
          .filter(file -> file.toString().endsWith(".jsonl"))
          .sorted()
          .forEach(
              file ->
                  tests.add(
                      DynamicTest.dynamicTest(file.getFileName().toString(), () -> follow(file))));
    }
    assertFalse(tests.isEmpty());
    return tests;
  }

  private static void follow(Path file) throws IOException {
    List<String> lines = Files.readAllLines(file);
    Map<String, Object> told = fields(fields(Json.read(lines.get(0))).get("plan"));
    long wait = told.containsKey("wait") ? ns(told.get("wait")) : Machine.NEVER;
    long response = told.containsKey("response") ? ns(told.get("response")) : 5_000 * Machine.MS;
    long grace = told.containsKey("grace") ? ns(told.get("grace")) : 0;
    boolean renew = !Boolean.FALSE.equals(told.get("renew"));
    boolean fenced = Boolean.TRUE.equals(told.get("fenced"));
    Machine machine =
        new Machine(new Plan(ns(told.get("lease")), wait, renew, fenced, response, grace, 0), true);
    for (String text : lines.subList(1, lines.size())) {
      Map<String, Object> line = fields(Json.read(text));
      List<Object> shown = new ArrayList<>();
      machine
          .take(ns(line.get("at")), each -> give(each, line))
          .forEach(each -> shown.add(shown(each, machine)));
      List<Object> expected = new ArrayList<>();
      ((List<?>) line.get("out")).forEach(each -> expected.add(normal(each)));
      assertEquals(expected, shown, text);
      assertEquals(line.get("state"), machine.phase().name().toLowerCase(Locale.ROOT), text);
    }
  }

  private static void give(Machine machine, Map<String, Object> line) {
    switch ((String) line.get("in")) {
      case "start" -> machine.start();
      case "reply" ->
          machine.reply(((Long) line.get("n")).intValue(), ns(line.get("sent")), answer(line));
      case "message" ->
          machine.message(
              Notice.valueOf(((String) line.get("word")).toUpperCase(Locale.ROOT)),
              (Long) line.get("token"));
      case "alive" -> machine.alive(ns(line.get("sent")));
      case "down" -> machine.linkDown();
      case "up" -> machine.linkUp();
      case "tick" -> machine.tick();
      case "cancel" -> machine.cancel(WHY);
      case "release" -> machine.release();
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
        shown.put("wait", (double) send.waitMs());
      }
      if (send.look()) {
        shown.put("look", true);
      }
      if (send.leaseMs() > 0) {
        shown.put("lease", (double) send.leaseMs());
      }
    } else if (output instanceof Timer timer) {
      shown.put("timer", timer.at() == Machine.NEVER ? null : timer.at() / (double) Machine.MS);
    } else if (output instanceof Told told) {
      switch (told.what()) {
        case ACQUIRED -> shown.put("guard", (double) told.token());
        case TIMED_OUT -> shown.put("refused", "timeout");
        case DENIED, ERROR -> shown.put("refused", told.what().name().toLowerCase(Locale.ROOT));
        case RELEASED -> shown.put("released", told.outcome().name().toLowerCase(Locale.ROOT));
        case LOST -> shown.put("lost", machine.why().name().toLowerCase(Locale.ROOT));
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
    return Math.round(((Number) ms).doubleValue() * Machine.MS);
  }

  @SuppressWarnings("unchecked")
  private static Map<String, Object> fields(Object json) {
    return (Map<String, Object>) json;
  }
}
