package rlock.client;

import static java.nio.charset.StandardCharsets.ISO_8859_1;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicInteger;

/** A Sentinel that answers as the test sets it, after some time. */
final class Teller implements AutoCloseable {
  final String address;
  volatile int primary;
  volatile int epoch;
  volatile int late;

  /** How long it takes to say who the others are: a search waits for that, a heartbeat does not. */
  volatile int slow;

  /** The connections that have not ended. */
  final AtomicInteger open = new AtomicInteger();

  private final ServerSocket listener;

  Teller(int primary) throws IOException {
    this.primary = primary;
    listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    address = "127.0.0.1:" + listener.getLocalPort();
    Proxy.daemon(this::accept);
  }

  private void accept() {
    while (!listener.isClosed()) {
      try {
        Socket client = listener.accept();
        Proxy.daemon(() -> serve(client));
      } catch (IOException closed) {
        // It has ended.
      }
    }
  }

  private void serve(Socket client) {
    open.incrementAndGet();
    try (client) {
      BufferedReader from =
          new BufferedReader(new InputStreamReader(client.getInputStream(), ISO_8859_1));
      for (String line = from.readLine(); line != null; line = from.readLine()) {
        List<String> words = new ArrayList<>();
        for (int left = Integer.parseInt(line.substring(1)); left > 0; left--) {
          from.readLine();
          words.add(from.readLine().toUpperCase(Locale.ROOT));
        }
        client.getOutputStream().write(reply(words).getBytes(ISO_8859_1));
      }
    } catch (IOException | InterruptedException ended) {
      // So has the client.
    } finally {
      open.decrementAndGet();
    }
  }

  private String reply(List<String> words) throws InterruptedException {
    if (words.get(0).equals("SUBSCRIBE")) {
      return "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n";
    } else if (!words.get(0).equals("SENTINEL")) {
      return words.get(0).equals("HELLO") ? "*0\r\n" : "+OK\r\n";
    }
    switch (words.get(1)) {
      case "MASTER":
        String bulks = bulks("config-epoch", "" + epoch);
        Thread.sleep(late);
        return bulks;
      case "SENTINELS":
        Thread.sleep(slow);
        return "*0\r\n";
      default:
        return bulks("127.0.0.1", "" + primary);
    }
  }

  private static String bulks(String one, String other) {
    return "*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n".formatted(one.length(), one, other.length(), other);
  }

  @Override
  public void close() throws IOException {
    listener.close();
  }
}
