package rlock;

import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

/** The Rust client's locks. */
final class RustWay extends Way {
    private final RustClient client;
    private final AtomicLong unknown;

    /** @param unknown where it counts releases of which nobody knows what came of them */
    RustWay(RustClient client, List<Kind> kinds, String key, AtomicLong unknown) {
        super(kinds, key);
        this.client = client;
        this.unknown = unknown;
    }

    @Override
    long takeIt() throws Exception {
        return client.take(kind, key);
    }

    @Override
    void giveBack() throws Exception {
        String answer = client.giveBack();
        if (answer.equals("unknown")) {
            unknown.incrementAndGet();
        } else {
            Check.equal("done", answer, "the Rust client gives " + key + " back");
        }
    }

    @Override
    public void close() throws Exception {
        client.close();
    }
}
