package rlock;

import java.io.IOException;

/**
 * One user of the Rust client, crates/rlock-client, which the program runs that has started this one. It takes one lock at a time
 * and does what it is ordered by a line; its watchdog renews what it holds. For one thread.
 */
final class RustClient extends Lines {
    /** @param address host and port */
    RustClient(String address) throws IOException {
        super(address);
    }

    /** Waits as long as it takes; the fencing token, or 0. */
    long take(Kind kind, String key) throws IOException {
        return token(ask("take " + kind + " " + key));
    }

    /** False: somebody else has it. */
    boolean tryToTake(Kind kind, String key) throws IOException {
        String answer = ask("try " + kind + " " + key);
        return !answer.equals("denied") && token(answer) >= 0;
    }

    /** The client itself takes the lock for its own. */
    void check() throws IOException {
        Check.equal("held", ask("check"), "the Rust client's own opinion");
    }

    /** `done`, `unknown` where the answer was lost with a primary, or what went wrong. */
    String giveBack() throws IOException {
        return ask("give");
    }

    private static long token(String answer) {
        Check.that(answer.startsWith("token "), "the Rust client: " + answer);
        return Long.parseLong(answer.substring("token ".length()));
    }
}
