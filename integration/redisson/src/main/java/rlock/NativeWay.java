package rlock;

import java.util.Locale;

/** A native client's locks; of a read/write lock one side and the other in turn. */
final class NativeWay implements Way {
    private final World world;
    private final String kind;
    private final String key;
    private final long leaseMs;
    private final boolean durable;
    private final Roaming client;
    private String owner;
    private String[] words;
    private long number;

    /** @param durable it takes no lock for its own that its primary alone knows of */
    NativeWay(World world, String kind, String key, long leaseMs, boolean durable) {
        this.world = world;
        this.leaseMs = leaseMs;
        this.durable = durable;
        this.kind = kind;
        this.key = key;
        this.client = new Roaming(world.nodes(), key);
    }

    @Override
    public long take() throws Exception {
        words = switch (kind) {
            case "plain" -> new String[0];
            case "page" -> new String[] {number++ % 2 == 0 ? "READ" : "WRITE"};
            default -> new String[] {kind.toUpperCase(Locale.ROOT)};
        };
        while (true) {
            owner = world.owner();
            long token = client.acquire(key, owner, leaseMs, words);
            if (!durable || client.isReplicated(key, owner, leaseMs, Roaming.mode(words))) {
                return token;
            }
            giveBack();
        }
    }

    @Override
    public boolean shared() {
        return words.length == 1 && words[0].equals("READ");
    }

    @Override
    public void giveBack() throws Exception {
        client.release(key, owner, Roaming.mode(words));
    }

    @Override
    public void close() {
        client.close();
    }
}
