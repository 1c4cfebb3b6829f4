package rlock;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** What changes the cluster: the program that has started this one does what it is ordered by a line, and says when it is done. */
final class Orders implements AutoCloseable {
    private final Socket socket;
    private final BufferedReader answers;

    /** @param address host and port */
    Orders(String address) throws IOException {
        int colon = address.lastIndexOf(':');
        socket = new Socket(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
        answers = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
    }

    /** Moves the slot of a lock from one primary to another, key by key. */
    void move(String lock, int from, int to) throws IOException {
        give("move " + lock + " " + from + " " + to);
    }

    /** A primary and its replica change places, by agreement. */
    void failOver(int shard) throws IOException {
        give("fail-over " + shard);
    }

    /** A primary is killed; its replica takes over, and it comes back as the replica. */
    void kill(int shard) throws IOException {
        give("kill " + shard);
    }

    private synchronized void give(String order) throws IOException {
        socket.getOutputStream().write((order + "\n").getBytes(StandardCharsets.UTF_8));
        Check.equal("done", answers.readLine(), order);
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
