package rlock;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** A connection to the program that has started this one. It answers each line with a line. */
class Lines implements AutoCloseable {
    private final Socket socket;
    private final BufferedReader answers;

    /** @param address host and port */
    Lines(String address) throws IOException {
        int colon = address.lastIndexOf(':');
        socket = new Socket(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
        socket.setTcpNoDelay(true);
        answers = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
    }

    final synchronized String ask(String order) throws IOException {
        socket.getOutputStream().write((order + "\n").getBytes(StandardCharsets.UTF_8));
        String answer = answers.readLine();
        Check.that(answer != null, "no answer to " + order);
        return answer;
    }

    @Override
    public final void close() throws IOException {
        socket.close();
    }
}
