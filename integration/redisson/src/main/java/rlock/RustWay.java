package rlock;

import java.util.concurrent.atomic.AtomicLong;

/** The Rust client's locks; of a read/write lock one side and the other in turn. */
final class RustWay implements Way {
    private final RustClient client;
    private final String kind;
    private final String key;
    private final AtomicLong unknown;
    private String side;
    private long number;

    /** @param unknown where it counts releases of which nobody knows what came of them */
    RustWay(RustClient client, String kind, String key, AtomicLong unknown) {
        this.client = client;
        this.kind = kind;
        this.key = key;
        this.unknown = unknown;
    }

    @Override
    public long take() throws Exception {
        side = !kind.equals("page") ? kind : number++ % 2 == 0 ? "read" : "write";
        return client.take(side, key);
    }

    @Override
    public boolean shared() {
        return side.equals("read");
    }

    @Override
    public void giveBack() throws Exception {
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
