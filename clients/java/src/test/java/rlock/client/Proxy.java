package rlock.client;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** An address that can refuse, or be silent. */
final class Proxy implements AutoCloseable {
  final String address;
  private final int target;
  volatile boolean refusing;
  volatile boolean silent;

  /** What the server answers does not arrive. */
  volatile boolean mute;

  /** What did not arrive, since it was silent. */
  final StringBuffer swallowed = new StringBuffer();

  private volatile boolean lingering;
  private final ServerSocket listener;
  private final List<Socket> open = new CopyOnWriteArrayList<>();

  Proxy(int target) throws IOException {
    this.target = target;
    listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    address = "127.0.0.1:" + listener.getLocalPort();
    daemon(this::accept);
  }

  static void daemon(Runnable work) {
    Thread thread = new Thread(work, "test");
    thread.setDaemon(true);
    thread.start();
  }

  private void accept() {
    while (!listener.isClosed()) {
      try {
        Socket client = listener.accept();
        if (refusing) {
          client.close();
          continue;
        }
        Socket server = new Socket(InetAddress.getLoopbackAddress(), target);
        open.addAll(List.of(client, server));
        daemon(() -> pass(client, server, false));
        daemon(() -> pass(server, client, true));
      } catch (IOException refused) {
        // The next one may be served.
      }
    }
  }

  private void pass(Socket from, Socket to, boolean answers) {
    byte[] buffer = new byte[1 << 16];
    try (from) {
      for (int read = 0; read >= 0; read = from.getInputStream().read(buffer)) {
        if (silent || (mute && answers)) {
          swallowed.append(new String(buffer, 0, read, StandardCharsets.ISO_8859_1));
        } else {
          to.getOutputStream().write(buffer, 0, read);
        }
      }
    } catch (IOException ended) {
      // So does the other direction.
    }
    if (answers || !lingering) {
      end(to);
    }
  }

  private static void end(Socket socket) {
    try {
      socket.close();
    } catch (IOException closed) {
      // It is of no more use.
    }
  }

  /** The clients' connections end. The server does not learn of it before a cut. */
  void cutClients() {
    lingering = true;
    for (int i = 0; i < open.size(); i += 2) {
      end(open.get(i));
    }
  }

  void cut() {
    open.forEach(Proxy::end);
    open.clear();
  }

  @Override
  public void close() throws IOException {
    listener.close();
    cut();
  }
}
