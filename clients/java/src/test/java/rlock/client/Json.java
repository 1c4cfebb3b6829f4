package rlock.client;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads and writes JSON, for tests and the driver program: maps, lists, strings, longs, doubles,
 * booleans, null.
 */
public final class Json {
  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /**
   * Reads one value.
   *
   * @throws IllegalArgumentException if the text is another
   */
  public static Object read(String text) {
    Json json = new Json(text);
    try {
      Object value = json.value();
      json.blank();
      if (json.at < text.length()) {
        throw new IllegalArgumentException("more than a value: " + text);
      }
      return value;
    } catch (StringIndexOutOfBoundsException end) {
      throw new IllegalArgumentException("an unfinished value: " + text, end);
    }
  }

  public static String write(Object value) {
    if (value instanceof Map<?, ?> map) {
      List<String> fields = new ArrayList<>();
      map.forEach((name, field) -> fields.add(write(name.toString()) + ":" + write(field)));
      return "{" + String.join(",", fields) + "}";
    }
    if (value instanceof List<?> list) {
      return "[" + String.join(",", list.stream().map(Json::write).toList()) + "]";
    }
    return value instanceof String word ? quoted(word) : String.valueOf(value);
  }

  private static String quoted(String word) {
    StringBuilder out = new StringBuilder("\"");
    for (char c : word.toCharArray()) {
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ') {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    return out.append('"').toString();
  }

  private void blank() {
    while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
      at++;
    }
  }

  private boolean next(char wanted) {
    blank();
    boolean found = text.charAt(at) == wanted;
    at += found ? 1 : 0;
    return found;
  }

  private void must(char wanted) {
    if (!next(wanted)) {
      throw new IllegalArgumentException("no " + wanted + " at " + at + ": " + text);
    }
  }

  private Object value() {
    if (next('{')) {
      return object();
    }
    if (next('[')) {
      return list();
    }
    if (next('"')) {
      return string();
    }
    int from = at;
    while (at < text.length() && "+-.truefalsn0123456789eE".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
    String word = text.substring(from, at);
    return switch (word) {
      case "true" -> true;
      case "false" -> false;
      case "null" -> null;
      default -> number(word);
    };
  }

  private static Object number(String word) {
    if (word.matches("-?\\d+")) {
      return Long.valueOf(word);
    }
    return Double.valueOf(word);
  }

  private Map<String, Object> object() {
    Map<String, Object> fields = new LinkedHashMap<>();
    while (!next('}')) {
      if (!fields.isEmpty()) {
        must(',');
      }
      must('"');
      String name = string();
      must(':');
      fields.put(name, value());
    }
    return fields;
  }

  private List<Object> list() {
    List<Object> items = new ArrayList<>();
    while (!next(']')) {
      if (!items.isEmpty()) {
        must(',');
      }
      items.add(value());
    }
    return items;
  }

  private String string() {
    StringBuilder out = new StringBuilder();
    for (char c = text.charAt(at++); c != '"'; c = text.charAt(at++)) {
      if (c != '\\') {
        out.append(c);
        continue;
      }
      char escaped = text.charAt(at++);
      switch (escaped) {
        case 'n' -> out.append('\n');
        case 't' -> out.append('\t');
        case 'r' -> out.append('\r');
        case 'b' -> out.append('\b');
        case 'f' -> out.append('\f');
        case 'u' -> {
          out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
          at += 4;
        }
        default -> out.append(escaped);
      }
    }
    return out.toString();
  }
}
