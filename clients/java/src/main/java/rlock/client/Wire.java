package rlock.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.output.CommandOutput;
import io.lettuce.core.protocol.AsyncCommand;
import io.lettuce.core.protocol.Command;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.pubsub.PubSubOutput;
import java.io.ByteArrayOutputStream;
import java.net.ConnectException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import rlock.client.Link.Refusal;
import rlock.client.Machine.Answer;
import rlock.client.Machine.Count;
import rlock.client.Machine.Failed;
import rlock.client.Machine.Failure;
import rlock.client.Machine.Granted;
import rlock.client.Machine.Notice;
import rlock.client.Machine.Waits;
import rlock.client.RlockException.ModuleMissing;
import rlock.client.RlockException.NotALock;
import rlock.client.RlockException.Permission;
import rlock.client.RlockException.QueueFull;
import rlock.client.RlockException.Refused;
import rlock.client.RlockException.Unreachable;
import rlock.client.RlockException.Unsupported;

/** The module's commands, replies and messages. */
final class Wire {
  private static final ByteArrayCodec CODEC = ByteArrayCodec.INSTANCE;
  private static final Set<String> PASSING =
      Set.of("LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "UNBLOCKED", "UNTIED");

  private Wire() {}

  enum Mode {
    LOCK,
    READ,
    WRITE,
    PERMIT;

    /** As RELEASE and RENEW say it: the server knows permits by the key. */
    List<String> words() {
      return this == READ || this == WRITE ? List.of(name()) : List.of();
    }
  }

  /** Whose an acquisition is. */
  record Claim(String lock, String owner, Mode mode) {}

  record Message(Notice notice, Claim claim, long token, long lease) {}

  // Commands.

  static List<String> acquire(Plan plan, String owner, int holds) {
    List<String> words = new ArrayList<>();
    words.addAll(List.of("RLOCK.ACQUIRE", plan.lock, owner, ms(plan.lease), "HOLDS", "" + holds));
    words.addAll(plan.mode.words());
    if (plan.permits > 0) {
      words.addAll(List.of("PERMITS", "" + plan.permits));
    }
    if (plan.fair) {
      words.add("FAIR");
    }
    if (plan.fenced) {
      words.add("FENCED");
    }
    return session(words, plan);
  }

  /** Leaves this number of holds. */
  static List<String> release(Claim claim, int holds) {
    List<String> words = new ArrayList<>(List.of("RLOCK.RELEASE", claim.lock, claim.owner));
    words.addAll(holds == 0 ? List.of("ALL") : List.of("HOLDS", "" + holds));
    words.addAll(claim.mode.words());
    return words;
  }

  /** `channel`: null where there are no messages, and ENQUEUE asks once. */
  static List<String> words(Machine.Send send, Plan plan, Claim claim, String channel) {
    String owner = claim.owner;
    return switch (send.command()) {
      case ACQUIRE -> acquire(plan, owner, 1);
      case ENQUEUE -> {
        List<String> words = acquire(plan, owner, 1);
        words.addAll(channel == null ? List.of() : List.of("ENQUEUE", "" + send.ms(), channel));
        yield words;
      }
      case RENEW, KEEP -> {
        Plan tied = send.command() == Machine.Command.KEEP ? plan.with(one -> one.grace = 0) : plan;
        yield renew(tied, owner, send.ms() > 0 ? send.ms() * Machine.MS : plan.lease);
      }
      case CANCEL -> List.of("RLOCK.CANCEL", plan.lock, owner);
      case RELEASE -> release(claim, 0);
    };
  }

  static List<String> renew(Plan plan, String owner, long lease) {
    List<String> words = new ArrayList<>(List.of("RLOCK.RENEW", plan.lock, owner, ms(lease)));
    words.addAll(plan.mode.words());
    return session(words, plan);
  }

  /** In each command of an owner, or in none: the last one decides. */
  private static List<String> session(List<String> words, Plan plan) {
    if (plan.grace > 0) {
      words.addAll(List.of("SESSION", ms(plan.grace)));
    }
    return words;
  }

  private static String ms(long nanos) {
    return Long.toString(nanos / Machine.MS);
  }

  /** A command of the driver's. */
  static AsyncCommand<byte[], byte[], ?> command(List<String> words) {
    CommandArgs<byte[], byte[]> arguments = new CommandArgs<>(CODEC);
    words.stream().skip(1).forEach(word -> arguments.add(word.getBytes(UTF_8)));
    Keyword keyword = new Keyword(words.get(0));
    // By its own output the driver knows that it is subscribed.
    return keyword.name.endsWith("SUBSCRIBE")
        ? new AsyncCommand<>(new Command<>(keyword, new PubSubOutput<>(CODEC), arguments))
        : new AsyncCommand<>(new Command<>(keyword, new Reply(), arguments));
  }

  private record Keyword(String name) implements ProtocolKeyword {
    @Override
    @SuppressWarnings("deprecation") // since Lettuce 6.5; the only one before
    public String name() {
      return name;
    }

    @Override
    public byte[] getBytes() {
      return name.getBytes(UTF_8);
    }

    @Override
    public String toString() {
      return name;
    }
  }

  /** Any reply: Long, byte[], List or null. */
  private static final class Reply extends CommandOutput<byte[], byte[], Object> {
    private record Open(List<Object> items, int size) {}

    private final Deque<Open> open = new ArrayDeque<>();

    Reply() {
      super(CODEC, null);
    }

    @Override
    public void set(ByteBuffer bytes) {
      add(bytes == null ? null : codec.decodeValue(bytes));
    }

    @Override
    public void set(long number) {
      add(number);
    }

    @Override
    public void multi(int count) {
      List<Object> items = count < 0 ? null : new ArrayList<>();
      add(items);
      if (count > 0) {
        open.push(new Open(items, count));
      }
    }

    private void add(Object value) {
      if (open.isEmpty()) {
        output = value;
      } else {
        Open top = open.peek();
        top.items.add(value);
        if (top.items.size() == top.size) {
          open.pop();
        }
      }
    }
  }

  // Replies.

  /** The server's own error reply, or null for another failure of a command. */
  static String serverError(Throwable error) {
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof RedisCommandExecutionException) {
        return String.valueOf(cause.getMessage());
      }
    }
    return null;
  }

  /** What the server's refusal means. */
  static Failed refusal(String text, String lock, String server, boolean cluster) {
    String code = text.split(" ", 2)[0];
    boolean moved = code.equals("MOVED") || code.equals("ASK");
    if (code.equals("READONLY") && !cluster) {
      return new Failed(Failure.PASSING, Unreachable.replica(server));
    }
    if (PASSING.contains(code) || (moved && cluster) || channelRefused(text)) {
      return new Failed(Failure.PASSING, new Refused(server, text));
    }
    if (moved) {
      String hint = " (this server is one of a cluster: use Client.cluster)";
      return new Failed(Failure.FINAL, new Refused(server, text + hint));
    }
    if (text.contains("rlock.accept is no")) {
      return new Failed(Failure.DRAINING, new Refused(server, text));
    }
    if (unknown(text)) {
      return new Failed(Failure.FINAL, new ModuleMissing(server, text));
    }
    return switch (code) {
      case "NOPERM", "NOAUTH", "WRONGPASS" ->
          new Failed(Failure.FINAL, new Permission(server, text));
      case "QUEUEFULL" -> new Failed(Failure.FINAL, new QueueFull(server, lock, text));
      case "WRONGTYPE", "WRONGLOCK" -> new Failed(Failure.GONE, new NotALock(server, lock, text));
      default -> new Failed(Failure.FINAL, new Refused(server, text));
    };
  }

  /** The slot of the channel in an ENQUEUE is not one of the server's. */
  static boolean channelRefused(String text) {
    return text.contains("does not serve the channel's slot");
  }

  static boolean unknown(String text) {
    return text.toLowerCase(Locale.ROOT).contains("unknown command");
  }

  /** Why there is no connection. */
  static RlockException connectError(Throwable error, String server, boolean cluster) {
    String text = serverError(error);
    if (text != null && !text.startsWith("LOADING")) {
      return refusal(text, "", server, cluster).error();
    }
    Throwable cause = root(error);
    return cause instanceof RlockException known ? known : new Unreachable(server, brief(cause));
  }

  static Throwable root(Throwable error) {
    Throwable cause = error;
    while (cause.getCause() != null && !(cause instanceof RlockException)) {
      cause = cause.getCause();
    }
    return cause;
  }

  /** An error of the network without the address: "connection refused". */
  static String brief(Throwable cause) {
    String text = cause.getMessage() == null ? cause.toString() : cause.getMessage();
    return cause instanceof ConnectException
        ? text.replaceFirst(":? *[^ ]*/[^ ]*:\\d+$", "")
        : text;
  }

  /** Asks on a connection of its own, in one piece: replies, and `Refusal`s among them. */
  static CompletableFuture<List<Object>> ask(
      StatefulRedisConnection<byte[], byte[]> by, long within, List<List<String>> questions) {
    List<AsyncCommand<byte[], byte[], ?>> commands = questions.stream().map(Wire::command).toList();
    List<CompletableFuture<Object>> replies = new ArrayList<>();
    for (AsyncCommand<byte[], byte[], ?> each : commands) {
      CompletableFuture<Object> reply = new CompletableFuture<>();
      replies.add(reply);
      each.whenComplete(
          (value, error) -> {
            String text = error == null ? null : serverError(error);
            if (error == null || text != null) {
              reply.complete(text == null ? value : new Refusal(text));
            } else {
              reply.completeExceptionally(error);
            }
          });
    }
    by.dispatch(commands);
    return CompletableFuture.allOf(replies.toArray(CompletableFuture[]::new))
        .thenApply(all -> replies.stream().<Object>map(CompletableFuture::join).toList())
        .orTimeout(within, TimeUnit.NANOSECONDS);
  }

  /** A value of a flat list of names and values, as a text; or null. */
  static String field(Object reply, String name) {
    if (reply instanceof List<?> list) {
      for (int i = 0; i + 1 < list.size(); i += 2) {
        if (name.equals(text(list.get(i)))) {
          return text(list.get(i + 1));
        }
      }
    }
    return null;
  }

  static String text(Object value) {
    return value instanceof byte[] bytes ? new String(bytes, UTF_8) : String.valueOf(value);
  }

  /** Whether a server that answers HELLO like this is a replica. */
  static boolean demoted(Object hello) {
    String role = field(hello, "role");
    return role != null && !role.equals("master");
  }

  static boolean denied(Object reply) {
    return reply instanceof Refusal refusal && refusal.text().startsWith("NOPERM");
  }

  /** The reply of ACQUIRE: an array that may grow, or null. */
  static Answer acquired(Object value, Object holderLeaseMs) {
    if (value == null) {
      return new Machine.Null();
    }
    if (value instanceof List<?> list && !list.isEmpty() && list.get(0) instanceof Long holds) {
      if (holds > 0) {
        return new Granted(list.size() > 2 && list.get(2) instanceof Long token ? token : 0);
      }
      // -1 is a lock without an end, and -2 is none.
      boolean known = holderLeaseMs instanceof Long ms && ms != -1;
      return new Waits(known ? Math.max(0, (Long) holderLeaseMs) * Machine.MS : Machine.NEVER);
    }
    return new Failed(Failure.FINAL, unexpected("RLOCK.ACQUIRE", value));
  }

  /** Any reply to a lock's command. */
  static Answer answer(Machine.Command command, Object value, Object holderLeaseMs) {
    if (command == Machine.Command.ENQUEUE || command == Machine.Command.ACQUIRE) {
      return acquired(value, holderLeaseMs);
    }
    if (value == null) {
      return new Machine.Null();
    }
    return value instanceof Long count
        ? new Count(count)
        : new Failed(Failure.FINAL, unexpected("RLOCK." + command, value));
  }

  static RlockException unexpected(String command, Object value) {
    return new Unsupported(
        command
            + " was answered with "
            + text(value)
            + "; update the server's module, or this package");
  }

  // Messages.

  /** Null for a message that is not understood. */
  static Message message(String payload) {
    String[] fields = payload.split(" ");
    // Before the mode a grant has holds, lease and token, and a drop its reason.
    Integer at = Map.of("granted", 7, "timeout", 4, "dropped", 5).get(fields[0]);
    if (at == null || fields.length < 4) {
      return null;
    }
    Notice notice = Notice.valueOf(fields[0].toUpperCase(Locale.ROOT));
    String word = fields.length > at ? fields[at].toUpperCase(Locale.ROOT) : "LOCK";
    try {
      boolean full = notice == Notice.GRANTED && fields.length > 6;
      // Other clients can publish as well: no number may overflow.
      long lease = full ? Math.max(0, Math.min(Long.parseLong(fields[5]), Settings.LONGEST)) : 0;
      Claim claim = new Claim(decoded(fields[3]), decoded(fields[2]), Mode.valueOf(word));
      long token = full ? Long.parseLong(fields[6]) : 0;
      return new Message(notice, claim, token, lease * Machine.MS);
    } catch (IllegalArgumentException unknown) {
      return null;
    }
  }

  private static String decoded(String text) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    byte[] all = text.getBytes(UTF_8);
    for (int i = 0; i < all.length; i++) {
      if (all[i] == '%' && i + 2 < all.length) {
        bytes.write(Integer.parseInt(new String(all, i + 1, 2, UTF_8), 16));
        i += 2;
      } else {
        bytes.write(all[i]);
      }
    }
    return bytes.toString(UTF_8);
  }
}
